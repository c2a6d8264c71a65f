"""The side of a stream that sees releases only: each once, in order, of one kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

import privest as pv
from privest.arrays import Array
from privest.data._cells import number
from privest.data._release_lines import as_values
from privest.errors import InvalidInput
from privest.streaming._rows import Row


class Receiver:
    """Releases as they arrive; `grid` is None until the first one, 0 for simulated ones."""

    def __init__(self, level: pv.EndlessLevel, grid: float | None = None) -> None:
        self.level, self.grid, self.repeated = level, grid, 0

    def fresh(self, source: Iterable[Row], taken: int) -> Iterator[Row]:
        """Those after the first `taken` steps: repeated ones are dropped, a gap is an error."""
        for row in source:
            step = _whole(row.given["step"])
            if row.given["fingerprint"] not in (None, self.level.fingerprint):
                raise InvalidInput(
                    "these releases were made with another level: state the same privacy (--level "
                    "or --epsilon with --delta and --move), --lags and --shared-day."
                )
            if step is None:
                raise InvalidInput("releases need a column 'step' of whole numbers.")
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

    def release(self, start: int, z: Array) -> pv.StreamRelease:
        """What stood in the column z of the steps from `start` on, as a release.

        Where a step has several readings, it is missing if one of them is.
        """
        assert self.grid is not None
        values, width = as_values(z, self.grid), self.level.block
        absent = np.asarray(np.isnan(z).reshape(-1, width).any(axis=1))
        missing = absent if absent.any() else None
        if width > 1 and missing is not None:
            values = np.where(np.repeat(missing, width), np.nan, values)
        return pv.StreamRelease(
            start, len(z) // width, values, missing, self.level.fingerprint, not self.grid,
            self.grid,
        )  # fmt: skip


def _whole(value: Any) -> int | None:  # noqa: ANN401 - a cell
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None
