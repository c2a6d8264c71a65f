"""The criteria that a design makes small, and what bounds each of them from below.

    A  tr WΣ              the mean squared error, weighted
    C  cᵀΣc               the variance of one combination cᵀθ
    D  log det Σ          the volume of the confidence region
    E  λ_max(W^½ΣW^½)     the worst direction
    T  max_j Σ_jj/e_j²    several wanted standard errors: met if ≤ 1

Each is convex and decreasing in the information M = Σ⁻¹. A *witness* G = FFᵀ ≥ 0 bounds it from
below by <G, M>, for every M (theory.md 8):

    Variances  (Σ_j w_j tr B_jᵀZ_j)² ≤ max_j tr(B_jᵀM⁻¹B_j) · <Σ w_j Z_jZ_jᵀ, M>     Cauchy-Schwarz
    LogDet     log det M ≤ −log det G + n log(<G, M>/n)        the means of eig(GM), any G > 0
    Least      <V, M> ≥ λ<V, W> where M ≥ λW, any V ≥ 0
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import (
    EPS,
    Array,
    ArrayLike,
    Index,
    as_array,
    as_choice,
    as_scale,
    require_scales,
)
from privest.bounds import contrast_rows, weight_root
from privest.errors import InvalidInput

HIDDEN = 1e-7  # √eps: what rounding leaves of a direction that is not asked for
NEGLIGIBLE = 1e-28  # squares below this part of the largest are rounding
PIVOT = 1e3 * EPS  # relative: below n times this a Cholesky factor is checked by eigenvalues
TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True, eq=False)
class Inverse:
    """M⁻¹ = XᵀX, X = `root` (k, n), where hiddenᵀB = 0, hidden (n, h), in units of `scale` (n,)."""

    root: Array
    hidden: Array
    scale: Array

    @classmethod
    def of_information(cls, M: Array) -> Inverse:
        lower, failed = scipy.linalg.lapack.dpotrf(M, lower=1, clean=1)
        size = np.maximum(np.diagonal(M), TINY)
        if not failed and (np.diagonal(lower) ** 2 / size).min() > PIVOT * len(M):
            return cls(np.asarray(scipy.linalg.lapack.dtrtri(lower, lower=1)[0]), M[:, :0], size)
        scale = np.sqrt(size)
        values, vectors = np.linalg.eigh(M / scale / scale[:, None])
        sizes = np.sqrt(np.maximum(values, 0.0))
        return cls._of_directions(scale, sizes, vectors.T, np.sqrt(10 * len(M) * EPS))

    @classmethod
    def of_triangle(cls, triangle: Array) -> Inverse:
        """From R with RᵀR = M: the condition number is that of R, not its square."""
        scale = np.maximum(np.linalg.norm(triangle, axis=0), TINY)
        _, values, right = np.linalg.svd(triangle / scale)
        return cls._of_directions(scale, values, right, PIVOT * len(triangle))

    @classmethod
    def _of_directions(cls, scale: Array, values: Array, right: Array, least: float) -> Inverse:
        kept = values > least * values.max()
        return cls(right[kept] / values[kept, None] / scale, (right[~kept] / scale).T, scale)

    def times(self, B: Array) -> Array | None:
        """XB (k, r), so that BᵀM⁻¹B = (XB)ᵀXB; None where B is hidden in part."""
        rest = np.abs(self.hidden.T @ B).max(initial=0.0)
        if rest > HIDDEN * np.abs(B / self.scale[:, None]).max():
            return None
        return np.asarray(self.root @ B)


@dataclass(frozen=True, eq=False)
class Witness:
    """G = FFᵀ, F = `factor` (n, r), with f(M) ≥ strength/<G, M>; of log det: log det G."""

    factor: Array
    strength: float
    logarithm: bool = False

    def floor(self, most: float) -> float:
        """The criterion is at least this wherever <G, M> ≤ `most`."""
        if self.logarithm:
            n = len(self.factor)
            return self.strength - n * float(np.log(most / n)) if most > 0 else np.inf
        return self.strength / most if most > 0 else np.inf

    def needed(self, target: float) -> float:
        if self.logarithm:
            n = len(self.factor)
            return n * float(np.exp((self.strength - target) / n))
        return self.strength / target


@dataclass(frozen=True, eq=False)
class Features:
    """Numbers linear in the products w_iw_j of a row: [mix·(first products); scale·(rest)].

    first, second: the i and j of the products; mix (a, k) is for the first k of them.
    """

    first: Index
    second: Index
    mix: Array
    scale: Array

    def __len__(self) -> int:
        return len(self.mix) + len(self.scale)

    def of_rows(self, rows: Array, out: Array) -> None:
        columns = np.ascontiguousarray(rows.T)
        a, k = self.mix.shape
        np.matmul(self.mix, columns[self.first[:k]] * columns[self.second[:k]], out=out[:a])
        for i in range(int(self.first[k:].max(initial=-1)) + 1):  # w_i with all that follow it
            stop = a + len(columns) - 1 - i
            np.multiply(columns[i], columns[i + 1 :], out=out[a:stop])
            a = stop

    def of_sum(self, total: Array) -> Array:
        """(c,): the sum of the features of many rows, from Σ wwᵀ."""
        products = total[self.first, self.second]
        k = self.mix.shape[1]
        return np.concatenate([self.mix @ products[:k], self.scale * products[k:]])

    def form(self, z: Array) -> Array:
        """Q (n, n) with Σ z·features = wᵀQw."""
        a = len(self.mix)
        each = np.concatenate([z[:a] @ self.mix, self.scale * z[a:]])
        matrix = np.zeros((int(self.second.max()) + 1,) * 2)
        np.add.at(matrix, (self.first, self.second), each / 2)
        return matrix + matrix.T


def square_features(weights: Array, n: int, lead: Array) -> Features:
    """√(ω_i + ω_j) w_iw_j (i < j, i < r) for r ω's, after the `lead` (a, n) of the w_i²."""
    r = len(weights)
    first, second = np.triu_indices(n, 1)
    chosen = first < r
    first = first[chosen]
    second = second[chosen]
    padded = np.concatenate([weights, np.zeros(n - r)])
    every = np.arange(n)
    return Features(
        np.concatenate([every, first]), np.concatenate([every, second]), lead,
        np.sqrt(padded[first] + padded[second]),
    )  # fmt: skip


