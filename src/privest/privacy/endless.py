"""A level for streams without an end: every step alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array
from privest.errors import InvalidInput, NotAPrivacyLevel
from privest.linalg import PSD, Blocks, Diagonal, psd
from privest.privacy.stream import SequentialLevel, StreamLevel, fingerprint_of


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
        self.own = psd(np.atleast_2d(own)[None], "the level S", error=NotAPrivacyLevel)
        self.lags = tuple(as_array(weight, f"lag {j}") for j, weight in enumerate(lags, start=1))
        self._size = self.own.size
        self._constant = _blocks_by_lag(self.own, self.lags)

    @property
    def steps(self) -> None:
        """None: no end."""
        return

    @property
    def block(self) -> int:
        """m."""
        return self._size

    @property
    def form(self) -> str:
        """One of "independent" and "banded"."""
        return "banded" if self.lags else "independent"

    @property
    def reach(self) -> int:
        """How many steps back a release looks."""
        return len(self.lags)

    def sizes_between(self, start: int, stop: int) -> tuple[int, ...]:
        return (self.block,) * (stop - start)

    def pointwise(self, start: int, stop: int) -> Array | float | None:
        if self.lags or self.own.pointwise is None:
            return None
        diagonal = self.own.diagonal()
        return float(diagonal[0]) if self.block == 1 else np.tile(diagonal, stop - start)

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
        if not self.lags:
            return StreamLevel.constant(
                self.own.dense() if self.block > 1 else self.own.diagonal()[0], steps
            )
        S = np.broadcast_to(self.own.dense(), (steps, self.block, self.block))
        return StreamLevel.from_lags(S, self.lags)

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
