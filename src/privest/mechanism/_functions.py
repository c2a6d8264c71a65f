"""A channel made of functions: `Channel.from_functions`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privest.arrays import Array, ArrayLike, as_array
from privest.errors import InvalidInput
from privest.mechanism._mechanism import LIKELY, Channel, Listed, Points, Span
from privest.noise import Quadrature


class FunctionChannel(Channel):
    WHY_NOT = "it is a user's own: choose its parameters and let privest.audit.certify check them."

    def __init__(
        self,
        sample: Callable[[Array, np.random.Generator], Array] | None,
        log_density: Callable[[Array, Array], Array] | None,
        score: Callable[[Array, Array], Array] | None,
        points: tuple[Span, Points | None, Points | None],
        worst: float,
    ) -> None:
        for what, given in (("sample", sample), ("log_density", log_density), ("score", score)):
            if given is not None and not callable(given):
                raise InvalidInput(f"{what} must be a function; received {type(given).__name__}.")
        if sample is None and log_density is None:
            raise InvalidInput("give sample, log_density, or both: there is no mechanism yet.")
        self._sample, self._log_density, self._score = sample, log_density, score
        self._support, self._landmarks, self._outcomes = points
        self.discrete = self._outcomes is not None  # type: ignore[misc] # one class for both kinds
        self._worst = float(worst)
        self.has_density = log_density is not None
        self.draws_from_density = sample is None

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u")
        if self._sample is not None:
            return _shaped(self._sample(given, rng), given.shape, "sample")
        result = np.empty(given.shape)
        for value in np.unique(given).tolist():
            here = given == value
            result[here] = self._drawn(value, int(here.sum()), rng)
        return result

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        if self._log_density is None:
            raise InvalidInput(
                "the channel has a sampler only: its density, score and information are not "
                "known. privest.audit.fisher_information estimates the information from samples."
            )
        z, u = np.broadcast_arrays(as_array(z, "z"), as_array(u, "u"))
        return _shaped(self._log_density(z, u), z.shape, "log_density")

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        if self._score is None or self._log_density is None:
            return super().score(z, u)
        z, u = np.broadcast_arrays(as_array(z, "z"), as_array(u, "u"))
        return _shaped(self._score(z, u), z.shape, "score")

    def support(self, u: float) -> tuple[float, float]:
        return self._support(u) if callable(self._support) else self._support

    def landmarks(self, u: float) -> tuple[float, ...]:
        return (u,) if self._landmarks is None else tuple(_at(self._landmarks, u))

    def outcomes(self, u: float) -> Array:
        if self._outcomes is None:
            raise InvalidInput("the channel was given no outcomes: it is not known to be discrete.")
        values = np.sort(as_array(_at(self._outcomes, u), "outcomes", ndim=1))
        return np.asarray(values[np.exp(self.log_density(values, u)) > LIKELY])

    def information_estimate(self, u: float) -> Quadrature:
        self.log_density(np.zeros(0), u)  # without a density: the error that says so
        return super().information_estimate(u)

    @property
    def worst(self) -> float:
        return self._worst

    def __repr__(self) -> str:
        return "Channel.from_functions(…)"

    def _drawn(self, u: float, count: int, rng: np.random.Generator) -> Array:
        if self.discrete:
            values = self.outcomes(u)
            total = np.cumsum(np.exp(self.log_density(values, u)))
            if not abs(total[-1] - 1.0) < 1e-6:
                raise InvalidInput(
                    f"the masses of the channel sum to {total[-1]:.6g}, not to 1: outcomes are "
                    "missing or the masses are wrong. Give `sample`, or correct them."
                )
            return np.asarray(values[np.searchsorted(total / total[-1], rng.random(count))])
        from privest.mechanism.numerics import density_at

        return density_at(self, u).quantile(rng.random(count))


def _at(points: Points, u: float) -> Listed:
    return points(u) if callable(points) else points


def _shaped(value: ArrayLike, shape: tuple[int, ...], what: str) -> Array:
    result = np.asarray(value, dtype=np.float64)
    if result.shape != shape:
        raise InvalidInput(
            f"{what} must return an array of the shape it is given, {shape}; it returned "
            f"{result.shape}."
        )
    return result
