"""Integrals over a prior: many in one array, and E I(u), which van Trees' bound divides by."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from privest.arrays import EPS, Array, Flags, Index
from privest.audit._search import has_formula
from privest.audit._special_inputs import special_inputs
from privest.errors import PrivestError
from privest.mechanism import Channel
from privest.noise.quadrature import Carried, lobatto, on_panels, refine

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
# A panel is done when it and its halves agree to this part of the row. The halves are what is
# kept: better by some digits where the integrand is smooth.
AGREE = 1e-9
ROUNDS, MOST = 60, 200_000
NODES = 8

# (rows (p,), u (p, k)) → ln w (p, k)
LogWeight = Callable[[Index, Array], Array]


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
    value = shown.integral() if has_formula(channel) else shown.hermite()
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

    def hermite(self) -> float:
        """E I(u) by two rules, rounded up by their difference; inf if that is large."""
        rules = [np.polynomial.hermite_e.hermegauss(count) for count in HERMITE]
        found = [weight @ self(self.mean + self.deviation * x) for x, weight in rules]
        rough, value = (float(total / math.sqrt(2 * math.pi)) for total in found)
        doubt = abs(rough - value)
        return max(rough, value) + doubt if doubt <= UNSURE * value else math.inf


def row_moments(
    log_weight: LogWeight, edges: Array, centre: Array, agree: float = AGREE
) -> Moments:
    """∫ w and ∫ (u − c) w over [edges_0, edges_k] for every row; edges (n, k + 1) in order.

    Each panel is compared with its two halves (Lobatto, 8 points each) and halved until they
    agree to `agree` of the row, or is as short as doubles allow, or there are MOST panels in all.
    A peak must be seen by a node of the first panels: put edges where it may be.
    Cost: 16 values of w a panel of each round; a kink takes some 20 rounds of one panel.
    """
    row = np.repeat(np.arange(len(edges)), edges.shape[1] - 1)
    low, high = edges[:, :-1].ravel(), edges[:, 1:].ravel()
    wide = high > low
    found = Moments(log_weight, centre, len(edges), agree)
    # Nothing coarser to compare the first panels with yet.
    carried = row[wide], np.full((3, np.count_nonzero(wide)), np.nan)
    refine(low[wide], high[wide], found.examine, carried=carried, rounds=ROUNDS)
    return found


class Moments:
    """∫ w = mass·e^top and ∫ (u − c) w = first·e^top, one entry a row, of the panels done so far.

    `done`: these two, and ∫ |u − c| w beside them.
    """

    def __init__(self, log_weight: LogWeight, centre: Array, n: int, agree: float) -> None:
        self.log_weight, self.centre, self.agree = log_weight, centre, agree
        self.top, self.done = np.full(n, -np.inf), np.zeros((3, n))
        self.mass, self.first, _ = self.done  # views

    def examine(
        self, low: Array, high: Array, carried: Carried, last: bool
    ) -> tuple[Flags, Carried, Carried]:
        """Add the panels that agree with their halves. Carried: the row, the integrals so far."""
        row, part = carried
        middle = (low + high) / 2
        halves = [self._panel(row, a, b) for a, b in ((low, middle), (middle, high))]
        fall = self._raise(row, [largest for _, largest in halves])
        fine = [self._in_units(row, *half) for half in halves]
        both = fine[0] + fine[1]
        total = self.done + self._by_row(row, both)
        if np.isnan(part).all():
            part = self._in_units(row, *self._panel(row, low, high))
        else:
            part = part * fall[row]
        off = np.abs(both - part)
        fits = (off[0] <= self.agree * total[0][row]) & (off[1] <= self.agree * total[2][row])
        fits |= high - low <= 16 * EPS * np.maximum(np.abs(low), np.abs(high))
        fits |= last or np.count_nonzero(~fits) > MOST
        self.done += self._by_row(row[fits], both[:, fits])
        return ~fits, (row, fine[0]), (row, fine[1])

    def _raise(self, row: Index, largest: list[Array]) -> Array:
        """Take up larger values of w; the factor by which what was summed then falls."""
        new = self.top.copy()
        for values in largest:
            np.maximum.at(new, row, values)
        none = np.isneginf(self.top)
        fall = np.exp(np.where(none, 0.0, self.top - np.where(np.isneginf(new), 0.0, new)))
        self.done *= fall
        self.top = new
        return np.asarray(fall)

    def _in_units(self, row: Index, part: Array, largest: Array) -> Array:
        with np.errstate(invalid="ignore"):
            gone = np.where(np.isneginf(largest), -np.inf, largest - self.top[row])
        return np.asarray(part * np.exp(gone))

    def _by_row(self, row: Index, parts: Array) -> Array:
        return np.array([np.bincount(row, weights=x, minlength=len(self.top)) for x in parts])

    def _panel(self, row: Index, low: Array, high: Array) -> tuple[Array, Array]:
        """The three integrals over each panel (3, p) in units of its largest w, and ln of that."""
        nodes, weight = lobatto(NODES)
        u, half = on_panels(low, high, nodes)
        value = self.log_weight(row, u)
        largest = value.max(axis=1)
        w = np.exp(value - np.where(np.isneginf(largest), 0.0, largest)[:, None]) * half
        away = u - self.centre[row][:, None]
        return np.stack([w @ weight, (w * away) @ weight, (w * np.abs(away)) @ weight]), largest
