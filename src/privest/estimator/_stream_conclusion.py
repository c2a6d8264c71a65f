"""Estimate of a stream with errors by two routes, and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privest.arrays import CONFIDENCE, Array
from privest.errors import NotIdentifiable
from privest.estimator._rls import PrivateRLS
from privest.estimator.inference import (
    Scatter,
    SerialErrors,
    less_noise_p,
    stated_p,
)
from privest.estimator.inference._errors import DOUBTFUL
from privest.records import Record, quantile


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamConclusion(Record):
    """θ̂ of a stream with errors by blocks of time, and those of its model beside them.

    stated_error    (n,), valid without autocorrelation (or as AR(1) says); None: unknown.
    stated_by       how these were made, in a few words.
    by_blocks       errors valid under autocorrelation; None where they cannot be computed.
    floor           (n,) standard errors by the privacy noise alone: no interval is shorter.
    noise_variance  σ² given the features, as stated or estimated; None: not computed.
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
        """(n, 2) by blocks: ± t·error with the degrees of freedom of each coefficient, at least
        the normal interval of the release noise alone. NaN where there is none (`warnings`).
        """
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
        elif self.by_blocks is not None:
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
    whole  False: estimate and errors alone, without doubts and intervals.
    """
    try:
        blocks = rls.block_errors(whole=whole)
    except NotIdentifiable:  # of what blocks can hold; the estimate stands
        blocks = None
    freedom, plain = shown - rls.parameters, rls.one_level is not None
    common: dict[str, Any] = {"names": tuple(names), "value": rls.value, "by_blocks": blocks}
    if plain and freedom > 0 and not known:
        return _scattered(rls, freedom, common, whole)
    if not known:  # readings are shown mixed: rows of unit noise, if only release noise were there
        doubts = _audit(rls.misfit, freedom, 1.0) if whole else ()
        return StreamConclusion(
            **common, stated_error=None, stated_by="", floor=None, noise_variance=None,
            doubts=doubts,
        )  # fmt: skip
    own, floor = noise_whitened_by(rls), None
    if plain:
        added = noise_added(rls)
        floor = rls.standard_error * np.sqrt(added / (own + added))
    doubts = ()
    if whole:
        doubts = _doubts(rls, freedom, blocks, stated_p(rls.misfit, max(freedom, 1), 1.0), own)
    return StreamConclusion(
        **common, stated_error=rls.standard_error, stated_by="by the stated noise variance",
        floor=floor, noise_variance=own, doubts=doubts,
    )  # fmt: skip


def _scattered(
    rls: PrivateRLS, freedom: int, common: dict[str, Any], whole: bool
) -> StreamConclusion:
    """With σ² from the release itself."""
    own, added = noise_whitened_by(rls), noise_added(rls)
    squares = rls.misfit * (own + added)
    size = np.sqrt(rls.covariance.diagonal() / (own + added))  # of (HᵀH)⁻¹
    return StreamConclusion(
        **common, stated_error=np.sqrt(squares / freedom) * size,
        stated_by="by how much the release scatters", floor=np.sqrt(added) * size,
        noise_variance=Scatter(squares, freedom, added).noise_variance,
        doubts=_audit(squares, freedom, added) if whole else (),
    )  # fmt: skip


def noise_whitened_by(rls: PrivateRLS) -> float:
    """σ² of a measurement as the estimator was given it, or 0."""
    return float(rls.noise.covariance(rls.noise.size or 1).diagonal()[0])


def noise_added(rls: PrivateRLS) -> float:
    """The variance of the privacy noise on a measurement, where all have one level."""
    assert rls.one_level is not None
    return rls.unit_variance / rls.one_level


def _doubts(
    rls: PrivateRLS, freedom: int, blocks: SerialErrors | None, chance: float, own: float
) -> tuple[str, ...]:
    """Evidence against the stated σ²; none under autocorrelation, where the test does not hold."""
    if freedom < 1:
        return ()
    audit: tuple[str, ...] = ()
    if rls.one_level is not None:
        added = noise_added(rls)
        audit = _audit(rls.misfit * (own + added), freedom, added)
    remembers = blocks is not None and bool(blocks.correlation)
    if audit or remembers or chance >= DOUBTFUL:
        return audit
    times = rls.misfit / freedom
    wild = ", or a few readings are wild" if times > 1 else ""
    return (
        f"The releases scatter {times:.3g} times as much as the noise variance {own:.3g} and the "
        f"level say (by chance with a probability below {DOUBTFUL:g}): that variance is wrong, or "
        f"the model is{wild}. The intervals do not need it.",
    )


def _audit(squares: float, freedom: int, added: float) -> tuple[str, ...]:
    """Whether the releases hold less noise than they say, whatever y is."""
    if freedom < 1 or less_noise_p(squares, freedom, added) >= DOUBTFUL:
        return ()
    return (
        "The releases scatter less than their own noise would, whatever the readings are: they "
        "hold less noise than they say, or were smoothed. Ask who released them.",
    )