class Local(NamedTuple):
    """g (J,) near one M, in coordinates w = basisᵀh; pull Σ_j dual_j ∇g_j (n, n).

    features: −∇g_j first, then those whose squares are the curvature −Σ_j dual_j ∇²g_j.
    """

    values: Array
    basis: Array
    pull: Array
    features: Features


class Scaled(ABC):
    """f(M) in the scaled coordinates of a `Problem`; `offset` is added for the user's units."""

    logarithm = False
    offset = 0.0

    def value(self, M: Array) -> float:
        return self.value_of(Inverse.of_information(M))

    def witness(self, M: Array, weights: Array | None = None) -> Witness | None:
        """The witness that is tight at M where M is best; `weights`: duals of a search."""
        return self.witness_of(Inverse.of_information(M), weights)

    @abstractmethod
    def value_of(self, inverse: Inverse) -> float:
        """f from M⁻¹; inf where it does not exist."""

    @abstractmethod
    def witness_of(self, inverse: Inverse, weights: Array | None = None) -> Witness | None:
        """The same from M⁻¹."""

    def gains(self, M: Array, size: float) -> Array:
        """g_j(M), (J,), which grow like M: `size`/f_j, of log det the n-th root of det M."""
        raise NotImplementedError  # of `Least` there are none: it is an order of matrices

    def near(self, M: Array, duals: Array, size: float) -> Local:
        raise NotImplementedError

    @abstractmethod
    def within(self, basis: Array) -> Scaled:
        """The criterion where only the directions `basis` (n, f) are uncertain."""

    @abstractmethod
    def needs(self, rest: Array) -> bool:
        """Whether it depends on some of the directions `rest`."""

    def per_unit(self, witness: Witness, value: float) -> float:
        """−df/d<G, M> at the optimum: turns a price of <G, M> into one of the criterion."""
        return value**2 / witness.strength


