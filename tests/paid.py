"""An account that charges nothing, for tests of what real noise does to an estimate."""


class Paid:
    def spend(self, level, start, stop):
        """As `workflow.Account.spend`."""


PAID = Paid()
