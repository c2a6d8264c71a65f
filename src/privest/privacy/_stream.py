"""Privacy levels of a stream: the recursive constraint S̄_k of `eq:barS`.

    S̄_k = [[S̄_{k−1} + U_k S_k⁺ U_kᵀ, U_k], [U_kᵀ, S_k]]

Step k releases z_k = U_kᵀȲ_{k−1} + S_k y_k + d_k, d_k ~ N(0, S_k). With S_k = ℓ_k ℓ_kᵀ it carries
the information of z̃_k = A_k Ȳ_k + e_k, A_k = [ℓ_k⁺U_kᵀ, ℓ_kᵀ]; stacked, S̄_K = AᵀA.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from privest.arrays import AnyArray, Array, ArrayLike, as_array, fingerprint_of
from privest.errors import InvalidInput, NotAPrivacyLevel
from privest.linalg import (
    PSD,
    BandedRows,
    Blocks,
    DenseRows,
    Diagonal,
    IndependentRows,
    Rows,
    psd,
    psd_blocks,
)
from privest.linalg.tolerances import rounding
from privest.privacy._adjacency import Convertible, Move, OneBlock, OneReading, as_move

NAME = "the stream level"
FORMAT = "privest stream level 1"
RANGE_TOLERANCE = 1e-10  # part of ‖U_k‖ that may lie outside the range of S_k


class SequentialLevel(Convertible):
    """What both sides of a stream ask of a level, a few steps at a time."""

    @property
    @abstractmethod
    def steps(self) -> int | None:
        """K, or None for a stream without an end."""

    @property
    @abstractmethod
    def block(self) -> int | None:
        """The size m of every reading, or None where it changes."""

    @property
    @abstractmethod
    def form(self) -> str:
        """One of "independent", "banded" and "dense"."""

    @property
    @abstractmethod
    def reach(self) -> int:
        """How many steps back a release looks."""

    @abstractmethod
    def sizes_between(self, start: int, stop: int) -> tuple[int, ...]:
        """m_k for start ≤ k < stop."""

    def readings_before(self, step: int) -> int:
        """M: how many readings the steps before this one have. Refuses a step beyond the last."""
        if self.steps is not None and step > self.steps:
            raise InvalidInput(f"The level has {self.steps} steps; there is no step {step}.")
        return sum(self.sizes_between(0, step)) if self.block is None else self.block * step

    @abstractmethod
    def pointwise(self, start: int, stop: int) -> Array | float | None:
        """The levels of the single readings of these steps where nothing mixes them, else None."""

    @abstractmethod
    def blocks(self, start: int, stop: int) -> Array:
        """A by lag, (reach + 1, stop − start, m, m); for forms other than dense."""

    def dense_rows(self, start: int, stop: int) -> Array:
        """The rows A_k of these steps, up to their last reading; for the dense form."""
        raise AssertionError(f"{self!r} is not dense")

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Tells levels apart: both sides of a stream must use the same."""

    @abstractmethod
    def final_blocks(self) -> PSD:
        """The diagonal blocks [S̄_K]_kk of the FINAL cumulative level, one a step.

        A later step with U ≠ 0 spends budget of earlier readings: S_k alone under-reports.
        """

    @abstractmethod
    def arrays(self) -> dict[str, AnyArray]:
        """What the level is made of, by name: nothing in it is secret."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the level to a file, to the last bit, for the other side: `load_level` reads it.

        A factor of a matrix level may differ between machines in its last bits, or by a rotation;
        the two sides of a stream need the same one. Levels of numbers need no file.
        """
        with open(path, "wb") as file:
            np.savez(file, allow_pickle=False, format=np.array(FORMAT), **self.arrays())

    def to_mu(self, *, move: float | Move) -> float:
        """μ of the whole stream for "one reading moves by at most c" or `OneBlock(c)`: one step."""
        difference = as_move(move)
        if not isinstance(difference, OneReading | OneBlock):
            raise InvalidInput("a stream converts moves of one reading or of one step (OneBlock).")
        return difference.mu(self.final_blocks())


