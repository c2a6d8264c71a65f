"""What z = Du shows of u, for a gain D of any law: closed forms where there are some, else numbers.

With f the density of D and l = ln f, two numbers and a function decide:

    j      E(1 + D l'(D))²             about u at u = 1: I = j/u²
    k      (∫ f(−x)²/f(x) dx − 1)/4    of a truncated gain at the edge, from inside
    i(t)   E[h²/(1 − t²h²)]            inside; h = tanh(½ ln f(D)/f(−D))

All three are the same for D, for cD and for 1/D (ln|z| = ln|u| + ln|D|, and a sign): a Gaussian or
Laplacian D of mean m ≠ 0 has the closed forms of the noise in 1/g.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.mechanism._multiplicative import Noise, outside
from privest.mechanism._truncated_inverse import inside_edge, mixture_information
from privest.noise import Affine, GaussianLaw, Laplace, Quadrature, ScalarLaw
from privest.noise.numerics.density import NumericalDensity

Combined = Callable[[Array, Array], Array]  # of ln f(x) and ln f(−x)
AT_ONCE = 2**20  # values held at a time
LARGEST = 700.0  # ln of numbers that are still doubles


class GainInformation(ABC):
    """j, k and i(t) of one law."""

    @property
    @abstractmethod
    def outside(self) -> Quadrature:
        """j; inf where the density jumps at a D ≠ 0: in z such a jump moves with u."""

    @property
    @abstractmethod
    def edge(self) -> Quadrature:
        """k; inf where D takes values whose opposites it never takes."""

    @abstractmethod
    def inside(self, t: Array) -> Array:
        """i(t), |t| < 1."""

    @abstractmethod
    def inside_error(self, t: float) -> float:
        """How far `inside` may be off at one t."""

    @property
    def largest(self) -> float:
        """max(j, k)."""
        return max(self.outside.value, self.edge.value)


def information_of(law: ScalarLaw) -> GainInformation:
    """The closed form of a Gaussian or Laplacian gain of mean m ≠ 0, else quadrature."""
    if isinstance(law, GaussianLaw) and law.loc != 0:
        return AsInverse(GaussianLaw(law.variance / law.loc**2))
    if isinstance(law, Affine) and isinstance(law.law, Laplace) and law.shift != 0:
        return AsInverse(Laplace(abs(law.law.scale * law.scale / law.shift)))
    return ByNumbers(law)


@dataclass(frozen=True)
class AsInverse(GainInformation):
    """D = m(1 + d): what u/(1 + d) shows."""

    noise: Noise

    @property
    def outside(self) -> Quadrature:
        return Quadrature(outside(self.noise), 0.0)

    @property
    def edge(self) -> Quadrature:
        return Quadrature(inside_edge(self.noise), 0.0)

    def inside(self, t: Array) -> Array:
        return mixture_information(self.noise, t)

    def inside_error(self, t: float) -> float:
        value = float(self.inside(np.asarray(t)))
        return 1e-12 * value if isinstance(self.noise, GaussianLaw) else 0.0


@dataclass(frozen=True, eq=False)
class ByNumbers(GainInformation):
    """From the log-density and the score of the law.

    i(t) is an integral against the even part of f. Near the edge it lives where f(−x)²/f(x) does,
    many deviations from the mean of f: its nodes are those of a mixture of both.
    """

    law: ScalarLaw

    @cached_property
    def outside(self) -> Quadrature:
        if any(point != 0 for point in self.law.jumps):
            return Quadrature(math.inf, 0.0)
        return self.law.expect(lambda d: (1.0 + d * self.law.score(d)) ** 2)

    @cached_property
    def edge(self) -> Quadrature:
        low, high = self.law.support
        if low != -high:
            return Quadrature(math.inf, 0.0)
        density = self._density(_edge_weight)
        try:
            total = math.exp(density.log_mass) if density.log_mass < LARGEST else math.inf
        except InvalidInput:  # the integral diverges
            total = math.inf
        if math.isinf(total):
            return Quadrature(math.inf, 0.0)
        return Quadrature(max(total - 1.0, 0.0) / 4, total * density.mass_error)

    def inside(self, t: Array) -> Array:
        x, weight = self._nodes.nodes
        weight, apart = weight[weight > 0], self._parts(x[weight > 0])
        kappa = ((1.0 - t) * (1.0 + t)).reshape(-1, 1)
        step = max(1, AT_ONCE // weight.size)
        sums = [
            self._terms(apart, kappa[at : at + step]) @ weight for at in range(0, len(kappa), step)
        ]
        return np.concatenate(sums).reshape(t.shape)

    def inside_error(self, t: float) -> float:
        """By panels that are halved for this t: their error, and the difference."""
        kappa = np.asarray((1.0 - t) * (1.0 + t))
        found = self._nodes.expectation(
            lambda x: (self._terms(self._parts(x), kappa), np.zeros(x.shape))
        )
        return abs(found.value - float(self.inside(np.asarray(t)))) + found.error

    def _parts(self, x: Array) -> tuple[Array, Array]:
        """The even part of f over the density of the nodes, and 1/sinh² of half the log-odds."""
        up, down = self.law.logpdf(x), self.law.logpdf(-x)
        even = np.logaddexp(up, down) - math.log(2.0)
        with np.errstate(all="ignore"):
            share = np.exp(even - self._mixed(up, down) + self._nodes.log_mass)
            apart = np.sinh(np.abs(up - down) / 2) ** -2.0
        return np.where(np.isneginf(even), 0.0, share), np.where(np.isnan(apart), 0.0, apart)

    @staticmethod
    def _terms(parts: tuple[Array, Array], kappa: Array) -> Array:
        """h²/(1 − t²h²) = 1/(κ + 1/sinh²), times the share."""
        share, apart = parts
        with np.errstate(divide="ignore"):
            return np.asarray(share / (kappa + apart))

    @cached_property
    def _nodes(self) -> NumericalDensity:
        return self._density(self._mixed)

    def _mixed(self, up: Array, down: Array) -> Array:
        """Ln of the even part of f, and where k is finite as much of f(∓x)²/f(±x)."""
        even = np.logaddexp(up, down)
        if math.isinf(self.edge.value):
            return even
        total = math.log(4.0 * self.edge.value + 1.0)
        with np.errstate(invalid="ignore"):
            far = np.logaddexp(2 * down - up, 2 * up - down) - total
        return np.logaddexp(even, far)

    def _density(self, log: Combined) -> NumericalDensity:
        """e to a function of ln f(x) and ln f(−x), where one of them is not zero."""
        law = self.law
        reach = max(map(abs, law.support))
        points = {s * p for p in (*law.landmarks, *law.support) for s in (-1.0, 1.0)}
        inside = sorted(p for p in points if abs(p) < reach)
        return NumericalDensity(
            partial(self._combined, log),  # no closure: a channel travels to other processes
            support=(-reach, reach),
            landmarks=(*inside, 0.0),
            normalise=True,
        )

    def _combined(self, log: Combined, x: Array) -> Array:
        up, down = self.law.logpdf(x), self.law.logpdf(-x)
        with np.errstate(invalid="ignore"):
            value = log(up, down)
        return np.where(np.isneginf(up) & np.isneginf(down), -np.inf, value)


def _edge_weight(up: Array, down: Array) -> Array:
    """Ln f(−x)²/f(x)."""
    return np.asarray(2 * down - up)
