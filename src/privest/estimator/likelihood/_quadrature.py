"""Any channel: ∫ p(z|y) N(y; η, σ²) dy by panels in y; among them random gains z = Dy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, Index
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, Terms, likelihood_of
from privest.mechanism import Channel, Gain
from privest.noise.quadrature import Carried, gauss, on_panels, refine

Function = Callable[[Array], Array]

RULE = 16
# A panel is halved until both rules agree to this part of its largest value (times its width, or
# σ/64 if it is narrower: what differences of rounding decide is left alone).
TOLERANCE = 1e-13
# Below e^-DEPTH of the largest value nothing is resolved; below e^-CUT nothing is added.
DEPTH, CUT = 800.0, 45.0
SHRINKING = 12  # towards an end of the support panels shrink to σ/2^SHRINKING: deep tails sit there
REACH = 300.0  # at most so many σ of grid on each side of noise that is not bounded
WINDOW = 10.0  # σ between a point r and an open end of the grid
DEGREE = 14  # of the polynomials of a table
# A panel of it is halved until its last Chebyshev coefficients are below this (times 1 + |ℓ|).
SMOOTH = 1e-13
MARGIN = 30.0  # the table goes this many σ beyond bounded noise


class Smear:
    """ℓ(r) = ln ∫ e^g N(x; r, σ²) dx by Gauss-Legendre panels no wider than σ, made once.

    Panels are halved until 16 points resolve e^g, until e^g has fallen by e^-90 or 300σ are passed;
    outside a window around the largest integrand is used. Error 1e-13, and 1e-9 in the window.
    """

    g: Function
    sd: float
    support: tuple[float, float]
    x: Array
    log_weight: Array

    def __init__(
        self, g: Function, sd: float, support: tuple[float, float], points: Iterable[float]
    ) -> None:
        self.g, self.sd, self.support = g, sd, support
        self.bounded: bool = all(math.isfinite(end) for end in support)
        self.x, self.log_weight = self._grid(sorted({p for p in points if math.isfinite(p)}))
        lo, hi = support
        self.low: float = lo if math.isfinite(lo) else float(self.x[0]) + WINDOW * sd
        self.high: float = hi if math.isfinite(hi) else float(self.x[-1]) - WINDOW * sd

    def _grid(self, points: list[float]) -> tuple[Array, Array]:
        lo, hi = self.support
        inside = [p for p in points if lo < p < hi] or [
            min(max(0.0, lo + self.sd), hi - self.sd) if self.bounded else max(0.0, lo)
        ]
        peak = float(np.max(self._safe(np.array(inside))))
        first, last = self._end(inside[0], -1, peak), self._end(inside[-1], 1, peak)
        special = np.array([first, *(p for p in inside if first < p < last), last])
        steps = min((last - first) / 2, self.sd) * 0.5 ** np.arange(SHRINKING)
        edges = [special, first + steps, last - steps]
        for start, stop in itertools.pairwise(special):
            edges.append(np.linspace(start, stop, 1 + math.ceil((stop - start) / self.sd)))
        cuts = np.unique(np.concatenate(edges))
        kept: list[tuple[Array, Array]] = []

        def examine(
            left: Array, right: Array, carried: Carried, last: bool
        ) -> tuple[Flags, Carried, Carried]:
            nonlocal peak
            fine, height = self._panel_sums(left, right)
            middle = (left + right) / 2
            halves = self._panel_sums(left, middle), self._panel_sums(middle, right)
            both = sum(mass * np.exp(np.clip(top - height, -700, 700)) for mass, top in halves)
            rough = np.abs(both - fine) > TOLERANCE * np.maximum(right - left, self.sd / 64)
            peak = max(peak, float(height.max()))
            split = rough & (height > peak - DEPTH)
            kept.append((left[~split], right[~split]))
            return split, (), ()

        kept.append(refine(cuts[:-1], cuts[1:], examine, rounds=12))
        left, right = (np.concatenate(side) for side in zip(*kept))
        order = np.argsort(left)
        nodes, weights = gauss(RULE)
        x, half = on_panels(left[order], right[order], nodes)
        log_weight = self._safe(x) + np.log(half * weights)
        live = np.isfinite(log_weight)
        return x[live], log_weight[live]

    def _end(self, point: float, side: int, peak: float) -> float:
        """Where the grid ends on one side: the support, a fall by e^-CUT, or the reach."""
        end = self.support[0] if side < 0 else self.support[1]
        if math.isfinite(end):
            return end
        distance = self.sd * (2 * WINDOW + 2.0 ** np.arange(1 + math.ceil(math.log2(REACH))))
        fallen = self._safe(point + side * distance) < peak - 2 * CUT
        return float(point + side * distance[np.argmax(fallen) if fallen.any() else -1])

    def _safe(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            value = np.asarray(self.g(x), dtype=np.float64)
        return np.where(np.isnan(value), -np.inf, value)

    def _panel_sums(self, left: Array, right: Array) -> tuple[Array, Array]:
        nodes, weights = gauss(RULE)
        x, half = on_panels(left, right, nodes)
        value = self._safe(x)
        top = np.maximum(value.max(axis=1), -1e300)
        with np.errstate(under="ignore"):
            return (np.exp(value - top[:, None]) @ weights) * half[:, 0], top

    def at(self, r: Array) -> tuple[Array, Array, Array]:
        """ℓ, ℓ', −ℓ'' at points r (1-d) that lie close together: idle nodes are left out.

        ℓ' = E[x − r]/σ², −ℓ'' = 1/σ² − Var[x]/σ⁴.
        """
        first, last = float(r.min()), float(r.max())
        near = np.maximum(np.maximum(first - self.x, self.x - last), 0.0) / self.sd
        far = np.maximum(np.abs(self.x - first), np.abs(self.x - last)) / self.sd
        counts = self.log_weight - near**2 / 2 > (self.log_weight - far**2 / 2).max() - CUT
        return self._sum(self.x[counts], self.log_weight[counts], r)

    def beyond(self, r: Array) -> tuple[Array, Array, Array]:
        if self.bounded:
            parts = [self.at(r[i : i + 1]) for i in range(r.size)]
            value, slope, curvature = (np.array([p[k][0] for p in parts]) for k in range(3))
            return value, slope, curvature
        lo, hi = self.support
        mode = self._mode(r[:, None])
        steps = self.sd * 2.0 ** np.arange(-5, 5)
        edges = np.clip(mode + np.concatenate([-steps[::-1], [0.0], steps]), lo, hi)
        nodes, weights = gauss(RULE)
        x, half = on_panels(edges[:, :-1], edges[:, 1:], nodes)
        with np.errstate(divide="ignore"):
            log_weight = self._safe(x) + np.log(half * weights)
        return self._sum(x.reshape(len(r), -1), log_weight.reshape(len(r), -1), r)

    def _mode(self, r: Array) -> Array:
        """Where e^g N(·; r, σ²) is largest, between r and the grid: octaves, then thirds."""
        lo, hi = self.support
        away = self.sd * np.concatenate([[0.0], 2.0 ** np.arange(-3, 40, 0.25)])

        def size(x: Array) -> Array:
            return self._safe(x) - ((x - r) / self.sd) ** 2 / 2

        right = r > self.high
        tried = np.where(right, np.maximum(r - away, self.high), np.minimum(r + away, self.low))
        tried = np.clip(tried, lo, hi)
        best = size(tried).argmax(axis=1)[:, None]
        a = np.take_along_axis(tried, np.maximum(best - 1, 0), axis=1)
        b = np.take_along_axis(tried, np.minimum(best + 1, away.size - 1), axis=1)
        for _ in range(30):
            c, d = a + (b - a) / 3, b - (b - a) / 3
            up = size(c) < size(d)
            a, b = np.where(up, c, a), np.where(up, b, d)
        middle: Array = (a + b) / 2
        return middle

    def _sum(self, x: Array, log_weight: Array, r: Array) -> tuple[Array, Array, Array]:
        shift = (x - r[:, None]) / self.sd
        exponent = log_weight - shift**2 / 2
        top = exponent.max(axis=1, keepdims=True)
        with np.errstate(under="ignore"):
            part = np.exp(exponent - top)
            total = part.sum(axis=1)
            mean = (part * shift).sum(axis=1) / total
            spread = (part * (shift - mean[:, None]) ** 2).sum(axis=1) / total
        value = top[:, 0] + np.log(total) - math.log(self.sd * math.sqrt(2 * math.pi))
        return value, mean / self.sd, (1 - spread) / self.sd**2


class Table:
    """ℓ, ℓ', −ℓ'' of a `Smear` in panels of degree 14, to `error`; direct sums outside them."""

    error: float
    mode: float
    concave: bool

    def __init__(self, smear: Smear) -> None:
        self.smear = smear
        margin = MARGIN * smear.sd if smear.bounded else 0.0
        low, high = smear.low - margin, smear.high + margin
        cuts = np.linspace(low, high, 1 + math.ceil((high - low) / (2 * smear.sd)))
        todo = list(itertools.pairwise(cuts.tolist()))
        points = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
        to_chebyshev = np.linalg.inv(np.polynomial.chebyshev.chebvander(points, DEGREE))
        found = []
        while todo:
            left, right = todo.pop()
            middle, half = (left + right) / 2, (right - left) / 2
            value = smear.at(middle + half * points)[0]
            coefficients = to_chebyshev @ value
            rough = np.abs(coefficients[-2:]).max() > SMOOTH * (1 + np.abs(value).max())
            if rough and half > 1e-4 * smear.sd:
                todo += [(left, middle), (middle, right)]
                continue
            found.append((left, right, np.polynomial.chebyshev.cheb2poly(coefficients)))
        found.sort(key=lambda panel: panel[0])
        self.edges: Array = np.array([left for left, _, _ in found] + [found[-1][1]])
        # cheb2poly drops zeros at the end
        self.coefficients: Array = np.array(
            [np.pad(c, (0, DEGREE + 1 - len(c))) for _, _, c in found]
        ).T.copy()
        self.error, self.mode, self.concave = self._examine()

    def _examine(self) -> tuple[float, float, bool]:
        error, mode, best, concave = 0.0, 0.0, -math.inf, True
        for left, right in itertools.pairwise(self.edges.tolist()):
            r = left + (right - left) * np.array([0.03, 0.37, 0.5, 0.81])
            value, _, curvature = self.smear.at(r)
            off = np.abs(self(r, NUMPY)[0] - value) / (1 + np.abs(value))
            error = max(error, float(off.max()))
            concave = concave and bool((curvature > -1e-9 / self.smear.sd**2).all())
            if value.max() > best:
                best, mode = float(value.max()), float(r[value.argmax()])
        return error, mode, concave

    def __call__(self, r: Array, backend: Backend) -> tuple[Array, Array, Array]:
        xp = backend.xp
        edges = xp.asarray(self.edges)
        panel = xp.searchsorted(edges, r, side="right") - 1
        outside = (panel < 0) | (panel >= len(self.edges) - 1)
        panel = xp.clip(panel, 0, len(self.edges) - 2)
        left, right = edges[panel], edges[panel + 1]
        half = (right - left) / 2
        t = xp.clip((r - left) / half - 1, -1.0, 1.0)
        value = slope = bend = xp.zeros_like(t)
        for row in xp.asarray(self.coefficients)[::-1]:
            bend = bend * t + slope
            slope = slope * t + value
            value = value * t + row[panel]
        slope, curvature = slope / half, -2 * bend / (half * half)
        if xp.any(outside):
            direct = self.smear.beyond(backend.host(r[outside]))
            for array, own in zip((value, slope, curvature), direct):
                array[outside] = xp.asarray(own)
        return value, slope, curvature


