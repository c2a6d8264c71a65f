"""Families with matrices affine in the natural parameters: (A, C, Q, R, B, D) = base + Σ θ_iE_i.

All families of the library but `Custom` are. One product makes all matrices, one all slopes.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_count
from privest.dynamics._releases import Data
from privest.dynamics._identification._family import Family
from privest.dynamics._steps import Matrices
from privest.dynamics._identification._scales import Free, Scale, Scales
from privest.dynamics._identification._seen import Seen, seen_of
from privest.dynamics._system import StateSpace, system_of
from privest.errors import InvalidInput

PARTS = ("A", "C", "Q", "R", "B", "D")
# A variance is followed down to where it would move the log-likelihood by less than about 1e-3:
# √(information) of the variance of white noise in K steps is √(K/2) over that of the noise, of the
# steps of a random walk K²/10, of those of its slope K⁴/1000, which is K³ for K = 1000.
UNSEEN = 1e-3
SEEN_BY = (0.5, 2.0, 3.0)  # powers of K, by how often a variance is summed
MOST = 500  # states
LARGEST = 1e6  # times the variance of what was seen: no variance is larger


class Parameter(NamedTuple):
    """A natural parameter and the entries (matrix, row, column) that it is."""

    name: str
    places: tuple[tuple[str, int, int], ...]


class Group(NamedTuple):
    """Parameters on one scale; `depth` of a variance: how often it is summed in time."""

    scale: Scale
    parameters: Sequence[Parameter]
    depth: int | None = None


def as_order(value: int, name: str, *, least: int) -> int:
    """A whole number of lags or states, within what a filter can do."""
    found = as_count(value, name, least=least)
    if found > MOST:
        raise InvalidInput(
            f"{name} must be at most {MOST}; received {found}. (A step of the filter costs the "
            "cube of the number of states.)"
        )
    return found


class AffineFamily(Family):
    """states n, one reading a step, `inputs` p public columns, of which the last may be ones.

    `diffuse`: nothing is known of x_0; else the state is stationary (or starts at nothing known of
    it but the model).
    """

    def __init__(
        self, states: int, groups: Sequence[Group], base: dict[str, Array], *, inputs: int = 0,
        diffuse: bool = False, constant: bool = False,
    ) -> None:  # fmt: skip
        every = [parameter for group in groups for parameter in group.parameters]
        self.names = tuple(parameter.name for parameter in every)
        self.states, self.inputs, self.constant = states, inputs, constant
        self.groups = tuple(group for group in groups if group.parameters)
        shapes = {"A": (states, states), "C": (1, states), "Q": (states, states), "R": (1, 1),
                  "B": (states, inputs), "D": (1, inputs)}  # fmt: skip
        ends = np.cumsum([math.prod(shapes[part]) for part in PARTS])
        self._cuts = [
            (slice(end - math.prod(shapes[part]), end), shapes[part])
            for part, end in zip(PARTS, ends.tolist())
        ]
        self._base, self._by = np.zeros(ends[-1]), np.zeros((len(every), ends[-1]))
        for part, (own, shape) in zip(PARTS, self._cuts):
            if part in base:
                self._base[own] = np.broadcast_to(base[part], shape).ravel()
            for i, parameter in enumerate(every):
                for which, row, column in parameter.places:
                    if which == part:
                        self._by[i, own.start + row * shape[1] + column] = 1.0
        self.mean0, self.diffuse = np.zeros(states), np.eye(states)[:, : states * diffuse]
        self._scaled([group.scale for group in self.groups])
        self._seen: tuple[list[Data], Seen] | None = None

    def _scaled(self, scales: Sequence[Scale]) -> None:
        self.scales = Scales(
            self.names,
            [(scale, len(group.parameters)) for scale, group in zip(scales, self.groups)],
        )
        self.labels = self.scales.labels

    # --- the model ---

    def matrices(self, t: Array) -> Matrices:
        """The model at t."""
        flat = self._base + self.scales.natural(t) @ self._by
        A, C, Q, R, B, D = [flat[own].reshape(shape) for own, shape in self._cuts]
        return Matrices(A, C, Q, R, self.mean0, self._cov0(t), B, D, self.diffuse)

    def slopes(self, t: Array) -> Matrices:
        """∂matrices/∂t."""
        p, n = len(t), self.states
        flat = self.scales.slopes(t).T @ self._by
        A, C, Q, R, B, D = [flat[:, own].reshape(p, *shape) for own, shape in self._cuts]
        moved = np.zeros((p, n, self.diffuse.shape[1]))
        return Matrices(A, C, Q, R, np.zeros((p, n)), self._cov0_slopes(t), B, D, moved)

    def _cov0(self, t: Array) -> Array:
        """cov x_0; zeros where nothing is known of it."""
        return np.zeros((self.states, self.states))

    def _cov0_slopes(self, t: Array) -> Array:
        """∂cov0/∂t (p, n, n)."""
        return np.zeros((len(t), self.states, self.states))

    def system(self, theta: ArrayLike, *, cov0: ArrayLike | None = None) -> StateSpace:
        """The model at natural parameters θ, checked. For a mean it takes an input of ones.

        `cov0`: a covariance of x_0 in place of the family's own start (stationary, or nothing known
        of it: such a system can be filtered but not simulated).
        """
        given = as_array(theta, "theta", ndim=1)
        if given.shape != (self.size,):
            raise InvalidInput(
                f"theta must hold {', '.join(self.names)}; received shape {given.shape}."
            )
        found = self.matrices(self.working(given))
        if cov0 is None:
            return system_of(found)
        start = as_array(cov0, "cov0", ndim=(0, 2))
        if start.ndim == 0:
            start = start * np.eye(self.states)
        return system_of(found._replace(cov0=start, diffuse=np.zeros((self.states, 0))))

    # --- the data ---

    @property
    def columns(self) -> int:
        """How many columns of public inputs a fit takes; that of a mean is made here."""
        return self.inputs - self.constant

    def regressors(self, data: Data) -> Data:
        """The public inputs that the model asks for, with a column of ones last for a mean."""
        wanted, given = self.columns, data.inputs.shape[1]
        if given != wanted:
            raise InvalidInput(
                f"{self!r} takes {wanted} public inputs; received {given}."
                + (" Pass inputs=..." if wanted else " Leave inputs= out.")
            )
        u = self._delayed(data.inputs)
        if self.constant:
            u = np.column_stack([u, np.ones(len(u))])
        return data._replace(inputs=u)

    def _delayed(self, inputs: Array) -> Array:
        """The inputs as the state meets them."""
        return inputs

    def prepared(self, data: list[Data]) -> Self:
        """The same family with coefficients of inputs in units of the data.

        The unit of a coefficient is the deviation of what was seen over that of its input.
        """
        made = copy.copy(self)
        made._seen = data, seen_of(data)
        # Moments start so near the maximum that, of 200 fits, none ended higher from elsewhere.
        made.climbs = 2 if made._seen[1].coloured else 1
        if self.inputs:
            size = np.sqrt(np.mean(np.square(data[0].inputs), axis=0))
            unit = math.sqrt(made._seen[1].variance) / np.where(size > 0, size, 1.0)
            made._scaled([self._in_units(group, unit) for group in self.groups])
        return made

    def _seen_in(self, data: list[Data]) -> Seen:
        """What these data show, found once for the data that the family was prepared for."""
        return self._seen[1] if self._seen and self._seen[0] is data else seen_of(data)

    def _in_units(self, group: Group, unit: Array) -> Scale:
        if not isinstance(group.scale, Free):
            return group.scale
        columns = [parameter.places[0][2] for parameter in group.parameters]
        return Free(unit[columns])

    def limits(self, data: list[Data]) -> Array:
        """(p, 2): variances between what is never seen and far above what was."""
        seen, limits = self._seen_in(data), self.scales.limits()
        first = 0
        for group in self.groups:
            own = slice(first, first + len(group.parameters))
            if group.depth is not None:
                least = UNSEEN * seen.whitest / seen.steps ** SEEN_BY[group.depth]
                limits[own] = math.log(least), math.log(LARGEST * seen.variance)
            first = own.stop
        return limits

    def least_steps(self) -> int:
        """One more than there are parameters and states at the start."""
        return self.size + self.states + 1

    def starts(self, data: list[Data]) -> list[Array]:
        """From the moments of what was seen where there are enough of them; then neutral ones."""
        found = self._begin(self._seen_in(data))
        limits = self.limits(data)
        return [np.clip(self.working(theta), *limits.T) for theta in found]

    def _begin(self, seen: Seen) -> list[Array]:
        """θ of several starts, the most promising first."""
        raise NotImplementedError
