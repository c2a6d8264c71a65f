"""The ledger: what was revealed of whom, on disk before it leaves, and never beyond a budget."""

from privest.ledger._account import Account
from privest.ledger._account import as_budget as as_budget
from privest.ledger._account import as_subject as as_subject
from privest.ledger._account import spelled as spelled
from privest.ledger._balance import Amount as Amount
from privest.ledger._budget import Budget, Cost
from privest.ledger._ledger import Ledger as Ledger
from privest.ledger._mark import discard as discard
from privest.ledger._mark import marks_folder as marks_folder
from privest.ledger._mark import require_none_before as require_none_before
from privest.ledger._source import LedgerSource as LedgerSource
from privest.ledger._source import cost_of as cost_of
from privest.ledger._store import Entry
from privest.ledger._store import Head as Head

__all__ = ["Account", "Budget", "Cost", "Entry"]