def _single(value: float, basis: Array, omega: Array, bend: Array, dual: float) -> Local:
    """One g with ∇g = Σ ω_i w_iw_iᵀ and the curvature of weights `bend`, less its own direction."""
    r = len(omega)
    n = len(basis)
    along = np.sqrt(bend / bend.sum())
    inner = (np.eye(r) - np.outer(along, along)) * np.sqrt(bend) if r > 1 else np.zeros((0, r))
    lead = np.zeros((1 + len(inner), n))
    lead[0, :r] = -omega
    lead[1:, :r] = inner
    pull = np.diag(np.concatenate([dual * omega, np.zeros(n - r)]))
    return Local(np.array([value]), basis, pull, square_features(bend, n, lead))


def _of_products(matrix: Array, products: tuple[Index, Index]) -> Array:
    """Coefficients of wᵀAw in the products w_iw_j, i ≤ j."""
    first, second = products
    both = matrix + matrix.T
    return np.where(first == second, np.diagonal(matrix)[first], both[first, second])


def _forward(lower: Array, right: Array) -> Array:
    """L⁻¹B."""
    return np.asarray(scipy.linalg.solve_triangular(lower, right, lower=True, check_finite=False))


@dataclass(frozen=True, eq=False)
class Variances(Scaled):
    """max_j tr B_jᵀM⁻¹B_j: A and C with one j, several standard errors with one column each.

    columns (n, r): all B_j side by side; `owner` (r,): the j of each column.
    """

    columns: Array
    owner: Index

    @property
    def blocks(self) -> list[Array]:
        return [self.columns[:, self.owner == j] for j in range(int(self.owner.max()) + 1)]

    def value_of(self, inverse: Inverse) -> float:
        half = inverse.times(self.columns)
        return np.inf if half is None else float(self._each(half).max())

    def _each(self, half: Array) -> Array:
        return np.asarray(np.bincount(self.owner, np.sum(half**2, axis=0)))

    def witness_of(self, inverse: Inverse, weights: Array | None = None) -> Witness | None:
        half = inverse.times(self.columns)
        if half is None:
            return None
        each = self._each(half)
        w = (each == each.max()) * 1.0 if weights is None else np.maximum(weights, 0.0)
        w = w / w.sum()
        return Witness((inverse.root.T @ half) * np.sqrt(w)[self.owner], float(w @ each) ** 2)

    def gains(self, M: Array, size: float) -> Array:
        half = _forward(np.linalg.cholesky(M), self.columns)
        return size / self._each(half)

    def near(self, M: Array, duals: Array, size: float) -> Local:
        """With L⁻¹B = Q diag(s) Vᵀ, ω = (s g)² and d_ij = w_iᵀDw_j:

        −∇²g[D, D] = 2(Σ ω_i d_ii² + Σ_{i<j} (ω_i + ω_j) d_ij² − (Σ ω_i d_ii)²/Σω).
        """
        lower = np.linalg.cholesky(M)
        back = _forward(lower, np.eye(len(M))).T
        half = _forward(lower, self.columns) / np.sqrt(size)
        if len(duals) > 1:
            return self._several(half, back, duals)
        turn, sizes, _ = np.linalg.svd(half, full_matrices=True)
        value = 1.0 / float(np.sum(sizes**2))
        omega = (sizes[sizes**2 > NEGLIGIBLE * sizes[0] ** 2] * value) ** 2
        return _single(value, back @ turn, omega, 2.0 * float(duals[0]) * omega, float(duals[0]))

    def _several(self, half: Array, back: Array, duals: Array) -> Local:
        """One direction each: g_j has the features √(2 w_jω_j)·(u_jᵀw)(qᵀw), q ⟂ u_j."""
        n, J = half.shape
        products = np.triu_indices(n)
        values = 1.0 / np.sum(half**2, axis=0)
        pull = np.zeros((n, n))
        gradients = []
        curvature = []
        for j in range(J):
            turn = np.linalg.qr(half[:, [j]], mode="complete")[0]
            unit = turn[:, 0] * np.sqrt(values[j])
            pull += duals[j] * np.outer(unit, unit)
            gradients.append(-_of_products(np.outer(unit, unit), products))
            bent = np.sqrt(2.0 * duals[j]) * unit
            curvature += [_of_products(np.outer(bent, q), products) for q in turn.T[1:]]
        mix = np.array([*gradients, *curvature])
        return Local(values, back, pull, Features(*products, mix, np.zeros(0)))

    def within(self, basis: Array) -> Variances:
        return Variances(basis.T @ self.columns, self.owner)

    def needs(self, rest: Array) -> bool:
        return bool(np.abs(rest.T @ self.columns).max() > HIDDEN * np.abs(self.columns).max())


