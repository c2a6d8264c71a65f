"""The likelihood ℓ(z, η) of one release, elementwise, with two derivatives in η.

    ℓ(z, η) = ln ∫ p(z|y)N(y; η, σ²) dy,     y = η + w,  w ~ N(0, σ²),  η = a row of Hθ
    ℓ' = (E[y|z] − η)/σ²,      −ℓ'' = 1/σ² − Var[y|z]/σ⁴

1/σ² is the weight of EM, a step with which never descends; for scale mixtures of Gaussians
(Laplace, Cauchy) it is ℓ'/(z − η).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import scipy

from privest.arrays import AnyArray, Array, ArrayLike, Flags, Index, as_array
from privest.errors import InvalidInput
from privest.mechanism import Componentwise

# An array namespace or a table of functions: chosen when the program runs.
Namespace: TypeAlias = Any


BLOCK = 4096  # problems advanced together, at most: their arrays stay in cache
NUMBERS = 2**22  # that they hold, at most
ENTRIES = 2**17  # numbers held at a time by a screening


@dataclass(frozen=True)
class Backend:
    """An array namespace with `erfcx`, `log_ndtr` and `ndtr`; `remote`: arrays are not NumPy's."""

    xp: Namespace = np
    given_special: Namespace = None
    remote: ClassVar[bool] = False

    @property
    def special(self) -> Namespace:
        return scipy.special if self.given_special is None else self.given_special

    def sorted(self, array: Array | Index) -> Index:
        order: Index = self.xp.argsort(array, axis=-1, stable=True)
        return order

    def block(self, numbers: int) -> int:
        """The number of problems to advance together, each holding this count of numbers."""
        return min(BLOCK, NUMBERS // numbers)

    def entries(self) -> int:
        """How many numbers each array of a screening may hold."""
        return ENTRIES

    def host(self, array: Any) -> Any:  # noqa: ANN401 - whatever has a shape
        return array


NUMPY = Backend()


class Terms(NamedTuple):
    """ℓ and its derivatives in η, all of the shape of η."""

    value: Array  # ℓ
    slope: Array  # ℓ'
    curvature: Array  # −ℓ'': negative where ℓ is convex
    weight: Array  # w > 0 with ℓ(η + h) ≥ ℓ(η) + ℓ'h − wh²/2 for every h

    def where(self, possible: Flags, xp: Namespace) -> Terms:
        """ℓ = −∞ without slope where z is not `possible`."""
        value = xp.where(possible, self.value, -math.inf)
        slope, curvature = (xp.where(possible, a, 0.0) for a in (self.slope, self.curvature))
        return Terms(value, slope, curvature, self.weight)


class Likelihood(ABC):
    """ℓ(z, η) of one kind of release; z and η are arrays (trials, m), σ² a number or (m,).

    `several_maxima`: of Σℓ(z_i, (Hθ)_i) in θ; it is then climbed from `fits` exact fits.
    """

    several_maxima: ClassVar[bool] = False
    # Whether every method is written in the backend's namespace, so that arrays need not be
    # NumPy's. `numbers` are held for each measurement while ℓ is evaluated.
    anywhere: ClassVar[bool] = False
    numbers: ClassVar[int] = 60
    # With 10, Cauchy trials missed their best maximum in 13 of 18,000; with 15 in 2.
    fits: ClassVar[int] = 15

    def __init__(self, variance: ArrayLike) -> None:
        self.variance: Array = as_array(variance, "the variance of w", ndim=(0, 1))
        if not (self.variance > 0).all():
            raise InvalidInput("the variance of w must be > 0 in every measurement.")

    @abstractmethod
    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        """The terms at η."""

    def value(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Array:
        return self(z, eta, backend).value

    def possible(self, z: Array, backend: Backend = NUMPY) -> Flags:
        """Which releases can occur at all; elsewhere ℓ = −∞."""
        possible: Flags = backend.xp.ones(z.shape, dtype=bool)
        return possible

    def rough(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Array:
        """Something cheap that ranks far apart η nearly as ℓ does: for screening."""
        return self.value(z, eta, backend)

    def hump(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Index | None:
        """Which hump of ℓ(z, ·) η is on; None: starts need not tell them apart."""
        return None

    def centre(self, z: Array, backend: Backend = NUMPY) -> Array:
        """A first guess of η from its own release: where ℓ(z, ·) is largest, or nearly."""
        return z


@singledispatch
def likelihood_of(channel: object, variance: ArrayLike) -> Likelihood:
    """The likelihood of releases z_i ~ p(·|y_i), y = Hθ + w, w_i ~ N(0, σ_i²); `variance` σ²."""
    raise InvalidInput(
        f"there is no likelihood for {type(channel).__name__}: pass a channel of "
        "privest.mechanism, or register a function with likelihood_of.register."
    )


class Rowwise(Likelihood):
    """ℓ_i(z_i, η_i) with a likelihood for each of the m values; equal ones are taken together."""

    def __init__(self, likelihoods: Sequence[Likelihood]) -> None:
        if any(likelihood.variance.ndim for likelihood in likelihoods):
            raise InvalidInput("each measurement's likelihood must have one variance, a number.")
        super().__init__([float(likelihood.variance) for likelihood in likelihoods])
        groups: dict[int, list[int]] = {}
        for column, likelihood in enumerate(likelihoods):
            groups.setdefault(id(likelihood), []).append(column)
        self.groups: list[tuple[Likelihood, Index]] = [
            (likelihoods[c[0]], np.array(c)) for c in groups.values()
        ]
        order = np.concatenate([columns for _, columns in self.groups])
        self.back: Index = np.argsort(order)
        self.several_maxima: bool = any(one.several_maxima for one in likelihoods)  # type: ignore[misc]
        self.fits: int = max(one.fits for one in likelihoods)  # type: ignore[misc]
        self.anywhere: bool = all(one.anywhere for one in likelihoods)  # type: ignore[misc]
        self.numbers: int = max(one.numbers for one in likelihoods)  # type: ignore[misc]

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        parts = [one(z[..., c], eta[..., c], backend) for one, c in self.groups]
        return Terms(*(self._joined(part, backend) for part in zip(*parts)))

    def _joined(self, parts: Sequence[AnyArray], backend: Backend) -> AnyArray:
        joined: AnyArray = backend.xp.concat(parts, axis=-1)[..., self.back]
        return joined

    def possible(self, z: Array, backend: Backend = NUMPY) -> Flags:
        parts = [one.possible(z[..., c], backend) for one, c in self.groups]
        return self._joined(parts, backend)

    def rough(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Array:
        parts = [one.rough(z[..., c], eta[..., c], backend) for one, c in self.groups]
        return self._joined(parts, backend)

    def hump(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Index | None:
        found = [one.hump(z[..., c], eta[..., c], backend) for one, c in self.groups]
        if all(part is None for part in found):
            return None
        none = backend.xp.zeros(eta.shape, dtype=backend.xp.int64)
        parts = [none[..., c] if p is None else p for p, (_, c) in zip(found, self.groups)]
        return self._joined(parts, backend)

    def centre(self, z: Array, backend: Backend = NUMPY) -> Array:
        return self._joined([one.centre(z[..., c], backend) for one, c in self.groups], backend)


def for_each_variance(make: Callable[[float], Likelihood], variance: ArrayLike) -> Likelihood:
    """One likelihood where σ² is the same for all, else one for each value of it."""
    given = as_array(variance, "the variance of w", ndim=(0, 1))
    values = np.unique(given)
    made = {float(v): make(float(v)) for v in values}
    if len(made) == 1:
        return made[float(values[0])]
    return Rowwise([made[float(v)] for v in given])


@likelihood_of.register
def _(mechanism: Componentwise, variance: ArrayLike) -> Likelihood:
    if mechanism.matrix is not None or mechanism.offset.any():
        raise InvalidInput(
            "the channels act on Ay + b, so that their η is AHθ + b: pass the mechanism to "
            "privest.estimate with its model."
        )
    if mechanism.common is not None:
        return likelihood_of(mechanism.common, variance)
    spread = np.broadcast_to(as_array(variance, "the variance of w"), mechanism.measurements)
    pairs = list(zip(mechanism.channels, spread.tolist()))
    made = {pair: likelihood_of(*pair) for pair in dict.fromkeys(pairs)}
    return Rowwise([made[pair] for pair in pairs])
