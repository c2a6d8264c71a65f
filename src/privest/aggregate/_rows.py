"""Rows of features that are read many times: in memory, and beyond 256 MB in a temporary file."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, BinaryIO, ClassVar

import numpy as np

from privest.arrays import AnyArray, Array

IN_MEMORY = 2**25  # numbers: 256 MB
BLOCK = 2**13  # rows: of ten features they stay in the inner caches


class FeatureRows:
    """Blocks of H, (rows, n) each and column by column, in the order in which they were added.

    Features only: a private value is never written to a temporary file.
    """

    block: ClassVar[int] = BLOCK

    def __init__(self, n: int, blocks: Iterable[Array] = (), *, in_memory: int = IN_MEMORY) -> None:
        self.n, self.count, self.in_memory = n, 0, in_memory
        self._blocks: list[Array] = []
        self._sizes: list[int] = []
        self._file: BinaryIO | None = None
        for block in blocks:
            self.add(block)

    def add(self, block: Array) -> None:
        """The next rows."""
        for at in range(0, len(block), BLOCK):
            part = np.array(block[at : at + BLOCK], dtype=np.float64, order="F")
            if (self.count + len(part)) * self.n <= self.in_memory:
                self._blocks.append(part)
            else:
                if self._file is None:
                    self._file = tempfile.TemporaryFile(prefix="privest-")  # noqa: SIM115
                    weakref.finalize(self, self._file.close)
                self._file.seek(0, 2)
                self._file.write(part.tobytes(order="F"))
                self._sizes.append(len(part))
            self.count += len(part)

    def __iter__(self) -> Iterator[Array]:
        yield from self._blocks
        if self._file is not None:
            at = 0
            for size in self._sizes:
                self._file.seek(at)  # another pass may be under way
                data = self._file.read(8 * size * self.n)
                at += len(data)
                yield np.frombuffer(data).reshape(size, self.n, order="F")

    def map(self, made: Callable[..., Any], beside: Iterable[Any] | None = None) -> Iterator[Any]:
        """made(X) of every block in turn; with something beside every block made(X, beside)."""
        if beside is None:
            return map(made, self)
        return (made(X, own) for X, own in zip(self, beside, strict=True))

    def parts(self, values: AnyArray) -> list[AnyArray]:
        """Something of every row, (rows,), in the blocks of the rows."""
        sizes = [*map(len, self._blocks), *self._sizes]
        return np.split(values, np.cumsum(sizes)[:-1])

    def some(self, most: int) -> FeatureRows:
        """At most about so many rows, evenly spread: to start an iteration with."""
        step = max(1, -(-self.count // most))
        return FeatureRows(self.n, [np.concatenate(list(self.map(partial(_every, step))))])


def _every(step: int, X: Array) -> Array:
    return X[::step].copy()
