"""How fast averaging converges: the two ends of the spectrum of W, and what they predict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import scipy

from privest.arrays import Array, as_choice
from privest.errors import InvalidInput, NumericalFailure
from privest.records import Record

if TYPE_CHECKING:
    from privest.network._graph import Sparse

DENSE = 800  # agents up to which all eigenvalues are computed
NARROW = 1e9  # N·bandwidth² up to which a factorisation of I − W is cheap
MARGIN = 0.01  # below the Lanczos value of λ_N, whose error is 1e-3


Method = Literal["plain", "chebyshev"]
METHODS: tuple[str, ...] = get_args(Method)


@dataclass(frozen=True)
class Spectrum(Record):
    """λ_N ≤ … ≤ λ_2 < λ_1 = 1 of W: `lowest` = λ_N, `second` = λ_2.

        plain        ‖x_k − x̄‖ ≤ ρ^k ‖x_0 − x̄‖ ,               ρ = max(|λ_2|, |λ_N|) = 1 − gap
        Chebyshev    ‖x_k − x̄‖ ≤ ‖x_0 − x̄‖ / T_k(1/q) ,        1/q = 1 + 2(1 − λ_2)/(λ_2 − λ_N)

    (Euclidean norm over agents.) Rounds to a factor ε: ln(1/ε)/gap and about ln(2/ε)/√(4·(1 − λ_2)/
    (λ_2 − λ_N)). Values that are off cost rounds, never correctness: averaging stops by a
    certificate that does not use them (λ_N too large makes Chebyshev diverge, which it notices).

    >>> ring = Spectrum(-1 / 3, (1 + 2 * math.cos(2 * math.pi / 100)) / 3)  # 100 agents
    >>> ring.plain_rounds(1e-6), ring.chebyshev_rounds(1e-6)
    (10496, 231)
    """

    lowest: float
    second: float

    def __post_init__(self) -> None:
        if not -1.0 < self.lowest <= self.second < 1.0:
            raise InvalidInput(
                "a spectrum needs −1 < λ_N ≤ λ_2 < 1; received "
                f"λ_N = {self.lowest:.17g}, λ_2 = {self.second:.17g}."
            )

    @property
    def gap(self) -> float:
        """1 − max(|λ_2|, |λ_N|)."""
        return min(1.0 - self.second, 1.0 + self.lowest, 1.0)

    @property
    def middle(self) -> float:
        """m = (λ_2 + λ_N)/2."""
        return (self.second + self.lowest) / 2

    @property
    def stretch(self) -> float:
        """1/(1 − m)."""
        return 1.0 / (1.0 - self.middle)

    @property
    def ratio(self) -> float:
        """q = h/(1 − m) < 1, h = (λ_2 − λ_N)/2."""
        return (self.second - self.lowest) / 2 * self.stretch

    @property
    def rate(self) -> float:
        """arcosh(1/q): Chebyshev gains about this many e-folds a round."""
        if self.second == self.lowest:
            return math.inf
        over = 2.0 * (1.0 - self.second) / (self.second - self.lowest)  # 1/q − 1
        return math.log1p(over + math.sqrt(over * (2.0 + over)))

    def plain_bound(self, rounds: int) -> float:
        """ρ^k."""
        return (1.0 - self.gap) ** rounds

    def chebyshev_bound(self, rounds: int) -> float:
        """1/T_k(1/q)."""
        turns = rounds * self.rate if rounds else 0.0
        return 2.0 * math.exp(-turns) / (1.0 + math.exp(-2.0 * turns))

    def rounds(self, method: Method, factor: float) -> int:
        """The rounds after which the method's bound has fallen by `factor`."""
        plain = as_choice(method, METHODS, "method") == "plain"
        return self.plain_rounds(factor) if plain else self.chebyshev_rounds(factor)

    def plain_rounds(self, factor: float) -> int:
        """The least k with ρ^k ≤ factor."""
        _require_factor(factor)
        return math.ceil(math.log(factor) / math.log1p(-self.gap)) if self.gap < 1.0 else 1

    def chebyshev_rounds(self, factor: float) -> int:
        """The least k with 1/T_k(1/q) ≤ factor."""
        _require_factor(factor)
        return max(1, math.ceil(math.acosh(1.0 / factor) / self.rate))


