"""What comes of a release: θ̂ with its errors, and the public facts it is from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from privest.arrays import CONFIDENCE, Array, Index
from privest.estimator import ClippedResult, PrivateRLS, Result
from privest.estimator.inference import Scatter, misfit_p, reference_p, stated_p
from privest.estimator.inference._misfit import DOUBTFUL
from privest.estimator.inference._original_scale import OriginalMean
from privest.estimator.inference._totals import Total
from privest.records import plain
from privest.workflow._header import TableRelease
from privest.workflow._original_units import (
    is_category,
    mean_at,
    percent_of,
    range_sentence,
    total_in_units,
)

STATED = ("the stated noise variance", "reference set and release pooled")  # methods that use it


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Fit(Result):
    """θ̂ from a table, with cov θ̂ = (Σ_k h_kh_kᵀ/(σ_k² + 1/s_k))⁻¹, the bound of `thm:crbound`.

    level, noise    s and σ²: numbers, or names of public columns with one a row; σ² as stated, None
                    where nobody stated it.
    rows, dropped   used, and left out for gaps.
    misfit          Σ_k (z_k − h_kᵀθ̂)²/(σ_k² + 1/s_k)/(K − n): about 1 if noise and model are right;
                    None where σ² is not stated, or there are no more rows than coefficients.
    misfit_p        how likely so large or so small a misfit is if they are (two-sided).
    reference_rows  rows of the public reference that σ² is from; None where it was given.
    """

    level: float | str
    noise: float | str | None
    rows: int
    dropped: int
    misfit: float | None
    misfit_p: float | None = None
    reference_rows: int | None = None

    DERIVED: ClassVar[tuple[str, ...]] = (*Result.DERIVED, "doubt")

    @property
    def doubt(self) -> str | None:
        """A sentence where the misfit is no chance: its p-value is below 1e-3."""
        if self.misfit is None or self.misfit_p is None or not self.misfit_p < DOUBTFUL:
            return None
        word = "more" if self.misfit > 1 else "less"
        return (
            f"The release scatters {self.misfit:.3g} times as much as the noise variance "
            f"{_stated(self.noise)} and the level {_stated(self.level)} say: {word} than chance "
            f"allows (p = {self.misfit_p:.1g}). The stated noise variance is wrong, or the model "
            f"is. {self._consequence}"
        )

    @property
    def _consequence(self) -> str:
        return "The standard errors, which use it, are not to be trusted."

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.names)} coefficients from {self.rows} rows)"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Estimate(Fit):
    """θ̂ from a release file; `method` says how its errors were made.

    Least squares, with errors from what the release itself scatters (`estimator.inference`): σ² is
    not needed. Where a range clips so much that it matters θ and σ² are estimated by maximum
    likelihood (`estimate_clipped`), which assumes normal errors with one variance.

    release         the public facts of the release.
    trail           (row counts, estimates, standard errors) along the release; None with maximum
                    likelihood, or weights.
    clipped         the share of the readings that is clipped, by the fit; None without a range.
    clipping_bias   by how many standard errors clipping moves least squares, by the fit, at most.
    beyond          "above" or "below" the range, where all readings may lie as
                    far as the release can tell: errors and intervals are infinite then, θ̂ is least
                    squares of what was clipped. None: not all do.
    cautions        what the intervals assume and the release cannot show, a sentence each.
    likelihood      the fit by maximum likelihood where that was made, else None.
    noise_found     σ̂² as the release shows it, 0 or more; None where it was not looked for.
    noise_interval  of σ², 95 %, exact; None where it is empty: σ² is about 0.
    less_noise_p    how likely so little scatter is if the noise of the header is in the release.
    remark          what else whoever reads the estimate should know, in a sentence; None: nothing.
    """

    release: TableRelease
    trail: tuple[Index, Array, Array] | None = field(repr=False)
    clipped: float | None = None
    remark: str | None = None
    noise_found: float | None = None
    noise_interval: tuple[float, float] | None = None
    less_noise_p: float | None = None
    clipping_bias: float | None = None
    beyond: str | None = None
    cautions: tuple[str, ...] = ()
    likelihood: ClippedResult | None = field(default=None, repr=False)

    DERIVED: ClassVar[tuple[str, ...]] = (*Fit.DERIVED, "less_noise", "range_sentence")

    @property
    def warnings(self) -> tuple[str, ...]:
        """All that speaks against the intervals or the release, for people."""
        return (*self.cautions, *filter(None, (self.doubt, self.less_noise)))

    @property
    def less_noise(self) -> str | None:
        """A sentence where the release holds less noise than its header says (p < 1e-3).

        Readings can only add to the scatter: it is false in at most one of 1000 releases, whatever
        they are. Where it is silent that proves nothing.
        """
        if self.less_noise_p is None or not self.less_noise_p < DOUBTFUL:
            return None
        return (
            "The release scatters less than the noise that its header states would by itself "
            f"(p = {self.less_noise_p:.1g}): it holds less noise than it says, and protects less. "
            "Ask whoever made it."
        )

    @property
    def _consequence(self) -> str:
        known = self.likelihood is not None and self.likelihood.noise_variance is None
        if self.method in STATED or known:
            return super()._consequence
        return "Errors and intervals do not use it: they come from the release itself."

    @property
    def noise_sentence(self) -> str | None:
        """What the release says of σ², for people."""
        if self.noise_found is None:
            return None
        if self.noise_interval is None or self.noise_interval[1] == 0:
            return (
                "Noise variance of the readings, from the release: ≈ 0 (the noise of the release "
                "hides it)."
            )
        low, high = self.noise_interval
        return (
            f"Noise variance of the readings, from the release: {self.noise_found:.3g} (95 %: "
            f"{low:.3g} … {high:.3g})."
        )

    # --- in the units of the file -----------------------------------------------------------------

    @property
    def range_sentence(self) -> str | None:
        """What the range did to the estimate, and what was done about it, for people."""
        return range_sentence(self)

    def percent(self, confidence: float = CONFIDENCE) -> dict[str, Array]:
        """Of a logarithm: by how many per cent the target grows for one unit more, by name.

        (3,): 100(e^θ − 1) and the ends of its interval. Empty for other targets.
        """
        return percent_of(self, confidence)

    def mean_at(self, row: Mapping[str, object], confidence: float = CONFIDENCE) -> OriginalMean:
        """The mean and the median of the target at a row, in the units of the file.

        row: {"age": 50, "sex": "male"}, a value for every feature. For logarithms it assumes that
        their errors are normal, with a variance by features.
        """
        return mean_at(self, row, confidence)

    def total(self, confidence: float = CONFIDENCE) -> Total:
        """The total of the people of the release, in the units of the file, unbiased.

        Its error is that of the release noise: of these people, not of others like them. Readings
        beyond the range count as its ends.
        """
        return total_in_units(self, confidence)

    def summary(self, confidence: float = CONFIDENCE) -> str:
        """The table of `Result.summary`; for logarithms the per cent below it."""
        lines = [super().summary(confidence)]
        for name, (value, low, high) in self.percent(confidence).items():
            more = "against the baseline" if is_category(name) else "for one unit more"
            lines.append(f"{name}: {value:+.3g} % {more} ({low:+.3g} to {high:+.3g})")
        return "\n".join(lines)

    @property
    def _library(self) -> str:
        return self.release.library

    def to_dict(self, confidence: float = CONFIDENCE) -> dict[str, Any]:
        """Plain numbers and lists, for JSON; without the trail."""
        record = super().to_dict(confidence)
        for name in ("trail", "likelihood"):
            del record[name]
        percent = self.percent(confidence)
        return record | ({"percent": plain(percent)} if percent else {})


def _stated(given: float | str | None) -> str:
    return f"of column {given!r}" if isinstance(given, str) else f"{given:g}"


def fit_of(rls: PrivateRLS, names: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a `Fit` that an estimator with known noise has."""
    found, freedom = rls.result(names), rls.readings - rls.parameters
    known = {field.name: getattr(found, field.name) for field in fields(found)}
    if freedom < 1:
        return known | {"rows": rls.readings, "misfit": None}
    chance = stated_p(rls.misfit, freedom, 1.0)
    return known | {
        "rows": rls.readings, "misfit": rls.misfit / freedom, "misfit_p": chance,
    }  # fmt: skip


def misfit_of(
    scatter: Scatter,
    variance: float | None,
    reference: int | None,
    moments: tuple[float, float] | None,
    rows: int,
) -> dict[str, Any]:
    """`misfit` and `misfit_p` of a stated σ², with `reference` degrees of freedom or known.

    `moments`: Σe², Σe⁴ of the residuals, by which heavy tails are told from a wrong σ².
    """
    if variance is None:
        return {"misfit": None}
    total = variance + scatter.added
    squares, freedom = scatter.squares, scatter.freedom
    if reference is not None:
        chance = reference_p(squares, freedom, variance, reference, scatter.added)
    elif moments is None:
        chance = stated_p(squares, freedom, total)
    else:
        chance = misfit_p(squares, freedom, total, moments, rows)
    return {"misfit": scatter.total / total, "misfit_p": chance}
