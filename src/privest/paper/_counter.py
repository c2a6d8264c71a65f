"""Uniform numbers by counting: those of a trial are a function of (seed, task, trial) alone.

Philox4x64-10 enciphers a counter. Trial t of a task reads the counters that are its own, so that no
number depends on how trials are cut into blocks, nor on where they are made: NumPy's generator on
this machine, the same rounds in a kernel on a graphics processor, bit for bit. They simulate worlds
and rivals (`_engine.generator` mixes their key); a release takes nothing from here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.estimator._device._kernels import cuda_text
from privest.estimator.likelihood import Backend

WORDS = 4  # of a counter
HALF_STEP = 0.5  # numbers lie in the middle of 2^53 cells: never 0, never 1
THREADS = 128


@dataclass(frozen=True)
class Counter:
    """The numbers of a task's trials from trial `first` on."""

    key: tuple[int, int]
    first: int = 0

    def uniform(self, trials: int, places: int, backend: Backend, skip: int = 0) -> Array:
        """(trials, places) numbers in (0, 1), of the trials from first + skip on.

        Where `places` differ, numbers do: a task must always ask for the same.
        """
        if trials < 1 or places < 1:
            raise InvalidInput(f"numbers for {trials} trials of {places} places were asked for.")
        each = math.ceil(places / WORDS)
        start = (self.first + skip) * each
        make = _on_device if backend.remote else _here
        words = make(self.key, start, trials * each, backend)
        cells = words.reshape(trials, each * WORDS)[:, :places] >> backend.xp.uint64(11)
        uniform: Array = (cells.astype(backend.xp.float64) + HALF_STEP) * 2.0**-53
        return uniform


def _here(key: tuple[int, int], start: int, count: int, backend: Backend) -> Any:  # noqa: ANN401
    """Words (4·count,) of the counters from start + 1 on: NumPy counts before it enciphers."""
    state = [(start >> shift) & (2**64 - 1) for shift in (0, 64, 128, 192)]
    made = np.random.Philox(
        key=np.array(key, dtype=np.uint64), counter=np.array(state, dtype=np.uint64)
    )
    return made.random_raw(count * WORDS)


def _on_device(key: tuple[int, int], start: int, count: int, backend: Backend) -> Any:  # noqa: ANN401
    xp = backend.xp
    words = xp.empty(count * WORDS, dtype=xp.uint64)
    arguments = (np.int64(count), *(np.uint64(v) for v in (start + 1, *key)), words)
    _kernel(xp)((math.ceil(count / THREADS),), (THREADS,), arguments)
    return words


@cache
def _kernel(cupy: Any) -> Any:  # noqa: ANN401 - CuPy and a kernel of it
    text = cuda_text(Path(__file__).with_name("philox.cu"))
    return cupy.RawModule(code=text).get_function("philox")
