"""Privacy levels of a stream: the recursive constraint S̄_k of `eq:barS`.

    S̄_k = [[S̄_{k−1} + U_k S_k⁺ U_kᵀ, U_k], [U_kᵀ, S_k]]

Step k releases z_k = U_kᵀȲ_{k−1} + S_k y_k + d_k, d_k ~ N(0, S_k). With S_k = ℓ_k ℓ_kᵀ it carries
the information of z̃_k = A_k Ȳ_k + e_k, A_k = [ℓ_k⁺U_kᵀ, ℓ_kᵀ]; stacked, S̄_K = AᵀA.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NoReturn

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_count, as_nonnegative, fingerprint_of
from privest.errors import InvalidInput
from privest.linalg import PSD, BandedRows, Blocks, DenseRows, Diagonal, IndependentRows, Rows, psd
from privest.linalg.tolerances import rounding
from privest.privacy import stream_parts
from privest.privacy.adjacency import Adjacency, Convertible, as_adjacency
from privest.privacy.level import PrivacyLevel, require_level


class StreamLevel(Convertible):
    """The privacy levels of all steps of a stream (`eq:barS`).

        StreamLevel(S)              U = 0; S is a vector (scalar measurements), an array (K, m, m),
                                    or a list of matrices whose sizes may change
        StreamLevel(S, U)           U_k (M_{k−1}, m_k), M_k the number of measurements up to step k;
                                    for scalars a list of vectors, or a matrix with U_k in row k
        StreamLevel(S, lags=W)      step k reveals y_k + Σ_j W_j y_{k−j}: U_{k,k−j} = W_jᵀ S_k

    S_k = 0: that measurement is never revealed. `form` is "independent" (U = 0), "banded" (U
    reaches back `reach` steps) or "dense". Refuses a U_k outside the range of S_k, naming k.

    >>> StreamLevel([1.0, 4.0], U=[[], [2.0]]).cumulative().tolist()
    [[2.0, 2.0], [2.0, 4.0]]
    """

    rows: Rows
    sizes: tuple[int, ...]

    def __init__(
        self, S: ArrayLike, U: object = None, *, lags: Sequence[ArrayLike] | None = None
    ) -> None:
        own, self.sizes = stream_parts.own_levels(S)
        self.rows = IndependentRows(own)
        if lags is not None:
            if U is not None or len(set(self.sizes)) > 1:
                raise InvalidInput("lags need measurements of one size, and no U beside them.")
            blocks = stream_parts.lag_blocks(own, self.sizes, lags)
            for j in range(1, len(blocks)):
                blocks[j, :j] = 0.0  # would reach before the first step
            self.rows = BandedRows(blocks)
        elif U is not None:
            past = stream_parts.past_of(U, self.sizes)
            reach = stream_parts.reach_of(past, self.sizes)
            if reach:
                self.rows = stream_parts.rows_with_past(own, past, self.sizes, reach)

    @classmethod
    def _of(cls, rows: Rows, sizes: tuple[int, ...]) -> StreamLevel:
        level = StreamLevel.__new__(StreamLevel)
        level.rows = rows
        level.sizes = sizes
        return level

    @classmethod
    def constant(
        cls, S: PrivacyLevel | ArrayLike, *, lags: Sequence[ArrayLike] = (),
        steps: int | None = None,
    ) -> StreamLevel:  # fmt: skip
        """The same level at every step, which shows y_k + Σ_j W_j y_{k−j}, j = 1..b.

        `S` is a number (scalar measurements), an m×m matrix or a `PrivacyLevel` of one step, `lags`
        the W_j: numbers or m×m matrices. Without `steps` the stream has no end. In all
        S + Σ_j W_jᵀ S W_j is revealed of a measurement.

        >>> StreamLevel.constant(1.0, lags=[0.5], steps=3).cumulative().tolist()
        [[1.25, 0.5, 0.0], [0.5, 1.25, 0.5], [0.0, 0.5, 1.0]]
        """
        endless = _Endless(S, lags)
        return endless if steps is None else endless.first(steps)

    @classmethod
    def from_cumulative(cls, target: ArrayLike, sizes: Sequence[int] | None = None) -> StreamLevel:
        """The one sequential realisation of a target S̄_K (PSD, singular or not).

        Interim levels S̄_k are Schur complements of the target, not its leading blocks: S̄ = 11ᵀ
        releases nothing before the last step. `sizes` are the m_k (default: scalars). Numerics:
        S̄ = RᵀR by eigenvectors; from the last step backwards the rows of R are rotated so that the
        first ones, A_k, carry all of the step's columns. Nothing is subtracted.
        """
        given = as_array(target, stream_parts.NAME, ndim=(1, 2))
        matrix = psd(given, stream_parts.NAME).dense()
        steps = (1,) * len(matrix) if sizes is None else stream_parts.as_sizes(sizes)
        if sum(steps) != len(matrix):
            raise InvalidInput(f"sizes must add up to {len(matrix)}; they add up to {sum(steps)}.")
        if not np.count_nonzero(matrix - np.diag(np.diagonal(matrix))):  # as it was typed
            return cls._of(IndependentRows(Diagonal(np.diagonal(matrix).copy())), steps)
        # In units in which every measurement has level one, so that no unit decides what is zero.
        unit = np.sqrt(np.diagonal(matrix))
        per = np.divide(1.0, unit, out=np.zeros_like(unit), where=unit > 0)
        values, vectors = np.linalg.eigh(matrix * per * per[:, None])
        tolerance = rounding(len(matrix))
        kept = values > tolerance * max(values[-1], 0.0)
        remaining = (vectors[:, kept] * np.sqrt(values[kept])).T
        scale = np.sqrt(max(values[-1], 0.0))
        result = np.zeros(matrix.shape)
        end = len(matrix)
        for m in reversed(steps):
            block = remaining[:, end - m : end]
            left, strength, _ = np.linalg.svd(block, full_matrices=True)
            # What was kept is at least √tolerance·scale; a thousandth of that is rounding.
            rank = int((strength > np.sqrt(tolerance) * scale * 1e-3).sum())
            remaining = left.T @ remaining
            result[end - m : end - m + rank, :end] = remaining[:rank]
            remaining = remaining[rank:, : end - m]
            end = end - m
        return cls._of(DenseRows(result * unit, max(steps)), steps)

    @classmethod
    def from_epsilon(
        cls, epsilon: float, *, delta: float, sensitivity: float | Adjacency,
        lags: Sequence[float] = (),
    ) -> StreamLevel:  # fmt: skip
        """Scalar measurements without an end whose whole real stream is (ε, δ)-private."""
        from privest.privacy import gdp
        from privest.privacy._grid import largest_level

        shape = cls.constant(1.0, lags=lags)
        return largest_level(gdp.mu_of(epsilon, delta), as_adjacency(sensitivity), shape)

    # --- what it is -------------------------------------------------------------------------

    @property
    def steps(self) -> int | None:
        """K, or None for a stream without an end."""
        return len(self.sizes)

    @property
    def measurements(self) -> int:
        """M = Σ m_k."""
        return self.rows.size

    @property
    def form(self) -> str:
        names = {IndependentRows: "independent", BandedRows: "banded", DenseRows: "dense"}
        return names[type(self.rows)]

    @property
    def reach(self) -> int:
        """Number of steps that a release looks back."""
        if isinstance(self.rows, BandedRows):
            return self.rows.reach
        return len(self.sizes) - 1 if isinstance(self.rows, DenseRows) else 0

    def cumulative(self, steps: int | None = None) -> Array:
        """S̄_k after `steps` steps (all of them by default): AᵀA of the leading rows. M² memory."""
        known = len(self.sizes)
        count = known if steps is None else as_count(steps, "steps", least=0)
        if count > known:
            raise InvalidInput(f"the level has {known} steps; asked for {count}.")
        rows = sum(self.sizes[:count])
        part = self.rows.dense()[:rows, :rows]
        return part.T @ part

    def first(self, steps: int) -> StreamLevel:
        """The level of the first `steps` steps of a stream without an end."""
        raise InvalidInput(f"{self!r} has an end: its steps are all there are.")

    def __mul__(self, factor: float) -> StreamLevel:
        return NotImplemented

    def __repr__(self) -> str:
        back = f", reach {self.reach}" if self.form == "banded" else ""
        size = f"{self.measurements} measurements"
        return f"StreamLevel({len(self.sizes)} steps, {size}, {self.form}{back})"

    def final_blocks(self) -> PSD:
        """The diagonal blocks [S̄_K]_kk of the FINAL cumulative level, one a step.

        A later step with U ≠ 0 spends budget of earlier measurements: S_k alone under-reports.
        """
        if isinstance(self.rows, IndependentRows):
            return self.rows.level
        if max(self.sizes) == 1:
            return Diagonal(self.rows.level_diagonal())
        if isinstance(self.rows, BandedRows):
            return Blocks(stream_parts.squares_by_lag(self.rows.blocks))
        whole = self.cumulative()
        steps = zip(self.ends[1:], self.sizes)
        return Blocks([whole[e - m : e, e - m : e] for e, m in steps])

    def to_mu(self, *, sensitivity: float | Adjacency) -> float:
        """μ of the whole stream, from what all steps together show, S̄ = AᵀA, at its worst place."""
        difference = as_adjacency(sensitivity)
        if difference.kind == "record":
            raise InvalidInput(
                "a stream has no records; its cumulative level may have: "
                "PrivacyLevel(level.cumulative())."
            )
        if difference.size is not None:
            raise InvalidInput("a block of a stream is one of its steps: leave out its size.")
        return difference.mu(self.final_blocks())

    # --- a few steps at a time ------------------------------------------------------------------

    @cached_property
    def block(self) -> int | None:
        """The size m of every step, or None where it changes."""
        return self.sizes[0] if len(set(self.sizes)) == 1 else None

    def sizes_between(self, start: int, stop: int) -> tuple[int, ...]:
        """m_k for start ≤ k < stop."""
        return self.sizes[start:stop]

    def measurements_before(self, step: int) -> int:
        """How many measurements the steps before this one have; refuses one beyond the last."""
        if self.steps is not None and step > self.steps:
            raise InvalidInput(f"The level has {self.steps} steps; there is no step {step}.")
        return sum(self.sizes_between(0, step)) if self.block is None else self.block * step

    @cached_property
    def ends(self) -> list[int]:
        """0, and how many measurements there are up to every step."""
        return [0, *np.cumsum(self.sizes).tolist()]

    @cached_property
    def _diagonal(self) -> Array | list[float] | None:
        own = self.rows.level if isinstance(self.rows, IndependentRows) else None
        return None if own is None or own.pointwise is None else own.diagonal()

    def pointwise(self, start: int, stop: int) -> Array | float | None:
        """Levels of the single measurements of these steps where nothing mixes them, else None."""
        if self._diagonal is None:
            return None
        if stop - start == 1 and self.block == 1:
            return float(self._diagonal[start])
        return np.asarray(self._diagonal[self.ends[start] : self.ends[stop]])

    @cached_property
    def _own_transposed(self) -> list[Array] | Array:
        """ℓ_kᵀ of a level with U = 0."""
        assert isinstance(self.rows, IndependentRows)
        if self.block is not None:
            return stream_parts.step_lowers(self.rows.level, self.sizes).transpose(0, 2, 1)
        return [lower.T for lower in self.rows.level.blocks(self.sizes).lowers()]

    def blocks(self, start: int, stop: int) -> Array:
        """A by lag, (reach + 1, stop − start, m, m); for forms other than dense."""
        if isinstance(self.rows, BandedRows):
            return self.rows.blocks[:, start:stop]
        return np.asarray(self._own_transposed[start:stop])[None]

    def dense_rows(self, start: int, stop: int) -> Array:
        """The rows A_k of these steps, up to their last measurement; for the dense form."""
        assert isinstance(self.rows, DenseRows)
        first = self.ends[start]
        last = self.ends[stop]
        return self.rows.matrix[first:last, :last]

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hex digits that identify the level: both sides of a stream use the same."""
        kind, parts = self._parts()
        return fingerprint_of(kind, np.array(self.sizes, dtype=float), *parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamLevel) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def _parts(self) -> tuple[str, list[Array]]:
        """The form and its numbers: ℓ, not S, for what is released depends on the factor."""
        if isinstance(self.rows, BandedRows):
            return "banded", [self.rows.blocks]
        if isinstance(self.rows, DenseRows):
            return "dense", [self.rows.matrix]
        if self._diagonal is not None:
            return "independent", [np.asarray(self._diagonal)]
        return "blocks", list(self._own_transposed)


