"""An account that charges nothing, for tests of what real noise does to an estimate."""

from privest.ledger import Account


class Paid(Account):
    is_open = True

    def __init__(self):
        self.subject = "nobody"

    def spend(self, cost, *, start=0, stop=None):
        """Nothing is charged."""


PAID = Paid()
