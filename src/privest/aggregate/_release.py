"""The two releases of sums, and the estimate that follows from what they show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from privest.aggregate._design import (
    NOISE,
    SAFE,
    Split,
    SumDesign,
    kappa,
    noise_of_squares,
    person_scale,
    squares_scale,
)
from privest.aggregate._lewis import norms
from privest.aggregate._rows import BLOCK
from privest.arrays import Array, fingerprint_of
from privest.errors import InvalidInput
from privest.lattice import GRID, MOST, ExactSums
from privest.mechanism.source import Source
from privest.privacy import Range

Weighted = Callable[[], Iterator[tuple[Array, Array]]]  # rows of weights, and values, in blocks


@dataclass(frozen=True, eq=False)
class SumRelease:
    """What leaves: a function of the released sums and of public rows.

    sums      z of release 1, and t of the squares (None: they were not released).
    estimate  θ̂. variance: v_j. freedom: ν_j of Student's t.
    widest    variance that no table with this range exceeds: b_j/c₁ + a_j·R²/4.
    scale     k of the squares.
    """

    sums: Array
    squares: Array | None
    estimate: Array
    variance: Array
    freedom: Array
    widest: Array
    scale: float | None

    def chosen(self, confidence: float = 0.95) -> tuple[Array, Array]:
        """Variance and degrees of freedom of the shorter of the two intervals."""
        tail = (1 + confidence) / 2
        own = scipy.special.stdtrit(self.freedom, tail) * np.sqrt(self.variance)
        capped = own > scipy.special.ndtri(tail) * np.sqrt(self.widest)
        return (
            np.where(capped, self.widest, self.variance),
            np.where(capped, math.inf, self.freedom),
        )


def release_sums(
    design: SumDesign, values: Sequence[Array], limits: Range, own: Split, source: Source
) -> SumRelease:
    """Both releases of a table; `values` are the private values in the blocks of its rows.

    Values are clipped to the range first. The second release follows from the first as it left.
    """
    if own.kind != "none" and (own.kind == "persons") != (design.persons is not None):
        raise InvalidInput(f"squares of kind {own.kind!r} do not go with these rows.")
    root = math.sqrt(own.level) * (1 - 2.0**-50)
    z_rows = _Clipped(design, values, limits, root)
    if own.kind == "free":
        return _release_free(design, z_rows, limits, own, root, source)
    most = root * design.sums.sizes * _largest(limits)
    z = _noisy(z_rows.blocks, most, source, 0, own.level)
    estimate = design.inverse @ z / root
    widest = NOISE * design.noise / root**2 + design.sampling * limits.width**2 / 4
    if own.kind == "none":
        return SumRelease(z, None, estimate, widest, np.full(len(z), np.inf), widest, None)
    if own.kind == "persons":
        scale, blocks, top = _person_squares(design, z_rows, own, estimate)
        t = _noisy(blocks, top, source, 1, own.level)
        beta = design.inverse
        shown = np.einsum("ij,jk,ik->i", beta, _matrix(t, len(z)), beta) / scale
    else:
        scale, blocks, top = _squares(design, z_rows, limits, own, estimate)
        t = _noisy(blocks, top, source, 1, own.level)
        shown = t * noise_of_squares(design, own, scale)
    spread = noise_of_squares(design, own, scale)
    variance = NOISE * design.noise / root**2 + np.maximum(0.0, shown)
    freedom = np.maximum(1.0, 2 * variance**2 / spread**2)
    return SumRelease(z, t, estimate, variance, freedom, widest, scale)


class _Clipped:
    """Rows, their weights and clipped values, block by block, as often as they are wanted."""

    def __init__(
        self, design: SumDesign, values: Sequence[Array], limits: Range, root: float
    ) -> None:
        self.design, self.values, self.limits, self.root = design, values, limits, root

    def triples(self) -> Iterator[tuple[Array, Array, Array]]:
        """x_i, ℓ_i and clipped values."""
        for (X, L), y in zip(self.design.blocks(), self.values, strict=True):
            given = np.asarray(y, dtype=np.float64)
            if given.shape != (len(X),) or np.isnan(given).any():
                raise InvalidInput("every row needs one value: leave rows without a value out.")
            yield X, L, np.clip(given, self.limits.low, self.limits.high)

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """√c₁·ℓ_i and clipped values."""
        for _, L, y in self.triples():
            yield self.root * L, y


def _noisy(blocks: Weighted, most: Array, source: Source, at: int, level: float) -> Array:
    """Σ c_i v_i with noise of variance 1 on every sum; `most` bounds Σ |c_i v_i|, publicly."""
    if not float(most.max()) < MOST * GRID / 2:
        raise InvalidInput(
            f"the sums reach {float(most.max()):.1e} deviations of their noise, more than the grid "
            "holds: take a narrower range, or a stricter level."
        )

    def shown() -> object:
        sums = ExactSums(most, blocks)
        for c, v in blocks():
            sums.add(c, v)
        return sums.exactly()

    facts = fingerprint_of("sums", np.array([level, at]), most)
    return source.add_noise(shown, shape=(len(most),), at=at, fingerprint=facts)  # type: ignore[arg-type]


def _squares(
    design: SumDesign, rows: _Clipped, limits: Range, own: Split, estimate: Array
) -> tuple[float, Weighted, Array]:
    """k, the weighted squares of residuals, and a public bound on their sums."""
    middle, width = (limits.low + limits.high) / 2, math.nextafter(limits.width, math.inf)
    least = math.inf
    for X, L in design.blocks():
        M = 0.5 + np.abs(_fitted(X, estimate, limits) - middle) / width
        size = norms(design.shares(L).T)
        able = kappa(M, own.share) if own.mu is not None else 1 / M
        with np.errstate(divide="ignore"):
            least = min(least, float((able / size).min(initial=math.inf)))
    if own.mu is not None:
        scale = SAFE * own.mu / width**2 * least
    else:
        scale = SAFE * math.sqrt(own.share * own.exposure) / (2 * width) * least

    def blocks() -> Iterator[tuple[Array, Array]]:
        for X, L, y in rows.triples():
            yield scale * design.shares(L), (y - _fitted(X, estimate, limits)) ** 2

    return scale, blocks, scale * design.shown * width**2


def _person_squares(
    design: SumDesign, rows: _Clipped, own: Split, estimate: Array
) -> tuple[float, Weighted, Array]:
    """k, the entries of Σ u_P u_Pᵀ (off the diagonal times √2), u_P = Σ ℓ_i r_i, and their bound.

    ‖u_P‖ ≤ r_P = R·Σ‖ℓ_i‖M_i, and ‖A − B‖ ≤ √2·r² for A, B ≥ 0 of that size (curator.md §5).
    """
    assert design.persons is not None
    limits, n = rows.limits, design.rows.n
    middle, width = (limits.low + limits.high) / 2, math.nextafter(limits.width, math.inf)

    def reach() -> Iterator[Array]:
        for X, L in design.blocks():
            M = 0.5 + np.abs(_fitted(X, estimate, limits) - middle) / width
            yield (width * np.linalg.norm(L, axis=1) * M)[:, None]

    largest = float(design.persons.sums(reach(), 1).max())
    scale = person_scale(own, n, largest)
    upper = np.triu_indices(n)
    times = np.where(upper[0] == upper[1], 1.0, math.sqrt(2)) * scale

    def blocks() -> Iterator[tuple[Array, Array]]:
        assert design.persons is not None
        residuals = (L * (y - _fitted(X, estimate, limits))[:, None] for X, L, y in rows.triples())
        U = design.persons.sums(residuals, n)
        for at in range(0, len(U), BLOCK):
            part = U[at : at + BLOCK]
            yield part[:, upper[0]] * part[:, upper[1]] * times, np.ones(len(part))

    most = np.full(len(times), scale * math.sqrt(2) * largest**2 * len(design.persons.rows))
    return scale, blocks, most


def _matrix(entries: Array, n: int) -> Array:
    """The symmetric matrix of its entries, those off the diagonal times √2."""
    upper = np.triu_indices(n)
    found = np.zeros((n, n))
    found[upper] = np.where(upper[0] == upper[1], 1.0, math.sqrt(0.5)) * entries
    return found + np.triu(found, 1).T


def _fitted(X: Array, estimate: Array, limits: Range) -> Array:
    """m_i: the fitted means within the range."""
    return np.asarray(np.clip(X @ estimate, limits.low, limits.high))


def _release_free(
    design: SumDesign, rows: _Clipped, limits: Range, own: Split, root: float, source: Source
) -> SumRelease:
    """Sums and squares at once, for means of groups: the squares cost nothing."""
    middle = (limits.low + limits.high) / 2
    scale = SAFE * squares_scale(design, own, limits)
    n = design.rows.n

    def blocks() -> Iterator[tuple[Array, Array]]:
        for _, L, y in rows.triples():
            none = np.zeros_like(L)
            yield np.hstack([root * L, none]), y
            yield np.hstack([none, scale * design.shares(L)]), (y - middle) ** 2

    most = np.concatenate(
        [root * design.sums.sizes * _largest(limits), scale * design.shown * limits.width**2]
    )
    z, t = np.split(_noisy(blocks, most, source, 0, own.level), 2)
    estimate = design.inverse @ z / root
    noise = design.inverse @ design.inverse.T / root**2
    known, slope = np.zeros(n), np.zeros((n, n))
    for X, L in design.blocks():
        q, off = design.shares(L), X @ estimate - middle
        known += (off**2 - np.einsum("ij,jk,ik->i", X, noise, X)) @ q
        slope += (q * off[:, None]).T @ X
    b, f = design.noise, design.inflation
    variance = NOISE * b / root**2 + np.maximum(0.0, f * b * (t / scale - known))
    spread = f * b * np.sqrt(1 / scale**2 + 4 * np.einsum("ij,jk,ik->i", slope, noise, slope))
    widest = NOISE * b / root**2 + design.sampling * limits.width**2 / 4
    freedom = np.maximum(1.0, 2 * variance**2 / spread**2)
    return SumRelease(z, t, estimate, variance, freedom, widest, scale)


def _largest(limits: Range) -> float:
    return max(abs(limits.low), abs(limits.high))
