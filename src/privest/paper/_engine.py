"""Monte Carlo: trials × tasks, the same numbers whatever the number of workers, resumable.

Work is cut into units of (task, chunk of trials). Every unit has a generator of its own, seeded by
(seed, task, chunk) alone, so that neither the order of the units nor who does them matters. What
is finished is kept in an SQLite file; a run that was stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
import io
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Task:
    """One cell of an experiment: `work(rng, trials, **arguments)` gives one number a trial.

    `work` is a function of a module (it is sent to other processes by name), `key` tells tasks
    apart. The seed and `stream` decide the random numbers; tasks with the same stream draw the
    same ones, so that methods can be compared on the same data. Left out: the key.
    """

    key: str
    work: Callable[..., Array]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    stream: str | None = None


@dataclass(frozen=True)
class Summary:
    """Mean with its standard error s/√N, median and quartiles over N trials."""

    trials: int
    mean: float
    standard_error: float
    median: float
    quartiles: tuple[float, float]


def monte_carlo(
    tasks: Sequence[Task],
    *,
    trials: int,
    seed: int,
    chunk: int = 2000,
    workers: int = 1,
    executor: Executor | None = None,
    resume: Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Summary]:
    """Run every task for `trials` trials; summaries by key, in the order of the tasks.

    workers   processes on this machine (one BLAS thread each); `executor` is any other executor
              of `concurrent.futures` kind, for example that of a cluster.
    chunk     trials a unit: part of what decides the random numbers, so keep it to repeat a run.
    resume    file that keeps finished units. Made for one seed and one chunk.
    progress  called with (units done, units in all).
    """
    if trials < 2 or chunk < 1 or workers < 1:
        raise InvalidInput("Monte Carlo needs at least 2 trials, 1 trial a chunk and 1 worker.")
    keys = [task.key for task in tasks]
    if len(set(keys)) != len(keys):
        raise InvalidInput("two tasks have the same key.")
    units = [
        (task, at, min(chunk, trials - at)) for task in tasks for at in range(0, trials, chunk)
    ]
    kept_as = {task.key: _kept_as(task) for task in tasks}
    found: dict[tuple[str, int], Array] = {}
    with _Store(resume, seed, chunk) as store, _pool(executor, workers, len(units)) as pool:
        for task, at, count in units:
            kept = store.get(kept_as[task.key], at)
            if kept is not None and len(kept) == count:
                found[task.key, at] = kept
        left = [unit for unit in units if (unit[0].key, unit[1]) not in found]
        if progress is not None:
            progress(len(found), len(units))
        for (task, at, _), values in _results(pool, left, seed):
            found[task.key, at] = values
            store.put(kept_as[task.key], at, values)
            if progress is not None:
                progress(len(found), len(units))
    return {
        key: _summary(np.concatenate([found[key, at] for at in range(0, trials, chunk)]))
        for key in keys
    }


Unit = tuple[Task, int, int]


def _results(
    pool: Executor | None, units: Sequence[Unit], seed: int
) -> Iterator[tuple[Unit, Array]]:
    if pool is None:
        for unit in units:
            yield unit, run_unit(*unit, seed)
        return
    futures: dict[Future[Array], Unit] = {
        pool.submit(run_unit, *unit, seed): unit for unit in units
    }
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()


def run_unit(task: Task, at: int, count: int, seed: int) -> Array:
    """One chunk of one task, with its own generator."""
    values = np.asarray(
        task.work(generator(task.stream or task.key, at, seed), count, **task.arguments)
    )
    if values.shape != (count,):
        raise InvalidInput(
            f"task {task.key!r} must give one number for each of {count} trials; it gave shape "
            f"{values.shape}."
        )
    return values


def _kept_as(task: Task) -> str:
    """The name of a task's results: other arguments are other results."""
    drawn = "" if task.stream is None else f" | {task.stream}"
    return (
        f"{task.key} | {task.work.__module__}.{task.work.__qualname__} | {dict(task.arguments)!r}"
        f"{drawn}"
    )


def generator(key: str, at: int, seed: int) -> np.random.Generator:
    """The generator of a unit: a function of (seed, key, first trial) and of nothing else."""
    digest = hashlib.sha256(key.encode()).digest()
    words = np.frombuffer(digest[:16], dtype="<u4").tolist()
    return np.random.default_rng(np.random.SeedSequence([seed, at, *words]))


def _summary(values: Array) -> Summary:
    quartiles = np.quantile(values, [0.25, 0.5, 0.75])
    deviation = float(np.std(values, ddof=1))
    return Summary(
        trials=len(values),
        mean=float(np.mean(values)),
        standard_error=deviation / float(np.sqrt(len(values))),
        median=float(quartiles[1]),
        quartiles=(float(quartiles[0]), float(quartiles[2])),
    )


@contextmanager
def _pool(executor: Executor | None, workers: int, units: int) -> Iterator[Executor | None]:
    """Processes that are started fresh, with one BLAS thread each: more would fight for cores."""
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


class _Store:
    """Finished units in an SQLite file; nothing without a file."""

    def __init__(self, path: Path | None, seed: int, chunk: int) -> None:
        self.path, self.made_for = path, f"seed {seed}, chunk {chunk}"
        self.database: sqlite3.Connection | None = None

    def __enter__(self) -> _Store:
        if self.path is None:
            return self
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.is_dir():
            raise InvalidInput(f"{self.path} is a folder; --resume names a file.")
        self.database = sqlite3.connect(self.path)
        try:
            with self.database:
                self.database.execute(
                    "create table if not exists units (key text, at integer, data blob,"
                    " primary key (key, at))"
                )
                self.database.execute("create table if not exists made_for (what text unique)")
            made = self.database.execute("select what from made_for").fetchall()
            if not made:
                with self.database:
                    self.database.execute("insert into made_for values (?)", (self.made_for,))
                made = [(self.made_for,)]
        except sqlite3.DatabaseError:
            raise InvalidInput(f"{self.path} does not hold an experiment.") from None
        if made[0][0] != self.made_for:
            raise InvalidInput(
                f"{self.path} was made for another run (it has {made[0][0]}, this is "
                f"{self.made_for}): use another file."
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self.database is not None:
            self.database.close()

    def get(self, key: str, at: int) -> Array | None:
        if self.database is None:
            return None
        row = self.database.execute(
            "select data from units where key = ? and at = ?", (key, at)
        ).fetchone()
        return None if row is None else np.load(io.BytesIO(row[0]), allow_pickle=False)

    def put(self, key: str, at: int, values: Array) -> None:
        if self.database is None:
            return
        data = io.BytesIO()
        np.save(data, values, allow_pickle=False)
        with self.database:
            self.database.execute(
                "insert or replace into units values (?, ?, ?)", (key, at, data.getvalue())
            )
