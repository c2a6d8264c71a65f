"""The estimate: from a release and its header alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from privest.arrays import Array
from privest.data import Features, open_source, read_rows
from privest.errors import InvalidInput
from privest.linalg._running import RunningLeastSquares
from privest.linalg.tolerances import rounding
from privest.workflow._releasing import READING, ReleaseHeader, checksum, read_header
from privest.workflow._terms import require_full

TRAIL = 60  # row counts at which the estimate is kept, for the picture


@dataclass(frozen=True, eq=False)
class Estimate:
    """θ̂ from a release, with cov θ̂ = (σ² + 1/s)(HᵀH)⁻¹.

    misfit   ‖z − Hθ̂‖²/((σ² + 1/s)(K − n)): about 1 if noise variance and model are right.
    trail    (row counts, estimates, standard errors) along the release.
    """

    header: ReleaseHeader
    estimate: Array
    covariance: Array
    misfit: float
    trail: tuple[Array, Array, Array] = field(repr=False)

    @property
    def standard_error(self) -> Array:
        """Of each coefficient, privacy included."""
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def without_privacy(self) -> Array:
        """What the standard errors would be without privacy noise."""
        share = self.header.noise_variance / (self.header.noise_variance + 1 / self.header.level)
        return np.asarray(np.sqrt(share) * self.standard_error)

    def interval(self, confidence: float = 0.95) -> Array:
        """(n, 2): the interval of each coefficient."""
        if not 0 < confidence < 1:
            raise InvalidInput(f"confidence must lie in (0, 1); received {confidence:g}.")
        half = scipy.special.ndtri((1 + confidence) / 2) * self.standard_error
        return np.column_stack([self.estimate - half, self.estimate + half])

    @property
    def doubt(self) -> str | None:
        """A sentence where the misfit is not what it should be (five standard deviations).

        For Gaussian noise RSS/((σ² + 1/s)(K − n)) has variance 2/(K − n). A variance from m
        reference rows is itself uncertain, by 2σ⁴/(m − n): that moves the misfit by the share of
        σ² in σ² + 1/s.
        """
        freedom = self.header.rows - len(self.estimate)
        if freedom < 1:
            return None
        chance = 2 / freedom
        if self.header.reference_rows is not None:
            share = self.header.noise_variance * self.header.level
            share /= 1 + share
            chance += 2 * share**2 / max(self.header.reference_rows - len(self.estimate), 1)
        if abs(self.misfit - 1) <= 5 * np.sqrt(chance):
            return None
        word = "larger" if self.misfit > 1 else "smaller"
        return (
            f"The release scatters {self.misfit:.3g} times as much as the noise variance "
            f"{self.header.noise_variance:g} and the level {self.header.level:g} say ({word} than "
            "chance allows): the standard errors are not to be trusted. The noise variance is "
            "wrong, or the model is."
        )

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        return {
            "names": list(self.header.names),
            "estimate": self.estimate.tolist(),
            "standard_error": self.standard_error.tolist(),
            "standard_error_without_privacy": self.without_privacy.tolist(),
            "confidence": confidence,
            "interval": self.interval(confidence).tolist(),
            "covariance": self.covariance.tolist(),
            "misfit": self.misfit,
            "doubt": self.doubt,
            "release": self.header.to_dict(),
        }


def estimate_release(path: str | Path) -> Estimate:
    """Read a release in blocks and estimate.

    Raises InvalidInput where the table is not the one that the header was made for.
    """
    table = Path(path)
    if table.name.endswith((".csv.json", ".parquet.json")):
        raise InvalidInput(f"{table} is the header; name the table, {table.with_suffix('')}.")
    header = read_header(table)
    if not table.is_file():
        raise InvalidInput(f"there is no table {table}.")
    if checksum(table) != header.sha256:
        raise InvalidInput(
            f"{table} is not the table that its header was made for: it was changed or replaced."
        )
    intercept = "intercept" in header.names
    columns = tuple(name for name in header.names if name != "intercept")
    design = Features(columns, {}, intercept)
    sums = RunningLeastSquares(len(header.names), rounding(len(header.names)))
    marks = _marks(header.rows, len(header.names))
    spread = header.noise_variance + 1 / header.level
    seen, kept = 0, []
    for block in read_rows(open_source(table), design, READING):
        assert block.y is not None
        rows = np.column_stack([block.H, block.y])
        inside = marks[(marks > seen) & (marks <= seen + len(rows))] - seen
        for part in np.split(rows, inside):
            if not len(part):  # a mark at the end of the block: it was kept just now
                continue
            sums.add(np.asfortranarray(part), np.abs(part[:, :-1]))
            seen += len(part)
            if sums.full and seen in marks:
                errors = np.sqrt(spread * np.diagonal(sums.inverse()))
                kept.append((seen, sums.solution(), errors))
    if seen != header.rows:
        raise InvalidInput(
            f"{table} has {seen} rows, its header says {header.rows}: the header was changed."
        )
    require_full(sums, design, str(table), seen)
    freedom = header.rows - len(header.names)
    counts, estimates, errors = zip(*kept)
    return Estimate(
        header=header,
        estimate=sums.solution(),
        covariance=spread * sums.inverse(),
        misfit=sums.misfit / (spread * freedom) if freedom > 0 else 1.0,
        trail=(np.array(counts), np.array(estimates), np.array(errors)),
    )


def _marks(rows: int, parameters: int) -> Array:
    """Row counts, evenly on a log scale, the last one included."""
    first = min(parameters + 1, rows)
    return np.unique(np.geomspace(first, rows, TRAIL).round().astype(np.int64))
