"""The two releases of sums, and the estimate that follows from what they show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from privest import vault
from privest.aggregate._design import SumDesign, noise_of_squares, noise_variance
from privest.aggregate._interval import VarianceFromSquares
from privest.aggregate._planner import Split, square_law
from privest.aggregate._ways import Asked, LeftSums, Values, Way, as_way
from privest.arrays import Array
from privest.errors import InvalidInput
from privest.mechanism.source import Source
from privest.privacy import Range
from privest.vault.noise import Integers


@dataclass(frozen=True, eq=False)
class SumRelease:
    """What leaves: a function of the released sums and of public rows.

    sums      z in units of its noise, counted from 0; `squares`: t (None: they were not released),
              of scale k.
    estimate  θ̂.
    variance  with the degrees of freedom `freedom` of Student's t: of the interval of
              `VarianceFromSquares`. Without squares the largest, b_j/c₁ + a_j·R²/4, and infinite.
    shown     u_j, the sampling variance as the squares show it; it may be negative.
    integers  that left, sums and squares.
    """

    sums: Array
    squares: Array | None
    estimate: Array
    variance: Array
    freedom: Array
    shown: Array | None
    scale: Array | None
    integers: tuple[tuple[int, ...], ...]


def release_sums(
    design: SumDesign,
    values: Iterable[Array] | vault.Private,
    limits: Range,
    own: Split,
    source: Way | Source,
    *,
    centre: Array | None = None,
    what: str = "sums",
) -> SumRelease:
    """Both releases of a table, of one array per block of its rows, or of sealed values.

    limits  of the values, or of their distance from the prediction by the coefficients `centre`.
    what    is released: the name of the sums' entry in a ledger.
    """
    if own.kind != "none" and (own.kind == "persons") != (design.persons is not None):
        raise InvalidInput(f"squares of kind {own.kind!r} do not go with these rows.")
    row = _one_row(design, values)
    return _Releasing(design, limits, own, as_way(source), centre).released(row, what)


def _one_row(design: SumDesign, values: Iterable[Array] | vault.Private) -> Values:
    """Plain values as one array; sealed ones as they are."""
    if isinstance(values, vault.Private):
        return values
    blocks = [np.asarray(block, dtype=np.float64) for block in values]
    sizes = [(len(X),) for X in design.rows]
    if [block.shape for block in blocks] != sizes or any(np.isnan(y).any() for y in blocks):
        raise InvalidInput("every row needs one value: leave rows without a value out.")
    return np.concatenate(blocks)


class _Releasing:
    """One release on its way: `released` makes sums, then squares, then the estimate."""

    def __init__(
        self, design: SumDesign, limits: Range, own: Split, way: Way, centre: Array | None
    ) -> None:
        self.design, self.limits, self.own, self.way = design, limits, own, way
        numbers = None if design.persons is None else np.concatenate(design.persons.numbers)
        self.map = vault.Sums(design.whole_weights, norm2=own.norm2, persons=numbers)
        self.centre: Integers | None = None
        if centre is not None:
            self.centre = np.rint(self._along(centre) / own.step).astype(np.int64)

    def _along(self, theta: Array) -> Array:
        """Xθ of all rows."""
        return np.concatenate([X @ theta for X, _ in self.design.map(lambda X, L: (X, L))])

    def released(self, values: Values, what: str) -> SumRelease:
        own, design = self.own, self.design
        asked = Asked(what, self.map, own.law, own.range, self.centre, own.reserve)
        left = self.way.leave(values, asked)
        self.own = own = replace(own, law=left.law, range=left.range)
        z = np.array([float(number) for number in left.integers])
        beside = self._estimate(z)
        whole = z
        if self.centre is not None:  # sums of the centres are public: whole numbers, added exactly
            centres = vault.maps.exact_sums(
                self.map.weights, self.centre, int(np.abs(self.centre).max(initial=0))
            )
            whole = np.array([float(a + b) for a, b in zip(left.integers, centres, strict=True)])
        sums = whole / own.law.sigma[0]
        estimate = self._estimate(whole)
        if own.kind == "none":
            widest = noise_variance(design, own) + self._top
            none = np.full(len(z), np.inf)
            return SumRelease(sums, None, estimate, widest, none, None, None, (left.integers,))
        squares, scale, shown, spread = self._squares(values, beside)
        evidence = VarianceFromSquares(
            noise_variance(design, own), shown, spread, self._top, design.freedom
        )
        variance, freedom = evidence.student()
        t = np.array([float(number) for number in squares.integers])
        return SumRelease(
            sums, t / _sigma(squares), estimate, variance, freedom, shown, scale,
            (left.integers, squares.integers),
        )  # fmt: skip

    @property
    def _top(self) -> Array:
        """a_j·R²/4: the largest variance by residuals, of values at both ends of the range."""
        return self.design.largest_sampling * self.limits.width**2 / 4

    def _estimate(self, z: Array) -> Array:
        return np.asarray(self.design.inverse @ z * (self.own.step / self.own.unit))

    def _squares(self, values: Values, estimate: Array) -> tuple[LeftSums, Array, Array, Array]:
        """What left, k of each number, and u_j with the deviation of its noise."""
        own, design = self.own, self.design
        middles = self._middles(estimate)
        squares: vault.Squares | vault.PersonSquares
        if own.kind == "persons":
            squares = vault.PersonSquares(self.map.weights, middles, self.map)
        else:
            squares = vault.Squares(design.whole_shares, middles, self.map)
        law = square_law(squares, own)
        asked = Asked("squares", squares, law, own.range, self.centre)
        left = self.way.leave(values, asked)
        t = np.array([float(number) for number in left.integers])
        if own.kind == "persons":
            return self._of_persons(left, t)
        # Of Σ q_i ρ_i the whole numbers show so many units; rounded weights leave their sum alone.
        units = np.maximum(design.whole_shares.sum(axis=0), 1) / (design.shown * own.step**2)
        scale = units / _sigma(left)
        spread = noise_of_squares(design, scale)
        shown = spread * t / _sigma(left)
        if own.kind != "free":
            return left, scale, shown, spread
        known, slope, noise = self._about_the_middle(estimate)
        unit = design.inflation * design.noise
        drift = np.einsum("ij,jk,ik->i", slope, noise, slope)
        return left, scale, shown - unit * known, unit * np.sqrt(1 / scale**2 + 4 * drift)

    def _middles(self, estimate: Array) -> Integers:
        """m_i: the means that the sums show, within the range; of free squares its middle."""
        low, high = self.own.range.ends
        if self.own.kind == "free":
            return np.full(self.design.rows.count, (low + high) // 2)
        fitted = np.rint(self._along(estimate) / self.own.step)
        middles: Integers = np.clip(fitted, low, high).astype(np.int64)
        return middles

    def _of_persons(self, left: LeftSums, t: Array) -> tuple[LeftSums, Array, Array, Array]:
        own, design, beta = self.own, self.design, self.design.inverse
        n = len(beta)
        matrix = np.zeros((n, n))
        matrix[np.triu_indices(n)] = t
        matrix = matrix + np.triu(matrix, 1).T
        per_unit = (own.step / own.unit) ** 2
        squares = np.einsum("ij,jk,ik->i", beta, matrix, beta) * per_unit
        scale = np.full(n, 1 / (per_unit * _sigma(left).max()))
        return left, scale, squares * design.inflation, noise_of_squares(design, scale)

    def _about_the_middle(self, estimate: Array) -> tuple[Array, Array, Array]:
        """What squares about the middle show besides residuals: (mean − middle)², less its noise.

        Σ q(m² − noise), its slope Σ q·m·x in θ̂, and the covariance of θ̂ by noise.
        """
        design = self.design
        noise = design.inverse @ design.inverse.T / self.own.level
        middle = sum(self.own.range.ends) // 2 * self.own.step

        def means(X: Array, L: Array) -> tuple[Array, Array]:
            q, off = design.shares(L), X @ estimate - middle
            known = (off**2 - np.einsum("ij,jk,ik->i", X, noise, X)) @ q
            return known, (q * off[:, None]).T @ X

        known, slope = (np.sum(one, axis=0) for one in zip(*design.map(means)))
        return known, slope, noise


def _sigma(left: LeftSums) -> Array:
    """σ of every number."""
    sigma = np.array([float(one) for one in left.law.sigma])
    return np.broadcast_to(sigma, len(left.integers))
