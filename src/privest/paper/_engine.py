"""Monte Carlo: trials × tasks, the same numbers whatever the number of workers.

Every chunk of trials of a task has its own generator, seeded by (seed, task, first trial) alone.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any, TypedDict, Unpack

import numpy as np
import scipy

from privest.arrays import Array, as_count
from privest.errors import InvalidInput
from privest.estimator.likelihood import Backend
from privest.records import Record

CHUNK = 2000  # trials of one generator
WORDS = 4  # of a counter of Philox


@dataclass(frozen=True)
class Task:
    """One cell of an experiment: `work(rng, trials, **arguments)` gives a number or row a trial.

    `work` is a function of a module: other processes import it by name. Tasks with one `stream`
    (the `key`, if not given) draw the same numbers. `counted`: `work` takes a `Counter`.
    """

    key: str
    work: Callable[..., Array]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    stream: str | None = None
    counted: bool = False

    def run(self, first: int, trials: int, seed: int) -> Array:
        """The numbers of `trials` trials from trial `first` on."""
        make = counter if self.counted else generator
        rng = make(self.stream or self.key, first, seed)
        values = np.asarray(self.work(rng, trials, **self.arguments))
        if values.ndim not in (1, 2) or len(values) != trials:
            raise InvalidInput(
                f"task {self.key!r} must give one number for each of {trials} trials; it gave "
                f"shape {values.shape}."
            )
        return values


@dataclass(frozen=True)
class Summary(Record):
    """Mean with its standard error s/√N, and median over N trials."""

    trials: int
    mean: float
    standard_error: float
    median: float


class Running(TypedDict, total=False):
    """Processes on this machine, one BLAS thread each, and a call with (chunks done, all)."""

    workers: int
    progress: Callable[[int, int], None] | None


def monte_carlo(
    tasks: Sequence[Task], *, trials: int, seed: int, chunk: int = CHUNK, **running: Unpack[Running]
) -> dict[str, Summary]:
    """Summaries of all tasks by key; the numbers depend on `chunk`, not on the workers."""
    found = trials_of(tasks, trials=trials, seed=seed, chunk=chunk, **running)
    for key, values in found.items():
        if values.ndim > 1:
            raise InvalidInput(
                f"task {key!r} must give one number for each trial; it gave {values.shape[1]}."
            )
    return {key: _summary(values) for key, values in found.items()}


def trials_of(
    tasks: Sequence[Task], *, trials: int, seed: int, chunk: int = CHUNK, **running: Unpack[Running]
) -> dict[str, Array]:
    """The numbers of every task, trial by trial: (trials,), or (trials, m) for rows."""
    workers, report = running.get("workers", 1), running.get("progress")
    if trials < 2 or chunk < 1 or workers < 1:
        raise InvalidInput("Monte Carlo needs at least 2 trials, 1 trial a chunk and 1 worker.")
    if len({task.key for task in tasks}) != len(tasks):
        raise InvalidInput("two tasks have the same key.")
    starts = range(0, trials, chunk)
    chunks = [(task, at, min(chunk, trials - at)) for task in tasks for at in starts]
    found: dict[tuple[str, int], Array] = {}
    for key, at, values in _results(chunks, seed, workers):
        found[key, at] = values
        if report is not None:
            report(len(found), len(chunks))
    return {task.key: np.concatenate([found[task.key, at] for at in starts]) for task in tasks}


def _results(
    chunks: Sequence[tuple[Task, int, int]], seed: int, workers: int
) -> Iterator[tuple[str, int, Array]]:
    if workers == 1 or len(chunks) < 2:
        for task, at, count in chunks:
            yield task.key, at, task.run(at, count, seed)
        return
    with (
        _one_thread_each(),
        ProcessPoolExecutor(min(workers, len(chunks)), mp_context=get_context("spawn")) as pool,
    ):
        futures = {
            pool.submit(task.run, at, count, seed): (task.key, at) for task, at, count in chunks
        }
        try:
            for future in as_completed(futures):
                yield *futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes that start inside have one BLAS thread: more would fight for cores."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def generator(key: str, at: int, seed: int) -> np.random.Generator:
    """The generator of a chunk: a function of (seed, key, first trial) alone. For experiments."""
    return np.random.default_rng(np.random.SeedSequence([seed, at, *_words(key)]))


@dataclass(frozen=True)
class Counter:
    """Uniform numbers of a task's trials from trial `first` on: Philox4x64-10 of (key, trial)."""

    key: tuple[int, int]
    first: int = 0

    def uniform(self, trials: int, places: int, backend: Backend, skip: int = 0) -> Array:
        """Numbers in (0, 1), (trials, places), of the trials from first + skip on."""
        if trials < 1 or places < 1:
            raise InvalidInput(f"numbers for {trials} trials of {places} places were asked for.")
        each = math.ceil(places / WORDS)
        start = (self.first + skip) * each
        state = [(start >> shift) & (2**64 - 1) for shift in (0, 64, 128, 192)]
        made = np.random.Philox(
            key=np.array(self.key, dtype=np.uint64), counter=np.array(state, dtype=np.uint64)
        )
        words = made.random_raw(trials * each * WORDS).reshape(trials, each * WORDS)[:, :places]
        # The middles of 2^53 cells: never 0, never 1.
        numbers: Array = backend.xp.asarray(((words >> np.uint64(11)) + 0.5) * 2.0**-53)
        return numbers


def counter(key: str, at: int, seed: int) -> Counter:
    mixed = np.random.SeedSequence([seed, *_words(key)]).generate_state(2, np.uint64)
    return Counter((int(mixed[0]), int(mixed[1])), at)


def _words(key: str) -> list[int]:
    digest = hashlib.sha256(key.encode()).digest()
    words: list[int] = np.frombuffer(digest[:16], dtype="<u4").tolist()
    return words


def seed_of(rng: int | np.random.Generator) -> int:
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**63))
    return as_count(rng, "rng", least=0)


def beyond(probability: float) -> float:
    """How many standard deviations a normal number exceeds with this probability."""
    return float(-scipy.special.ndtri(probability))


def _summary(values: Array) -> Summary:
    # In units of a power of two near the largest: no digit changes, and no square overflows.
    power = int(np.frexp(np.abs(values).max())[1])
    small = np.ldexp(values, -power)
    error = float(np.std(small, ddof=1)) / math.sqrt(len(values))
    found = float(np.mean(small)), error, float(np.median(small))
    return Summary(len(values), *(math.ldexp(value, power) for value in found))
