"""A level for streams without an end, and any level of a stream: given, or read from a file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np

from privest.arrays import (
    EPS,
    AnyArray,
    Array,
    ArrayLike,
    as_array,
    as_count,
    as_number,
    as_positive,
    fingerprint_of,
)
from privest.errors import InvalidInput, NotAPrivacyLevel
from privest.linalg import PSD, BandedRows, Blocks, Diagonal, IndependentRows, psd
from privest.privacy._adjacency import Along, Move, OneBlock, OneReading, as_move
from privest.privacy._level import PrivacyLevel, require_level
from privest.privacy._sequential import FORMAT, SequentialLevel
from privest.privacy._spans import require_short
from privest.privacy._stream import StreamLevel
from privest.privacy.stream_parts import as_steps, lag_blocks, level_of_a_step, require_in_range
from privest.reading import read_arrays

SHRUNK = (0.0, *(2.0**-k for k in range(52, 29, -1)))  # L is made smaller until LLᵀ ≤ S


class EndlessLevel(SequentialLevel):
    """Each step shows y_k + Σ_j W_j y_{k−j}, j = 1..b, at level S: U_{k,k−j} = W_jᵀ S.

    `S` is a number (scalar readings), an m×m matrix or a `PrivacyLevel` of one step, `lags` the
    W_1..W_b: numbers or m×m matrices; none for U = 0. The stream may go on without end: a reading
    is shown b + 1 times, so what is ever revealed of it is finite, S + Σ_j W_jᵀ S W_j.

    >>> level = EndlessLevel(1.0, lags=[0.5])
    >>> level.final_blocks().diagonal().tolist()
    [1.25]
    >>> level.first(3).cumulative().tolist()
    [[1.25, 0.5, 0.0], [0.5, 1.25, 0.5], [0.0, 0.5, 1.0]]
    """

    _typed: list[float] | None = None  # the levels of the readings of a step, as they were given

    def __init__(self, S: PrivacyLevel | ArrayLike, lags: Sequence[ArrayLike] = ()) -> None:
        own = np.atleast_2d(level_of_a_step(S))
        level = psd(own[None], "the level S", error=NotAPrivacyLevel)
        if not np.count_nonzero(own - np.diag(np.diagonal(own))):
            level = Diagonal(np.diagonal(own))  # roots that are not above those of S, exactly
            self._typed = np.diagonal(own).tolist()
        self._constant = lag_blocks(level, (level.size,), lags)[:, 0]  # A at lags 0..b

    @classmethod
    def shared(cls, level: float, readings: int) -> EndlessLevel:
        """Steps of r readings (a day of 24 hours) at s each, that hide their mean at s as well.

            S = (s/r)·P₁ + s·(I − P₁) ,   P₁ = 11ᵀ/r

        In law: noise 1/s on every reading, and one noise of variance (r − 1)/(rs) that all r share.
        Without it the mean of r readings would be known to ± 1/√(rs). Differences within the r keep
        their accuracy, and neither more differential privacy nor protection from one who knows some
        of the r readings is promised. Of a step of which readings are missing the others are shown
        with the same noise: no mean of them, either, is known better than at s.

        >>> level = EndlessLevel.shared(4.0, 4)
        >>> S = level.final_blocks().dense()
        >>> bool(abs(S.sum() - 4.0) < 1e-12), S.diagonal().tolist()  # 1ᵀS1, s(1 − 1/r + 1/r²)
        (True, [3.25, 3.25, 3.25, 3.25])
        """
        count = as_count(readings, "readings of a step", least=2)
        d, o = _mixing(as_positive(level, "level"), count)
        return cls.from_arrays({"endless": np.full((1, count, count), o) + (d - o) * np.eye(count)})

    @classmethod
    def from_epsilon(
        cls, epsilon: float, *, delta: float, move: float | Move, lags: Sequence[float] = ()
    ) -> EndlessLevel:
        """Scalar readings such that the whole stream is (ε, δ)-private if one moves by `move`.

        ε counts all that is ever shown of a reading: S(1 + Σ W²) is the level of that ε; of several
        readings that move together, S times the largest eigenvalue of all that S = 1 shows of them.
        Of continuous noise; `level_on_grid` is the level that real releases keep.

        >>> level = EndlessLevel.from_epsilon(1.0, delta=1e-6, move=0.5, lags=[0.5])
        >>> round(level.to_epsilon(delta=1e-6, move=0.5), 9)
        1.0
        """
        whole = PrivacyLevel.from_epsilon(epsilon, delta=delta, move=move).number
        assert whole is not None
        unit, moved = cls(1.0, lags), as_move(move)
        if isinstance(moved, OneReading):
            shown = 1.0 + sum(float(w) ** 2 for w in lags)
        else:
            shown = (unit.to_mu(move=moved) / moved.length) ** 2 * (1.0 + 64.0 * EPS)
        return cls(whole / shown, list(lags))

    def __mul__(self, factor: float) -> EndlessLevel:
        """The level S·factor with the same lags; factor ≥ 0."""
        ratio = as_number(factor, "factor")
        if ratio < 0:
            raise NotAPrivacyLevel(f"a level times {ratio:g} is no level: the factor must be ≥ 0.")
        return type(self).from_arrays({"endless": math.sqrt(ratio) * self._constant})

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
        """The levels of the readings of one step, if it shows them one by one."""
        own = self._constant[0]
        if self.reach or np.count_nonzero(own - np.diag(np.diagonal(own))):
            return None
        # Of a level from a file the roots are known: their squares are not above what was typed.
        return self._typed or [float(root) ** 2 for root in np.diagonal(own)]

    def blocks(self, start: int, stop: int) -> Array:
        shape = (self.reach + 1, stop - start, self.block, self.block)
        part = np.broadcast_to(self._constant[:, None], shape)
        if start < self.reach:
            part = part.copy()
            for lag in range(start + 1, self.reach + 1):
                part[lag, : lag - start] = 0.0  # would reach before the first step
        return part

    def first(self, steps: int) -> StreamLevel:
        """The level of the first `steps` steps, for bounds in batch."""
        steps = as_steps(steps, self.block)
        sizes = (self.block,) * steps
        if self.reach:
            return StreamLevel._of(BandedRows(np.array(self.blocks(0, steps))), sizes)
        if self._diagonal is not None:
            return StreamLevel._of(IndependentRows(Diagonal(np.tile(self._diagonal, steps))), sizes)
        lower = self._constant[0].T
        stack = np.broadcast_to(lower @ lower.T, (steps, *lower.shape))
        return StreamLevel._of(IndependentRows(Blocks(stack, [lower] * steps)), sizes)

    def _met_by(self, move: Move) -> tuple[StreamLevel, int]:
        """The first steps and those that look back to them: later ones show the same again."""
        if isinstance(move, Along):
            readings, what = len(move.direction), "direction of the move has length"
        elif isinstance(move, OneBlock):
            readings, what = sum(move.sizes or ()), "sizes of the blocks add up to"
        else:
            readings, what = getattr(move, "steps", 1) * self.block, ""
            require_short(readings)
        if readings % self.block:
            raise InvalidInput(
                f"{what} {readings}: readings of this stream have {self.block} entries each, and "
                "a move of a stream without an end covers whole steps."
            )
        return self.first(readings // self.block + self.reach), readings

    def final_blocks(self) -> PSD:
        """What is ever revealed of one reading: S + Σ_j W_jᵀ S W_j, as one block."""
        total = np.asarray(np.einsum("lij,lik->jk", self._constant, self._constant))
        return Diagonal(np.diagonal(total)) if self.block == 1 else Blocks([total])

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_of("endless", self._constant)

    def arrays(self) -> dict[str, AnyArray]:
        return {"endless": self._constant}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> EndlessLevel:
        """The inverse of `arrays`, whatever was received: shapes and numbers are checked."""
        name = "the blocks of an endless level"
        if set(arrays) != {"endless"}:
            raise NotAPrivacyLevel("an endless level is made of the array `endless` alone.")
        blocks = as_array(arrays["endless"], name, ndim=3, error=NotAPrivacyLevel)
        if not blocks.size or blocks.shape[1] != blocks.shape[2]:
            raise NotAPrivacyLevel(f"{name} must be square; received shape {blocks.shape}.")
        require_in_range(blocks)
        if blocks.shape[-1] == 1 and blocks[0, 0, 0] < 0:  # larger blocks have roots of any sign
            raise NotAPrivacyLevel("the root of the level of one reading must not be negative.")
        level = cls.__new__(cls)
        level._constant = np.array(blocks)
        return level

    def __repr__(self) -> str:
        size = "scalar readings" if self.block == 1 else f"readings of {self.block}"
        return f"EndlessLevel({size}, {self.form}, reach {self.reach})"


def load_level(path: str | os.PathLike[str]) -> SequentialLevel:
    """The level that `save` wrote: an `EndlessLevel` or a `StreamLevel`, the same to the last bit.

    >>> import tempfile
    >>> path, level = tempfile.mkdtemp() + "/level", EndlessLevel([[2.0, 1.0], [1.0, 2.0]])
    >>> level.save(path)
    >>> load_level(path).fingerprint == level.fingerprint
    True
    """
    arrays = read_arrays(path, "a stream level")
    if str(arrays.pop("format", "")) != FORMAT:
        raise InvalidInput(f"{path} is not a stream level: it is something else that numpy saved.")
    kind = EndlessLevel if "endless" in arrays else StreamLevel
    try:
        return kind.from_arrays(arrays)
    except InvalidInput as error:
        raise InvalidInput(f"{path} is not a stream level: {error}") from None


def as_stream_level(
    given: SequentialLevel | PrivacyLevel | ArrayLike, steps: int | None = None,
    *, readings: int | None = None,
) -> SequentialLevel:  # fmt: skip
    """Every door that takes the level of a stream takes it through here.

    A number or an m×m matrix is the level of every step (`EndlessLevel`); a vector, an array
    (K, m, m) or a list of matrices has one entry a step (`StreamLevel`), as has a `PrivacyLevel`
    of all readings of a stream of `steps` steps if it does not tie steps together. `readings` is m
    where the door knows it: a number s then means s·I, a `PrivacyLevel` of m readings is that of
    every step, and other sizes are refused. None is refused: a level is never guessed.

    >>> as_stream_level(2.0)
    EndlessLevel(scalar readings, independent, reach 0)
    >>> as_stream_level(PrivacyLevel([1.0, 4.0, 1.0]), steps=3)
    StreamLevel(3 steps, 3 readings, independent)
    """
    require_level(given)
    if readings is not None:
        readings = as_count(readings, "readings", least=1)
    if isinstance(given, SequentialLevel):
        found = given
    elif isinstance(given, PrivacyLevel):
        found = _of_privacy_level(given, steps, readings)
    elif _is_of_every_step(given):
        found = _every_step(as_array(given, "the level", error=NotAPrivacyLevel), readings)
    else:
        found = StreamLevel(given)
    if readings is not None and found.block != readings:
        size = "changing size" if found.block is None else f"size {found.block}"
        raise NotAPrivacyLevel(
            f"The level is for readings of {size}; the stream has readings of size {readings}."
        )
    return found


def _is_of_every_step(given: ArrayLike) -> bool:
    try:
        return np.ndim(given) in (0, 2)
    except ValueError:  # matrices of different sizes
        return False


def _every_step(own: Array, readings: int | None) -> EndlessLevel:
    return EndlessLevel(own * np.eye(readings or 1) if own.ndim == 0 else own)


def _of_privacy_level(
    level: PrivacyLevel, steps: int | None, readings: int | None
) -> SequentialLevel:
    if level.number is not None:
        return _every_step(np.array(level.number), readings)
    if steps is None and level.size == readings:
        return EndlessLevel(level.dense())
    if steps is None:
        raise NotAPrivacyLevel(
            f"{level!r} is for one whole data set. A stream without a known end needs a number, an "
            "EndlessLevel or a StreamLevel."
        )
    sizes = (readings or 1,) * steps
    matrix = level.for_size(sum(sizes))
    if matrix.pointwise is None and not (isinstance(matrix, Blocks) and matrix.sizes == sizes):
        raise NotAPrivacyLevel(
            f"{level!r} ties steps together. Use a vector, or its sequential form "
            "StreamLevel.from_cumulative(matrix)."
        )
    return StreamLevel._of(IndependentRows(matrix), sizes)


def _mixing(level: float, rows: int) -> tuple[float, float]:
    """d and o of L = (d − o)I + o·11ᵀ, with (d − o)² ≤ s and (d + (r − 1)o)² ≤ s/r.

    >>> _mixing(4.0, 4)  # √4·(1 − 1/8), −√4/8
    (1.75, -0.25)
    """
    root = math.sqrt(level)
    other = -(root - root / math.sqrt(rows)) / rows
    for shrink in SHRUNK:
        d, o = (root + other) * (1 - shrink), other * (1 - shrink)
        within, mean = Fraction(d) - Fraction(o), Fraction(d) + (rows - 1) * Fraction(o)
        if within**2 <= Fraction(level) and rows * mean**2 <= Fraction(level):
            return d, o
    raise InvalidInput(
        f"{rows} readings of a step are too many to be released together at level {level:g}: the "
        "rounding of numbers is in the way. Take shorter steps."
    )
