"""The side of a stream that holds the readings: what is drawn, what is sent again, what is burnt.

A step is drawn once. What a ledger has of it is sent again as it was. A step that was sent, and of
which nothing is left here (a checkpoint or a ledger from a backup), is burnt: released as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np

import privest as pv
from privest.arrays import Array
from privest.ledger import LedgerSource, cost_of
from privest.mechanism.source import Protected, Source
from privest.privacy import grid_statement
from privest.streaming._stated import Account, Trial

REMEMBERED = (
    "Nothing of this run is remembered here: to release these readings once more is to show more "
    "of them. --ledger remembers (of a stream also --checkpoint)."
)

CLIPPED = (
    "Readings beyond the range were clipped, and this estimate is linear in what was released: it "
    "is off where many are (docs/ranges.md), and its errors do not say so. For tables `privest "
    "estimate` undoes that."
)


class Holder:
    """A mechanism with its source of noise, and with a ledger if there is one.

    floor   steps below it were sent, as far as anybody knows: they are not drawn
    burnt   how many steps were released as missing for that reason
    """

    def __init__(
        self, mechanism: pv.StreamMechanism, source: Source, ledger: pv.Ledger | None = None
    ) -> None:
        self.mechanism, self.source, self.ledger = mechanism, source, ledger
        self.floor, self.burnt, self.resent, self.rows_again = 0, 0, 0, True
        self.entry: dict[str, int] = {}  # of the last release, for its line

    def start_from(self, known: int, *, rows_again: bool) -> None:
        """Nothing is drawn up to step `known`, the last that was sent, nor what a ledger has.

        `rows_again`: the rows of earlier steps come again, and what the ledger has of them is sent;
        else it is burnt too, because the public part of these steps is gone.
        """
        self.floor, self.rows_again = max(known + 1, self.mechanism.steps), rows_again
        if isinstance(self.source, LedgerSource):
            source = self.source
            source.known = self.floor - 1
            self.floor = max(self.floor, source.ledger.next_index(source.subject, source.key))

    @property
    def burning(self) -> bool:
        """Whether the next step was sent and is not to be had again."""
        return self.mechanism.steps < self.floor and self._entry() is None

    def rows(self, block: int) -> int:
        """How many steps the next release covers, `block` if it is a new one."""
        entry = self._entry()
        if entry is not None:
            return int(entry.stop) - self.mechanism.steps
        left = self.floor - self.mechanism.steps
        return min(block, left) if left > 0 else block

    def _entry(self) -> Any:  # noqa: ANN401 - an entry that holds numbers, or None
        source = self.source
        if not isinstance(source, LedgerSource) or not self.rows_again:
            return None
        found = source.ledger.entry_at(source.subject, self.mechanism.steps, source.key)
        return None if found is None or found.kind == "burnt" else found

    def release(self, values: Array, public: Mapping[str, str] | None = None) -> pv.StreamRelease:
        """The release of the next steps, `rows` of them; `public`: the mark of their columns.

        With a ledger: refused where these steps were sent beside other public columns. What was
        sent leaves again, whatever the readings are now: they are never compared.
        """
        if self.source.simulated:
            return self.mechanism.simulate(values, self.source)
        if self.burning:
            return self.burn(np.size(values) // (self.mechanism.level.block or 1))
        if not isinstance(self.source, LedgerSource):
            return self.mechanism.release(values, self.source)
        self.source.marks = public
        release = self.mechanism.release(values, self.source)
        self.source.known = None
        assert self.source.entry is not None
        self.resent += release.steps * self.source.resent
        self.entry = {"entry": self.source.entry.sequence}
        return release

    def burn(self, steps: int) -> pv.StreamRelease:
        """Steps that show nothing: no reading goes in."""
        self.burnt, self.entry = self.burnt + steps, {}
        nothing = np.full((steps, self.mechanism.level.block or 1), np.nan)
        return self.mechanism.release(nothing, Protected())

    def account(self) -> dict[str, str] | None:
        """Where in which ledger the releases are, for the first line."""
        source = self.source
        if not isinstance(source, LedgerSource):
            return None
        return {"ledger": source.ledger.id, "subject": source.subject, "key": source.key}


def holder_of(
    command: str,
    mechanism: pv.StreamMechanism,
    trial: Trial,
    account: Account,
    stack: ExitStack,
    *,
    input_: str,
    columns: str | None,
    move: float | None,
) -> Holder:
    """The holder's side of a command: a trial, a real release, or one with a ledger."""
    level, facts = mechanism.level, (command, columns, mechanism.level.fingerprint)
    if account.ledger is None:
        return Holder(mechanism, trial.source(*facts))
    subject = account.subject_of(input_, columns or "readings")
    most = float(np.max(level.final_blocks().diagonal()))
    ledger = account.opened(stack, subject, most)
    span = "" if mechanism.range is None else " {:g},{:g}".format(*mechanism.range)
    said = None
    if move is not None:  # of whole steps where the mechanism shows no parts of them
        said = grid_statement(level, move=move, parts=mechanism.shows_mixed_parts)
    source = ledger.source(
        subject, cost_of(level, move=move, statement=said), start=0,
        key=f"{level.fingerprint[:12]}{span}", level=level.fingerprint, columns=columns,
    )  # fmt: skip
    return Holder(mechanism, source, ledger)
