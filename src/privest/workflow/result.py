"""The result of an estimate: coefficients with their errors, and the public facts it is from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privest.arrays import CONFIDENCE, Array
from privest.errors import InvalidInput
from privest.estimator import Estimate
from privest.estimator.inference import DOUBTFUL, as_percent
from privest.records import plain
from privest.workflow.document import TableRelease

if TYPE_CHECKING:
    from privest.workflow.units import RowMean

SMALL = 0.05  # standard errors: a smaller clipping bias is not told


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TableEstimate(Estimate):
    """θ̂ from a release; `method` says how its errors were made.

    rows, dropped   used, and left out for missing values.
    clipped         share of the values that is clipped, by the fit; None without a range.
    clipping_bias   the largest bias of least squares by clipping, in standard errors.
    cautions        assumptions of the intervals that the release cannot show, a sentence each.
    noise_found     σ̂² as the release shows it, with its 95% `noise_interval`; None: not looked for.
    r_squared       share of the variance that the features explain, approximate.
    less_noise_p    p-value of so little scatter if the noise of the header is in the release.
    parts           of several columns an estimate each; names are then TARGET: NAME, and
                    `covariance` is NaN between columns.
    """

    release: TableRelease
    rows: int
    dropped: int
    clipped: float | None = None
    remark: str | None = None
    noise_found: float | None = None
    r_squared: float | None = None
    noise_interval: tuple[float, float] | None = None
    less_noise_p: float | None = None
    clipping_bias: float | None = None
    cautions: tuple[str, ...] = ()
    parts: tuple[TableEstimate, ...] = field(default=(), repr=False)

    DERIVED: ClassVar[tuple[str, ...]] = (*Estimate.DERIVED, "less_noise")

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

    @property
    def warnings(self) -> tuple[str, ...]:
        """All that speaks against the intervals or the release, for people."""
        return (*self.cautions, *filter(None, (self.less_noise,)))

    @property
    def less_noise(self) -> str | None:
        """A sentence where the release holds less noise than its header says (p < 1e-3)."""
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

    def mean_at(self, row: Mapping[str, object], confidence: float = CONFIDENCE) -> RowMean:
        """The mean of the target at a row {"age": 50, "sex": "male"}, in the units of the file.

        For a logarithm it is the median, e^{hθ̂} (the geometric mean).
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
        return "\n".join(lines)

    @property
    def _library(self) -> str:
        return self.release.library

    def to_dict(self, confidence: float = CONFIDENCE) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        record = super().to_dict(confidence)
        del record["parts"]
        if self.parts:
            record["parts"] = [part.to_dict(confidence) for part in self.parts]
        percent = self.percent(confidence)
        return record | ({"percent": plain(percent)} if percent else {})


def is_category(name: str) -> bool:
    """Whether the coefficient is that of a category alone, which has no unit: sex=male."""
    return "=" in name and ":" not in name
