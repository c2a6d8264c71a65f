"""The likelihood along one natural parameter: the highest ℓ at each value of θ_j."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from privest.arrays import Array, Flags

# The others have climbed when BFGS foresees less than this: an error of 1e-8 in ℓ_p at an end. On
# the way there LOOSE times the square of what r is still off, which a step of Newton leaves too.
CLIMBED = 1e-8
LOOSE = 0.03
# ℓ above ℓ̂ by this (and by 1e-9 of it) is a better peak and no rounding.
HIGHER = 1e-6
LONGEST = 3.0  # step in a bounded working coordinate: a factor of e³, or tanh from 0 to .995
CLIMBS = 200
AT = 1e-6  # a coordinate this near its limit is at it
LOWER = 0.5  # of r: where the tangent leads lower by this than foreseen, other guesses are tried
FLATTEST = 1e-6  # of a unit diagonal: curvature below it is walked along and not jumped

Function = Callable[[Array], tuple[float, Array]]  # working t ↦ ℓ, ∂ℓ/∂t


class Scale(Protocol):
    """Natural parameters of the working ones; a Family is one."""

    def natural(self, t: Array) -> Array:
        """θ (p,)."""

    def natural_slopes(self, t: Array) -> Array:
        """∂θ/∂t (p, p)."""


class Peak(NamedTuple):
    """A maximum: t (p,), ℓ̂, −∇²ℓ (p, p) in working scale, and the limits (p, 2) of t."""

    t: Array
    height: float
    curvature: Array
    limits: Array


class Point(NamedTuple):
    """A value w of the walk: r = √(2(ℓ̂ − ℓ_p)) there, dr/dw, and where the climb ended."""

    w: float
    root: float
    slope: float
    t: Array


class Higher(Exception):
    """A point above the peak: the fit must be taken up again from there."""

    def __init__(self, t: Array, value: float) -> None:
        super().__init__("the profile found a higher likelihood")
        self.t, self.value = t, value


def safe_inverse(curvature: Array) -> Array:
    """A positive definite inverse of −∇²ℓ, whatever its sign: |λ| and at least FLATTEST of it."""
    size = np.sqrt(np.abs(curvature.diagonal()))
    size = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(curvature / size / size[:, None])
    scaled = vectors / size[:, None]
    return np.asarray((scaled / np.maximum(np.abs(values), FLATTEST)) @ scaled.T)


class Walk:
    """θ_j as a number w that is walked along, and the climb of all else at every w.

    Climbs begin where the tangent of the last two leads, with the metric that the last one left.
    `count` is of the evaluations; r is looked for that is `wanted`.

    Where θ_j depends on one working coordinate i alone (and rises or falls with it) w is ±t_i: no
    root to find, and its limits are those of t_i. Else w is θ_j itself, and t_i, on which it
    depends the most, is solved for (Newton; θ costs next to nothing).
    """

    def __init__(
        self, function: Function, scale: Scale, peak: Peak, j: int, wanted: float = 0.0
    ) -> None:
        self.scale, self.peak, self.j = scale, peak, j
        self.count, self.wanted, self._function = 0, wanted, function
        self.inverse = safe_inverse(peak.curvature)
        row = self._row(peak.t)
        self.pivot = int(np.argmax(np.abs(row) * np.sqrt(self.inverse.diagonal())))
        # A slope may vanish by chance at one point, so another is looked at.
        beside = np.delete(np.abs(row) + np.abs(self._row(peak.t + 0.1)), self.pivot)
        self.simple = not beside.any()
        self.others = np.delete(np.arange(len(row)), self.pivot)
        self.sign = math.copysign(1.0, row[self.pivot])
        everywhere = np.array([-math.inf, math.inf])
        self.farthest = np.sort(self.sign * peak.limits[self.pivot]) if self.simple else everywhere
        # The path of maxima leaves the peak along H⁻¹∇w.
        rises = self.rises(peak.t)
        along = self.inverse @ rises
        self.spread = math.sqrt(float(rises @ along))  # the standard error of w
        self.tangent = along / self.spread**2
        given = self.inverse - np.outer(along, along) / self.spread**2
        self.metric: Array = given[np.ix_(self.others, self.others)]
        self._first_metric = self.metric

    def function(self, t: Array) -> tuple[float, Array]:
        """ℓ, ∂ℓ/∂t; counted."""
        self.count += 1
        return self._function(t)

    def own(self, t: Array) -> Flags:
        """The coordinates on which θ_j depends, (p,)."""
        return np.asarray(self._row(t) != 0)

    def _row(self, t: Array) -> Array:
        row = self.scale.natural_slopes(t)[self.j]
        return np.where(np.abs(row) > 1e-9 * np.abs(row).max(), row, 0.0)

    def value(self, t: Array) -> float:
        """θ_j."""
        return float(self.scale.natural(t)[self.j])

    def at(self, t: Array) -> float:
        """w."""
        return float(self.sign * t[self.pivot]) if self.simple else self.value(t)

    def rises(self, t: Array) -> Array:
        """∂w/∂t (p,)."""
        if not self.simple:
            return self._row(t)
        return np.asarray(self.sign * np.eye(len(t))[self.pivot])

    def value_at(self, w: float, t: Array) -> float:
        """θ_j where w is a little farther than t."""
        return self.value(self._set(t, self.sign * w)) if self.simple else w

    def limit(self, side: int, t: Array) -> float:
        """θ_j as its coordinate goes to ±∞ if that is all it depends on; else where it came."""
        if self.simple:
            with np.errstate(all="ignore"):
                far = self.value(self._set(t, self.sign * side * math.inf))
            if not math.isnan(far):
                return far
        return self.value(t)

    def _set(self, t: Array, own: float) -> Array:
        moved = t.copy()
        moved[self.pivot] = own
        return moved

    def _placed(self, w: float, t: Array) -> Array | None:
        """t with a pivot at which θ_j has the value of w; None where there is none."""
        if self.simple:
            return self._set(t, self.sign * w)
        low, high = self.peak.limits[self.pivot]
        moved = t.copy()
        for _ in range(30):
            off = w - self.value(moved)
            if abs(off) <= 1e-12 * max(1.0, abs(w)):
                return moved
            rate = self._row(moved)[self.pivot]
            if not rate or not math.isfinite(off):
                return None
            moved[self.pivot] = min(max(moved[self.pivot] + off / rate, low), high)
        return None

    def climb(self, w: float, inside: Point, outside: Point | None) -> Point:
        """The maximum at w, from where the path's tangent leads; where that is low, from the points
        on either side too: what is highest.
        """
        found = self._best_guess(w, inside, outside)
        if found is None:
            return Point(w, math.inf, 0.0, inside.t)
        point = self._climbed(w, *found)
        if w != inside.w:
            self.tangent = (point.t - inside.t) / (w - inside.w)
        return point

    def climb_afresh(self, w: float, guesses: Sequence[Sequence[Array]]) -> Point | None:
        """The highest maximum at w to which the best guess of each kind leads, with nothing of what
        was learnt on the way to w: there may be another slope.
        """
        best: tuple[Point, Array] | None = None
        wide = np.diag(np.isfinite(self.peak.limits[self.others]).all(axis=1).astype(float))
        self.tangent = np.zeros_like(self.tangent)
        for kind in guesses:
            placed = [self._placed(w, np.clip(guess, *self.peak.limits.T)) for guess in kind]
            found = [(t, *self.function(t)) for t in placed if t is not None]
            start = max(found, key=lambda one: one[1], default=None)
            if start is None or not math.isfinite(start[1]):
                continue
            self.metric = self._first_metric + wide
            point = self._climbed(w, *start)
            if best is None or point.root < best[0].root:
                best = point, self.metric
        if best is None:
            return None
        self.metric = best[1]
        return best[0]

    def _climbed(self, w: float, t: Array, value: float, gradient: Array) -> Point:
        t, value, rate, foreseen = self._bfgs(w, t, value, gradient)
        if value > self.peak.height + max(HIGHER, 1e-9 * abs(self.peak.height)):
            raise Higher(t, value)
        root = math.sqrt(2 * max(self.peak.height - value - foreseen, 0.0))
        return Point(w, root, -rate / root if root else 0.0, t)

    def _best_guess(
        self, w: float, inside: Point, outside: Point | None
    ) -> tuple[Array, float, Array] | None:
        slope = inside.slope if math.isfinite(inside.slope) else 1 / self.spread
        hoped = inside.root + abs(slope * (w - inside.w)) + LOWER
        ahead = np.clip(inside.t + (w - inside.w) * self.tangent, *self.peak.limits.T)
        best = None
        for guess in [ahead, inside.t] if outside is None else [ahead, inside.t, outside.t]:
            t = self._placed(w, guess)
            if t is None:
                continue
            value, gradient = self.function(t)
            if math.isfinite(value) and (best is None or value > best[1]):
                best = t, value, gradient
            if best is not None and 2 * (self.peak.height - best[1]) <= hoped**2:
                break
        return best

    def _reduced(self, t: Array, gradient: Array) -> tuple[Array, float]:
        """The gradient over the others along θ_j = w, and ∂ℓ_p/∂w (envelope theorem)."""
        row = self.rises(t)
        rate = gradient[self.pivot] / row[self.pivot]
        return (gradient - rate * row)[self.others], float(rate)

    def _bfgs(
        self, w: float, t: Array, value: float, gradient: Array
    ) -> tuple[Array, float, float, float]:
        """Climb over the others, as far as is needed to see how far off the end is; t, ℓ, ∂ℓ_p/∂w
        and how much higher the maximum is foreseen to be.
        """
        slope, rate = self._reduced(t, gradient)
        low, high = self.peak.limits[self.others].T
        for _ in range(CLIMBS):
            u = t[self.others]
            own, step = _inwards(self.metric, slope, u <= low + AT, u >= high - AT)
            foreseen = float(own @ step) / 2
            if foreseen <= self._enough(value + foreseen):
                break
            bounded = np.abs(np.where(np.isfinite(low) | np.isfinite(high), step, 0.0))
            step = step / max(1.0, bounded.max() / LONGEST)
            step = step * _reach(u, step, low, high)
            taken = self._line(w, t, value, own, step)
            if taken is None:
                foreseen = 0.0
                break
            t, value, gradient = taken
            before, (slope, rate) = slope, self._reduced(t, gradient)
            self.metric = _updated(self.metric, t[self.others] - u, before - slope)
        # Not all climbed: along the path, and not with the others held, the error is a square.
        return t, value, rate + float(own @ self.tangent[self.others]), foreseen

    def _enough(self, value: float) -> float:
        """What may be left to climb where ℓ_p is about `value`."""
        if value > self.peak.height:
            return CLIMBED  # a higher peak, or what is left of a flat one
        off = math.sqrt(2 * (self.peak.height - value)) - self.wanted
        return max(CLIMBED, LOOSE * min(off * off, 1.0))

    def _line(
        self, w: float, t: Array, value: float, slope: Array, step: Array
    ) -> tuple[Array, float, Array] | None:
        """Halve the step until ℓ rises enough (Armijo); None where nothing rises."""
        low, high = self.peak.limits[self.others].T
        for _ in range(40):
            moved = t.copy()
            moved[self.others] = np.clip(t[self.others] + step, low, high)
            placed = self._placed(w, moved)
            if placed is not None:
                found, gradient = self.function(placed)
                gain = float(slope @ (placed - t)[self.others])
                if math.isfinite(found) and found >= value + 1e-4 * gain:
                    return placed, found, gradient
            step = step / 2
        return None


def _inwards(metric: Array, slope: Array, least: Flags, most: Flags) -> tuple[Array, Array]:
    """The gradient and the quasi-Newton step of what does not lead beyond a limit.

    What is held at one is known: the metric of the others is as given it, or steps go along ridges
    that it cuts off.
    """
    held = (least & (slope < 0)) | (most & (slope > 0))
    while True:
        free = ~held
        given = metric[np.ix_(free, free)]
        if held.any() and free.any():
            cross = metric[np.ix_(held, free)]
            given = given - cross.T @ np.linalg.solve(metric[np.ix_(held, held)], cross)
        step: Array = np.zeros_like(slope)
        step[free] = given @ slope[free]
        beyond = (least & (step < 0)) | (most & (step > 0))
        if not beyond.any():
            return np.where(held, 0.0, slope), step
        held = held | beyond


def _reach(u: Array, step: Array, low: Array, high: Array) -> float:
    """The part of a step that meets no limit: cut off in one coordinate it would leave a ridge."""
    room = np.where(step > 0, high - u, u - low)[step != 0]
    return float(np.min(room / np.abs(step[step != 0]), initial=1.0))


def _updated(metric: Array, moved: Array, fell: Array) -> Array:
    """BFGS update of the inverse; left as it is where the curvature is not that of a maximum."""
    curvature = float(moved @ fell)
    if not curvature > 1e-10 * float(np.linalg.norm(moved) * np.linalg.norm(fell)):
        return metric
    part = np.eye(len(moved)) - np.outer(moved, fell) / curvature
    return np.asarray(part @ metric @ part.T + np.outer(moved, moved) / curvature)
