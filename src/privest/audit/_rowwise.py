"""Many one-dimensional integrals at once: adaptive panels, all rows in one array."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from privest.arrays import EPS, Array, Flags, Index
from privest.noise.quadrature import Carried, lobatto, on_panels, refine

# A panel is done when it and its halves agree to this part of the row. The halves are what is
# kept: better by some digits where the integrand is smooth.
AGREE = 1e-9
ROUNDS, MOST = 60, 200_000
NODES = 8

# (rows (p,), u (p, k)) → ln w (p, k)
LogWeight = Callable[[Index, Array], Array]


class Moments(NamedTuple):
    """∫ w = mass·e^top and ∫ (u − c) w = first·e^top, one entry a row."""

    top: Array
    mass: Array
    first: Array


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
    found = _Rows(log_weight, centre, len(edges), agree)
    # Nothing coarser to compare the first panels with yet.
    carried = row[wide], np.full((3, np.count_nonzero(wide)), np.nan)
    refine(low[wide], high[wide], found.examine, carried=carried, rounds=ROUNDS)
    return Moments(found.top, found.done[0], found.done[1])


class _Rows:
    """∫ w, ∫ (u − c) w, ∫ |u − c| w of the panels that are done, in units of each row's top."""

    def __init__(self, log_weight: LogWeight, centre: Array, n: int, agree: float) -> None:
        self.log_weight, self.centre, self.agree = log_weight, centre, agree
        self.top, self.done = np.full(n, -np.inf), np.zeros((3, n))

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
