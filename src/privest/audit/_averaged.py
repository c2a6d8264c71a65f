"""E I(u) over a Gaussian prior, and whether it is finite: what van Trees' bound divides by."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from privest.arrays import EPS, Array
from privest.audit._rowwise import row_moments
from privest.audit._search import has_formula, special_inputs
from privest.errors import PrivestError
from privest.mechanism._channel import Channel

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


class Average(NamedTuple):
    """E I(u), and why it is infinite or not known (then `information` is inf: no bound follows)."""

    information: float
    reason: str | None = None


def averaged_information(channel: Channel, mean: float, deviation: float) -> Average:
    """E I(u), u ~ N(mean, deviation²).

    Infinite wherever I has a pole u₀ that is not integrable, however unlikely: I ~ |u − u₀|^-α with
    α ≥ 1, judged from both sides. Poles are looked for at the channel's own worst input, where an
    outcome vanishes or p changes its form (`search.py`), and where the formula, if there is one,
    is infinite or largest over the prior. With a formula the integral is adaptive; without, by two
    Gauss-Hermite rules, rounded up by their difference. Rules that do not settle to 5 % count as
    infinite: the bound that follows is then 0, which is never wrong.
    """
    formula = has_formula(channel)
    information = _information(channel)
    scan = np.array([]) if not formula else mean + deviation * np.linspace(-9, 9, SCAN)
    everywhere = information(mean + deviation * np.array([-1.3179, 0.2713, 0.8391]))
    if np.isinf(everywhere).all():
        return Average(math.inf, "The information is infinite at every input that was looked at.")
    for pole in _suspects(channel, information, scan, mean, deviation):
        if _diverges(information, pole, deviation, formula):
            return Average(
                math.inf,
                f"The information, averaged over the prior, is infinite: it has a pole at input "
                f"{pole:.6g} that is not integrable. van Trees' bound is then 0.",
            )
    if not formula:
        rough, value = (_hermite(information, mean, deviation, count) for count in HERMITE)
        if not abs(rough - value) <= UNSURE * value:
            return Average(math.inf, UNSETTLED)
        # Rounded up by what is not known: a bound that is too low is still one.
        return Average(max(rough, value) + abs(rough - value))
    value = _integral(information, mean, deviation)
    if not math.isfinite(value):
        return Average(math.inf, UNSETTLED)
    return Average(value)


UNSETTLED = (
    "The average of the information over the prior did not settle by numbers; it counts as "
    "infinite, and van Trees' bound as 0."
)


def _information(channel: Channel) -> Callable[[Array], Array]:
    """I(u), NaN where the numbers fail."""

    def one(u: float) -> float:
        try:
            return channel.information_estimate(u).value
        except PrivestError:
            return math.nan

    def every(u: Array) -> Array:
        if has_formula(channel):
            with np.errstate(all="ignore"):
                return channel.information(u)
        return np.array([one(float(v)) for v in u.ravel()]).reshape(u.shape)

    return every


def _suspects(
    channel: Channel,
    information: Callable[[Array], Array],
    scan: Array,
    mean: float,
    deviation: float,
) -> list[float]:
    """Inputs at which I may be infinite, the most likely ones under the prior first."""
    found = [] if channel.worst.at is None else [float(channel.worst.at)]
    if scan.size:
        values = information(scan)
        found += scan[np.isinf(values)].tolist()
        inner = (values[1:-1] > values[:-2]) & (values[1:-1] >= values[2:])
        peaks = np.flatnonzero(inner & np.isfinite(values[1:-1])) + 1
        peaks = peaks[np.argsort(-values[peaks], kind="stable")[:4]]
        found += [_climbed(information, scan[i - 1], scan[i + 1]) for i in peaks]
    elif channel.discrete:
        found += special_inputs(channel, mean + deviation * np.linspace(-4, 4, 33)).tolist()
    return sorted(dict.fromkeys(found), key=lambda u: abs(u - mean))[:24]


def _climbed(information: Callable[[Array], Array], low: float, high: float) -> float:
    """The highest place between, by ever finer grids: down to rounding, for a pole is a point."""
    for _ in range(24):
        u = np.linspace(low, high, 9)
        values = information(u)
        i = int(np.nanargmax(values))
        if math.isinf(values[i]) or high - low < 64 * EPS * max(abs(low), abs(high)):
            return float(u[i])
        low, high = u[max(i - 1, 0)], u[min(i + 1, 8)]
    return float((low + high) / 2)


def _diverges(
    information: Callable[[Array], Array], pole: float, deviation: float, formula: bool
) -> bool:
    """Is I not integrable next to the pole, from one side at least?"""
    h = deviation * (CLOSEST if formula else CLOSEST[:BY_NUMBERS])
    h = h[h > 2**10 * EPS * abs(pole)]
    for side in (-1, 1):
        values = information(pole + side * h)
        if np.isinf(values).any():
            return True
        last = values[-3:]
        if last.size == 3 and (np.diff(last) > 0).all() and last[0] > 0:
            slope = np.log(last[1:] / last[:-1]) / np.log(h[-3:-1] / h[-2:])
            if slope[-1] >= STEEP:
                return True
    return False


def _integral(information: Callable[[Array], Array], mean: float, deviation: float) -> float:
    def log_weight(rows: object, u: Array) -> Array:
        value = information(mean + deviation * u)
        value = np.where(np.isinf(value), 0.0, value)  # a node on an integrable pole: a point
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(value) - u**2 / 2)

    found = row_moments(log_weight, EDGES[None], np.zeros(1), agree=1e-7)
    return float(found.mass[0] * np.exp(found.top[0]) / math.sqrt(2 * math.pi))


def _hermite(
    information: Callable[[Array], Array], mean: float, deviation: float, count: int
) -> float:
    x, weight = np.polynomial.hermite_e.hermegauss(count)
    return float(weight @ information(mean + deviation * x) / math.sqrt(2 * math.pi))
