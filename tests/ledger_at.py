"""What an account has spent at one index: a preview of a release that costs nothing."""

from privest.ledger import Cost


def at(account, index):
    return account.preview(Cost(0.0, rho=0.0, sensitivity=account.budget.sensitivity), start=index)
