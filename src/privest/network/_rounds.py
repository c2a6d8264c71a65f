"""Rounds of average consensus for all agents at once: one sparse product a round.

Row i of X (N, d) is the vector of agent i. Plain averaging is X ← W X (`algo:average`). Chebyshev
averaging takes the polynomial of W that is least on [λ_N, λ_2]:

    x_1 = P x_0 ,   x_{k+1} = ω_{k+1} P x_k + (1 − ω_{k+1}) x_{k−1} ,   P = (W − m I)/(1 − m)
    m = (λ_2 + λ_N)/2 ,  h = (λ_2 − λ_N)/2 ,  q = h/(1 − m) ,
    ω_2 = 1/(1 − q²/2) ,  ω_{k+1} = 1/(1 − q²ω_k/4)

Chebyshev averaging needs a fixed W.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

import numpy as np
import scipy

from privest.arrays import Array, as_choice, as_count
from privest.errors import InvalidInput, NumericalFailure
from privest.network._graph import Fixed, Links

if TYPE_CHECKING:
    from privest.network._graph import Sparse

T = TypeVar("T")
Method = Literal["plain", "chebyshev"]
METHODS: tuple[str, ...] = get_args(Method)

DENSE = 800  # agents up to which all eigenvalues are computed
NARROW = 1e9  # N·bandwidth² up to which a factorisation of I − W is cheap
MARGIN = 0.01  # below the Lanczos value of λ_N, whose error is 1e-3
PATIENCE = 20  # the certificate is looked at every k/PATIENCE rounds: at most 5 % too many
MOST_ROUNDS = 1_000_000


# --- the vector of an agent -----------------------------------------------------------------------


def packed(x: Array, r: Array) -> Array:
    """[x, upper triangle of r], the vector of an agent: x (..., n), r (..., n, n)."""
    above = np.triu_indices(r.shape[-1])
    return np.concatenate([x, r[..., above[0], above[1]]], axis=-1)


def unpacked(values: Array, n: int) -> tuple[Array, Array]:
    """x (..., trials·n) and r (..., n, n) of vectors (..., trials·n + n(n+1)/2)."""
    flat = values.shape[-1] - n * (n + 1) // 2
    above = np.triu_indices(n)
    r = np.empty((*values.shape[:-1], n, n))
    r[..., above[0], above[1]] = r[..., above[1], above[0]] = values[..., flat:]
    return values[..., :flat], r


# --- the spectrum of W ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Spectrum:
    """λ_N ≤ … ≤ λ_2 < λ_1 = 1 of W: `lowest` = λ_N, `second` = λ_2.

        plain        ‖x_k − x̄‖ ≤ ρ^k ‖x_0 − x̄‖ ,               ρ = max(|λ_2|, |λ_N|) = 1 − gap
        Chebyshev    ‖x_k − x̄‖ ≤ ‖x_0 − x̄‖ / T_k(1/q) ,        1/q = 1 + 2(1 − λ_2)/(λ_2 − λ_N)

    (Euclidean norm over agents.) The certificate does not use them.
    """

    lowest: float
    second: float

    def __post_init__(self) -> None:
        if not -1.0 < self.lowest <= self.second < 1.0:
            raise NumericalFailure(
                "the spectral gap of W is below rounding: use a graph with more links, or weights "
                "that are not so small."
            )

    @property
    def gap(self) -> float:
        """1 − max(|λ_2|, |λ_N|)."""
        return min(1.0 - self.second, 1.0 + self.lowest, 1.0)

    @property
    def stretch(self) -> float:
        """1/(1 − m)."""
        return 1.0 / (1.0 - (self.second + self.lowest) / 2)

    def factor(self, before: float, rounds: int) -> float:
        """ω of round `rounds` + 1 from ω of the round before."""
        if rounds == 0:
            return 1.0
        squared = ((self.second - self.lowest) / 2 * self.stretch) ** 2  # q²
        return 1.0 / (1.0 - squared / 2.0) if rounds == 1 else 1.0 / (1.0 - squared * before / 4.0)

    def rounds(self, method: Method, factor: float) -> int:
        """The least k for which the method's bound is at most `factor` < 1."""
        if method == "plain":
            return math.ceil(math.log(factor) / math.log1p(-self.gap)) if self.gap < 1.0 else 1
        if self.second == self.lowest:
            return 1
        over = 2.0 * (1.0 - self.second) / (self.second - self.lowest)  # 1/q − 1
        rate = math.log1p(over + math.sqrt(over * (2.0 + over)))  # arcosh(1/q)
        return max(1, math.ceil(math.acosh(1.0 / factor) / rate))


