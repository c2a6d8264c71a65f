"""What "accurate" means: the criteria that a design makes small, in the user's units.

Σ = M⁻¹ is the covariance of the best estimate at the levels (`bounds.bound`):

    A(weight)            tr WΣ                      the mean squared error, weighted
    C(vector)            cᵀΣc                       the variance of one combination cᵀθ
    D()                  log det Σ                  the volume of the confidence region
    E(weight)            λ_max(W^½ΣW^½)             the worst direction
    StandardErrors(e)    max_j Σ_jj/e_j²            several standard errors at once: met if ≤ 1
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_scale, require_scales
from privest.design._scaled import Largest, Least, LogDet, Scaled, Trace
from privest.errors import InvalidInput
from privest.linalg import psd
from privest.linalg.batched import substitute
from privest.records import plain


class Criterion(ABC):
    """A function of the error covariance Σ that should be small."""

    symbol: str

    @abstractmethod
    def scaled(self, triangle: Array, names: tuple[str, ...]) -> Scaled:
        """The criterion in coordinates in which M is R⁻ᵀMR⁻¹; R = `triangle`."""

    @abstractmethod
    def words(self) -> str:
        """What is made small, in words."""

    def amount(self, value: float) -> float:
        """A value of the criterion, as `words` speaks of it."""
        return value

    def to_dict(self) -> dict[str, object]:
        """The criterion and its parameters, for JSON."""
        own = {name.lstrip("_"): plain(value) for name, value in vars(self).items()}
        return {"criterion": self.symbol, **own}

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class A(Criterion):
    """tr WΣ, the weighted mean squared error of all parameters; W = I if not given.

    `weight`: (n, n) positive semi-definite, or (n,) its diagonal.
    """

    symbol = "A"

    def __init__(self, weight: ArrayLike | None = None) -> None:
        self.weight = None if weight is None else as_array(weight, "the weight", ndim=(1, 2))

    def scaled(self, triangle: Array, names: tuple[str, ...]) -> Scaled:
        return Trace(substitute(triangle, weight_factor(self.weight, len(names)), transposed=True))

    def words(self) -> str:
        return f"the {'' if self.weight is None else 'weighted '}sum of the squared errors"


class C(Criterion):
    """cᵀΣc: the variance of one combination cᵀθ of the parameters."""

    symbol = "C"

    def __init__(self, vector: ArrayLike) -> None:
        self.vector = as_array(vector, "the vector", ndim=1)
        if not self.vector.any():
            raise InvalidInput("the vector is zero: nothing is asked for.")
        require_scales(np.abs(self.vector).max(keepdims=True), "the vector")

    def scaled(self, triangle: Array, names: tuple[str, ...]) -> Scaled:
        require_length(self.vector, names, "the vector")
        return Trace(substitute(triangle, self.vector[:, None], transposed=True))

    def words(self) -> str:
        return "the variance of one combination of the parameters"


class D(Criterion):
    """log det Σ: the volume of the confidence region; does not depend on the units of θ."""

    symbol = "D"

    def scaled(self, triangle: Array, names: tuple[str, ...]) -> Scaled:
        return LogDet(-2.0 * float(np.log(np.abs(np.diagonal(triangle))).sum()))

    def words(self) -> str:
        return "log det of the error covariance (the volume of the confidence region)"


class E(Criterion):
    """λ_max(W^½ΣW^½): the squared error in the worst direction; W = I if not given."""

    symbol = "E"

    def __init__(self, weight: ArrayLike | None = None) -> None:
        self.weight = None if weight is None else as_array(weight, "the weight", ndim=(1, 2))

    def scaled(self, triangle: Array, names: tuple[str, ...]) -> Scaled:
        root = substitute(triangle, weight_factor(self.weight, len(names)), transposed=True)
        return Least(root @ root.T)

    def words(self) -> str:
        return "the squared error in the worst direction"


class StandardErrors(Criterion):
    """max_j Σ_jj/e_j² for wanted standard errors e_j: all are met where it is at most 1.

    `wanted`: {name of a parameter: e}; a parameter may also be given by its index.

    >>> StandardErrors({"age": 0.01, "bmi": 0.02})
    StandardErrors(age=0.01, bmi=0.02)
    """

    symbol = "T"

    def __init__(self, wanted: Mapping[str | int, float]) -> None:
        if not isinstance(wanted, Mapping) or not wanted:
            raise InvalidInput(
                "wanted standard errors are a mapping from parameters to numbers, for example "
                '{"age": 0.01}.'
            )
        self.wanted = {
            name: as_scale(error, f"the wanted standard error of {name}")
            for name, error in wanted.items()
        }

    def scaled(self, triangle: Array, names: tuple[str, ...]) -> Scaled:
        columns = np.zeros((len(names), len(self.wanted)))
        for j, (name, error) in enumerate(self.wanted.items()):
            columns[self.index_of(name, names), j] = 1.0 / error
        return Largest(substitute(triangle, columns, transposed=True))

    @staticmethod
    def index_of(name: str | int, names: tuple[str, ...]) -> int:
        """Which parameter is meant, by its name or its index."""
        if name in names:
            return names.index(str(name))
        if isinstance(name, int) and 0 <= name < len(names):
            return name
        raise InvalidInput(
            f"there is no parameter {name!r}: the model has {', '.join(names[:12])}"
            + (", …." if len(names) > 12 else ".")
        )

    def words(self) -> str:
        wanted = ", ".join(f"{name} {error:g}" for name, error in self.wanted.items())
        return f"the largest standard error as a multiple of the one asked for ({wanted})"

    def amount(self, value: float) -> float:
        return float(np.sqrt(value))

    def __repr__(self) -> str:
        return f"StandardErrors({', '.join(f'{k}={e:g}' for k, e in self.wanted.items())})"


def weight_factor(weight: Array | None, n: int) -> Array:
    """B (n, r) with W = BBᵀ; the identity for no weight."""
    if weight is None:
        return np.eye(n)
    if len(weight) != n:
        raise InvalidInput(f"the weight is for {n} parameters; received shape {weight.shape}.")
    require_scales(np.abs(weight).max(keepdims=True), "the weight")
    matrix = psd(weight, "the weight", size=n)
    root = matrix.times_factor(np.eye(n))
    root = root[:, root.any(axis=0)]
    if root.shape[1] == 0:
        raise InvalidInput("the weight is zero: nothing is asked for.")
    return root


def require_length(vector: Array, names: tuple[str, ...], what: str) -> None:
    """One entry a parameter."""
    if len(vector) != len(names):
        raise InvalidInput(f"{what} must have {len(names)} entries; received {len(vector)}.")


def as_criterion(given: object) -> Criterion:
    """A criterion, or the class of one that needs no parameters (A, D, E)."""
    if isinstance(given, type) and given in (A, D, E):
        given = given()
    if isinstance(given, Mapping):
        given = StandardErrors(given)
    if not isinstance(given, Criterion):
        raise InvalidInput(
            "criterion must be one of design.A(), D(), E(), C(vector), "
            f"StandardErrors({{name: e}}); received {type(given).__name__}."
        )
    return given