@dataclass(frozen=True, eq=False)
class LogDet(Scaled):
    """−log det M: D-optimality."""

    offset: float = 0.0
    logarithm = True

    def value_of(self, inverse: Inverse) -> float:
        if inverse.hidden.shape[1]:
            return np.inf
        return 2.0 * float(np.linalg.slogdet(inverse.root)[1])

    def witness_of(self, inverse: Inverse, weights: Array | None = None) -> Witness | None:
        return None if inverse.hidden.shape[1] else self.of(inverse.root.T)

    def of(self, F: Array) -> Witness | None:
        if F.shape[0] != F.shape[1]:
            return None
        sign, size = np.linalg.slogdet(F)
        return None if sign == 0 else Witness(F, 2.0 * float(size), logarithm=True)

    def gains(self, M: Array, size: float) -> Array:
        lower = np.linalg.cholesky(M)
        return np.exp([size / len(M) + 2.0 * np.log(np.diagonal(lower)).mean()])

    def near(self, M: Array, duals: Array, size: float) -> Local:
        n = len(M)
        value = float(self.gains(M, size)[0])
        back = _forward(np.linalg.cholesky(M), np.eye(n)).T
        each = np.full(n, value / n)
        return _single(value, back, each, float(duals[0]) * each, float(duals[0]))

    def within(self, basis: Array) -> LogDet:
        return self

    def needs(self, rest: Array) -> bool:
        return True

    def per_unit(self, witness: Witness, value: float) -> float:
        return float(np.exp((value - witness.strength) / len(witness.factor)))


@dataclass(frozen=True, eq=False)
class Least(Scaled):
    """1/λ, λ the largest number with M ≥ λW: E-optimality; `root` (n, r), W its square."""

    root: Array

    @property
    def weight(self) -> Array:
        return np.asarray(self.root @ self.root.T)

    def value_of(self, inverse: Inverse) -> float:
        half = inverse.times(self.root)
        return np.inf if half is None else float(np.linalg.norm(half, 2)) ** 2

    def witness_of(self, inverse: Inverse, weights: Array | None = None) -> Witness | None:
        if weights is not None:
            values, vectors = np.linalg.eigh((weights + weights.T) / 2)
            return self.of(vectors * np.sqrt(np.maximum(values, 0.0)))
        half = inverse.times(self.root)
        if half is None:
            return None
        worst = np.linalg.svd(half, full_matrices=False)[0][:, :1]
        return self.of(inverse.root.T @ worst)

    def of(self, F: Array) -> Witness | None:
        strength = float(np.sum((self.root.T @ F) ** 2))
        return Witness(F, strength) if strength > 0 else None

    def within(self, basis: Array) -> Least:
        return Least(basis.T @ self.root)

    def needs(self, rest: Array) -> bool:
        part = np.abs(rest.T @ self.weight).max()
        return bool(part > HIDDEN * np.abs(self.weight).max())


