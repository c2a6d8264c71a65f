"""The result of an estimate: coefficients with their errors, and the public facts it is from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from privest.arrays import CONFIDENCE, Array
from privest.errors import InvalidInput
from privest.estimator import Estimate, Prediction
from privest.estimator.inference import DOUBTFUL, as_percent
from privest.records import named_rows, plain
from privest.workflow.document import TableRelease

FEWEST = 4.0  # degrees of freedom of σ̂², below which no prediction interval is made
SMALL = 0.05  # standard errors: a smaller clipping bias is not told


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TableEstimate(Estimate):
    """θ̂ from a release; `method` says how its errors were made.

    rows, dropped   used, and left out for missing values.
    clipped         share of the values that is clipped, by the fit; None without a range.
    clipping_bias   the largest bias of least squares by clipping, in standard errors.
    cautions        assumptions of the intervals that the release cannot show, a sentence each.
    noise_found     σ̂² as the release shows it, with its 95% `noise_interval`; None: not looked for.
    noise_freedom   degrees of freedom of σ̂², 2σ̂⁴/var σ̂²; 0: not known.
    r_squared       share of the variance that the features explain, approximate.
    less_noise_p    p-value of so little scatter if the noise of the header is in the release.
    parts           of several columns an estimate each; names are then TARGET: NAME, and
                    `covariance` is NaN between columns.
    """

    release: TableRelease
    rows: int
    dropped: int
    clipped: float | None = None
    noise_found: float | None = None
    noise_freedom: float = 0.0
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

    def predict(
        self, rows: object, *, confidence: float = CONFIDENCE, noise: float | None = None
    ) -> Prediction:
        """The mean of the target at rows {"age": 50, "sex": "male"}, in the units of the file.

        For a logarithm it is the median (the geometric mean), for yes/no the share of yes.
        Intervals from noisy sums assume that all residuals have the same variance (`note`).

        rows   values by name, of numbers or columns; a list of such rows; a frame, whose other
               columns are ignored. A transformed feature has the name of its coefficient,
               {"log(bmi)": 3.2}.
        noise  the residual variance (of the logarithm, where that is modelled), for prediction
               intervals of numeric outcomes; None: as stated, or as the release shows it with at
               least 4 degrees of freedom; else there are no such intervals.
        """
        from privest.workflow.units import in_file_units, require_predictable

        require_predictable(self)
        freedom = math.inf
        if noise is None:
            noise, freedom = self._shown_variance()
        elif self.release.model.family != "gaussian":
            raise InvalidInput("a prediction interval is of a numeric outcome: leave noise out.")
        found = self._predicted(self._matrix(rows), confidence, noise, freedom)
        return in_file_units(self, found)

    def _shown_variance(self) -> tuple[float | None, float]:
        """σ² of a new value as stated, or as the release shows it, with its degrees of freedom."""
        if self.release.model.family != "gaussian":
            return None, math.inf
        if self.residual_variance is not None:
            return self.residual_variance, math.inf
        if not self.noise_found or self.noise_freedom < FEWEST:
            return None, math.inf
        return self.noise_found, self.noise_freedom

    def _named(self, rows: object) -> list[dict[str, Any]] | None:
        from privest.workflow.units import row_features

        named = named_rows(rows)
        if named is not None and hasattr(rows, "columns"):
            asked = row_features(self.release)
            named = [{k: v for k, v in row.items() if k in asked} for row in named]
        return named

    def _row(self, values: Mapping[str, object]) -> Array:
        from privest.workflow.units import row_of

        return row_of(self.names, values, self.release.categories)

    def _members(self, name: str) -> Sequence[str]:
        return (name, *(f"{name}={one}" for one in self.release.categories.get(name, ())))

    def _heading(self) -> list[str]:
        """Facts in two columns, as statsmodels has them."""
        release = self.release
        target = ", ".join(one.target for one in release.columns)
        facts = {
            "Outcome": target, "Rows": f"{self.rows:,}",
            "Release": "noisy sums" if release.sums else "noisy rows",
            "Noise": "SIMULATED: no protection" if self.simulated else "protected",
            "Residual variance": _number(self.noise_found), "R²": _number(self.r_squared),
        }  # fmt: skip
        cells = [f"{name + ':':19} {value}" for name, value in facts.items()]
        wide = max(map(len, cells[::2])) + 4
        lines = [f"{left:{wide}}{right}" for left, right in zip(cells[::2], cells[1::2])]
        return [*lines, f"Standard errors:    {self.method}"]

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


def _number(value: float | None) -> str:
    return "not shown" if value is None else f"{value:.4g}"


def is_category(name: str) -> bool:
    """Whether the coefficient is that of a category alone, which has no unit: sex=male."""
    return "=" in name and ":" not in name
