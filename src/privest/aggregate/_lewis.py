"""Lewis weights: public weights of rows that expose every value by the same amount.

A release of sums z = √c·Σ ℓ_i y_i + e with ‖ℓ_i‖ ≤ 1 has the level S = c·LLᵀ, S_ii ≤ c. With

    G = Σ x_i x_iᵀ/τ_i ,   τ_i = √(x_iᵀG⁻¹x_i) ,   ℓ_i = C⁻¹x_i/τ_i ,   G = CCᵀ

(ℓ1 Lewis weights, Cohen and Peng 2015) every S_ii is c, and S is D-optimal among all levels with
S_ii ≤ c where privacy dominates (`most_information` bounds the rest, for any σ²).
"""

from __future__ import annotations

import contextlib
import math
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import scipy

from privest.arrays import AnyArray, Array
from privest.errors import NotIdentifiable

CLOSE = 1e-3  # relative change of τ at which the iteration ends
PASSES = 60  # the change halves in each pass: 14 are usual
STARTED = (2**14, 2**18)  # rows that the iteration starts with: a pass over all comes last
SEEN = 1e-6  # least share of a direction in such rows: else a rare category is missing from them
CERTIFIED = 2  # passes of the certificate
SQUARED = 1e-140, 1e140  # norms whose squares are doubles
IN_MEMORY = 2**25  # numbers: 256 MB
BLOCK = 2**13  # rows: of ten features they stay in the inner caches