class _Endless(StreamLevel):
    """`StreamLevel.constant` without an end: A at lags 0..b is all there is."""

    _typed: list[float] | None = None  # the levels of the measurements of a step, as given

    def __init__(self, S: PrivacyLevel | ArrayLike, lags: Sequence[ArrayLike] = ()) -> None:
        own = np.atleast_2d(stream_parts.level_of_a_step(S))
        level = psd(own[None], "the level S")
        if not np.count_nonzero(own - np.diag(np.diagonal(own))):
            level = Diagonal(np.diagonal(own))  # roots that are not above those of S, exactly
            self._typed = np.diagonal(own).tolist()
        self._constant = stream_parts.lag_blocks(level, (level.size,), lags)[:, 0]  # A at lags 0..b

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("rows", "sizes"):
            raise InvalidInput(f"{self!r} has no end: take its first steps, level.first(K).")
        raise AttributeError(name)

    def __mul__(self, factor: float) -> StreamLevel:
        ratio = as_nonnegative(factor, "factor of a privacy level")
        blocks = math.sqrt(ratio) * self._constant
        stream_parts.require_in_range(blocks)
        level = _Endless.__new__(_Endless)
        level._constant = blocks
        return level

    @property
    def steps(self) -> None:
        return None

    @property
    def block(self) -> int:
        return int(self._constant.shape[-1])

    @property
    def form(self) -> str:
        return "banded" if self.reach else "independent"

    @property
    def reach(self) -> int:
        return len(self._constant) - 1

    def sizes_between(self, start: int, stop: int) -> tuple[int, ...]:
        return (self.block,) * (stop - start)

    def pointwise(self, start: int, stop: int) -> Array | float | None:
        if self._diagonal is None:
            return None
        return self._diagonal[0] if self.block == 1 else np.tile(self._diagonal, stop - start)

    @cached_property
    def _diagonal(self) -> list[float] | None:
        """The levels of the measurements of one step, if it shows them one by one."""
        own = self._constant[0]
        if self.reach or np.count_nonzero(own - np.diag(np.diagonal(own))):
            return None
        # Of a multiple the roots are known: their squares are not above what was typed.
        return self._typed or [float(root) ** 2 for root in np.diagonal(own)]

    def blocks(self, start: int, stop: int) -> Array:
        shape = (self.reach + 1, stop - start, self.block, self.block)
        part = np.array(np.broadcast_to(self._constant[:, None], shape))
        for lag in range(start + 1, self.reach + 1):
            part[lag, : lag - start] = 0.0  # would reach before the first step
        return part

    def first(self, steps: int) -> StreamLevel:
        steps = stream_parts.as_steps(steps, self.block)
        sizes = (self.block,) * steps
        if self.reach:
            return self._of(BandedRows(np.array(self.blocks(0, steps))), sizes)
        if self._diagonal is not None:
            return self._of(IndependentRows(Diagonal(np.tile(self._diagonal, steps))), sizes)
        lower = self._constant[0].T
        stack = np.broadcast_to(lower @ lower.T, (steps, *lower.shape))
        return self._of(IndependentRows(Blocks(stack, [lower] * steps)), sizes)

    def final_blocks(self) -> PSD:
        total = np.asarray(np.einsum("lij,lik->jk", self._constant, self._constant))
        return Diagonal(np.diagonal(total)) if self.block == 1 else Blocks([total])

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_of("endless", self._constant)

    def __repr__(self) -> str:
        size = "scalar measurements" if self.block == 1 else f"measurements of {self.block}"
        back = f", reach {self.reach}" if self.reach else ""
        return f"StreamLevel(every step, {size}, {self.form}{back})"


