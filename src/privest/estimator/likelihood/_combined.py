"""Likelihoods made of others: readings released in different ways, readings with an offset."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, Index, as_array
from privest.errors import InvalidInput
from privest.estimator.likelihood._terms import (
    NUMPY,
    Backend,
    Likelihood,
    Terms,
    further,
    likelihood_of,
)
from privest.mechanism import Componentwise


class Rowwise(Likelihood):
    """ℓ_i(z_i, η_i) with a likelihood for each of the m readings; equal ones are taken together.

    >>> from privest.estimator.likelihood import GaussianLikelihood
    >>> a, b = GaussianLikelihood(1.0, noise=1.0), GaussianLikelihood(1.0, noise=3.0)
    >>> Rowwise([a, b, a])(np.ones((1, 3)), np.zeros((1, 3))).slope
    array([[0.5 , 0.25, 0.5 ]])
    """

    def __init__(self, likelihoods: Sequence[Likelihood]) -> None:
        if any(likelihood.variance.ndim for likelihood in likelihoods):
            raise InvalidInput("each reading's likelihood must have one variance, a number.")
        super().__init__([float(likelihood.variance) for likelihood in likelihoods])
        groups: dict[int, list[int]] = {}
        for column, likelihood in enumerate(likelihoods):
            groups.setdefault(id(likelihood), []).append(column)
        self.groups = [(likelihoods[c[0]], np.array(c)) for c in groups.values()]
        order = np.concatenate([columns for _, columns in self.groups])
        self.back = np.argsort(order)
        self.several_maxima = any(one.several_maxima for one in likelihoods)  # type: ignore[misc]
        self.fits = max(one.fits for one in likelihoods)  # type: ignore[misc]
        self.anywhere = all(one.anywhere for one in likelihoods)  # type: ignore[misc]
        self.numbers = max(one.numbers for one in likelihoods)  # type: ignore[misc]

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        parts = [one(z[..., c], eta[..., c], backend) for one, c in self.groups]
        value, slope, curvature, weight = (
            self._joined([part[k] for part in parts], backend) for k in range(4)
        )
        return Terms(value, slope, curvature, weight)

    def _joined(self, parts: Sequence[Array], backend: Backend) -> Array:
        """The columns of all groups, as they stood."""
        joined: Array = backend.xp.concat(parts, axis=-1)[..., self.back]
        return joined

    def possible(self, z: Array, backend: Backend = NUMPY) -> Flags:
        own = further(backend)
        parts = [one.possible(z[..., c], *own) for one, c in self.groups]
        return self._joined(parts, backend)  # type: ignore[arg-type, return-value] # truth values

    def rough(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Array:
        own = further(backend)
        parts = [one.rough(z[..., c], eta[..., c], *own) for one, c in self.groups]
        return self._joined(parts, backend)

    def hump(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Index | None:
        own = further(backend)
        found = [one.hump(z[..., c], eta[..., c], *own) for one, c in self.groups]
        if all(part is None for part in found):
            return None
        none = backend.xp.zeros(eta.shape, dtype=backend.xp.int64)
        parts = [none[..., c] if p is None else p for p, (_, c) in zip(found, self.groups)]
        return self._joined(parts, backend)  # type: ignore[arg-type, return-value] # whole numbers

    def centre(self, z: Array, backend: Backend = NUMPY) -> Array:
        own = further(backend)
        return self._joined([one.centre(z[..., c], *own) for one, c in self.groups], backend)


def for_each_variance(make: Callable[[float], Likelihood], variance: ArrayLike) -> Likelihood:
    """One likelihood where σ² is the same for all readings, else one for each value of it."""
    given = as_array(variance, "the variance of w", ndim=(0, 1))
    values = np.unique(given)
    made = {float(v): make(float(v)) for v in values}
    if len(made) == 1:
        return made[float(values[0])]
    return Rowwise([made[float(v)] for v in given])


class Shifted(Likelihood):
    """ℓ(z, η + b) for another likelihood ℓ and an offset b, a number or one for each reading.

    >>> from privest.estimator.likelihood import GaussianLikelihood
    >>> plain = GaussianLikelihood(1.0, noise=1.0)
    >>> Shifted(plain, np.array([0.0, 1.0]))(np.ones((1, 2)), np.zeros((1, 2))).slope
    array([[0.5, 0. ]])
    """

    def __init__(self, likelihood: Likelihood, offset: Array) -> None:
        super().__init__(likelihood.variance)
        self.likelihood, self.offset = likelihood, offset
        self.several_maxima = likelihood.several_maxima  # type: ignore[misc] # that of the other
        self.fits = likelihood.fits  # type: ignore[misc]
        self.anywhere = likelihood.anywhere  # type: ignore[misc]
        self.numbers = likelihood.numbers  # type: ignore[misc]

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        return self.likelihood(z, eta + backend.xp.asarray(self.offset), backend)

    def value(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Array:
        return self.likelihood.value(z, eta + backend.xp.asarray(self.offset), backend)

    def possible(self, z: Array, backend: Backend = NUMPY) -> Flags:
        return self.likelihood.possible(z, *further(backend))

    def rough(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Array:
        moved = eta + backend.xp.asarray(self.offset)
        return self.likelihood.rough(z, moved, *further(backend))

    def hump(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Index | None:
        moved = eta + backend.xp.asarray(self.offset)
        return self.likelihood.hump(z, moved, *further(backend))

    def centre(self, z: Array, backend: Backend = NUMPY) -> Array:
        offset: Array = backend.xp.asarray(self.offset)
        return self.likelihood.centre(z, *further(backend)) - offset


@likelihood_of.register
def _(mechanism: Componentwise, variance: ArrayLike) -> Likelihood:
    """Data perturbation: channels on the readings themselves.

    For u = Ay + b ask `maximum_likelihood_of`: it takes AH as H, the variances of Aw, and b.
    """
    if mechanism.matrix is not None or mechanism.offset.any():
        raise InvalidInput(
            "the channels act on Ay + b, so that their η is AHθ + b: pass the mechanism to "
            "privest.estimator.maximum_likelihood_of."
        )
    if mechanism.common is not None:
        return likelihood_of(mechanism.common, variance)
    spread = np.broadcast_to(as_array(variance, "the variance of w"), mechanism.readings)
    pairs = list(zip(mechanism.channels, spread.tolist()))
    made = {pair: likelihood_of(*pair) for pair in dict.fromkeys(pairs)}
    return Rowwise([made[pair] for pair in pairs])
