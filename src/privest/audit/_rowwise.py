"""Many one-dimensional integrals at once: adaptive panels, all rows in one array."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from privest.arrays import EPS, Array, Index

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
    n = len(edges)
    row = np.repeat(np.arange(n), edges.shape[1] - 1)
    low, high = edges[:, :-1].ravel(), edges[:, 1:].ravel()
    row, low, high = row[high > low], low[high > low], high[high > low]
    top = np.full(n, -np.inf)
    done = np.zeros((3, n))  # ∫ w, ∫ (u − c) w, ∫ |u − c| w of panels that are done
    part: Array | None = None  # the same for the panels at hand, in units of the old top
    for k in range(ROUNDS):
        middle = (low + high) / 2
        halves = [_panel(log_weight, row, a, b, centre) for a, b in ((low, middle), (middle, high))]
        new = top.copy()
        for _, largest in halves:
            np.maximum.at(new, row, largest)
        fall = np.exp(np.where(np.isneginf(top), 0.0, top - np.where(np.isneginf(new), 0.0, new)))
        done *= fall
        top = new
        with np.errstate(invalid="ignore"):
            fine = [p * np.exp(np.where(np.isneginf(m), -np.inf, m - top[row])) for p, m in halves]
        both = fine[0] + fine[1]
        total = done + [np.bincount(row, weights=x, minlength=n) for x in both]
        if part is None:  # no coarse rule yet for the first panels
            whole, largest = _panel(log_weight, row, low, high, centre)
            with np.errstate(invalid="ignore"):
                part = whole * np.exp(np.where(np.isneginf(largest), -np.inf, largest - top[row]))
        else:
            part = part * fall[row]
        off = np.abs(both - part)
        fits = (off[0] <= agree * total[0][row]) & (off[1] <= agree * total[2][row])
        fits |= high - low <= 16 * EPS * np.maximum(np.abs(low), np.abs(high))
        fits |= k == ROUNDS - 1 or np.count_nonzero(~fits) > MOST
        done += [np.bincount(row[fits], weights=x[fits], minlength=n) for x in both]
        more = ~fits
        if not more.any():
            break
        row = np.concatenate([row[more], row[more]])
        part = np.concatenate([fine[0][:, more], fine[1][:, more]], axis=1)
        low, high = (
            np.concatenate([low[more], middle[more]]),
            np.concatenate([middle[more], high[more]]),
        )
    return Moments(top, done[0], done[1])


def _panel(
    log_weight: LogWeight, row: Index, low: Array, high: Array, centre: Array
) -> tuple[Array, Array]:
    """The three integrals over each panel (3, p) in units of its own largest w, and ln of that."""
    x, weight = _lobatto()
    half = (high - low)[:, None] / 2
    u = (low + high)[:, None] / 2 + half * x
    value = log_weight(row, u)
    largest = value.max(axis=1)
    w = np.exp(value - np.where(np.isneginf(largest), 0.0, largest)[:, None]) * half
    away = u - centre[row][:, None]
    return np.stack([w @ weight, (w * away) @ weight, (w * np.abs(away)) @ weight]), largest


@cache
def _lobatto() -> tuple[Array, Array]:
    """Nodes with both ends among them, and weights: a jump close to an end is seen, too."""
    legendre = np.polynomial.Legendre.basis(NODES - 1)
    x = np.concatenate([[-1.0], np.real(legendre.deriv().roots()), [1.0]])
    return x, 2 / (NODES * (NODES - 1) * legendre(x) ** 2)