def as_stream_level(
    given: StreamLevel | PrivacyLevel | ArrayLike, steps: int | None = None,
    *, measurements: int | None = None,
) -> StreamLevel:  # fmt: skip
    """The level of a stream from whatever states one; None is refused.

    A number or an m×m matrix is the level of every step; a vector, an array (K, m, m) or a list of
    matrices has one entry a step, as has a `PrivacyLevel` of all measurements of `steps` steps.
    `measurements` is m where it is known: a number s then means s·I, a `PrivacyLevel` of m
    measurements is that of every step, and other sizes are refused.
    """
    require_level(given)
    if measurements is not None:
        measurements = as_count(measurements, "measurements", least=1)
    if isinstance(given, StreamLevel):
        found = given
    elif isinstance(given, PrivacyLevel):
        found = _of_privacy_level(given, steps, measurements)
    elif _is_of_every_step(given):
        found = _every_step(as_array(given, "the level"), measurements)
    else:
        found = StreamLevel(given)
    if measurements is not None and found.block != measurements:
        size = "changing size" if found.block is None else f"size {found.block}"
        raise InvalidInput(
            f"The level is for measurements of {size}; the stream has measurements of size "
            f"{measurements}."
        )
    return found


def _is_of_every_step(given: ArrayLike) -> bool:
    try:
        return np.ndim(given) in (0, 2)
    except ValueError:  # matrices of different sizes
        return False


def _every_step(own: Array, measurements: int | None) -> StreamLevel:
    return _Endless(own * np.eye(measurements or 1) if own.ndim == 0 else own)


def _of_privacy_level(
    level: PrivacyLevel, steps: int | None, measurements: int | None
) -> StreamLevel:
    if level.number is not None:
        return _every_step(np.array(level.number), measurements)
    if steps is None and level.size == measurements:
        return _Endless(level.dense())
    if steps is None:
        raise InvalidInput(
            f"{level!r} is for one whole data set. A stream without a known end needs a number or "
            "a StreamLevel."
        )
    sizes = (measurements or 1,) * steps
    matrix = level.for_size(sum(sizes))
    if matrix.pointwise is None and not (isinstance(matrix, Blocks) and matrix.sizes == sizes):
        raise InvalidInput(
            f"{level!r} ties steps together. Use a vector, or its sequential form "
            "StreamLevel.from_cumulative(matrix)."
        )
    return StreamLevel._of(IndependentRows(matrix), sizes)