class StreamLevel(SequentialLevel):
    """The levels of all steps of a stream, in the form that their structure allows.

    `StreamLevel(S)` has U = 0: S is a vector (scalar readings), an array (K, m, m), or a list of
    matrices whose sizes may change. `StreamLevel(S, U)` has U_k of shape (M_{k−1}, m_k), M_k the
    number of readings up to step k; for scalar readings a list of vectors, or a matrix whose row
    k holds U_k before the diagonal. S_k = 0: that reading is never revealed.

    `form` is "independent" (U = 0), "banded" (U reaches back `reach` steps, blocks of one size)
    or "dense". Refuses a U_k that does not lie in the range of S_k, naming k (counted from 0).

    >>> level = StreamLevel([1.0, 4.0], U=[[], [2.0]])
    >>> level.cumulative().tolist()
    [[2.0, 2.0], [2.0, 4.0]]
    """

    def __init__(self, S: ArrayLike, U: object = None) -> None:
        own, self.sizes = _own_levels(S)
        self.rows: Rows = IndependentRows(own)
        if U is not None:
            past = _past(U, self.sizes)
            reach = _reach(past, self.sizes)
            if reach:
                self.rows = _rows_with_past(own, past, self.sizes, reach)

    @classmethod
    def _of(cls, rows: Rows, sizes: tuple[int, ...]) -> StreamLevel:
        level = cls.__new__(cls)
        level.rows, level.sizes = rows, sizes
        return level

    @classmethod
    def constant(cls, S: ArrayLike, steps: int) -> StreamLevel:
        """The same level at each of `steps` steps, U = 0."""
        one = as_array(S, NAME, ndim=(0, 2), error=NotAPrivacyLevel)
        return cls(np.broadcast_to(one, (steps, *one.shape)))

    @classmethod
    def from_lags(cls, S: ArrayLike, weights: Sequence[ArrayLike]) -> StreamLevel:
        """Step k shows y_k + Σ_j W_j y_{k−j}, j = 1..b, at level S_k: U_{k,k−j} = W_jᵀ S_k.

        `weights` are numbers, or m×m matrices for vector readings. Range holds by construction.
        """
        own, sizes = _own_levels(S)
        if len(set(sizes)) > 1:
            raise InvalidInput("lag weights need readings of one size.")
        blocks = lag_blocks(own, sizes, weights)
        for j in range(1, len(blocks)):
            blocks[j, :j] = 0.0  # would reach before the first step
        return cls._of(BandedRows(blocks), sizes)

    @classmethod
    def from_cumulative(cls, target: ArrayLike, sizes: Sequence[int] | None = None) -> StreamLevel:
        """The one sequential realisation of a target S̄_K (PSD, singular or not).

        Interim levels S̄_k are Schur complements of the target, not its leading blocks: S̄ = 11ᵀ
        releases nothing before the last step. `sizes` are the m_k (default: scalar readings).
        Numerics: S̄ = RᵀR once by eigenvectors; from the last step backwards the rows of R are
        rotated so that the first ones carry all of the step's column block; they are A_k. Nothing
        is subtracted, so a numerically singular S̄ does no harm.
        """
        matrix = psd(target, NAME, error=NotAPrivacyLevel).dense()
        steps = (1,) * len(matrix) if sizes is None else tuple(int(m) for m in sizes)
        if sum(steps) != len(matrix) or min(steps) < 1:
            raise InvalidInput(f"sizes must be positive and add up to {len(matrix)}.")
        # In units in which every reading has level one, so that no unit decides what is zero.
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
            remaining, end = remaining[rank:, : end - m], end - m
        return cls._of(DenseRows(result * unit, max(steps)), steps)

    # --- what it is -------------------------------------------------------------------------

    @cached_property
    def steps(self) -> int:
        return len(self.sizes)

    @property
    def readings(self) -> int:
        """M = Σ m_k."""
        return self.rows.size

    @property
    def form(self) -> str:
        names = {IndependentRows: "independent", BandedRows: "banded", DenseRows: "dense"}
        return names[type(self.rows)]

    @property
    def reach(self) -> int:
        if isinstance(self.rows, BandedRows):
            return self.rows.reach
        return self.steps - 1 if isinstance(self.rows, DenseRows) else 0

    def cumulative(self, steps: int | None = None) -> Array:
        """S̄_k after `steps` steps (all of them by default): AᵀA of the leading rows. M² memory."""
        count = self.steps if steps is None else steps
        rows = sum(self.sizes[:count])
        part = self.rows.dense()[:rows, :rows]
        return part.T @ part

    def __repr__(self) -> str:
        back = f", reach {self.reach}" if self.form == "banded" else ""
        return f"StreamLevel({self.steps} steps, {self.readings} readings, {self.form}{back})"

    def final_blocks(self) -> PSD:
        if isinstance(self.rows, IndependentRows):
            return self.rows.level
        if max(self.sizes) == 1:
            return Diagonal(self.rows.level_diagonal())
        if isinstance(self.rows, BandedRows):
            return Blocks(squares_by_lag(self.rows.blocks))
        whole, steps = self.cumulative(), zip(self._ends[1:], self.sizes)
        return Blocks([whole[e - m : e, e - m : e] for e, m in steps])

    # --- a few steps at a time ------------------------------------------------------------------

    @cached_property
    def block(self) -> int | None:
        return self.sizes[0] if len(set(self.sizes)) == 1 else None

    def sizes_between(self, start: int, stop: int) -> tuple[int, ...]:
        return self.sizes[start:stop]

    @cached_property
    def _ends(self) -> list[int]:
        return [0, *np.cumsum(self.sizes).tolist()]

    @cached_property
    def _diagonal(self) -> Array | None:
        own = self.rows.level if isinstance(self.rows, IndependentRows) else None
        return None if own is None or own.pointwise is None else own.diagonal()

    def pointwise(self, start: int, stop: int) -> Array | float | None:
        if self._diagonal is None:
            return None
        if stop - start == 1 and self.block == 1:
            return float(self._diagonal[start])
        return self._diagonal[self._ends[start] : self._ends[stop]]

    @cached_property
    def _own_transposed(self) -> list[Array] | Array:
        """ℓ_kᵀ of a level with U = 0."""
        assert isinstance(self.rows, IndependentRows)
        if self.block is not None:
            return _lowers(self.rows.level, self.sizes).transpose(0, 2, 1)
        return [lower.T for lower in self.rows.level.blocks(self.sizes).lowers()]

    def blocks(self, start: int, stop: int) -> Array:
        if isinstance(self.rows, BandedRows):
            return self.rows.blocks[:, start:stop]
        return np.asarray(self._own_transposed[start:stop])[None]

    def dense_rows(self, start: int, stop: int) -> Array:
        assert isinstance(self.rows, DenseRows)
        first, last = self._ends[start], self._ends[stop]
        return self.rows.matrix[first:last, :last]

    @cached_property
    def fingerprint(self) -> str:
        kind, parts = self._parts()
        return fingerprint_of(kind, np.array(self.sizes, dtype=float), *parts)

    def _parts(self) -> tuple[str, list[Array]]:
        """The form and its numbers: ℓ, not S, for what is released depends on the factor."""
        if isinstance(self.rows, BandedRows):
            return "banded", [self.rows.blocks]
        if isinstance(self.rows, DenseRows):
            return "dense", [self.rows.matrix]
        if self._diagonal is not None:
            return "independent", [self._diagonal]
        return "blocks", list(self._own_transposed)

    def arrays(self) -> dict[str, AnyArray]:
        kind, parts = self._parts()
        sizes = np.array(self.sizes)
        if kind == "blocks":
            return {"sizes": sizes, "lowers": np.concatenate([part.T.ravel() for part in parts])}
        return {"sizes": sizes, "diagonal" if kind == "independent" else kind: parts[0]}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> StreamLevel:
        """The inverse of `arrays`."""
        sizes = tuple(int(m) for m in arrays["sizes"])
        if "banded" in arrays:
            return cls._of(BandedRows(arrays["banded"]), sizes)
        if "dense" in arrays:
            return cls._of(DenseRows(arrays["dense"], max(sizes)), sizes)
        if "diagonal" in arrays:
            return cls._of(IndependentRows(Diagonal(arrays["diagonal"])), sizes)
        parts = np.split(arrays["lowers"], np.cumsum([m * m for m in sizes])[:-1])
        lowers = [part.reshape(m, m) for part, m in zip(parts, sizes)]
        own = Blocks([lower @ lower.T for lower in lowers], lowers)
        return cls._of(IndependentRows(own), sizes)


