"""A real release that is charged to a ledger of its own, which goes when it is made."""

import tempfile
from pathlib import Path

from privest.ledger import Ledger
from privest.workflow.account import Account
from privest.workflow.release import release


def charged(plan, path, data=None, **how):
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger(Path(folder) / "ledger.db", marks=folder) as ledger,
    ):
        return release(plan, path, data, account=Account(ledger, "people"), **how)