class FeatureRows:
    """Blocks of H, (rows, n), read many times: in memory, beyond 256 MB in a temporary file."""

    n: int
    count: int
    in_memory: int

    def __init__(self, n: int, blocks: Iterable[Array] = (), *, in_memory: int = IN_MEMORY) -> None:
        self.n, self.count, self.in_memory = n, 0, in_memory
        self._blocks: list[Array] = []
        self._sizes: list[int] = []
        self._file: BinaryIO | None = None
        for block in blocks:
            self.add(block)

    def add(self, block: Array) -> None:
        for at in range(0, len(block), BLOCK):
            part = np.array(block[at : at + BLOCK], dtype=np.float64, order="F")
            if (self.count + len(part)) * self.n <= self.in_memory:
                self._blocks.append(part)
            else:
                if self._file is None:
                    self._file = tempfile.TemporaryFile(prefix="privest-")  # noqa: SIM115
                    weakref.finalize(self, self._file.close)
                self._file.seek(0, 2)
                self._file.write(part.tobytes(order="F"))
                self._sizes.append(len(part))
            self.count += len(part)

    def __iter__(self) -> Iterator[Array]:
        yield from self._blocks
        if self._file is not None:
            at = 0
            for size in self._sizes:
                self._file.seek(at)  # another pass may be under way
                data = self._file.read(8 * size * self.n)
                at += len(data)
                yield np.frombuffer(data).reshape(size, self.n, order="F")

    def map(self, made: Callable[..., Any], beside: Iterable[Any] | None = None) -> Iterator[Any]:
        """made(X) of every block in turn; with something beside every block made(X, beside)."""
        if beside is None:
            return map(made, self)
        return (made(X, own) for X, own in zip(self, beside, strict=True))

    def parts(self, values: AnyArray) -> list[AnyArray]:
        sizes = [*map(len, self._blocks), *self._sizes]
        return np.split(values, np.cumsum(sizes)[:-1])

    def some(self, most: int) -> FeatureRows:
        """At most about this number of rows, evenly spread: to start an iteration with."""
        step = max(1, -(-self.count // most))
        return FeatureRows(self.n, [np.concatenate(list(self.map(lambda X: X[::step].copy())))])


@dataclass(frozen=True, eq=False)
class RowWeights:
    """ℓ_i = u_i/‖u_i‖, u_i = root·x_i; rows x_i = 0 have 0."""

    root: Array

    def of(self, X: Array) -> Array:
        """ℓ of some rows, (rows, n), each of norm at most 1 as the doubles that they are."""
        U = self.root @ X.T  # (n, rows): long loops
        size = norms(U)
        far = ~((size > SQUARED[0]) & (size < SQUARED[1]))
        if far.any():  # else the squares of a tiny row are lost, and its norm is too small
            top = np.abs(U[:, far]).max(axis=0)
            U[:, far] /= np.where(top > 0, top, 1.0)
            size[far] = norms(U[:, far])
        room = 1 + (X.shape[1] + 8) * 2.0**-52  # of a norm, a quotient and a later product
        U /= np.where(size > 0, size, 1.0) * room
        return U.T


def norms(U: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("ij,ij->j", U, U)))


def lewis_weights(rows: FeatureRows, triangle: Array) -> RowWeights:
    """The weights of the rows; R with RᵀR = HᵀH has full rank. An error in G costs no privacy."""
    root: Array = scipy.linalg.solve_triangular(triangle, np.eye(len(triangle)), trans="T")
    for most in (one for one in STARTED if rows.count > 2 * one):
        part = rows.some(most)
        times = part.count / rows.count  # as of copies: G grows with their number squared
        with contextlib.suppress(NotIdentifiable):
            root = times * _iterated(part, root / times, SEEN)
    return RowWeights(_iterated(rows, root))


@dataclass(frozen=True, eq=False)
class Sums:
    """Public sums over the rows.

    cross     B = Σ ℓ_i x_iᵀ. gram: Σ ℓ_i ℓ_iᵀ. features: HᵀH. sizes: (n,) Σ |ℓ_ij|.
    distinct  different rows, up to n + 1.
    """

    cross: Array
    gram: Array
    features: Array
    sizes: Array
    distinct: int


Weighted = Callable[[Callable[[Array, Array], Any]], Iterable[Any]]  # made(X, L) of every block


def sums_of(over: Weighted, n: int) -> Sums:
    sums, sizes, different = np.zeros((3, n, n)), np.zeros(n), np.zeros((0, n))
    for own, size, seen in over(_sums):
        sums += own
        sizes += size
        if len(different) <= n:
            different = np.unique(np.concatenate([different, seen]), axis=0)[: n + 1]
    cross, gram, features = sums
    return Sums(cross, gram, features, sizes, len(different))


def _sums(X: Array, L: Array) -> tuple[Array, Array, Array]:
    n = X.shape[1]
    seen = np.unique(X[: 4 * n + 4], axis=0)  # enough of them, unless rows are of a few kinds
    if len(seen) <= n:
        seen = np.unique(X, axis=0)
    return np.stack([L.T @ X, L.T @ L, X.T @ X]), np.abs(L).sum(axis=0), seen[: n + 1]


def _iterated(rows: FeatureRows, root: Array, least: float = 0.0) -> Array:
    """C⁻¹ of the fixed point G = CCᵀ, from another one, by steps G ← Σ u_i u_iᵀ/‖u_i‖ of it."""

    def step(root: Array, X: Array) -> Array:
        U = root @ X.T
        size = norms(U)
        U *= np.sqrt(np.divide(1.0, size, out=np.zeros_like(size), where=size > 0))
        return U @ U.T

    for _ in range(PASSES):
        total = sum(rows.map(partial(step, root)), np.zeros_like(root))
        moved = scipy.linalg.eigvalsh(total)
        if not moved[0] > least * moved[-1]:
            raise NotIdentifiable("these rows do not determine the coefficients.", np.eye(0))
        root = scipy.linalg.solve_triangular(np.linalg.cholesky(total), root, lower=True)
        if np.abs(np.log(moved)).max() / 2 < CLOSE:
            break
    return root


def most_information(over: Weighted, sums: Sums, level: float, variance: float) -> float:
    """An upper bound on ln det PI(S) of every level S with S_ii ≤ c, proved from these weights.

    log det PI is concave in S (theory.md 8): with PI = HᵀL̃V⁻¹L̃ᵀH, V = I + σ²L̃ᵀL̃, L̃ = √c·L,
    F = (H − σ²L̃V⁻¹L̃ᵀH)·chol(PI⁻¹),

        ln det PI(S) ≤ ln det PI + c·Σp_i − ‖FᵀL̃‖²    for any p with λmax(Fᵀ diag(1/p) F) ≤ 1,

    here that of the Lewis weights of F. ln det HᵀH/σ² is another bound.
    """
    B, N = math.sqrt(level) * sums.cross, level * sums.gram
    V = np.eye(len(B)) + variance * N
    solved = np.linalg.solve(V, B)
    information = B.T @ solved
    lower = np.linalg.cholesky(np.linalg.inv((information + information.T) / 2))
    moved = variance * math.sqrt(level) * solved

    def bounded(inverse: Array, X: Array, L: Array) -> tuple[Array, float, Array]:
        F = lower.T @ (X.T - moved.T @ L.T if variance else X.T)
        p = norms(inverse @ F)
        cross = F @ L
        F *= np.sqrt(np.divide(1.0, p, out=np.zeros_like(p), where=p > 0))
        return F @ F.T, float(p.sum()), cross

    inverse, found = np.eye(len(B)), math.inf
    for _ in range(CERTIFIED):
        total, size, cross = np.zeros_like(B), 0.0, np.zeros_like(B)
        for own in over(partial(bounded, inverse)):
            total, size, cross = total + own[0], size + own[1], cross + own[2]
        largest = float(scipy.linalg.eigvalsh(total)[-1])
        gap = level * (size * largest - float((cross**2).sum()))
        found = min(found, log_det(information) + gap)
        if gap < len(B) * CLOSE:
            break
        factor = np.linalg.cholesky(total)
        inverse = scipy.linalg.solve_triangular(factor, np.eye(len(B)), lower=True)
    if variance == 0:
        return found
    return min(found, log_det(sums.features) - len(B) * math.log(variance))


def log_det(matrix: Array) -> float:
    return float(np.linalg.slogdet(matrix)[1])
