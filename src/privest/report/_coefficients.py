"""Coefficients as a page shows them: the same digits in sentences, tables and figures.

After a logarithm, and for odds and counts, a coefficient is a factor: it is shown as per cent for
one unit more, 100(e^θ − 1), and the ends of its interval likewise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import CONFIDENCE, Array
from privest.errors import InvalidInput
from privest.estimator.result import Result
from privest.report._digits import rounded

INTERCEPT = "intercept"
FACTORS = ("log", "binomial", "poisson")  # transforms and families of which coefficients are logs


@dataclass(frozen=True)
class Coefficient:
    """One coefficient, in the units that are shown.

    estimate, low, high   of the private estimate, and its interval
    error                 its standard error, in the units of the model
    half_open             half of the interval that the same data would give without privacy,
                          around the same estimate (low_open, high_open); None: not known
    """

    name: str
    estimate: float
    low: float
    high: float
    error: float
    size: float
    low_open: float | None
    high_open: float | None
    percent: bool

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves no doubt on which side of zero it is."""
        return self.low > 0 or self.high < 0

    @property
    def value_text(self) -> str:
        return rounded(self.estimate, self.size) + self._sign

    @property
    def size_text(self) -> str:
        """Without its sign: `higher by …`."""
        return rounded(abs(self.estimate), self.size) + self._sign

    @property
    def interval_text(self) -> str:
        return f"{rounded(self.low, self.size)} to {rounded(self.high, self.size)}{self._sign}"

    @property
    def _sign(self) -> str:
        return " %" if self.percent else ""


def open_errors(result: Result) -> Array | None:
    """(n,): the errors without privacy; None where they are not known, or hidden by the noise."""
    plain = result.classical_error
    if plain is None or not (np.isfinite(plain).all() and (plain > 0).all()):
        return None
    return plain


def coefficients(
    result: Result, scale: str = "none", confidence: float = CONFIDENCE
) -> list[Coefficient]:
    """All of them in order; `scale` is among `FACTORS` where coefficients are logarithms."""
    estimate = np.asarray(result.estimate, dtype=float)
    if estimate.ndim != 1 or not np.isfinite(estimate).all():
        raise InvalidInput("a report is of one estimate, and its numbers must be finite.")
    ends, errors = result.interval(confidence), result.standard_error
    plain = open_errors(result)
    found = []
    for j, name in enumerate(result.names):
        half = (ends[j, 1] - ends[j, 0]) / 2
        narrow = None if plain is None else half * min(plain[j] / errors[j], 1.0)
        found.append(_one(name, estimate[j], half, float(errors[j]), narrow, scale))
    return found


def _one(
    name: str, middle: float, half: float, error: float, narrow: float | None, scale: str
) -> Coefficient:
    percent = scale in FACTORS and name != INTERCEPT
    ends = [middle, middle - half, middle + half]
    ends += [] if narrow is None else [middle - narrow, middle + narrow]
    shown = [float(100 * np.expm1(x)) if percent else float(x) for x in ends]
    size = 100 * float(np.exp(middle)) * error if percent else error
    return Coefficient(
        name=name, estimate=shown[0], low=shown[1], high=shown[2], error=error, size=size,
        low_open=None if narrow is None else shown[3],
        high_open=None if narrow is None else shown[4], percent=percent,
    )  # fmt: skip