def squares_by_lag(blocks: Array) -> Array:
    """[AᵀA]_kk (K, m, m) from A by lag (b + 1, K, m, m): all that is shown of each y_k."""
    steps, total = blocks.shape[1], np.zeros(blocks.shape[1:])
    for lag in range(min(len(blocks), steps)):
        own = blocks[lag, lag:]
        total[: steps - lag] += own.swapaxes(-1, -2) @ own
    return total


def _own_levels(given: ArrayLike) -> tuple[PSD, tuple[int, ...]]:
    """The S_k as one block-diagonal matrix, and their sizes m_k."""
    if isinstance(given, Sequence) and any(np.ndim(part) == 2 for part in given):
        parts = [as_array(part, f"S of step {k}") for k, part in enumerate(given)]
        blocks = [np.atleast_2d(part) for part in parts]
        return psd_blocks(blocks, NAME, error=NotAPrivacyLevel), tuple(len(b) for b in blocks)
    array = as_array(given, NAME, ndim=(1, 3), error=NotAPrivacyLevel)
    size = array.shape[1] if array.ndim == 3 else 1
    return psd(array, NAME, error=NotAPrivacyLevel), (size,) * len(array)


def _lowers(own: PSD, sizes: tuple[int, ...]) -> Array:
    """ℓ_k (K, m, m) for readings of one size."""
    m, steps = sizes[0], len(sizes)
    if own.pointwise is None:
        assert isinstance(own, Blocks)
        return own.factors[0].lower
    result = np.zeros((steps, m, m))
    result[:, np.arange(m), np.arange(m)] = np.sqrt(own.diagonal()).reshape(steps, m)
    return result