@dataclass(frozen=True, eq=False)
class Criterion:
    """The criterion of a design: "A", "C", "D", "E", or "T" (several standard errors).

    columns  B (n, r): W = BBᵀ of A and E, c of C, 1/e_j in the row of each parameter of T.
    """

    symbol: str
    columns: Array
    words: str

    def scaled(self, triangle: Array) -> Scaled:
        if self.symbol == "D":
            return LogDet(-2.0 * float(np.log(np.abs(np.diagonal(triangle))).sum()))
        columns = solved(triangle, self.columns)
        if self.symbol == "E":
            return Least(columns)
        owner = np.arange(columns.shape[1]) * (self.symbol == "T")
        return Variances(columns, owner)

    def amount(self, value: float) -> float:
        return float(np.sqrt(value)) if self.symbol == "T" else value


WORDS = {
    "A": "the sum of the squared errors",
    "D": "log det of the error covariance (the volume of the confidence region)",
    "E": "the squared error in the worst direction",
}


def as_criterion(given: object, weight: ArrayLike | None, names: tuple[str, ...]) -> Criterion:
    n = len(names)
    if not isinstance(given, str) and weight is not None:
        raise InvalidInput("weight is for the criteria 'A' and 'E'.")
    if not isinstance(given, str):
        vector = contrast_rows(given, names)  # type: ignore[arg-type]
        if len(vector) != 1 or not vector.any():
            raise InvalidInput("a criterion is 'A', 'D', 'E', or one vector that is not zero.")
        require_scales(np.abs(vector).max(keepdims=True), "the vector")
        return Criterion("C", vector.T, "the variance of one combination of the parameters")
    as_choice(given, WORDS, "criterion")
    if given == "D" and weight is not None:
        raise InvalidInput("log det has no weight: it does not depend on the units of θ.")
    words = WORDS[given] if given != "A" or weight is None else f"the weighted {WORDS['A'][4:]}"
    return Criterion(given, weight_factor(weight, n), words)


def as_errors(target: object, names: tuple[str, ...]) -> dict[int, float]:
    if not isinstance(target, Mapping):
        wanted = np.atleast_1d(as_array(target, "the target", ndim=(0, 1)))  # type: ignore[arg-type]
        if len(wanted) != len(names):
            raise InvalidInput(
                f"the model has {len(names)} parameters: give a standard error for each, or by "
                f"name, for example {{{names[0]!r}: 0.01}}."
            )
        target = dict(enumerate(wanted.tolist()))
    if not target:
        raise InvalidInput("no standard error is asked for: name a parameter.")
    return {
        _index_of(name, names): as_scale(error, f"the wanted standard error of {name}")
        for name, error in target.items()
    }


def _index_of(name: str | int, names: tuple[str, ...]) -> int:
    if name in names:
        return names.index(str(name))
    if isinstance(name, int) and 0 <= name < len(names):
        return name
    raise InvalidInput(
        f"there is no parameter {name!r}: the model has {', '.join(names[:12])}"
        + (", …." if len(names) > 12 else ".")
    )


def errors_criterion(target: object, names: tuple[str, ...]) -> Criterion:
    wanted = as_errors(target, names)
    columns = np.zeros((len(names), len(wanted)))
    for column, (j, error) in enumerate(wanted.items()):
        columns[j, column] = 1.0 / error
    listed = ", ".join(f"{names[j]} {error:g}" for j, error in wanted.items())
    return Criterion(
        "T", columns, f"the largest standard error as a multiple of the one asked for ({listed})"
    )


def solved(triangle: Array, right: Array) -> Array:
    """R⁻ᵀB for an upper triangle R."""
    return np.asarray(scipy.linalg.solve_triangular(triangle, right, trans=1, check_finite=False))


def weight_factor(weight: ArrayLike | None, n: int) -> Array:
    """B (n, r) with W = BBᵀ, W (n, n) or its diagonal (n,)."""
    if weight is None:
        return np.eye(n)
    given = as_array(weight, "the weight", ndim=(1, 2))
    if not given.size:
        raise InvalidInput("the weight is empty.")
    require_scales(np.abs(given).max(keepdims=True), "the weight")
    return weight_root(given, n)
