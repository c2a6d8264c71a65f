"""Estimate of a stream with errors by two routes, and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privest.arrays import CONFIDENCE, Array
from privest.errors import NotIdentifiable
from privest.estimator._rls import PrivateRLS
from privest.estimator.inference import Scatter, SerialErrors, less_noise_p, stated_p
from privest.estimator.inference._errors import DOUBTFUL
from privest.records import Record, quantile


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamConclusion(Record):
    """θ̂ of a stream with errors by blocks of time, and those of its model beside them.

    stated_error    (n,), valid without autocorrelation, made as `stated_by` says; None: unknown.
    by_blocks       errors valid under autocorrelation; None where they cannot be computed.
    floor           (n,) standard errors by the privacy noise alone: no interval is shorter.
    doubts          evidence against model or release, in sentences.
    """

    names: tuple[str, ...]
    value: Array
    stated_error: Array | None
    stated_by: str
    by_blocks: SerialErrors | None
    floor: Array | None
    noise_variance: float | None
    doubts: tuple[str, ...] = ()

    DERIVED: ClassVar[tuple[str, ...]] = ("warnings",)

    def interval(self, confidence: float = CONFIDENCE) -> Array:
        """(n, 2): ± t·error by blocks, not below that of the privacy noise alone; or NaN."""
        blocks = self.by_blocks
        if blocks is None:
            return np.full((len(self.value), 2), np.nan)
        half = np.full(len(self.value), np.nan)
        for j in np.flatnonzero(~blocks.refused):
            freedom = float(blocks.degrees_of_freedom[j])
            half[j] = quantile(confidence, freedom) * blocks.standard_error[j]
        if self.floor is not None:  # a NaN stays
            half = np.where(
                half < quantile(confidence) * self.floor, quantile(confidence) * self.floor, half
            )
        return np.stack([self.value - half, self.value + half], axis=-1)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why there is no interval, where errors disagree, and the doubts."""
        found = []
        if self.by_blocks is None:
            found.append("No interval: too few readings for blocks of time to differ.")
        else:
            found += self.by_blocks.reasons(self.names)
            found += self._disagreement(self.by_blocks)
        return (*found, *self.doubts)

    def _disagreement(self, blocks: SerialErrors) -> list[str]:
        if self.stated_error is None:
            return []
        beyond = blocks.exceeding(self.stated_error, self.names)
        if not beyond:
            return []
        with np.errstate(invalid="ignore"):
            times = np.nanmax(blocks.standard_error / self.stated_error)
        why, shorter = "readings scatter more than that, or more at some times than at others", ""
        if blocks.correlation != 0:  # they remember, or it was not looked at
            why = "what the features do not explain goes on from one reading to the next"
            shorter = "; an AR(1) fit may have shorter ones"
        return [
            f"The errors by blocks of time are up to {times:.2g} times those {self.stated_by} "
            f"({', '.join(beyond)}): {why}. The intervals are those by blocks{shorter}."
        ]


def conclude(
    rls: PrivateRLS, shown: int, names: Sequence[str], *, known: bool = True, whole: bool = True
) -> StreamConclusion:
    """The conclusion of an estimator with blocks from `shown` measurements.

    known  False: the estimator was made with noise 0, and σ² comes from the release.
    whole  False: estimate and errors alone.
    """
    try:
        blocks = rls.block_errors(whole=whole)
    except NotIdentifiable:  # of what blocks can hold; the estimate stands
        blocks = None
    freedom = shown - rls.parameters
    own = float(rls.noise.covariance(rls.noise.size or 1).diagonal()[0])
    stated_error = floor = variance = None
    stated_by, squares, added = "", rls.misfit, 1.0  # of whitened rows, unless there is one level
    if rls.one_level is not None:
        added = rls.unit_variance / rls.one_level
        squares, size = rls.misfit * (own + added), rls.standard_error / np.sqrt(own + added)
        floor = np.sqrt(added) * size
    if known:
        stated_error, stated_by = rls.standard_error, "by the stated noise variance"
        variance = own
    elif rls.one_level is not None and freedom > 0:
        stated_error, stated_by = (
            np.sqrt(squares / freedom) * size,
            "by how much the release scatters",
        )
        variance = Scatter(squares, freedom, added).noise_variance
    else:
        floor = None
    doubts: list[str] = []
    if whole and freedom > 0:
        if (rls.one_level is not None or not known) and less_noise_p(
            squares, freedom, added
        ) < DOUBTFUL:
            doubts.append(LESS_NOISE)
        elif known and not (blocks is not None and blocks.correlation):
            doubts += _against(own, rls.misfit, freedom)
    return StreamConclusion(
        names=tuple(names), value=rls.value, by_blocks=blocks, stated_error=stated_error,
        stated_by=stated_by, floor=floor, noise_variance=variance, doubts=tuple(doubts),
    )  # fmt: skip


LESS_NOISE = (
    "The releases scatter less than their own noise would, whatever the readings are: they hold "
    "less noise than they say, or were smoothed. Ask who released them."
)


def _against(variance: float, misfit: float, freedom: int) -> list[str]:
    """Evidence against the stated σ², for values that are not autocorrelated."""
    if stated_p(misfit, freedom, 1.0) >= DOUBTFUL:
        return []
    times = misfit / freedom
    wild = ", or a few readings are wild" if times > 1 else ""
    return [
        f"The releases scatter {times:.3g} times as much as the noise variance {variance:.3g} and "
        f"the level say (by chance with a probability below {DOUBTFUL:g}): that variance is wrong, "
        f"or the model is{wild}. The intervals do not need it."
    ]
