"""What every family of state-space models says of itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np

from privest.arrays import Array, Flags
from privest.dynamics._releases import Data
from privest.dynamics._steps import Matrices
from privest.dynamics._identification._scales import Scales
from privest.errors import InvalidInput


class Family(ABC):
    """θ → state-space model, with θ = natural(t) for every real vector t (the working scale).

    names      of the natural parameters, (p,).
    scales     between the natural parameters and the working ones.
    labels     of the working ones, as people write them ("log q"); used to name flat directions.
    readings   of one step.
    climbs     how many of its starts should be followed at least.
    """

    names: tuple[str, ...]
    scales: Scales
    labels: tuple[str, ...]
    readings: int = 1
    climbs: int = 2

    @property
    def size(self) -> int:
        """p."""
        return len(self.names)

    @property
    def bent(self) -> Flags:
        """Which working parameters are not the natural ones: logarithms, artanh; free of units."""
        return np.array([own != name for own, name in zip(self.labels, self.names)], dtype=bool)

    @property
    def columns(self) -> int:
        """How many columns of public inputs a fit takes."""
        return 0

    def natural(self, t: Array) -> Array:
        """θ (p,) of the working parameters t (p,)."""
        return self.scales.natural(t)

    def natural_slopes(self, t: Array) -> Array:
        """∂θ/∂t (p, p)."""
        return self.scales.slopes(t)

    def working(self, theta: Array) -> Array:
        """t of θ; InvalidInput where no t leads there."""
        return self.scales.working(theta)

    @abstractmethod
    def matrices(self, t: Array) -> Matrices:
        """The model at t."""

    @abstractmethod
    def slopes(self, t: Array) -> Matrices:
        """∂matrices/∂t, with a leading axis of parameters."""

    @abstractmethod
    def starts(self, data: list[Data]) -> list[Array]:
        """Where a search may begin, the most promising first; from lags ≥ 1 of the releases."""

    @abstractmethod
    def least_steps(self) -> int:
        """Steps below which the parameters cannot be told apart."""

    def prepared(self, data: list[Data]) -> Self:
        """The same family with working parameters in units of these data (of `regressors`)."""
        del data
        return self

    def limits(self, data: list[Data]) -> Array:
        """(p, 2): where the search for t ends, because nothing changes beyond it."""
        del data
        return np.tile([-np.inf, np.inf], (self.size, 1))

    def regressors(self, data: Data) -> Data:
        """The data with the inputs that the model asks for (a column of ones for a mean)."""
        if data.inputs.shape[1]:
            raise InvalidInput(f"{self!r} has no inputs; received {data.inputs.shape[1]}.")
        return data
