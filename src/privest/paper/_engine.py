"""Monte Carlo: trials × tasks, the same numbers whatever the number of workers.

Every unit of (task, chunk of trials) has its own generator, seeded by (seed, task, chunk) alone.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any, Protocol, TypedDict, Unpack

import numpy as np
import scipy

from privest.arrays import Array, as_count
from privest.errors import InvalidInput
from privest.estimator.likelihood import Backend
from privest.records import Record

CHUNK = 2000  # trials of a unit
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


@dataclass(frozen=True)
class Summary(Record):
    """Mean with its standard error s/√N, and median over N trials."""

    trials: int
    mean: float
    standard_error: float
    median: float


class Store(Protocol):
    """Finished units, kept."""

    def get(self, unit: Unit) -> Array | None:
        """Its numbers; None: not kept."""

    def put(self, unit: Unit, values: Array) -> None:
        """Keep its numbers."""


class Running(TypedDict, total=False):
    """The workers of a run; the numbers do not depend on them.

    workers   processes on this machine (one BLAS thread each); or any other `executor`.
    store     keeps finished units, so that a run that was stopped goes on.
    progress  called with (units done, units in all).
    """

    workers: int
    executor: Executor | None
    store: Store | None
    progress: Callable[[int, int], None] | None


def monte_carlo(
    tasks: Sequence[Task], *, trials: int, seed: int, chunk: int = CHUNK, **running: Unpack[Running]
) -> dict[str, Summary]:
    """Summaries of all tasks by key; the numbers depend on `chunk`, the trials of a unit."""
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
    workers = running.get("workers", 1)
    _require_runnable(tasks, trials, chunk, workers)
    starts = range(0, trials, chunk)
    units = [Unit(task, at, min(chunk, trials - at)) for task in tasks for at in starts]
    report = running.get("progress") or (lambda done, total: None)
    store = running.get("store")
    found = _kept(store, units)
    with _pool(running.get("executor"), workers, len(units)) as pool:
        report(len(found), len(units))
        left = [unit for unit in units if unit.place not in found]
        for unit, values in _results(pool, left, seed):
            found[unit.place] = values
            if store is not None:
                store.put(unit, values)
            report(len(found), len(units))
    return {task.key: np.concatenate([found[task.key, at] for at in starts]) for task in tasks}


def _kept(store: Store | None, units: Sequence[Unit]) -> dict[tuple[str, int], Array]:
    if store is None:
        return {}
    return {unit.place: kept for unit in units if (kept := store.get(unit)) is not None}


def _require_runnable(tasks: Sequence[Task], trials: int, chunk: int, workers: int) -> None:
    if trials < 2 or chunk < 1 or workers < 1:
        raise InvalidInput("Monte Carlo needs at least 2 trials, 1 trial a chunk and 1 worker.")
    if len({task.key for task in tasks}) != len(tasks):
        raise InvalidInput("two tasks have the same key.")


@dataclass(frozen=True)
class Unit:
    """`count` trials of a task, from trial `at`."""

    task: Task
    at: int
    count: int

    @property
    def place(self) -> tuple[str, int]:
        return self.task.key, self.at


def _results(
    pool: Executor | None, units: Sequence[Unit], seed: int
) -> Iterator[tuple[Unit, Array]]:
    if pool is None:
        for unit in units:
            yield unit, run_unit(unit, seed)
        return
    futures: dict[Future[Array], Unit] = {pool.submit(run_unit, unit, seed): unit for unit in units}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()


def run_unit(unit: Unit, seed: int) -> Array:
    task, count = unit.task, unit.count
    make = counter if task.counted else generator
    numbers = make(task.stream or task.key, unit.at, seed)
    values = np.asarray(task.work(numbers, count, **task.arguments))
    if values.ndim not in (1, 2) or len(values) != count:
        raise InvalidInput(
            f"task {task.key!r} must give one number for each of {count} trials; it gave shape "
            f"{values.shape}."
        )
    return values


def generator(key: str, at: int, seed: int) -> np.random.Generator:
    """The generator of a unit: a function of (seed, key, first trial) alone. For experiments."""
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


@contextmanager
def _pool(executor: Executor | None, workers: int, units: int) -> Iterator[Executor | None]:
    """Fresh processes with one BLAS thread each: more would fight for cores."""
    if executor is not None or workers == 1 or units < 2:
        yield executor
        return
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        with ProcessPoolExecutor(min(workers, units), mp_context=get_context("spawn")) as pool:
            yield pool
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
