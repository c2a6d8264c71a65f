"""A level for streams without an end: every step alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array
from privest.errors import InvalidInput, NotAPrivacyLevel
from privest.linalg import PSD, Blocks, Diagonal, psd
from privest.linalg._sequential import BandedRows, IndependentRows
from privest.privacy._level import PrivacyLevel, fingerprint_of, require_level
from privest.privacy._stream import SequentialLevel, StreamLevel


class EndlessLevel(SequentialLevel):
    """Each step shows y_k + Σ_j W_j y_{k−j}, j = 1..b, at level S: U_{k,k−j} = W_jᵀ S.

    `S` is a number (scalar readings) or an m×m matrix, `lags` the W_1..W_b: numbers or m×m
    matrices; none for U = 0. The stream may go on for ever: a reading is shown b + 1 times, so
    what is ever revealed of it is finite, S + Σ_j W_jᵀ S W_j.

    >>> level = EndlessLevel(1.0, lags=[0.5])
    >>> level.final_blocks().diagonal().tolist()
    [1.25]
    >>> level.first(3).cumulative().tolist()
    [[1.25, 0.5, 0.0], [0.5, 1.25, 0.5], [0.0, 0.5, 1.0]]
    """

    def __init__(self, S: ArrayLike, lags: Sequence[ArrayLike] = ()) -> None:
        own = as_array(S, "the level S", ndim=(0, 2), error=NotAPrivacyLevel)
        level = psd(np.atleast_2d(own)[None], "the level S", error=NotAPrivacyLevel)
        if not isinstance(lags, Sequence | np.ndarray):
            raise InvalidInput("lags must be a sequence of weights, such as [0.5, 0.25].")
        weights = [as_array(weight, f"lag {j}") for j, weight in enumerate(lags, start=1)]
        self._constant = _blocks_by_lag(level, weights)

    @classmethod
    def from_epsilon(
        cls, epsilon: float, *, delta: float, move: float, lags: Sequence[float] = ()
    ) -> EndlessLevel:
        """Scalar readings such that the whole stream is (ε, δ)-private if one moves by `move`.

        ε speaks of all that is ever shown of a reading: S(1 + Σ W²) is the level of that ε.

        >>> level = EndlessLevel.from_epsilon(1.0, delta=1e-6, move=0.5, lags=[0.5])
        >>> round(level.to_epsilon(delta=1e-6, move=0.5), 9)
        1.0
        """
        whole = PrivacyLevel.from_epsilon(epsilon, delta=delta, move=move).number
        assert whole is not None
        return cls(whole / (1.0 + sum(float(w) ** 2 for w in lags)), list(lags))

    @classmethod
    def _of(cls, constant: Array) -> EndlessLevel:
        """From A at lags 0..b, (b + 1, m, m)."""
        level = cls.__new__(cls)
        level._constant = constant
        return level

    @property
    def steps(self) -> None:
        """None: no end."""
        return

    @property
    def block(self) -> int:
        """m."""
        return int(self._constant.shape[-1])

    @property
    def form(self) -> str:
        """One of "independent" and "banded"."""
        return "banded" if self.reach else "independent"

    @property
    def reach(self) -> int:
        """How many steps back a release looks."""
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
        return [float(root) ** 2 for root in np.diagonal(own)]

    def blocks(self, start: int, stop: int) -> Array:
        shape = (self.reach + 1, stop - start, self.block, self.block)
        part = np.broadcast_to(self._constant[:, None], shape)
        if start < self.reach:
            part = part.copy()
            for lag in range(start + 1, self.reach + 1):
                part[lag, : lag - start] = 0.0  # would reach before the first step
        return part

    def dense_rows(self, start: int, stop: int) -> Array:
        raise AssertionError("an endless level is never dense")

    def first(self, steps: int) -> StreamLevel:
        """The level of the first `steps` steps, for bounds in batch."""
        sizes = (self.block,) * steps
        if self.reach:
            return StreamLevel._of(BandedRows(np.array(self.blocks(0, steps))), sizes)
        if self._diagonal is not None:
            return StreamLevel._of(IndependentRows(Diagonal(np.tile(self._diagonal, steps))), sizes)
        lower = self._constant[0].T
        stack = np.broadcast_to(lower @ lower.T, (steps, self.block, self.block))
        own = Blocks(stack, list(np.broadcast_to(lower, stack.shape)))
        return StreamLevel._of(IndependentRows(own), sizes)

    def final_blocks(self) -> PSD:
        """What is ever revealed of one reading: S + Σ_j W_jᵀ S W_j, as one block."""
        total = np.asarray(np.einsum("lij,lik->jk", self._constant, self._constant))
        return Diagonal(np.diagonal(total)) if self.block == 1 else Blocks([total])

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_of("endless", self._constant)

    def __repr__(self) -> str:
        size = "scalar readings" if self.block == 1 else f"readings of {self.block}"
        return f"EndlessLevel({size}, {self.form}, reach {self.reach})"


def _blocks_by_lag(own: PSD, lags: Sequence[Array]) -> Array:
    """A at lags 0..b: ℓᵀ and ℓᵀW_j, (b + 1, m, m)."""
    m = own.size
    blocks = np.zeros((len(lags) + 1, m, m))
    if own.pointwise is not None:
        blocks[0] = np.diag(np.sqrt(own.diagonal()))
    else:
        assert isinstance(own, Blocks)
        blocks[0] = own.lowers()[0].T
    for j, weight in enumerate(lags, start=1):
        matrix = weight * np.eye(m) if weight.ndim == 0 else weight
        if matrix.shape != (m, m):
            raise InvalidInput(f"lag {j} must be a number or {m}×{m}.")
        blocks[j] = blocks[0] @ matrix
    return blocks


def as_stream_level(
    given: SequentialLevel | PrivacyLevel | ArrayLike | Sequence[ArrayLike],
    steps: int | None = None,
    *,
    readings: int | None = None,
) -> SequentialLevel:
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
    if isinstance(given, SequentialLevel):
        found = given
    elif isinstance(given, PrivacyLevel):
        found = _of_privacy_level(given, steps, readings)
    elif _is_of_every_step(given):
        own = as_array(cast("ArrayLike", given), "the level", error=NotAPrivacyLevel)
        found = _every_step(own, readings)
    else:
        found = StreamLevel(given)
    if readings is not None and found.block != readings:
        size = "changing size" if found.block is None else f"size {found.block}"
        raise NotAPrivacyLevel(
            f"The level is for readings of {size}; the stream has readings of size {readings}."
        )
    return found


def _is_of_every_step(given: object) -> bool:
    try:
        return np.ndim(cast("ArrayLike", given)) in (0, 2)
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
