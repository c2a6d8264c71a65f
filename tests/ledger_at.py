"""What an account has spent at one index: a preview of a release that costs nothing."""

from privest.ledger import Cost


def at(account, index):
    return account.preview(Cost(0.0, rho=0.0, move=account.budget.move), start=index)
