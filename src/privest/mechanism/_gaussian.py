"""The optimal mechanism: Gaussian noise that carries exactly the information S (Theorem 2)."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Self

import numpy as np

from privest import lattice
from privest.arrays import Array, ArrayLike, Flags, as_count, plural
from privest.errors import InvalidInput
from privest.mechanism._literal import Terms, literal_terms
from privest.mechanism._vector import Information, Mechanism
from privest.mechanism.rows import (
    as_range,
    clip_of,
    marked,
    of_size,
    real_numbers,
    repeated,
    split_missing,
)
from privest.mechanism.source import Source, as_protected, as_source
from privest.privacy import GridStatement, Move, PrivacyLevel, as_level, grid_statement


class GaussianMechanism(Mechanism):
    """z̃ = Lᵀy + e, e ~ N(0, I_r), S = L Lᵀ of any rank r ≥ 1.

        ln p = −½‖z̃ − Lᵀy‖² − (r/2) ln 2π ,   score L(z̃ − Lᵀy) ,   I_z(y) = S for every y

    Attained by: the bound of `coro:ppcr` is, with Gaussian w. The paper's release z = Sy + d,
    d ~ N(0, S), is z = L z̃ (`paper_release`) and shows the same; for singular S it has no
    density, z̃ has one. Unbiased: E z̃ = Lᵀy. No finite ε; exactly μ-GDP (`mu`).
    Structure is kept: s·I on a million readings is one number.

    >>> mechanism = GaussianMechanism.calibrated([[4.0, 2.0], [2.0, 1.0]], 2)
    >>> mechanism.outputs  # rank one: S = (2, 1)ᵀ(2, 1)
    1
    >>> abs(mechanism.score([6.0], [1.0, 1.0])).tolist()  # (2, 1)·(6 − 3) up to sign: of L
    [6.0, 3.0]
    >>> mechanism.information([1.0, 1.0]).matrix.tolist()
    [[4.0, 2.0], [2.0, 1.0]]
    """

    def __init__(
        self,
        level: PrivacyLevel | ArrayLike,
        readings: int,
        *,
        range: tuple[float, float] | None = None,
    ) -> None:
        self.level = as_level(level)
        self.readings = as_count(readings, "readings", least=1)
        self.range = as_range(range)
        self._S = self.level.for_size(self.readings)
        if self._S.rank == 0:
            raise InvalidInput("at level 0 nothing may be released: there is no mechanism.")
        self._kept = self._S.informative()
        self.outputs = int(self._kept.sum())
        self._clip = None
        if self.range is not None:
            self._clip = clip_of([weights for weights, _ in self._terms], self.range)

    @classmethod
    def calibrated(cls, level: PrivacyLevel | ArrayLike, readings: int) -> Self:
        """The mechanism with I_z(y) = S."""
        return cls(level, readings)

    def simulate(
        self, y: ArrayLike, rng: np.random.Generator | Source, trials: int | None = None
    ) -> Array:
        shown = repeated(self._shown(y), trials)
        return as_source(rng).add_noise(shown, clip=self._clip, fingerprint=self.level.fingerprint)

    def release(
        self, y: ArrayLike, source: Source | None = None, trials: int | None = None
    ) -> Array:
        """z̃ with protected noise (`mechanism.source.Protected`), multiples of 2⁻¹⁰; no seed.

        I_z(y) ≤ S for every y (`literal`), E z̃ = Lᵀy inside the range (whose ends are multiples of
        the grid, up to a step further in); the noise has variance at most 1 + 3·2⁻²²: discrete
        noise and rounding. Nothing is refused because of a value: beyond the range it is clipped,
        NaN is missing, and every entry of z̃ that would read it is NaN.
        `trials` releases of the same readings, each with noise of its own, show `trials` times S.
        """
        raw = repeated(of_size(real_numbers(y), self.readings), trials)
        return as_protected(source).add_noise(
            lambda: self._exactly(raw),
            shape=(*raw.shape[:-1], self.outputs),
            clip=self._clip,
            fingerprint=self.level.fingerprint,
        )

    @property
    def ends(self) -> tuple[Array, Array] | None:
        """The least and the largest Lᵀy that is shown, (r,) each; None where there is no range."""
        if self._clip is None:
            return None
        low, high = (lattice.GRID * np.broadcast_to(end, self.outputs) for end in self._clip)
        return low, high

    def log_density(self, z: ArrayLike, y: ArrayLike) -> Array:
        constant = 0.5 * self.outputs * math.log(2.0 * math.pi)
        return np.asarray(-0.5 * (self._rest(z, y) ** 2).sum(axis=-1) - constant)

    def score(self, z: ArrayLike, y: ArrayLike) -> Array:
        rest = self._rest(z, y)
        return self._times_factor(rest if self.ends is None else rest * self._inside(y))

    def information(self, y: ArrayLike) -> Information:
        """S; where a coordinate of Lᵀy is clipped L D Lᵀ, D = diag(inside): ≤ S."""
        if self.ends is None:
            self._readings(y)
            return Information(self._S.dense(), 0.0)
        half = self._times_factor(np.diag(self._inside(y).astype(float)))  # rows D Lᵀ
        return Information(half.T @ half, 0.0)

    def worst_information(self) -> Array:
        return self._S.dense()

    def mu(self, move: float | Move) -> float:
        """μ: the release is exactly μ-GDP when one reading moves by at most `move`."""
        return self.level.to_mu(move=move)

    def statement(self, move: float | Move | None = None, *, delta: float = 1e-6) -> GridStatement:
        """What `release` promises: Fisher, ρ, μ and (ε, δ) (`privacy.grid_statement`).

        With a range it holds for every change of one reading; `move` is a condition.
        """
        widths = None
        if self._clip is not None:
            widths = np.zeros(self.readings)
            widths[self._kept] = self._clip[1] - self._clip[0]
            widths = widths.max() if self.level.number is not None else widths
        return grid_statement(
            self.level, move=move, range=self.range, widths=widths, delta=delta,
            readings=self.readings,
        )  # fmt: skip

    def paper_release(self, z: ArrayLike) -> Array:
        """z = L z̃ = Sy + d, d ~ N(0, S): the paper's form of a release z̃."""
        return self._times_factor(self._outputs(z))

    @property
    def parameters(self) -> dict[str, Any]:
        return {"level": self.level, "rank": self.outputs}

    def __repr__(self) -> str:
        return f"GaussianMechanism({self.level!r}, {plural(self.readings, 'reading')})"

    def _shown(self, y: ArrayLike) -> Array:
        """Lᵀy without the zero rows, (..., r)."""
        given = self._readings(y)
        columns = given.reshape(-1, self.readings).T
        shown = self._S.factor_rows(columns)[self._kept]
        return np.asarray(shown.T.reshape(*given.shape[:-1], self.outputs))

    @property
    def literal(self) -> bool:
        """Whether I_z(y) ≤ S is proved for S as typed; else it holds for LLᵀ, S to rounding."""
        return self._literal[1]

    @cached_property
    def _literal(self) -> tuple[Terms, bool]:
        terms, proved = literal_terms(self._S)
        kept = self._kept
        shown = np.flatnonzero(kept)
        return [(c[kept], shown if k is None else k[kept]) for c, k in terms], proved

    @property
    def _terms(self) -> Terms:
        """(Lᵀy)_i = Σ_t c_t[i]·y[k_t[i]], without the zero rows."""
        return self._literal[0]

    def _exactly(self, raw: Array) -> lattice.Exactly:
        """Lᵀy without the zero rows, as exact sums; NaN where a reading of it is missing."""
        values, absent = split_missing(raw, finite=False)
        exact = lattice.sum_of_products(
            [(weights, values[..., place]) for weights, place in self._terms]
        )
        return marked(exact, None if absent is None else self._reads(absent))

    def _reads(self, absent: Flags) -> Flags:
        """Which entries of Lᵀy read a reading that is missing."""
        read = [(weights != 0) & absent[..., place] for weights, place in self._terms]
        return np.asarray(np.logical_or.reduce(read))

    def _times_factor(self, x: Array) -> Array:
        """L x, (..., m)."""
        full = np.zeros((*x.shape[:-1], self.readings))
        full[..., self._kept] = x
        columns = full.reshape(-1, self.readings).T
        return np.asarray(self._S.times_factor(columns).T.reshape(full.shape))

    def _rest(self, z: ArrayLike, y: ArrayLike) -> Array:
        shown = self._shown(y)
        return self._outputs(z) - (shown if self.ends is None else np.clip(shown, *self.ends))

    def _inside(self, y: ArrayLike) -> Flags:
        """Which coordinates of Lᵀy are not clipped."""
        assert self.ends is not None
        shown, (low, high) = self._shown(y), self.ends
        return np.asarray((low < shown) & (shown < high))
