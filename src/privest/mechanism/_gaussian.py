"""The optimal mechanism: Gaussian noise that carries exactly the information S (`thm:opt`)."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from privest import lattice
from privest.arrays import Array, ArrayLike, Flags, Index, as_count, plural
from privest.errors import InvalidInput
from privest.linalg import PSD, Blocks
from privest.mechanism._mechanism import Mechanism, repeated
from privest.mechanism.inputs import marked, split_missing
from privest.mechanism.rows import as_range, clip_of
from privest.mechanism.source import Payer, Source, as_source, paid
from privest.privacy import Adjacency, PrivacyLevel, Statement, as_level, grid_statement

PROVED = 512  # measurements up to which the factor of a level that couples them is proved
# A smaller L reveals (1 − τ)Lᵀy. Beyond this τ that would be seen in long averages.
LARGEST_SHRINK = 2.0**-30

Terms = list[tuple[Array, Index | None]]


class GaussianMechanism(Mechanism):
    """z̃ = Lᵀy + e, e ~ N(0, I_r), S = L Lᵀ of any rank r ≥ 1.

        ln p = −½‖z̃ − Lᵀy‖² − (r/2) ln 2π ,   score L(z̃ − Lᵀy) ,   I_z(y) = S for every y

    With Gaussian w it attains the bound of `thm:crbound` (`optM`). The paper's z = Sy + d,
    d ~ N(0, S) (`eq:mech`), is L z̃. No finite ε; exactly μ-GDP. s·I on a million measurements is
    one number. `range` (low, high) of every measurement: Lᵀy is clipped to what it allows.

    >>> mechanism = GaussianMechanism([[4.0, 2.0], [2.0, 1.0]], 2)
    >>> mechanism.outputs  # rank one: S = (2, 1)ᵀ(2, 1)
    1
    >>> abs(mechanism.score([6.0], [1.0, 1.0])).tolist()  # (2, 1)·(6 − 3) up to sign: of L
    [6.0, 3.0]
    >>> mechanism.information([1.0, 1.0]).dense().tolist()
    [[4.0, 2.0], [2.0, 1.0]]
    """

    def __init__(
        self,
        level: PrivacyLevel | ArrayLike,
        measurements: int | None = None,
        *,
        range: tuple[float, float] | None = None,
    ) -> None:
        self.level: PrivacyLevel = as_level(level)
        size = self.level.size if measurements is None else measurements
        if size is None:
            raise InvalidInput("the level is one number: give the number of measurements.")
        self.measurements: int = as_count(size, "measurements", least=1)
        self.range: tuple[float, float] | None = as_range(range)
        self._S = self.level.for_size(self.measurements)
        if self._S.rank == 0:
            raise InvalidInput("at level 0 nothing may be released: there is no mechanism.")
        self._kept = self._S.informative()
        self.outputs: int = int(self._kept.sum())
        self._clip = None
        if self.range is not None:
            self._clip = clip_of([weights for weights, _ in self._terms], self.range)

    def simulate(
        self, y: ArrayLike, rng: np.random.Generator | Source, trials: int | None = None
    ) -> Array:
        values, absent = self._to_simulate(y)
        shown = repeated(self._shown(values), trials)
        drawn = as_source(rng).add_noise(shown, clip=self._clip, fingerprint=self.level.fingerprint)
        return drawn if absent is None else np.where(self._reads(absent), np.nan, drawn)

    def release(
        self,
        y: ArrayLike,
        source: Source | None = None,
        trials: int | None = None,
        *,
        account: Payer | None = None,
    ) -> Array:
        """z̃ with protected noise, multiples of 2⁻¹⁰; no seed.

        I_z(y) ≤ S for every y (`literal`), E z̃ = Lᵀy inside the range; the noise has variance at
        most 1 + 3·2⁻²². No value is rejected: beyond the range it is clipped, NaN is missing, and
        every entry of z̃ that depends on it is NaN. `trials` releases of the same y reveal `trials`
        times S. `account` (`Ledger.account`) pays first, and sends the same release again.
        """
        raw = self._as_they_come(y, trials)
        return paid(account, self.level, source).add_noise(
            lambda: self._exactly(raw),
            shape=(*raw.shape[:-1], self.outputs),
            clip=self._clip,
            fingerprint=self.level.fingerprint,
        )

    @property
    def ends(self) -> tuple[Array, Array] | None:
        """The least and the largest Lᵀy after clipping, (r,) each; None: no range."""
        if self._clip is None:
            return None
        low, high = (lattice.GRID * np.broadcast_to(end, self.outputs) for end in self._clip)
        return low, high

    def log_density(self, z: ArrayLike, y: ArrayLike) -> Array:
        constant = 0.5 * self.outputs * math.log(2.0 * math.pi)
        return np.asarray(-0.5 * (self.noise(z, y) ** 2).sum(axis=-1) - constant)

    def score(self, z: ArrayLike, y: ArrayLike) -> Array:
        rest = self.noise(z, y)
        return self._times_factor(rest if self.ends is None else rest * self._inside(y))

    def information(self, y: ArrayLike) -> PSD:
        """S; where a coordinate of Lᵀy is clipped L D Lᵀ, D = diag(inside): ≤ S."""
        if self.ends is None:
            self._given(y)
            return self._S
        half = self._times_factor(np.diag(self._inside(y).astype(float)))  # rows D Lᵀ
        return Blocks([half.T @ half])

    def worst_information(self) -> PSD:
        return self._S

    def statement(
        self, sensitivity: float | Adjacency | None = None, *, delta: float = 1e-6
    ) -> Statement:
        """The promise of `release`: Fisher, ρ, μ and (ε, δ).

        With a range it holds for every change of one measurement, without a `sensitivity`.
        """
        widths = None
        if self._clip is not None:
            widths = np.zeros(self.measurements)
            widths[self._kept] = self._clip[1] - self._clip[0]
            widths = widths.max() if self.level.number is not None else widths
        return grid_statement(
            self.level, sensitivity=sensitivity, range=self.range, widths=widths, delta=delta
        )

    def __repr__(self) -> str:
        return f"GaussianMechanism({self.level!r}, {plural(self.measurements, 'measurement')})"

    def _shown(self, y: ArrayLike) -> Array:
        """Lᵀy without the zero rows, (..., r)."""
        given = self._given(y)
        columns = given.reshape(-1, self.measurements).T
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
        values, absent = split_missing(raw, finite=False)
        exact = lattice.sum_of_products(
            [(weights, values[..., place]) for weights, place in self._terms]
        )
        return marked(exact, None if absent is None else self._reads(absent))

    def _reads(self, absent: Flags) -> Flags:
        read = [(weights != 0) & absent[..., place] for weights, place in self._terms]
        return np.asarray(np.logical_or.reduce(read))

    def _times_factor(self, x: Array) -> Array:
        """L x, (..., m)."""
        full = np.zeros((*x.shape[:-1], self.measurements))
        full[..., self._kept] = x
        columns = full.reshape(-1, self.measurements).T
        return np.asarray(self._S.times_factor(columns).T.reshape(full.shape))

    def noise(self, z: ArrayLike, y: ArrayLike) -> Array:
        """z̃ − Lᵀy, clipped as in the release: N(0, I) if z̃ was drawn at y."""
        shown = self._shown(y)
        return self._outputs(z) - (shown if self.ends is None else np.clip(shown, *self.ends))

    def _inside(self, y: ArrayLike) -> Flags:
        assert self.ends is not None
        shown, (low, high) = self._shown(y), self.ends
        return np.asarray((low < shown) & (shown < high))


def literal_terms(S: PSD) -> tuple[Terms, bool]:
    """(Lᵀy)_i = Σ_t c_t[i]·y[k_t[i]] as `PSD.factor_terms`, and whether LLᵀ ≤ S is certain.

    A number or a diagonal: every root is the largest double whose square is not above the level.
    Else L is shrunk by a factor 1 − τ, τ ≤ 1e-9, until S − LLᵀ ≥ 0 is proved; where that fails the
    level is LLᵀ of these doubles.
    """
    own = S.pointwise
    if own is not None:
        return [(np.broadcast_to(lattice.literal_root(np.asarray(own)), S.size), None)], True
    terms = S.factor_terms()
    if S.size > PROVED:
        return terms, False
    lower, every = np.zeros((S.size, S.size)), np.arange(S.size)
    for weights, place in terms:
        lower[every if place is None else place, every] += weights
    shrunk, proved = lattice.literal_factor(S.dense(), lower)
    if not proved or (np.abs(shrunk) < (1.0 - LARGEST_SHRINK) * np.abs(lower)).any():
        return terms, False
    # The very numbers that were proved: 1 − τ read off from two of them would be off by a bit.
    return [
        (np.where(weights != 0, shrunk[every if place is None else place, every], 0.0), place)
        for weights, place in terms
    ], True