def lag_blocks(own: PSD, sizes: tuple[int, ...], weights: Sequence[ArrayLike]) -> Array:
    """A by lag, ℓ_kᵀ and ℓ_kᵀW_j: (b + 1, K, m, m) for readings of one size."""
    m = sizes[0]
    blocks = np.zeros((len(weights) + 1, len(sizes), m, m))
    blocks[0] = _lowers(own, sizes).transpose(0, 2, 1)
    for j, weight in enumerate(weights, start=1):
        matrix = as_array(weight, f"the weight of lag {j}")
        matrix = matrix * np.eye(m) if matrix.ndim == 0 else matrix
        if matrix.shape != (m, m):
            raise InvalidInput(f"the weight of lag {j} must be a number or {m}×{m}.")
        blocks[j] = blocks[0] @ matrix
    return blocks


def _past(U: object, sizes: tuple[int, ...]) -> list[Array]:
    """U_k as arrays (M_{k−1}, m_k)."""
    steps = len(sizes)
    if isinstance(U, np.ndarray) and U.shape == (steps, steps):
        matrix = as_array(U, "U")
        if np.triu(matrix).any():
            raise InvalidInput("U as a matrix must be strictly lower-triangular: U_k in row k.")
        return [matrix[k, :k, None] for k in range(steps)]
    if not isinstance(U, Sequence) or len(U) != steps:
        raise InvalidInput(f"U must have one entry for each of the {steps} steps.")
    starts = np.cumsum([0, *sizes[:-1]])
    return [_past_of(k, U[k], int(starts[k]), sizes[k]) for k in range(steps)]


def _past_of(k: int, given: ArrayLike | None, before: int, m: int) -> Array:
    """U_k (before, m); None for zeros."""
    if given is None:
        return np.zeros((before, m))
    array = as_array(given, f"U of step {k}", ndim=(1, 2))
    array = array[:, None] if array.ndim == 1 and m == 1 else array
    if array.size == 0 and before == 0:
        return np.zeros((0, m))
    if array.shape != (before, m):
        raise InvalidInput(f"U of step {k} must have shape {(before, m)}; received {array.shape}.")
    return array


def _reach(past: list[Array], sizes: tuple[int, ...]) -> int:
    """The largest lag at which some U_k is not zero."""
    step_of = np.repeat(np.arange(len(sizes)), sizes)
    reach = 0
    for k, array in enumerate(past):
        used = np.flatnonzero(array.any(axis=1))
        if len(used):
            reach = max(reach, k - int(step_of[used[0]]))
    return reach


def _rows_with_past(
    own: PSD, past: list[Array], sizes: tuple[int, ...], reach: int
) -> BandedRows | DenseRows:
    """A_k = [ℓ_k⁺U_kᵀ, ℓ_kᵀ], banded where it pays."""
    lowers, coefficients, m = own.blocks(sizes).lowers(), [], sizes[0]
    for k, (lower, array) in enumerate(zip(lowers, past)):
        part = np.linalg.pinv(lower) @ array.T
        outside = np.abs(array.T - lower @ part).max(initial=0.0)
        if outside > RANGE_TOLERANCE * np.abs(array).max(initial=0.0):
            raise NotAPrivacyLevel(
                f"U of step {k} does not lie in the range of S (U = U S⁺ S fails by "
                f"{outside:.2g}): a release cannot tie earlier readings to what step {k} hides."
            )
        coefficients.append(part)
    if len(set(sizes)) == 1 and (reach + 1) * 4 <= len(sizes):
        blocks = np.zeros((reach + 1, len(sizes), m, m))
        for k, (lower, part) in enumerate(zip(lowers, coefficients)):
            blocks[0, k] = lower.T
            for lag in range(1, min(reach, k) + 1):
                blocks[lag, k] = part[:, (k - lag) * m : (k - lag + 1) * m]
        return BandedRows(blocks)
    matrix = np.zeros((sum(sizes),) * 2)
    for end, size, lower, part in zip(np.cumsum(sizes), sizes, lowers, coefficients):
        matrix[end - size : end, : end - size] = part
        matrix[end - size : end, end - size : end] = lower.T
    return DenseRows(matrix, max(sizes))
