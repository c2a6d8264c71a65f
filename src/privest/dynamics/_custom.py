"""The family of the models that a function θ ↦ StateSpace makes."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Mapping
from typing import Self

import numpy as np

from privest.arrays import Array, as_array, as_choice
from privest.dynamics._families import Family, Theta, as_parameters
from privest.dynamics._releases import Data
from privest.dynamics._steps import Matrices
from privest.dynamics._system import StateSpace
from privest.errors import InvalidInput, NumericalFailure, PrivestError

KINDS = ("positive", "correlation", "free")
DIFFERENCE_STEPS = (1e-3, 1e-4, 1e-5)  # on the working scale; rounding 1e-13 to 1e-11 of entries
AGREEMENT = 1e-4  # relatively, of differences over h and 2h: the error is about its square
FARTHEST = 15 * math.log(10)  # of the logarithm of a positive parameter from its start
AROUND = (0.0, 0.5, -0.5)  # of working parameters, about the start given


class CustomFamily(Family):
    """The models function(θ), for scalar or vector measurements.

    function   θ (p,) ↦ StateSpace, smooth, public, of the same shapes for every θ.
    start      {name: value}: the parameters in order, and where a search begins.
    kinds      {name: kind}: "positive", "correlation" (between −1 and 1) or "free" (default).

    >>> def decay(theta):
    ...     a, q = theta
    ...     return StateSpace(A=a, C=1.0, Q=q, R=0.0, cov0=q / (1 - a**2))
    >>> CustomFamily(decay, {"a": 0.5, "q": 1.0}, {"a": "correlation", "q": "positive"})
    CustomFamily(a, q)
    """

    searches = len(AROUND)  # nothing says which start is good

    def __init__(
        self, function: Callable[[Array], StateSpace], start: Mapping[str, float],
        kinds: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(start, Mapping) or not start:
            raise InvalidInput("start must be {name: value}, with all parameters.")
        kinds, names = dict(kinds or {}), tuple(map(str, start))
        if unknown := [name for name in kinds if name not in names]:
            raise InvalidInput(
                f"kinds are given for {', '.join(unknown)}; the parameters are {', '.join(names)}."
            )
        self.function = function
        first = as_array(list(start.values()), "start", ndim=1)
        each = [as_choice(kinds.get(name, "free"), KINDS, f"kind of {name}") for name in names]
        super().__init__(names, each)
        free = ~self.transformed & (first != 0)
        self.unit[free] = np.abs(first[free])
        self._first, system = self.working(first), self.system(first)
        self.readings, self.columns = system.readings, system.inputs
        self._shapes = [part.shape for part in system.matrices]

    def __repr__(self) -> str:
        return f"CustomFamily({', '.join(self.names)})"

    def system(self, theta: Theta) -> StateSpace:
        """The model at natural parameters θ."""
        return self._checked(self.function(as_parameters(self, theta)))

    def _checked(self, found: object) -> StateSpace:
        if not isinstance(found, StateSpace):
            raise InvalidInput(
                f"the function of {self!r} must return a StateSpace; it returned a "
                f"{type(found).__name__}."
            )
        return found

    def matrices(self, t: Array) -> Matrices:
        try:
            system = self.function(self.natural(t))
        except (PrivestError, ArithmeticError) as error:
            # Far from the start the model may not exist: a search turns back there.
            raise NumericalFailure(f"{self!r} has no model there: {error}") from error
        found = self._checked(system).matrices
        if [part.shape for part in found] != self._shapes:
            raise InvalidInput(
                f"the function of {self!r} must return systems of one shape for every theta."
            )
        return found

    def slopes(self, t: Array) -> Matrices:
        here, p = self.matrices(t), len(t)
        parts = here[:-1]
        rows = np.array([self._slope(t, unit) for unit in np.eye(p)])
        ends = np.cumsum([part.size for part in parts])[:-1]
        cut = np.split(rows, ends, axis=1)
        slopes = [own.reshape(p, *part.shape) for own, part in zip(cut, parts)]
        return Matrices(*[*slopes, np.zeros((p, *here.diffuse.shape))])

    def _slope(self, t: Array, unit: Array) -> Array:
        """Of all entries along a unit vector: differences over h and 2h, extrapolated."""
        for h in DIFFERENCE_STEPS:
            near, far = (
                (self._flat(t + step * unit) - self._flat(t - step * unit)) / (2 * step)
                for step in (h, 2 * h)
            )
            if np.abs(near - far).max() <= AGREEMENT * np.abs(near).max():
                return np.asarray((4 * near - far) / 3)
        raise NumericalFailure(
            f"The matrices of {self!r} have no slope there: the function is not smooth."
        )

    def _flat(self, t: Array) -> Array:
        return np.concatenate([part.ravel() for part in self.matrices(t)[:-1]])

    def prepared(self, data: list[Data]) -> Self:
        del data
        made = copy.copy(self)
        made.limits, made.starts = self._bounds(), []
        made.limits[self.positive] = self._first[self.positive, None] + np.array(
            [-FARTHEST, FARTHEST]
        )
        for aside in AROUND:
            with contextlib.suppress(PrivestError):  # the function has no model there
                self.matrices(self._first + aside)
                made.starts.append(self._first + aside)
        return made

    def least_steps(self) -> int:
        unknown = self.size + int(self.matrices(self._first).diffuse.shape[1])
        return math.ceil(unknown / self.readings) + 1
