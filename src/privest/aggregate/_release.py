"""The two releases of sums, and the estimate that follows from what they show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

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
from privest.aggregate._interval import VarianceFromSquares
from privest.aggregate._lewis import BLOCK, norms
from privest.arrays import Array, fingerprint_of
from privest.errors import InvalidInput
from privest.lattice import GRID, MOST, Over, exact_sums
from privest.mechanism.source import Source
from privest.privacy import Range


@dataclass(frozen=True, eq=False)
class SumRelease:
    """What leaves: a function of the released sums and of public rows.

    sums      z; `squares`: t (None: they were not released), of scale k.
    estimate  θ̂.
    variance  with the degrees of freedom `freedom` of Student's t: of the interval of
              `VarianceFromSquares`. Without squares the largest, b_j/c₁ + a_j·R²/4, and infinite.
    shown     u_j, the sampling variance as the squares show it; it may be negative.
    """

    sums: Array
    squares: Array | None
    estimate: Array
    variance: Array
    freedom: Array
    shown: Array | None
    scale: float | None


def release_sums(
    design: SumDesign, values: Iterable[Array], limits: Range, own: Split, source: Source
) -> SumRelease:
    """Both releases of a table; `values`, one array per block of its rows, are clipped first."""
    if own.kind != "none" and (own.kind == "persons") != (design.persons is not None):
        raise InvalidInput(f"squares of kind {own.kind!r} do not go with these rows.")
    root = _root(own)
    z_rows = _Clipped(design, values, limits, root)
    if own.kind == "free":
        return _release_free(design, z_rows, limits, own, root, source)
    most = require_room(design, limits, own)
    z = _noisy(z_rows.weighted, most, source, 0, own.level)
    estimate = design.inverse @ z / root
    if own.kind == "none":
        widest = _known(design, root) + _top(design, limits)
        return SumRelease(z, None, estimate, widest, np.full(len(z), np.inf), None, None)
    if own.kind == "persons":
        scale, over, top = _person_squares(design, z_rows, own, estimate)
        t = _noisy(over, top, source, 1, own.level)
        beta = design.inverse
        squares = np.einsum("ij,jk,ik->i", beta, _matrix(t, len(z)), beta) / scale
        shown = squares * design.inflation
    else:
        scale, over, top = _squares(design, z_rows, limits, own, estimate)
        t = _noisy(over, top, source, 1, own.level)
        shown = t * noise_of_squares(design, own, scale)
    spread = noise_of_squares(design, own, scale)
    variance, freedom = _student(design, limits, root, shown, spread)
    return SumRelease(z, t, estimate, variance, freedom, shown, scale)


def _known(design: SumDesign, root: float) -> Array:
    """b_j/c₁: the variance by the noise of the sums."""
    return NOISE * design.noise / root**2


def _top(design: SumDesign, limits: Range) -> Array:
    """a_j·R²/4: the largest variance by residuals, of values at both ends of the range."""
    return design.largest_sampling * limits.width**2 / 4


def _student(
    design: SumDesign, limits: Range, root: float, shown: Array, noise: Array
) -> tuple[Array, Array]:
    known, top = _known(design, root), _top(design, limits)
    return VarianceFromSquares(known, shown, noise, top, design.freedom).student()


class _Clipped:
    def __init__(
        self, design: SumDesign, values: Iterable[Array], limits: Range, root: float
    ) -> None:
        self.design, self.values, self.limits, self.root = design, values, limits, root

    def map(self, made: Callable[[Array, Array, Array], Any]) -> Iterator[Any]:
        limits = self.limits

        def clipped(X: Array, L: Array, y: Array) -> Any:  # noqa: ANN401
            given = np.asarray(y, dtype=np.float64)
            if given.shape != (len(X),) or np.isnan(given).any():
                raise InvalidInput("every row needs one value: leave rows without a value out.")
            return made(X, L, np.clip(given, limits.low, limits.high))

        return self.design.map(clipped, self.values)

    def weighted(self, use: Callable[[Array, Array], Any]) -> Iterator[Any]:
        root = self.root
        return self.map(lambda _, L, y: use(root * L, y))


def _noisy(over: Over, most: Array, source: Source, at: int, level: float) -> Array:
    """Σ c_i v_i with noise of variance 1 on every sum; `most` bounds Σ |c_i v_i|, publicly."""
    _require_on_grid(most)
    facts = fingerprint_of("sums", np.array([level, at]), most)
    return source.add_noise(
        lambda: exact_sums(most, over), shape=(len(most),), at=at, fingerprint=facts
    )


def _squares(
    design: SumDesign, rows: _Clipped, limits: Range, own: Split, estimate: Array
) -> tuple[float, Over, Array]:
    width, shares = math.nextafter(limits.width, math.inf), design.shares

    def able(X: Array, L: Array) -> float:
        M = _farther(X, estimate, limits)
        with np.errstate(divide="ignore"):
            most = (kappa(M, own.share) if own.mu is not None else 1 / M) / norms(shares(L).T)
        return float(most.min(initial=math.inf))

    least = min(design.map(able))
    if own.mu is not None:
        scale = SAFE * own.mu / width**2 * least
    else:
        scale = SAFE * math.sqrt(own.share * own.exposure) / (2 * width) * least

    def over(use: Callable[[Array, Array], Any]) -> Iterator[Any]:
        return rows.map(
            lambda X, L, y: use(scale * shares(L), (y - _fitted(X, estimate, limits)) ** 2)
        )

    return scale, over, scale * design.shown * width**2


def _person_squares(
    design: SumDesign, rows: _Clipped, own: Split, estimate: Array
) -> tuple[float, Over, Array]:
    """k, the entries of Σ u_P u_Pᵀ (off the diagonal times √2), u_P = Σ ℓ_i r_i, and their bound.

    ‖A − B‖ ≤ √2·r² for A, B ≥ 0 of norm r², r = R·max_P Σ‖ℓ_i‖M_i.
    """
    assert design.persons is not None
    limits, n = rows.limits, design.rows.n
    width = math.nextafter(limits.width, math.inf)
    reach = design.map(lambda X, L: (width * norms(L.T) * _farther(X, estimate, limits))[:, None])
    largest = float(design.persons.sums(reach, 1).max())
    scale = person_scale(own, n, largest)
    upper = np.triu_indices(n)
    times = np.where(upper[0] == upper[1], 1.0, math.sqrt(2)) * scale

    def over(use: Callable[[Array, Array], Any]) -> Iterator[Any]:
        assert design.persons is not None
        residuals = rows.map(lambda X, L, y: L * (y - _fitted(X, estimate, limits))[:, None])
        U = design.persons.sums(residuals, n)
        for at in range(0, len(U), BLOCK):
            part = U[at : at + BLOCK]
            yield use(part[:, upper[0]] * part[:, upper[1]] * times, np.ones(len(part)))

    most = np.full(len(times), scale * math.sqrt(2) * largest**2 * len(design.persons.rows))
    return scale, over, most


def _matrix(entries: Array, n: int) -> Array:
    upper = np.triu_indices(n)
    found = np.zeros((n, n))
    found[upper] = np.where(upper[0] == upper[1], 1.0, math.sqrt(0.5)) * entries
    return found + np.triu(found, 1).T


def _fitted(X: Array, estimate: Array, limits: Range) -> Array:
    return np.asarray(np.clip(X @ estimate, limits.low, limits.high))


def _farther(X: Array, estimate: Array, limits: Range) -> Array:
    """M_i = ½ + |m_i − middle|/R."""
    middle, width = (limits.low + limits.high) / 2, math.nextafter(limits.width, math.inf)
    return np.asarray(0.5 + np.abs(_fitted(X, estimate, limits) - middle) / width)


def _release_free(
    design: SumDesign, rows: _Clipped, limits: Range, own: Split, root: float, source: Source
) -> SumRelease:
    """Sums and squares at once, for means of groups: the squares cost nothing."""
    middle = (limits.low + limits.high) / 2
    scale = SAFE * squares_scale(design, own, limits)
    shares = design.shares

    def over(use: Callable[[Array, Array], Any]) -> Iterator[Any]:
        def both(_: Array, L: Array, y: Array) -> Any:  # noqa: ANN401
            none = np.zeros_like(L)
            c = np.block([[root * L, none], [none, scale * shares(L)]])
            return use(c, np.concatenate([y, (y - middle) ** 2]))

        return rows.map(both)

    most = np.concatenate(
        [require_room(design, limits, own), scale * design.shown * limits.width**2]
    )
    z, t = np.split(_noisy(over, most, source, 0, own.level), 2)
    estimate = design.inverse @ z / root
    noise = design.inverse @ design.inverse.T / root**2

    def means(X: Array, L: Array) -> tuple[Array, Array]:
        q, off = shares(L), X @ estimate - middle
        known = (off**2 - np.einsum("ij,jk,ik->i", X, noise, X)) @ q
        return known, (q * off[:, None]).T @ X

    known, slope = (np.sum(one, axis=0) for one in zip(*design.map(means)))
    unit = design.inflation * design.noise
    spread = unit * np.sqrt(1 / scale**2 + 4 * np.einsum("ij,jk,ik->i", slope, noise, slope))
    shown = unit * (t / scale - known)
    variance, freedom = _student(design, limits, root, shown, spread)
    return SumRelease(z, t, estimate, variance, freedom, shown, scale)


def require_room(design: SumDesign, limits: Range, own: Split) -> Array:
    """Bounds on the sums, in deviations of their noise: public, and refused beyond the grid."""
    largest = max(abs(limits.low), abs(limits.high))
    with np.errstate(over="ignore"):  # infinity is refused too
        most = _root(own) * design.sums.sizes * largest
    _require_on_grid(most)
    return np.asarray(most)


def _require_on_grid(most: Array) -> None:
    if not float(most.max()) < MOST * GRID / 2:
        raise InvalidInput(
            f"the sums reach {float(most.max()):.1e} deviations of their noise, more than the grid "
            "holds: take a range nearer to 0 for its width, or a stricter level."
        )


def _root(own: Split) -> float:
    return math.sqrt(own.level) * (1 - 2.0**-50)