def spectrum_of(matrix: Sparse) -> Spectrum:
    """λ_2 and λ_N of W: all eigenvalues up to 800 agents; beyond, λ_2 from a factorisation of I − W
    for thin graphs (chains, rings) and by Lanczos for the others (about 100 products).

    λ_N is too low by up to 0.01 on purpose: Chebyshev averaging diverges if an eigenvalue lies
    below the interval. Raises NumericalFailure where neither works.
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
            f"The spectral gap of this graph ({count} agents) is too small to be found by Lanczos: "
            "use method='plain', or a graph with more links."
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
    return np.random.default_rng(0).standard_normal(count)


def _bandwidth(matrix: Sparse) -> float:
    order = scipy.sparse.csgraph.reverse_cuthill_mckee(matrix, symmetric_mode=True)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    i, j = matrix.tocoo().coords
    return float(np.abs(place[i] - place[j]).max())


# --- rounds ---------------------------------------------------------------------------------------


def chosen(method: Method | None, links: Links) -> Method:
    if method is not None:
        as_choice(method, METHODS, "method")
    fixed = isinstance(links, Fixed)
    if method == "chebyshev" and not fixed:
        raise InvalidInput(
            "Chebyshev averaging needs the same W in every round: its weights may be negative and "
            "with links that change it need not converge. Use method='plain'."
        )
    return method or ("chebyshev" if fixed else "plain")


def states(
    start: Array, links: Links, method: Method, spectrum: Spectrum | None
) -> Iterator[Array]:
    """X_0, X_1, … (N, d), without end; each is the caller's until the next but one is asked for."""
    if method == "plain" or spectrum is None:
        return _plain(start, links)
    return _chebyshev(start, links.matrix(0), spectrum)


def certified_round(
    passing: Iterable[Array],
    radius: Array,
    judge: Callable[[int, Array, Array], tuple[float, T]],
    tolerance: float,
    limit: int,
) -> tuple[int, T]:
    """The first round k that `judge` certifies within the tolerance, and its finding.

    `judge` is given k, X_k and its spread (d,), every k/20 rounds and at the `limit`, and returns
    the certificate in standard errors and its finding. A spread above `radius` (d,) shows that an
    eigenvalue lies below the interval of Chebyshev averaging.
    """
    look = 0
    for k, now in enumerate(passing):
        if k < min(look, limit):
            continue
        look = k + max(1, k // PATIENCE)
        wide = now.max(axis=0) - now.min(axis=0)
        if not (wide <= radius).all():
            raise NumericalFailure(
                "The agents drift apart: the least eigenvalue of W was not found well enough for "
                "Chebyshev averaging. Use method='plain'."
            )
        reached, found = judge(k, now, wide)
        if reached <= tolerance:
            return k, found
        if k >= limit:
            break
    raise NumericalFailure(
        f"After {k} rounds the estimates are certified to {reached:.2g} standard errors only "
        f"(asked: {tolerance:.2g}). Allow more with max_rounds, ask for less (rounding sets a "
        "limit too), or use a graph with more links."
    )


def most_rounds(asked: int | None, predicted: int | None) -> int:
    if asked is not None:
        return as_count(asked, "max_rounds", least=0)
    return MOST_ROUNDS if predicted is None else 2 * predicted + 100


def known_spectrum(net: Links, method: Method) -> Spectrum | None:
    """λ_N and λ_2, for Chebyshev; for plain averaging, which only predicts by them, where cheap."""
    if isinstance(net, Fixed) and (method == "chebyshev" or net.agents <= DENSE):
        return spectrum_of(net.table)
    return None


def _plain(start: Array, links: Links) -> Iterator[Array]:
    now, k = start, 0
    while True:
        yield now
        now = links.matrix(k) @ now
        k += 1


def _chebyshev(start: Array, table: Sparse, spectrum: Spectrum) -> Iterator[Array]:
    moved = table * spectrum.stretch
    # P = I + (W − I)/(1 − m), the diagonal from the rest: an error of the row sums would move the
    # average, more with every round.
    moved.setdiag(1.0 - (moved.sum(axis=1) - moved.diagonal()))
    scaled, scale = moved.copy(), 1.0
    yield start
    before, now, factor, k = start.copy(), moved @ start, 1.0, 1
    while True:
        yield now
        factor = spectrum.factor(factor, k)
        if factor != scale:  # ω soon stays the same
            np.multiply(moved.data, factor, out=scaled.data)
            scale = factor
        later = scaled @ now
        before *= 1.0 - factor
        later += before
        before, now, k = now, later, k + 1
