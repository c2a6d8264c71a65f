"""What a likelihood answers: ℓ(z, η) for one release, elementwise, with two derivatives in η.

    ℓ(z, η) = ln ∫ p(z|y) N(y; η, σ²) dy,     y = η + w,  w ~ N(0, σ²),  η = a row of Hθ

Given z, y has a density ∝ p(z|y) N(y; η, σ²). With its mean and variance,

    ℓ' = (E[y|z] − η)/σ²,      −ℓ'' = 1/σ² − Var[y|z]/σ⁴ ≤ 1/σ²,

so that 1/σ² bounds the curvature of every likelihood here: with y as the missing data this is the
weight of EM, and a step with it never descends. Where p(z|y) is a scale mixture of Gaussians
(Laplace, Cauchy) the weight ℓ'/(z − η) ≤ 1/σ² does the same in longer steps.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, Flags, Index, as_array
from privest.errors import InvalidInput

# An array namespace or a table of functions: chosen when the program runs.
Namespace: TypeAlias = Any


BLOCK = 4096  # problems advanced together: their arrays stay in cache
ENTRIES = 2**17  # numbers held at a time by a screening


@dataclass(frozen=True)
class Backend:
    """Where the arrays live: a namespace of the array API, and special functions for its arrays.

    `special` needs `erfcx`, `log_ndtr` and `ndtr`. A graphics processor has a class of its own
    (`estimator._device`); `remote` says that its arrays are not NumPy's.
    """

    xp: Namespace = np
    given_special: Namespace = None
    remote: ClassVar[bool] = False

    @property
    def special(self) -> Namespace:
        """The functions given, or scipy's."""
        return scipy.special if self.given_special is None else self.given_special

    def largest(self, score: Array, count: int) -> Index:
        """Where the `count` largest numbers of each row are, in any order."""
        if self.xp is np:
            return np.argpartition(-score, count - 1, axis=1)[:, :count]
        return self.sorted(-score)[:, :count]

    def sorted(self, array: Array | Index) -> Index:
        """The order of each row; equal ones as they stand."""
        order: Index = self.xp.argsort(array, axis=-1, stable=True)
        return order

    def block(self, numbers: int) -> int:
        """How many problems to advance together, each of which holds so many numbers."""
        return BLOCK

    def entries(self) -> int:
        """How many numbers each array of a screening may hold."""
        return ENTRIES

    def host(self, array: Any) -> Any:  # noqa: ANN401 - whatever has a shape
        """The same as an array of NumPy."""
        return array


NUMPY = Backend()


def further(backend: Backend) -> tuple[Backend, ...]:
    """What to hand on beside z and η: nothing for NumPy, so that a likelihood of a user's, whose
    methods may know of no backend, still serves.
    """
    return (backend,) if backend.remote else ()


class Terms(NamedTuple):
    """ℓ and its derivatives in η, all of the shape of η."""

    value: Array  # ℓ
    slope: Array  # ℓ'
    curvature: Array  # −ℓ'': negative where ℓ is convex
    weight: Array  # w > 0 with ℓ(η + h) ≥ ℓ(η) + ℓ'h − wh²/2 for every h

    def where(self, possible: Flags, xp: Namespace) -> Terms:
        """The same; where z is not `possible` ℓ = −∞, and no slope."""
        value = xp.where(possible, self.value, -math.inf)
        slope, curvature = (xp.where(possible, a, 0.0) for a in (self.slope, self.curvature))
        return Terms(value, slope, curvature, self.weight)


class Likelihood(ABC):
    """ℓ(z, η) of one kind of release; z and η are arrays (trials, m), σ² a number or (m,).

    `several_maxima`: Σℓ(z_i, (Hθ)_i) may have several local maxima in θ. It is then climbed from
    `fits` exact fits of n readings, unless the caller says otherwise (`estimator._starts`).
    """

    several_maxima: ClassVar[bool] = False
    # Whether every method is written in the backend's namespace, so that arrays need not be
    # NumPy's. `numbers` are held for each reading while ℓ is evaluated.
    anywhere: ClassVar[bool] = False
    numbers: ClassVar[int] = 60
    # With 10, Cauchy trials missed their best maximum in 13 of 18,000; with 15 in 2.
    fits: ClassVar[int] = 15

    def __init__(self, variance: ArrayLike) -> None:
        self.variance = as_array(variance, "the variance of w", ndim=(0, 1))
        if not (self.variance > 0).all():
            raise InvalidInput("the variance of w must be > 0 in every reading.")

    @abstractmethod
    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        """The terms at η."""

    def value(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Array:
        """ℓ alone."""
        return self(z, eta, backend).value

    def possible(self, z: Array, backend: Backend = NUMPY) -> Flags:
        """Which releases can occur at all; elsewhere p(z|y) = 0 for every y, and ℓ = −∞."""
        possible: Flags = backend.xp.ones(z.shape, dtype=bool)
        return possible

    def rough(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Array:
        """Something cheap that ranks far apart η nearly as ℓ does (up to a constant): screening."""
        return self.value(z, eta, backend)

    def hump(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Index | None:
        """Which hump of ℓ(z, ·) η is on, as a whole number; None: starts need not tell them apart.

        Starts on different humps lead to different maxima, more surely than starts of high ℓ.
        """
        return None

    def centre(self, z: Array, backend: Backend = NUMPY) -> Array:
        """A first guess of η from its own release: where ℓ(z, ·) is largest, or nearly."""
        return z


@singledispatch
def likelihood_of(channel: object, variance: ArrayLike) -> Likelihood:
    """The likelihood of releases z_i ~ p(·|y_i), y = Hθ + w, w_i ~ N(0, σ_i²) independent.

    `variance` is σ², a number or one for each reading. Every family registers the channels that it
    belongs to; a new kind of channel its own closed form: `@likelihood_of.register` on a function
    of (channel, variance).

    >>> from privest.mechanism import Additive
    >>> from privest.noise import Laplace
    >>> likelihood_of(Additive(Laplace(1.0)), 0.04).scale
    1.0
    """
    raise InvalidInput(
        f"there is no likelihood for {type(channel).__name__}: pass a channel of "
        "privest.mechanism, or register a function with likelihood_of.register."
    )