# Where to look for the largest integrand, in σ from η.
FURTHER = 2.0 ** np.arange(3.75, 6.25, 0.25)
LOOK = np.concatenate([-FURTHER[::-1], np.arange(-12, 12.25, 0.25), FURTHER])
# Panels around it, in σ: halving towards it, 10 Gauss points each.
STEPS = 2.0 ** np.arange(-5, 5)
EDGES = np.concatenate([-STEPS[::-1], [0.0], STEPS])
POINTS = 10
AT_ONCE = 2**19  # integrand values held at a time

Breaks = tuple[float, ...] | Callable[[Array], Array]


class QuadratureLikelihood(Likelihood):
    """ℓ(z, η) from ln p(z|y) alone: Gauss-Legendre panels about the largest integrand.

    Kinks, jumps and narrow places of p(z|·) belong into `breaks`: values of y, or a function that
    gives them for a column of releases. 100 times as slow as a closed form: the last resort.
    """

    several_maxima = True

    def __init__(self, channel: Channel, variance: ArrayLike, breaks: Breaks = ()) -> None:
        super().__init__(variance)
        self.channel = channel
        self.breaks = breaks

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        z, eta, variance = np.broadcast_arrays(z, eta, self.variance)
        flat = [np.ravel(a) for a in (z, eta, np.sqrt(variance))]
        count = self._breaks(np.zeros((1, 1))).shape[1]
        step = max(1, AT_ONCE // (LOOK.size + (EDGES.size + count) * POINTS))
        parts = [
            self._sums(*(a[at : at + step] for a in flat)) for at in range(0, flat[0].size, step)
        ]
        value, mean, spread = (
            np.concatenate([part[k] for part in parts]).reshape(z.shape) for k in range(3)
        )
        sd = np.sqrt(variance)
        return Terms(value, mean / sd, (1 - spread) / variance, 1 / variance)

    def _sums(self, z: Array, eta: Array, sd: Array) -> tuple[Array, Array, Array]:
        z, eta, sd = z[:, None], eta[:, None], sd[:, None]
        breaks = (self._breaks(z) - eta) / sd
        tried = np.concatenate([np.broadcast_to(LOOK, (len(z), LOOK.size)), breaks], axis=1)
        best = self._size(z, eta, sd, tried).argmax(axis=1)[:, None]
        top = np.take_along_axis(tried, best, axis=1)
        edges = top + EDGES
        if breaks.size:
            edges = np.sort(np.concatenate([edges, breaks], axis=1), axis=1)
        nodes, weights = gauss(POINTS)
        x, half = on_panels(edges[:, :-1], edges[:, 1:], nodes)
        x = x.reshape(len(z), -1)
        with np.errstate(divide="ignore", under="ignore"):
            size = self._size(z, eta, sd, x) + np.log(half * weights).reshape(len(z), -1)
            high = np.maximum(size.max(axis=1, keepdims=True), -1e300)
            part = np.exp(size - high)
            total = part.sum(axis=1)
            some = np.where(total > 0, total, 1.0)
            mean = (part * x).sum(axis=1) / some
            spread = (part * (x - mean[:, None]) ** 2).sum(axis=1) / some
            value = high[:, 0] + np.log(total) - 0.5 * math.log(2 * math.pi)
        return value, mean, spread

    def _breaks(self, z: Array) -> Array:
        given = self.breaks(z) if callable(self.breaks) else np.array(self.breaks, ndmin=2)
        return np.asarray(given, dtype=np.float64)

    def _size(self, z: Array, eta: Array, sd: Array, x: Array) -> Array:
        """ln p(z|y) N(y; η, σ²) up to a constant, at y = η + σx."""
        y = eta + sd * x
        with np.errstate(all="ignore"):
            value = self.channel.log_density(np.broadcast_to(z, y.shape), y)
        return np.where(np.isnan(value), -np.inf, value) - x**2 / 2


@likelihood_of.register
def _(channel: Channel, variance: ArrayLike) -> Likelihood:
    return QuadratureLikelihood(channel, variance)


# p(z|y) = f(z/y)/|y| is as wide in ln|y| as f in ln|D|: panels of octaves around |z| resolve it.
OCTAVES = 2.0 ** np.arange(-4, 5)
# From there to σ it falls like 1/|y|: panels that grow by one factor, 4 if σ is 10⁶ times as far.
GROWTH = np.arange(1, 11) / 10
SPREAD = (1e-10, 1e-4, 0.02, 0.25, 0.75, 0.98, 1 - 1e-4, 1 - 1e-10)  # of a narrow gain
LEAST = 1e-140  # |y| and |z| below it count as this
NEAR_EDGE = 64.0  # so many ε from σ the panels around the largest integrand do that already


class GainLikelihood(QuadratureLikelihood):
    """ℓ(z, η) for z = Dy; breaks: 0, ±ε, ±2^k|z|, z/d for special points and quantiles d of D."""

    def __init__(self, channel: Gain, variance: ArrayLike) -> None:
        self.edge = channel.truncate or 0.0
        law = channel.law
        self.bounded = bool(np.isfinite(law.support).any())
        special = {*law.landmarks, *law.jumps, *law.support, *law.quantile(SPREAD)}
        self.inverses = np.array([1.0 / d for d in special if d != 0])
        super().__init__(channel, variance, self._places)
        self.deviation = float(np.sqrt(self.variance.max()))
        self.fits = 30 if self.edge > 0 else 15  # type: ignore[misc] # as for 1/g

    def _places(self, z: Array) -> Array:
        size = np.abs(z) * OCTAVES
        ends = np.broadcast_to([-self.edge, 0.0, self.edge], (len(z), 3))
        near = [-size, size, z * self.inverses, ends]
        if self.deviation <= NEAR_EDGE * self.edge:
            return np.concatenate(near, axis=1)
        start = np.maximum(np.maximum(np.abs(z), self.edge), LEAST)
        far = start * np.maximum(self.deviation / start, 1.0) ** GROWTH
        return np.concatenate([*near, -far, far], axis=1)

    def possible(self, z: Array, backend: Backend = NUMPY) -> Flags:
        return np.asarray((z != 0) | (self.edge > 0))

    def rough(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Array:
        """ln p(z|y) at y = η, as if σ = 0; ℓ itself for a bounded gain."""
        if self.bounded:
            return self.value(z, eta)
        least = np.where(eta < 0, -LEAST, LEAST)
        with np.errstate(over="ignore"):
            return self.channel.log_density(z, np.where(np.abs(eta) < LEAST, least, eta))

    def hump(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Index:
        return np.asarray(eta > 0, dtype=np.intp)

    def centre(self, z: Array, backend: Backend = NUMPY) -> Array:
        return np.where(z < 0, -1.0, 1.0) * np.maximum(np.abs(z), self.edge)


@likelihood_of.register
def _(channel: Gain, variance: ArrayLike) -> Likelihood:
    return GainLikelihood(channel, variance)
