"""The result of an estimate: coefficients with their errors, and the public facts it is from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from privest.arrays import CONFIDENCE, Array
from privest.errors import InvalidInput
from privest.estimator import ClippedResult, Estimate
from privest.estimator.inference import DOUBTFUL, Joint, OriginalMean, as_percent
from privest.records import plain
from privest.workflow.document import TableRelease

STATED = ("the stated noise variance", "reference set and release pooled")  # methods that use it
SMALL = 0.05  # standard errors: a smaller clipping bias is left alone
NEXT_TO_NONE = 1e-5  # of the values: a smaller share is not worth its digits


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TableEstimate(Estimate):
    """θ̂ from a release; `method` says how its errors were made.

    rows, dropped   used, and left out for missing values.
    misfit          Σ (z − hᵀθ̂)²/(σ² + 1/s)/(K − n), about 1 if σ² and model are right; `misfit_p`:
                    its two-sided p-value. None where σ² is not stated.
    clipped         share of the values that is clipped, by the fit; None without a range.
    clipping_bias   the largest bias of least squares by clipping, in standard errors.
    beyond          "above" or "below" where all values may lie beyond the range; errors are then
                    infinite.
    cautions        assumptions of the intervals that the release cannot show, a sentence each.
    likelihood      the fit by maximum likelihood, where there is one.
    noise_found     σ̂² as the release shows it, with its 95% `noise_interval`; None: not looked for.
    r_squared       share of the variance that the features explain, approximate.
    less_noise_p    p-value of so little scatter if the noise of the header is in the release.
    parts           of several columns an estimate each; names are then TARGET: NAME, and
                    `covariance` is NaN between columns.
    joint           test of every coefficient on all columns at once; None: `silent` says why.
    """

    release: TableRelease
    rows: int
    dropped: int
    misfit: float | None = None
    misfit_p: float | None = None
    clipped: float | None = None
    remark: str | None = None
    noise_found: float | None = None
    r_squared: float | None = None
    noise_interval: tuple[float, float] | None = None
    less_noise_p: float | None = None
    clipping_bias: float | None = None
    beyond: str | None = None
    cautions: tuple[str, ...] = ()
    likelihood: ClippedResult | None = field(default=None, repr=False)
    parts: tuple[TableEstimate, ...] = field(default=(), repr=False)
    joint: Joint | None = field(default=None, repr=False)
    silent: str | None = None

    DERIVED: ClassVar[tuple[str, ...]] = (*Estimate.DERIVED, "doubt", "less_noise")

    def __getitem__(self, target: str) -> TableEstimate:
        """The estimate of one column."""
        for part in self.parts or (self,):
            if part.release.column.target == target:
                return part
        listed = ", ".join(one.target for one in self.release.columns)
        raise InvalidInput(f"there is no target {target!r}; there are {listed}.")

    @property
    def level(self) -> float:
        """s of the only private column."""
        return self.release.column.level

    @property
    def residual_variance(self) -> float | None:
        """σ² as stated, None where nobody stated it."""
        return self.release.column.residual_variance

    def _each(self, name: str) -> str | None:
        said = [(part.release.column.target, getattr(part, name)) for part in self.parts]
        return "\n".join(f"{target}: {text}" for target, text in said if text) or None

    @property
    def doubt(self) -> str | None:
        """A sentence where the misfit is no chance: its p-value is below 1e-3."""
        if self.parts:
            return self._each("doubt")
        if self.misfit is None or self.misfit_p is None or not self.misfit_p < DOUBTFUL:
            return None
        word = "more" if self.misfit > 1 else "less"
        known = self.likelihood is not None and self.likelihood.noise_variance is None
        uses = self.method in STATED or known
        return (
            f"The residual variance of the release is {self.misfit:.3g} times what the stated one "
            f"and the level give: {word} than chance allows (p = {self.misfit_p:.1g}). "
            + ("Standard errors use it." if uses else "Standard errors do not use it.")
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """All that speaks against the intervals or the release, for people."""
        return (*self.cautions, *filter(None, (self.doubt, self.less_noise)))

    @property
    def less_noise(self) -> str | None:
        """A sentence where the release holds less noise than its header says (p < 1e-3)."""
        if self.parts:
            return self._each("less_noise")
        if self.less_noise_p is None or not self.less_noise_p < DOUBTFUL:
            return None
        return (
            "The release scatters less than the noise that its header states would by itself "
            f"(p = {self.less_noise_p:.1g}): it holds less noise than it says, and protects less. "
            "Ask whoever made it."
        )

    # --- in the units of the file -----------------------------------------------------------------

    def percent(self, confidence: float = CONFIDENCE) -> dict[str, Array]:
        """100(e^θ − 1) of every slope of a logarithm with its interval, (3,), by name."""
        found = {}
        for part in self.parts or (self,):
            log = part.release.model.transform == "log"
            if not log or not np.isfinite(part.standard_error).all():
                continue
            before = f"{part.release.column.target}: " if self.parts else ""
            for name, value, ends in zip(part.names, part.value, part.interval(confidence)):
                if name != "intercept":
                    found[f"{before}{name}"] = as_percent([value, *ends])
        return found

    def mean_at(self, row: Mapping[str, object], confidence: float = CONFIDENCE) -> OriginalMean:
        """The mean and the median of the target at a row {"age": 50, "sex": "male"}, in file units.

        A logarithm: from θ̂ and σ² at that row, a variance by features, for normal errors.
        """
        from privest.workflow.units import mean_at

        if self.parts:
            first = self.release.columns[0].target
            raise InvalidInput(f"the mean at a row is of one column: take estimate[{first!r}].")
        return mean_at(self, row, confidence)

    def summary(self, confidence: float = CONFIDENCE) -> str:
        """The table of `Estimate.summary`; for logarithms the per cent below it."""
        lines = [super().summary(confidence)]
        for name, (value, low, high) in self.percent(confidence).items():
            more = "against the baseline" if is_category(name) else "for one unit more"
            lines.append(f"{name}: {value:+.3g} % {more} ({low:+.3g} to {high:+.3g})")
        if self.joint is not None and self.joint.p_value is not None:
            tests = zip(self.release.names, self.joint.p_value)
            listed = ", ".join(f"{name} {float(p):.3g}" for name, p in tests)
            lines.append(f"P of no effect on any column (one test of all): {listed}")
        return "\n".join(lines)

    @property
    def _library(self) -> str:
        return self.release.library

    def to_dict(self, confidence: float = CONFIDENCE) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        record = super().to_dict(confidence)
        for name in ("likelihood", "parts"):
            del record[name]
        if self.parts:
            record["parts"] = [part.to_dict(confidence) for part in self.parts]
        percent = self.percent(confidence)
        return record | ({"percent": plain(percent)} if percent else {})


def share_text(share: float) -> str:
    small = 0 < share < NEXT_TO_NONE
    return f"less than {100 * NEXT_TO_NONE:g} %" if small else f"{100 * share:.2g} %"


def is_category(name: str) -> bool:
    """Whether the coefficient is that of a category alone, which has no unit: sex=male."""
    return "=" in name and ":" not in name
