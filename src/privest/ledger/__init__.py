"""The ledger: what was shown of whom, on disk before it is shown, and never beyond a budget."""

from privest.ledger._budget import Budget, Cost
from privest.ledger._costs import cost_of
from privest.ledger._entries import Amount, Entry, Head, Preview, Written
from privest.ledger._export import dp_event
from privest.ledger._ledger import Ledger
from privest.ledger._opening import discard
from privest.ledger._source import LedgerSource

__all__ = [
    "Amount", "Budget", "Cost", "Entry", "Head", "Ledger", "LedgerSource", "Preview", "Written",
    "cost_of", "discard", "dp_event",
]  # fmt: skip
