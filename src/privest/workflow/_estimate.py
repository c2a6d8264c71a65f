"""What comes of a release: θ̂ with its errors, and the public facts it is from."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from privest.arrays import CONFIDENCE, Array, Index
from privest.estimator import PrivateRLS, Result
from privest.workflow._header import TableRelease

DOUBT = 5.0  # standard deviations of the misfit beyond which it is no chance


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Fit(Result):
    """θ̂ from a table, with cov θ̂ = (Σ_k h_kh_kᵀ/(σ_k² + 1/s_k))⁻¹, the bound of `thm:crbound`.

    level, noise    s and σ²: numbers, or names of public columns with one a row.
    rows, dropped   used, and left out for gaps.
    misfit          Σ_k (z_k − h_kᵀθ̂)²/(σ_k² + 1/s_k)/(K − n): about 1 if noise and model are right.
    reference_rows  rows of the public reference that σ² is from; None where it was given. The
                    covariance then has σ² from reference and release together, and intervals are
                    those of Student's t (`PrivateRLS.result`).
    """

    level: float | str
    noise: float | str | None
    rows: int
    dropped: int
    misfit: float
    reference_rows: int | None = None

    DERIVED: ClassVar[tuple[str, ...]] = (*Result.DERIVED, "doubt")

    @property
    def doubt(self) -> str | None:
        """A sentence where the misfit is not what it should be (five standard deviations).

        For Gaussian noise the misfit has variance 2/(K − n). A variance from m reference rows is
        itself uncertain, by 2σ⁴/(m − n): that moves the misfit by the share of σ² in σ² + 1/s.
        """
        freedom = self.rows - len(self.estimate)
        if freedom < 1:
            return None
        chance = 2 / freedom
        if self.reference_rows is not None and self.noise is not None:
            share = float(self.noise) / (float(self.noise) + 1 / float(self.level))
            chance += 2 * share**2 / max(self.reference_rows - len(self.estimate), 1)
        if abs(self.misfit - 1) <= DOUBT * np.sqrt(chance):
            return None
        word = "larger" if self.misfit > 1 else "smaller"
        return (
            f"The release scatters {self.misfit:.3g} times as much as the noise variance "
            f"{_stated(self.noise)} and the level {_stated(self.level)} say ({word} than chance "
            "allows): the standard errors are not to be trusted. The noise variance is wrong, or "
            "the model is."
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.names)} coefficients from {self.rows} rows)"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Estimate(Fit):
    """θ̂ from a release file, with cov θ̂ = (σ² + 1/s)(HᵀH)⁻¹, σ² pooled as said in `Fit`.

    A release with a range is estimated by maximum likelihood, which undoes the bias of clipping
    (`estimate_clipped`): cov θ̂ is the inverse of its information at θ̂; σ² is that of the header,
    and the covariance counts what its error does where it is from a reference set.

    release  the public facts of the release.
    trail    (row counts, estimates, standard errors) along the release; None with a range.
    clipped  the share of the readings that is clipped, by the fit; None without a range.
    remark   what else whoever reads the estimate should know, in a sentence; None: nothing.
    """

    release: TableRelease
    trail: tuple[Index, Array, Array] | None = field(repr=False)
    clipped: float | None = None
    remark: str | None = None

    def to_dict(self, confidence: float = CONFIDENCE) -> dict[str, Any]:
        """Plain numbers and lists, for JSON; without the trail."""
        record = super().to_dict(confidence)
        del record["trail"]
        return record


def _stated(given: float | str | None) -> str:
    return f"of column {given!r}" if isinstance(given, str) else f"{given:g}"


def fit_of(rls: PrivateRLS, names: tuple[str, ...], reference: int | None = None) -> dict[str, Any]:
    """The fields of a `Fit` that an estimator knows; `reference`: degrees of freedom of σ²."""
    found, freedom = rls.result(names, reference=reference), rls.readings - rls.parameters
    return {field.name: getattr(found, field.name) for field in fields(found)} | {
        "rows": rls.readings,
        "misfit": rls.misfit / freedom if freedom > 0 else 1.0,
    }
