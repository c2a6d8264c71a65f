"""E I(u) over a Gaussian prior, and whether it is finite: what van Trees' bound divides by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from privest.arrays import EPS, Array
from privest.audit._rowwise import row_moments
from privest.audit._search import has_formula, special_inputs
from privest.errors import PrivestError
from privest.mechanism import Channel

# Panels of the prior, in deviations: beyond 9 its mass is 2e-19.
EDGES = np.array([-9, -6, -4, -3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 4, 6, 9.0])
SCAN = 2001
HERMITE = (16, 24)
# I(u₀ ± h) ~ h^-α next to a pole: no finite average from α = 1 on. α is taken over the last octaves
# of h; a little below 1 counts as 1 (rounding of u₀ ± h: 2^-10, slow convergence).
STEEP = 0.98
CLOSEST = 2.0 ** -np.arange(8.0, 39.0, 3.0)
BY_NUMBERS = 4  # so many of them where each costs an integral or a sum
UNSURE = 0.05
UNSETTLED = (
    "The average of the information over the prior did not settle by numbers; it counts as "
    "infinite, and van Trees' bound as 0."
)


class Average(NamedTuple):
    """E I(u), and why it is infinite or not known (then `information` is inf: no bound follows)."""

    information: float
    reason: str | None = None


def averaged_information(channel: Channel, mean: float, deviation: float) -> Average:
    """E I(u), u ~ N(mean, deviation²).

    Infinite wherever I has a pole u₀ that is not integrable, however unlikely: I ~ |u − u₀|^-α with
    α ≥ 1, judged from both sides. Poles are looked for at the channel's own worst input, where an
    outcome vanishes or p changes its form (`special_inputs`), and where the formula, if there is
    one, is infinite or largest over the prior. With a formula the integral is adaptive; without, by
    two Gauss-Hermite rules, rounded up by their difference. Rules that do not settle to 5 % count
    as infinite: the bound that follows is then 0, which is never wrong.
    """
    shown = _Shown(channel, mean, deviation)
    if np.isinf(shown(mean + deviation * np.array([-1.3179, 0.2713, 0.8391]))).all():
        return Average(math.inf, "The information is infinite at every input that was looked at.")
    for pole in shown.suspects():
        if shown.diverges(pole):
            return Average(
                math.inf,
                f"The information, averaged over the prior, is infinite: it has a pole at input "
                f"{pole:.6g} that is not integrable. van Trees' bound is then 0.",
            )
    if not has_formula(channel):
        rough, value = (shown.hermite(count) for count in HERMITE)
        if not abs(rough - value) <= UNSURE * value:
            return Average(math.inf, UNSETTLED)
        # Rounded up by what is not known: a bound that is too low is still one.
        return Average(max(rough, value) + abs(rough - value))
    value = shown.integral()
    return Average(value) if math.isfinite(value) else Average(math.inf, UNSETTLED)


@dataclass(frozen=True)
class _Shown:
    """I(u) of a channel, where u ~ N(mean, deviation²) is likely; NaN where the numbers fail."""

    channel: Channel
    mean: float
    deviation: float

    def __call__(self, u: Array) -> Array:
        if has_formula(self.channel):
            with np.errstate(all="ignore"):
                return self.channel.information(u)
        return np.array([self._one(float(v)) for v in u.ravel()]).reshape(u.shape)

    def _one(self, u: float) -> float:
        try:
            return self.channel.information_estimate(u).value
        except PrivestError:
            return math.nan

    def suspects(self) -> list[float]:
        """Inputs at which I may be infinite, the most likely ones under the prior first."""
        channel, at = self.channel, self.channel.worst.at
        found = [] if at is None else [float(at)]
        if has_formula(channel):
            scan = self.mean + self.deviation * np.linspace(-9, 9, SCAN)
            values = self(scan)
            found += scan[np.isinf(values)].tolist()
            inner = (values[1:-1] > values[:-2]) & (values[1:-1] >= values[2:])
            peaks = np.flatnonzero(inner & np.isfinite(values[1:-1])) + 1
            peaks = peaks[np.argsort(-values[peaks], kind="stable")[:4]]
            found += [self._climbed(scan[i - 1], scan[i + 1]) for i in peaks]
        elif channel.discrete:
            grid = self.mean + self.deviation * np.linspace(-4, 4, 33)
            found += special_inputs(channel, grid).tolist()
        return sorted(dict.fromkeys(found), key=lambda u: abs(u - self.mean))[:24]

    def _climbed(self, low: float, high: float) -> float:
        """The highest place between, by ever finer grids: to rounding, for a pole is a point."""
        for _ in range(24):
            u = np.linspace(low, high, 9)
            values = self(u)
            i = int(np.nanargmax(values))
            if math.isinf(values[i]) or high - low < 64 * EPS * max(abs(low), abs(high)):
                return float(u[i])
            low, high = u[max(i - 1, 0)], u[min(i + 1, 8)]
        return float((low + high) / 2)

    def diverges(self, pole: float) -> bool:
        """Is I not integrable next to the pole, from one side at least?"""
        h = self.deviation * (CLOSEST if has_formula(self.channel) else CLOSEST[:BY_NUMBERS])
        h = h[h > 2**10 * EPS * abs(pole)]
        for side in (-1, 1):
            values = self(pole + side * h)
            if np.isinf(values).any():
                return True
            last = values[-3:]
            if last.size == 3 and (np.diff(last) > 0).all() and last[0] > 0:
                slope = np.log(last[1:] / last[:-1]) / np.log(h[-3:-1] / h[-2:])
                if slope[-1] >= STEEP:
                    return True
        return False

    def integral(self) -> float:
        """E I(u) by adaptive panels."""

        def log_weight(rows: object, u: Array) -> Array:
            value = self(self.mean + self.deviation * u)
            value = np.where(np.isinf(value), 0.0, value)  # a node on an integrable pole: a point
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(value) - u**2 / 2)

        found = row_moments(log_weight, EDGES[None], np.zeros(1), agree=1e-7)
        return float(found.mass[0] * np.exp(found.top[0]) / math.sqrt(2 * math.pi))

    def hermite(self, count: int) -> float:
        """E I(u) by so many nodes."""
        x, weight = np.polynomial.hermite_e.hermegauss(count)
        return float(weight @ self(self.mean + self.deviation * x) / math.sqrt(2 * math.pi))
