"""Between natural parameters θ and working ones t, which may be any real numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from privest.arrays import Array
from privest.dynamics._identification._levinson import levinson, levinson_slopes
from privest.errors import InvalidInput

# Of |t| for partial autocorrelations tanh t: beyond it 1 − |r| is below 3e-7, and no stream that
# fits in memory tells such a process from one with a unit root.
STEEPEST = 8.0


class Scale(Protocol):
    """Some parameters that go together: θ = natural(t) for every real t."""

    def natural(self, t: Array) -> Array:
        """θ."""

    def slopes(self, t: Array) -> Array:
        """∂θ_i/∂t_j."""

    def working(self, theta: Array, names: Sequence[str]) -> Array:
        """t; InvalidInput where no t leads there."""

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """Of t, as people write them."""

    def limits(self, size: int) -> Array:
        """(size, 2): beyond them θ does not change any more."""


class Free:
    """θ = unit·t. The unit is that of the data, so that t has a size of the order of one."""

    def __init__(self, unit: float | Array = 1.0) -> None:
        self.unit = unit

    def natural(self, t: Array) -> Array:
        """θ."""
        return np.asarray(self.unit * t)

    def slopes(self, t: Array) -> Array:
        """unit·I."""
        return np.asarray(np.diag(np.broadcast_to(self.unit, t.shape)))

    def working(self, theta: Array, names: Sequence[str]) -> Array:
        """t."""
        del names
        return np.asarray(theta / self.unit)

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """The same."""
        return tuple(names)

    def limits(self, size: int) -> Array:
        """None."""
        return unlimited(size)


class Positive:
    """θ = exp t: variances."""

    def natural(self, t: Array) -> Array:
        """θ."""
        return np.asarray(np.exp(t))

    def slopes(self, t: Array) -> Array:
        """θ on the diagonal."""
        return np.diag(np.exp(t))

    def working(self, theta: Array, names: Sequence[str]) -> Array:
        """log θ."""
        for name, value in zip(names, theta):
            if not value > 0:
                raise InvalidInput(f"{name} must be > 0; received {value:g}.")
        return np.asarray(np.log(theta))

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """The logarithms."""
        return tuple(f"log {name}" for name in names)

    def limits(self, size: int) -> Array:
        """None of its own: they depend on the data."""
        return unlimited(size)


class Between:
    """low < θ < high, θ = low + (high − low)(1 + tanh t)/2; (−1, 1) for a correlation."""

    def __init__(self, low: float = -1.0, high: float = 1.0) -> None:
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise InvalidInput(f"an interval needs finite low < high; received ({low}, {high}).")
        self.low, self.high = low, high

    def natural(self, t: Array) -> Array:
        """θ."""
        return np.asarray(self.low + (self.high - self.low) * (1.0 + np.tanh(t)) / 2)

    def slopes(self, t: Array) -> Array:
        """(high − low)/(2 cosh² t)."""
        return np.diag((self.high - self.low) / 2 / np.cosh(t) ** 2)

    def working(self, theta: Array, names: Sequence[str]) -> Array:
        """artanh of where θ lies."""
        for name, value in zip(names, theta):
            if not self.low < value < self.high:
                raise InvalidInput(
                    f"{name} must lie between {self.low:g} and {self.high:g}; received {value:g}."
                )
        return np.asarray(np.log((theta - self.low) / (self.high - theta)) / 2)

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """For a correlation artanh."""
        if (self.low, self.high) == (-1.0, 1.0):
            return tuple(f"artanh {name}" for name in names)
        return tuple(f"logit {name}" for name in names)

    def limits(self, size: int) -> Array:
        """±8."""
        return np.tile([-STEEPEST, STEEPEST], (size, 1))


class Stationary:
    """Coefficients of 1 − φ_1B − … − φ_pB^p with all roots outside the unit circle.

    Partial autocorrelations r_j = tanh t_j, and Durbin-Levinson. With `moving` the polynomial is
    1 + θ_1B + … + θ_qB^q, and θ_1 = tanh t_1 at order 1: every invertible moving average is
    reached, and no other.

    >>> Stationary().natural(np.arctanh([0.5, -0.2])).round(12).tolist()
    [0.6, -0.2]
    """

    def __init__(self, moving: bool = False, count: int = 0) -> None:
        self.count = count  # of autocorrelations that the family asks for, at the same t
        self.sign = -1.0 if moving else 1.0
        self.symbol = "ma" if moving else "ar"

    def natural(self, t: Array) -> Array:
        """φ (or θ)."""
        phi = levinson(tuple(np.tanh(self.sign * t).tolist()), self.count).phi
        return self.sign * np.array(phi)

    def slopes(self, t: Array) -> Array:
        """∂φ/∂t."""
        partial = np.tanh(self.sign * t)
        if len(t) == 1:
            return np.asarray(1.0 - partial**2)[:, None]
        by = levinson_slopes(tuple(partial.tolist()), self.count).phi
        return np.asarray(by * (1.0 - partial**2))  # the two signs cancel

    def working(self, theta: Array, names: Sequence[str]) -> Array:
        """artanh of the partial autocorrelations, by the recursion backwards."""
        phi, partial = self.sign * np.asarray(theta, dtype=float), np.zeros(len(theta))
        for k in range(len(theta) - 1, -1, -1):
            r = phi[k]
            if not abs(r) < 1:
                kind = "invertible" if self.sign < 0 else "stationary"
                raise InvalidInput(
                    f"{', '.join(names)} = {', '.join(f'{value:g}' for value in theta)} are not "
                    f"the coefficients of a {kind} process: a root of their polynomial lies on "
                    "or within the unit circle."
                )
            partial[k] = r
            phi = (phi[:k] + r * phi[:k][::-1]) / (1.0 - r * r)
        return self.sign * np.arctanh(partial)

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """The j-th partial autocorrelation."""
        if len(names) == 1:
            return (f"artanh {names[0]}",)
        return tuple(f"artanh {self.symbol} partial {j}" for j in range(1, len(names) + 1))

    def limits(self, size: int) -> Array:
        """±8."""
        return np.tile([-STEEPEST, STEEPEST], (size, 1))


class Scales:
    """The scales of all parameters, one group after the other: (scale, how many)."""

    def __init__(self, names: Sequence[str], groups: Sequence[tuple[Scale, int]]) -> None:
        self.names = tuple(names)
        self.parts: list[tuple[Scale, slice]] = []
        first = 0
        for scale, size in groups:
            own = slice(first, first + size)
            before = self.parts[-1][0] if self.parts else None
            if isinstance(scale, Positive) and isinstance(before, Positive):
                own = slice(self.parts.pop()[1].start, own.stop)  # as one: it is faster
            if own.stop > own.start:
                self.parts.append((scale, own))
            first += size
        if first != len(self.names):
            raise InvalidInput(f"{first} scales for {len(self.names)} parameters.")
        self.labels = tuple(
            label for scale, own in self.parts for label in scale.labels(self.names[own])
        )

    def natural(self, t: Array) -> Array:
        """θ (p,)."""
        theta = np.empty(len(t))
        for scale, own in self.parts:
            theta[own] = scale.natural(t[own])
        return theta

    def slopes(self, t: Array) -> Array:
        """∂θ/∂t (p, p), with a block for each group."""
        J = np.zeros((len(t), len(t)))
        for scale, own in self.parts:
            J[own, own] = scale.slopes(t[own])
        return J

    def working(self, theta: Array) -> Array:
        """t (p,)."""
        t = np.empty(len(theta))
        for scale, own in self.parts:
            t[own] = scale.working(theta[own], self.names[own])
        return t

    def limits(self) -> Array:
        """(p, 2)."""
        return np.concatenate(
            [scale.limits(own.stop - own.start) for scale, own in self.parts] or [unlimited(0)]
        )


def unlimited(size: int) -> Array:
    """(−∞, ∞), for each."""
    return np.tile([-np.inf, np.inf], (size, 1))
