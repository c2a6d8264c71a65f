"""The two sides of a stream: the data owner releases measurements, the analyst sees releases.

A step is drawn once. A release in the ledger is sent again as it was. A step that was sent, and of
which nothing is left here (a checkpoint or a ledger from a backup), is retired: marked missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np

import privest as pv
from privest.arrays import Array
from privest.data.cells import number
from privest.errors import InvalidInput
from privest.ledger import Entry, LedgerSource, cost_of
from privest.mechanism.source import Protected, Source
from privest.privacy import grid_statement
from privest.stream_file import as_values
from privest.streaming._choices import Choices, Promise
from privest.streaming._rows import Row

NOT_RECORDED = (
    "This release is recorded nowhere: releasing these measurements once more would reveal more of "
    "them. A ledger records it (of a stream also a checkpoint)."
)

CLIPPED = (
    "Measurements beyond the range were clipped, and this estimate is least squares on what was "
    "released: it is off where many are (docs/howto/ranges.md), and its errors do not include "
    "that. `PrivateLinearRegression` corrects it."
)


class Owner:
    """A mechanism with its source of noise, and with an account if there is one.

    floor     steps below it were sent, as far as anybody knows: they are not drawn
    retired   how many steps were released as missing for that reason
    """

    account: pv.ledger.Account | None
    floor: int
    mechanism: pv.StreamMechanism
    source: Source
    retired: int
    resent: int
    rows_again: bool

    def __init__(self, mechanism: pv.StreamMechanism, source: Source) -> None:
        self.mechanism, self.source = mechanism, source
        self.account = source.account if isinstance(source, LedgerSource) else None
        self.floor, self.retired, self.resent, self.rows_again = 0, 0, 0, True
        self.entry: dict[str, int] = {}  # of the last release, for its line

    def start_from_ledger(self, *, rows_again: bool) -> None:
        """Nothing is drawn again that the mechanism or a ledger has.

        `rows_again`: the rows of earlier steps come again, and what the ledger has of them is sent;
        else it is retired too: the public part of these steps is gone.
        """
        self.floor, self.rows_again = self.mechanism.steps, rows_again
        if isinstance(self.source, LedgerSource):
            source = self.source
            source.known = self.floor - 1
            self.floor = max(self.floor, source.account.next_index(source.key))

    @property
    def retiring(self) -> bool:
        """Whether the next step was sent and cannot be recovered."""
        return self.mechanism.steps < self.floor and self._entry() is None

    def rows(self, block: int) -> int:
        """How many steps the next release covers, `block` if it is a new one."""
        entry = self._entry()
        if entry is not None:
            return int(entry.stop or 0) - self.mechanism.steps
        left = self.floor - self.mechanism.steps
        return min(block, left) if left > 0 else block

    def _entry(self) -> Entry | None:
        source = self.source
        if not isinstance(source, LedgerSource) or not self.rows_again:
            return None
        found = source.account.entry_at(self.mechanism.steps, source.key)
        return None if found is None or found.kind == "retired" else found

    def release(self, values: Array, public: Mapping[str, str] | None = None) -> pv.Release:
        """The release of the next steps, `rows` of them; `public`: the mark of their columns.

        With a ledger: refused where these steps were sent beside other public columns. Steps
        that were sent leave again as they were: measurements are never compared.
        """
        if self.source.simulated:
            return self.mechanism.simulate(values, self.source)
        if self.retiring:
            return self.retire(np.size(values) // (self.mechanism.level.block or 1))
        if not isinstance(self.source, LedgerSource):
            return self.mechanism.release(values, self.source)
        self.source.marks = public
        release = self.mechanism.release(values, self.source)
        self.source.known = None
        assert self.source.entry is not None
        self.resent += release.steps * self.source.resent
        self.entry = {"entry": self.source.entry.sequence}
        return release

    def retire(self, steps: int) -> pv.Release:
        """Steps that reveal nothing: no measurement goes in."""
        self.retired, self.entry = self.retired + steps, {}
        nothing = np.full((steps, self.mechanism.level.block or 1), np.nan)
        return self.mechanism.release(nothing, Protected())

    @property
    def place(self) -> dict[str, str] | None:
        """Where in which ledger the releases are, for the first line."""
        source = self.source
        if not isinstance(source, LedgerSource):
            return None
        account = source.account
        return {"ledger": account.ledger.id, "subject": account.subject, "key": source.key}


def owner_of(
    command: str, promise: Promise, choices: Choices, stack: ExitStack, *,
    source: str, columns: str | None,
) -> Owner:  # fmt: skip
    """The owner's side of a command: a simulation, a real release, or one with a ledger."""
    mechanism, level = promise.mechanism(), promise.level
    most = float(np.max(level.final_blocks().diagonal()))
    if choices.ledger is None:
        return Owner(mechanism, choices.source(command, columns, f"{most:.6g}"))
    account = choices.account(stack, source, columns or "readings", most)
    span = "" if mechanism.range is None else " {:g},{:g}".format(*mechanism.range)
    sensitivity, said = promise.sensitivity, None
    if sensitivity is not None:
        said = grid_statement(level, sensitivity=sensitivity)
    charged = account.source(
        cost_of(level, sensitivity=sensitivity, statement=said), start=0,
        key=f"{level.fingerprint[:12]}{span}", level=level.fingerprint, columns=columns,
    )  # fmt: skip
    return Owner(mechanism, charged)


class Analyst:
    """Releases as they arrive; `grid` is None until the first one, 0 for simulated ones."""

    level: pv.StreamLevel
    repeated: int

    def __init__(self, level: pv.StreamLevel) -> None:
        self.level, self.repeated = level, 0
        self.grid: float | None = None

    def fresh(self, source: Iterable[Row], taken: int) -> Iterator[Row]:
        """Those after the first `taken` steps: repeated ones are dropped, a gap is an error."""
        for row in source:
            try:
                step = int(row.given["step"])
            except (TypeError, ValueError, OverflowError):
                raise InvalidInput("releases need a column 'step' of whole numbers.") from None
            if row.given["fingerprint"] not in (None, self.level.fingerprint):
                raise InvalidInput(
                    "these releases were made with another level: state the same privacy (level, "
                    "or epsilon with delta and sensitivity) and the same lags."
                )
            self._require_one_grid(row.given["grid"])
            if step > taken:
                raise InvalidInput(f"the release of step {taken} is missing: step {step} follows.")
            if step < taken:
                self.repeated += 1
                continue
            taken += 1
            yield row

    def _require_one_grid(self, given: Any) -> None:  # noqa: ANN401 - a cell
        """Real releases are on a grid, simulated ones (also those without a column) on none."""
        try:
            grid = 0.0 if given is None else number(given)
        except ValueError:
            grid = -1.0  # refused with the values
        if self.grid not in (None, grid):
            raise InvalidInput("releases of one stream have one grid: these are of two streams.")
        self.grid = grid

    def release(self, start: int, z: Array) -> pv.Release:
        """The column z of the steps from `start` on, as a release."""
        assert self.grid is not None
        absent = np.isnan(z)
        return pv.Release(
            start, len(z), as_values(z, self.grid), absent if absent.any() else None,
            self.level.fingerprint, not self.grid, self.grid,
        )  # fmt: skip
