"""Privacy levels of a stream: the recursive constraint S̄_k of `eq:barS`.

    S̄_k = [[S̄_{k−1} + U_k S_k⁺ U_kᵀ, U_k], [U_kᵀ, S_k]]

Step k releases z_k = U_kᵀȲ_{k−1} + S_k y_k + d_k, d_k ~ N(0, S_k). With S_k = ℓ_k ℓ_kᵀ it carries
the information of z̃_k = A_k Ȳ_k + e_k, A_k = [ℓ_k⁺U_kᵀ, ℓ_kᵀ]; stacked, S̄_K = AᵀA.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from privest.arrays import AnyArray, Array, ArrayLike, as_array, as_count, fingerprint_of
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
)
from privest.linalg.tolerances import rounding
from privest.privacy._adjacency import Along, Move
from privest.privacy._sequential import SequentialLevel
from privest.privacy.stream_parts import (
    NAME,
    READ,
    as_sizes,
    as_steps,
    lag_blocks,
    level_of_a_step,
    own_levels,
    past_of,
    reach_of,
    rows_with_past,
    squares_by_lag,
    step_lowers,
)


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
        own, self.sizes = own_levels(S)
        self.rows: Rows = IndependentRows(own)
        if U is not None:
            past = past_of(U, self.sizes)
            reach = reach_of(past, self.sizes)
            if reach:
                self.rows = rows_with_past(own, past, self.sizes, reach)

    @classmethod
    def _of(cls, rows: Rows, sizes: tuple[int, ...]) -> StreamLevel:
        level = cls.__new__(cls)
        level.rows, level.sizes = rows, sizes
        return level

    @classmethod
    def constant(cls, S: ArrayLike, steps: int) -> StreamLevel:
        """The same level at each of `steps` steps, U = 0."""
        one = level_of_a_step(S)
        count = as_steps(steps, one.size)
        return cls(np.broadcast_to(one, (count, *one.shape)))

    @classmethod
    def from_lags(cls, S: ArrayLike, weights: Sequence[ArrayLike]) -> StreamLevel:
        """Step k shows y_k + Σ_j W_j y_{k−j}, j = 1..b, at level S_k: U_{k,k−j} = W_jᵀ S_k.

        `weights` are numbers, or m×m matrices for vector readings. Range holds by construction.
        """
        own, sizes = own_levels(S)
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
        given = as_array(target, NAME, ndim=(1, 2), error=NotAPrivacyLevel)
        matrix = psd(given, NAME, error=NotAPrivacyLevel).dense()
        steps = (1,) * len(matrix) if sizes is None else as_sizes(sizes)
        if sum(steps) != len(matrix):
            raise InvalidInput(f"sizes must add up to {len(matrix)}; they add up to {sum(steps)}.")
        if not np.count_nonzero(matrix - np.diag(np.diagonal(matrix))):  # as it was typed
            return cls._of(IndependentRows(Diagonal(np.diagonal(matrix).copy())), steps)
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
        count = self.steps if steps is None else as_count(steps, "steps", least=0)
        if count > self.steps:
            raise InvalidInput(f"the level has {self.steps} steps; asked for {count}.")
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
        whole, steps = self.cumulative(), zip(self.ends[1:], self.sizes)
        return Blocks([whole[e - m : e, e - m : e] for e, m in steps])

    def _met_by(self, move: Move) -> tuple[StreamLevel, int]:
        if isinstance(move, Along) and len(move.direction) != self.readings:
            raise InvalidInput(
                f"direction of the move has length {len(move.direction)}; "
                f"the level has {self.readings} rows."
            )
        return self, self.readings

    # --- a few steps at a time ------------------------------------------------------------------

    @cached_property
    def block(self) -> int | None:
        return self.sizes[0] if len(set(self.sizes)) == 1 else None

    def sizes_between(self, start: int, stop: int) -> tuple[int, ...]:
        return self.sizes[start:stop]

    @cached_property
    def ends(self) -> list[int]:
        """0, and how many readings there are up to every step."""
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
        return self._diagonal[self.ends[start] : self.ends[stop]]

    @cached_property
    def _own_transposed(self) -> list[Array] | Array:
        """ℓ_kᵀ of a level with U = 0."""
        assert isinstance(self.rows, IndependentRows)
        if self.block is not None:
            return step_lowers(self.rows.level, self.sizes).transpose(0, 2, 1)
        return [lower.T for lower in self.rows.level.blocks(self.sizes).lowers()]

    def blocks(self, start: int, stop: int) -> Array:
        if isinstance(self.rows, BandedRows):
            return self.rows.blocks[:, start:stop]
        return np.asarray(self._own_transposed[start:stop])[None]

    def dense_rows(self, start: int, stop: int) -> Array:
        assert isinstance(self.rows, DenseRows)
        first, last = self.ends[start], self.ends[stop]
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
        """The inverse of `arrays`, whatever was received: shapes and numbers are checked."""
        if set(arrays) not in ({"sizes", kind} for kind in READ):
            raise NotAPrivacyLevel(
                f"a stream level is made of sizes and one of {', '.join(READ)}; received "
                f"{len(arrays)} arrays of other names."
            )
        (kind,) = set(arrays) - {"sizes"}
        sizes = as_sizes(arrays["sizes"])
        given = as_array(arrays[kind], f"the {kind} of {NAME}", error=NotAPrivacyLevel)
        return cls._of(READ[kind](np.array(given), sizes), sizes)