def _require_factor(factor: float) -> None:
    if not 0.0 < factor < 1.0:
        raise InvalidInput(f"the factor to gain must lie between 0 and 1; received {factor:g}.")


def spectrum_of(matrix: Sparse) -> Spectrum:
    """λ_2 and λ_N of a checked W: all eigenvalues up to 800 agents; beyond, λ_2 from a
    factorisation of I − W for thin graphs (chains, rings) and by Lanczos for the others.

    λ_N comes out too low by up to 0.01 on purpose: Chebyshev averaging diverges if an eigenvalue
    lies below the interval, and hardly slows down if the interval is a little too long.
    Cost for N = 10⁵ agents with 20 neighbours: some hundred products (seconds). Raises
    NumericalFailure where neither works: give `spectrum=` yourself then.
    """
    count = matrix.shape[0]
    if count == 1:
        return Spectrum(0.0, 0.0)
    if count <= DENSE:
        values = np.linalg.eigvalsh(matrix.toarray())
        return Spectrum(float(values[0]), float(values[-2]))
    lowest = max(_lowest(matrix), float(2.0 * matrix.diagonal().min() - 1.0))  # Gershgorin
    return Spectrum(lowest, max(_second(matrix), lowest))


def _lowest(matrix: Sparse) -> float:
    """Slightly less than λ_N."""
    try:
        return _lanczos(matrix, "SA", 1e-3) - MARGIN
    except scipy.sparse.linalg.ArpackNoConvergence:
        return -1.0


def _second(matrix: Sparse) -> float:
    count = matrix.shape[0]
    try:
        if count * _bandwidth(matrix) ** 2 <= NARROW:
            rest = (scipy.sparse.eye_array(count) - matrix).tocsc()
            values = scipy.sparse.linalg.eigsh(
                rest, k=2, sigma=-1e-6, which="LM", v0=_start(count), return_eigenvectors=False
            )
            return float(1.0 - values.max())
        rough = _lanczos(matrix, "LA", 1e-6)
        return rough if 1.0 - rough > 1e-5 else _lanczos(matrix, "LA", 1e-9)
    except scipy.sparse.linalg.ArpackNoConvergence:
        raise NumericalFailure(
            f"The spectral gap of this graph ({count} agents) is too small to be found by Lanczos. "
            "Give spectrum=Spectrum(lowest, second) (rough values will do: λ_2 too small costs "
            "rounds; λ_N must not be too large), or use method='plain'."
        ) from None


def _lanczos(matrix: Sparse, which: Literal["SA", "LA"], tolerance: float) -> float:
    """One end of the spectrum of W − 11ᵀ/N (λ_1 = 1 becomes 0)."""
    count = matrix.shape[0]

    def times(vector: Array) -> Array:
        flat = vector.ravel()
        return np.asarray(matrix @ flat - flat.mean())

    operator = scipy.sparse.linalg.LinearOperator((count, count), matvec=times, dtype=np.float64)
    found = scipy.sparse.linalg.eigsh(
        operator, k=1, which=which, tol=tolerance, ncv=60, maxiter=40, v0=_start(count),
        return_eigenvectors=False,
    )  # fmt: skip
    return float(found[0])


def _start(count: int) -> Array:
    """A fixed start: the same answer twice."""
    return np.random.default_rng(0).standard_normal(count)


def _bandwidth(matrix: Sparse) -> float:
    """After reverse Cuthill-McKee."""
    order = scipy.sparse.csgraph.reverse_cuthill_mckee(matrix, symmetric_mode=True)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    i, j = matrix.tocoo().coords
    return float(np.abs(place[i] - place[j]).max())
