"""The ledger: what was shown of whom, on disk before it is shown, and never beyond a budget."""

from privest.ledger._budget import Budget, Cost
from privest.ledger._entries import Amount, Entry, Head, Preview, Written
from privest.ledger._ledger import Ledger

__all__ = ["Amount", "Budget", "Cost", "Entry", "Head", "Ledger", "Preview", "Written"]
