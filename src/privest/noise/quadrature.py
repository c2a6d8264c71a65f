"""Quadrature by Gauss-Legendre panels that are halved where two rules disagree.

`integrate`: an integrand on the line, on octaves that shrink towards special points and grow to
infinity, with an error. scipy.integrate.tanhsinh is no substitute: a kink stops it at 1e-7, a jump
at 1e-4, and it gives finite numbers for divergent integrals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from privest.arrays import EPS, AnyArray, Array, Flags
from privest.records import Record

# Two Gauss-Legendre rules on every panel: the fine one is the value, their difference the error.
FINE = 24
COARSE = 12
# A panel is halved while its error is above this part of the whole integral.
TOLERANCE = 1e-13
MAX_ROUNDS = 60
MAX_PANELS = 10_000
# Octave contributions that shrink by less than this from one to the next are called divergent
# (a power within 0.007 of the exponent at which the integral stops to exist).
DIVERGENCE_RATIO = 0.995

# An integrand returns its values and a bound on the error of each (zero when it is exact).
Integrand = Callable[[Array], tuple[Array, Array]]


@dataclass(frozen=True)
class Quadrature(Record):
    """A number found by quadrature and a bound on its absolute error (0: a closed form)."""

    value: float
    error: float


@dataclass(frozen=True)
class Chain:
    """Octaves on one side of a special point: panel k lies between d_k and d_{k+1} from `anchor`.

    `distances` falls by halves (towards the anchor) or doubles (towards infinity). A power law
    contributes a geometric series: what is beyond the last panel can be extrapolated, and a series
    that does not fall is an integral that does not exist. `closed`: nothing is extrapolated.
    """

    anchor: float
    side: int  # +1: right of the anchor, −1: left
    distances: Array
    closed: bool = False


@dataclass(frozen=True)
class Cells:
    """The panels after refinement, in x: ends, and the integrand at the `FINE` Gauss points."""

    left: Array
    right: Array
    values: Array


@dataclass(frozen=True)
class Integral:
    """The integral, the part of it extrapolated beyond the last octave of each chain, the cells."""

    estimate: Quadrature
    beyond: tuple[float, ...]
    cells: Cells


@cache
def gauss(n: int) -> tuple[Array, Array]:
    """Nodes and weights of the n-point Gauss-Legendre rule on [−1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    return nodes, weights


def on_panels(low: Array, high: Array, nodes: Array) -> tuple[Array, Array]:
    """The nodes of a rule on every panel (..., n), and half the width of each panel (..., 1)."""
    half = (high - low)[..., None] / 2
    return (low + high)[..., None] / 2 + half * nodes, half


# (low, high, what the panels carry, whether it is the last look) → which to halve, and what the
# left and the right halves then carry (last axis: panels).
Carried = tuple[AnyArray, ...]
Examine = Callable[[Array, Array, Carried, bool], tuple[Flags, Carried, Carried]]


def refine(
    low: Array, high: Array, examine: Examine, *, carried: Carried = (), rounds: int
) -> tuple[Array, Array]:
    """Halve panels as long as `examine` asks for it; the panels that nobody has looked at since."""
    for round_ in range(rounds):
        split, left, right = examine(low, high, carried, round_ == rounds - 1)
        middle = ((low + high) / 2)[split]
        low = np.concatenate([low[split], middle])
        high = np.concatenate([middle, high[split]])
        carried = tuple(
            np.concatenate([a[..., split], b[..., split]], axis=-1) for a, b in zip(left, right)
        )
        if low.size == 0:
            break
    return low, high


@cache
def _to_series() -> Array:
    """(FINE, FINE): values at the Gauss points to Legendre coefficients."""
    nodes, weights = gauss(FINE)
    basis = np.polynomial.legendre.legvander(nodes, FINE - 1)
    return np.asarray((basis * weights[:, None]).T * (np.arange(FINE) + 0.5)[:, None])


def legendre_series(values: Array) -> Array:
    """Coefficients (FINE, cells) of the polynomials through values (cells, FINE)."""
    return np.asarray(_to_series() @ values.T)


@cache
def _to_the_ends() -> Array:
    """Weights (FINE, 2) that extrapolate values at the Gauss points to t = −1 and t = 1."""
    at_ends = np.polynomial.legendre.legvander(np.array([-1.0, 1.0]), FINE - 1)
    return np.asarray((at_ends @ _to_series()).T)


def integrate(integrand: Integrand, chains: tuple[Chain, ...]) -> Integral:
    """Integrate over all chains together, halving every panel whose two rules disagree.

    The error is the sum over panels of 3|fine − coarse| (a bound for the *coarse* rule), the
    integrand's own error, the uncertainty of the extrapolated ends, and rounding.
    """
    found = _Sums(integrand, chains)
    octaves = np.arange(len(found.sums))
    start = np.concatenate([c.distances[:-1] for c in chains])
    stop = np.concatenate([c.distances[1:] for c in chains])
    refine(start, stop, found.examine, carried=(octaves,), rounds=MAX_ROUNDS + 1)
    return found.integral()


class _Sums:
    """The sums of the panels of all chains, octave by octave."""

    def __init__(self, integrand: Integrand, chains: tuple[Chain, ...]) -> None:
        self.integrand = integrand
        self.chains = chains
        sizes = [c.distances.size - 1 for c in chains]
        self.ends = np.cumsum(sizes)[:-1]
        self.anchor = np.repeat([c.anchor for c in chains], sizes)
        self.side = np.repeat([c.side for c in chains], sizes)
        self.sums = np.zeros(sum(sizes))
        self.errors = np.zeros(sum(sizes))
        self.kept: list[tuple[Array, Array, Array]] = []
        self.done = 0.0
        self.count = 0

    def examine(
        self, start: Array, stop: Array, carried: Carried, last: bool
    ) -> tuple[Flags, Carried, Carried]:
        """Add the panels on which the two rules agree; the others are to be halved."""
        octave = carried[0]
        p = self.anchor[octave]
        s = self.side[octave]
        centre = (start + stop) / 2
        half = np.abs(stop - start) / 2
        fine, noise, values = _rule(self.integrand, p, s, centre, half, FINE)
        coarse, coarse_noise, _ = _rule(self.integrand, p, s, centre, half, COARSE)
        error = 3 * np.abs(fine - coarse) + _unseen(self.integrand, p, s, centre, half, values)
        whole = self.done + float(np.abs(fine).sum())
        self.count += fine.size
        wide = half > 64 * EPS * np.maximum(np.abs(p + s * centre), np.abs(centre))
        # Where the error is mere noise, halving does not help; unless the noise itself is local.
        local = np.abs(noise - coarse_noise) > np.maximum(0.5 * noise, 1e-9 * whole)
        split = (error + noise > TOLERANCE * whole) & ((error > 2 * noise) | local) & wide
        if last or self.count > MAX_PANELS:
            split[:] = False
        keep = ~split
        self.done += float(np.abs(fine[keep]).sum())
        np.add.at(self.sums, octave[keep], fine[keep])
        np.add.at(self.errors, octave[keep], (error + noise)[keep])
        ends = (p + s * (centre - half), p + s * (centre + half))
        order = np.where(s[:, None] > 0, values, values[:, ::-1])
        self.kept.append((np.minimum(*ends)[keep], np.maximum(*ends)[keep], order[keep]))
        return split, carried, carried

    def integral(self) -> Integral:
        """The sums of the chains, each extrapolated beyond its last octave."""
        sums = np.split(self.sums, self.ends)
        errors = np.split(self.errors, self.ends)
        size = sum(float(np.abs(t).sum()) for t in sums)
        parts = [_close(t, e, size, c.closed) for t, e, c in zip(sums, errors, self.chains)]
        value = _add([part for part, _, _ in parts])
        error_sum = sum(e for _, e, _ in parts) + 64 * EPS * size
        left, right, samples = (np.concatenate(column) for column in zip(*self.kept))
        by_position = np.argsort(left, kind="stable")
        return Integral(
            Quadrature(value, error_sum if math.isfinite(value) else 0.0),
            tuple(beyond for _, _, beyond in parts),
            Cells(left[by_position], right[by_position], samples[by_position]),
        )


def _rule(
    integrand: Integrand, p: Array, s: Array, centre: Array, half: Array, n: int
) -> tuple[Array, Array, Array]:
    """The n-point rule on every panel: integrals, their noise, the values."""
    nodes, weights = gauss(n)
    x = p[:, None] + s[:, None] * (centre[:, None] + half[:, None] * nodes)
    values, noise = integrand(x)
    # x is rounded: over the panel that adds up to ε|x| times the variation of the integrand.
    rounded = EPS * np.abs(x).max(axis=1) * np.abs(np.diff(values, axis=1)).sum(axis=1)
    return half * (values @ weights), half * (noise @ weights) + rounded, values


def _unseen(
    integrand: Integrand, p: Array, s: Array, centre: Array, half: Array, values: Array
) -> Array:
    """Error that neither rule sees: a jump between the last Gauss point and the panel's end."""
    t = np.array([-1.0, 1.0]) * (1 - 1e-12)
    there, _ = integrand(p[:, None] + s[:, None] * (centre[:, None] + half[:, None] * t))
    missed = np.abs(there - values @ _to_the_ends()).sum(axis=1)
    return np.asarray(missed * half * (1 - gauss(FINE)[0][-1]))


def _close(terms: Array, errors: Array, size: float, closed: bool) -> tuple[float, float, float]:
    """Sum one chain and extrapolate beyond its last octave: (sum, error, part beyond).

    Last octaves that drown in the integrand's own noise are dropped and extrapolated over, and with
    them zeros that follow: there differences of a rounded function have no digits left.
    """
    if closed:
        return float(terms.sum()), float(errors.sum()), 0.0
    clear = (errors <= 0.25 * np.abs(terms)) | (errors <= 1e-12 * size)
    informative = clear & (terms != 0)
    if not informative.any():  # the integrand is 0 wherever its digits can be told
        informative = clear
    last = int(np.flatnonzero(informative)[-1]) + 1 if informative.any() else 0
    if clear[last:].all():
        last = terms.size
    inner = float(terms[:last].sum())
    inner_error = float(errors[:last].sum())
    if last < 2:
        return inner, float((np.abs(terms) + errors).sum()), 0.0
    beyond, doubt = _beyond(terms[:last], size)
    if last < terms.size:
        doubt += abs(beyond)
    return inner + beyond, inner_error + doubt, beyond


def _beyond(terms: Array, size: float) -> tuple[float, float]:
    """Sum of the octaves after `terms` and its error: a geometric series, or infinite."""
    reach = min(8, terms.size - 1)
    end, before, far = (float(terms[-1 - back]) for back in (0, 1, reach))
    if 0 in (end, before, far) or abs(end) < 1e-18 * size:
        return 0.0, 0.0
    ratio = abs(end / before)
    mean_ratio = abs(end / far) ** (1 / reach)
    if min(ratio, mean_ratio) >= DIVERGENCE_RATIO and abs(end) > 1e-10 * size:
        return math.copysign(math.inf, end), 0.0
    if max(ratio, mean_ratio) >= DIVERGENCE_RATIO:
        return 0.0, 100 * abs(end)
    beyond = end * ratio / (1 - ratio)
    doubt = abs(beyond - end * mean_ratio / (1 - mean_ratio))
    # Slowly falling series may carry logarithms that two ratios do not show.
    doubt += 0.1 * abs(beyond) if ratio > 0.9 else 0.0
    return beyond, doubt


def _add(parts: list[float]) -> float:
    """Sum that is NaN when both +∞ and −∞ occur (an integral that does not exist)."""
    if math.inf in parts and -math.inf in parts:
        return math.nan
    return math.fsum(parts) if all(math.isfinite(p) for p in parts) else sum(parts)
