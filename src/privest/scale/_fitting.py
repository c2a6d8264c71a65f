"""`fit`: the efficient estimate from a Dask frame, in one map-reduce pass over its partitions."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from privest.arrays import as_choice, as_positive
from privest.data import Features, PandasSource
from privest.errors import InvalidInput, MissingDependency
from privest.estimator import Result
from privest.estimator.inference import stated_p
from privest.linalg import refuse_hidden
from privest.mechanism.source import seeded
from privest.privacy import PrivacyLevel
from privest.scale._keeping import ReleaseFolder
from privest.scale._pieces import Job, Piece, judge, merge, reduce_partition

FAN = 16  # pieces merged by one task


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Fit(Result):
    """θ̂ with cov θ̂ = (Σ_k h_kh_kᵀ/(σ_k² + 1/s_k))⁻¹, the bound of `thm:crbound`.

    level, noise   s and σ²: numbers, or names of public columns with one per row.
    rows, dropped  used, and left out for missing values.
    misfit         Σ_k (z_k − h_kᵀθ̂)²/(σ_k² + 1/s_k)/(K − n), about 1 if σ² and model are right.
    misfit_p       its two-sided p-value.
    """

    level: float | str
    noise: float | str
    rows: int
    dropped: int
    misfit: float | None = None
    misfit_p: float | None = None


def fit(
    frame: Any,  # noqa: ANN401 - dask is optional
    features: Features | Sequence[str],
    *,
    level: float | PrivacyLevel | str,
    noise: float | str,
    target: str = "z",
    missing: Literal["refuse", "drop"] = "refuse",
    simulate: int | None = None,
    release: str | os.PathLike[str] | None = None,
    client: Any = None,  # noqa: ANN401
) -> Fit:
    """θ̂ of z_k = h_kᵀθ + w_k + e_k/√s_k from a Dask frame of any size: U = 0, scalar readings.

        θ̂ = PI⁻¹ Σ_k g_k²h_kz_k ,  cov θ̂ = PI⁻¹ ,  PI = Σ_k g_k²h_kh_kᵀ ,  g_k² = 1/(σ_k² + 1/s_k)

    Symbols
        frame           dask.dataframe.DataFrame; only the columns named here are read.
        features        columns of h_k: a `Features`, or names of numeric columns (with intercept).
        level           s_k: a number, or the name of a column (public).
        noise           σ_k²: a number, or the name of a column (public).
        target          the column of the release z, made by the data holder before.
        missing         "refuse" gaps, or "drop" such rows and count them, as `data.read_rows`.
        simulate        a seed: `target` holds y, and z = y + e/√s is made on the workers. An
                        experiment, not a protected release. The noise of a row is a function of
                        the seed, the names, the row's reading, level and place in its partition,
                        and that partition's number.
        release         a folder that all workers see: `target` holds y, and z is released on the
                        workers with protected noise, once. Every partition's release is in the
                        folder before it is used; a task that runs again, on another worker or at
                        the same time, uses the same numbers, and so does a later `fit` of the same
                        rows, which spends nothing, with other features or another σ² too. **The
                        folder is the release**: where it is lost, the next `fit` is a second one.
                        Readings that are NaN are missing, infinite ones are clipped: none is
                        refused. `missing` is about the other columns.
        client          a dask.distributed Client; None: the scheduler that Dask would use.
    Guarantees: the estimate of `workflow.estimate_release` up to rounding; the same bits for the
    same partitions and BLAS, whatever the number of workers. Rows stay on the workers: a partition
    sends an (n + 1)×(n + 1) triangle.
    Raises InvalidInput (with column, partition and row) and NotIdentifiable as reading in memory;
    where a folder holds the release of other partitions, rows or levels, or a worker does not see
    it: of public facts only.
    An interrupt (Ctrl-C) cancels what has not begun.
    Cost: O(K n²) in one pass; a worker holds a partition and a copy of the columns used.
    Source: `thm:crbound`, `algo:PP_RLS` with U = 0; docs/theory.md 1, 6.
    """
    as_choice(missing, ("refuse", "drop"), "missing")
    design = as_features(features)
    if target in design.columns:
        raise InvalidInput(
            f"the target {target!r} is among the features: features are public, it is not."
        )
    drop, numbers = missing == "drop", (_number(level, "level"), _number(noise, "noise"))
    if target in numbers:
        raise InvalidInput(f"the column {target!r} is private: it cannot be a level or a variance.")
    seeded(simulate)  # refuses what is no seed
    job = Job(design, target, *numbers, drop, simulate)
    require_frame(frame, job.columns, job.features.text)
    parts = frame[list(job.columns)].to_delayed()
    if release is not None:
        if simulate is not None:
            raise InvalidInput("simulate is a trial, release is not: give one of them.")
        facts = {"target": target, "level": job.level, "partitions": len(parts)}
        job = replace(job, release=ReleaseFolder.opened(release, facts))
    whole = _reduced(parts, job, client)
    judge(whole, job)
    rls, n = whole.rls, len(design.names)
    if not rls.identifiable:
        sizes = np.sqrt(np.diagonal(rls.information))
        refuse_hidden(rls.hidden_directions, sizes, design.names, "the frame", rls.readings)
    made_here = simulate is not None or release is not None  # else a release of unknown noise
    found, freedom = rls.result(design.names), rls.readings - n
    known = {one.name: getattr(found, one.name) for one in fields(found)}
    known["simulated"] = rls.simulated if made_here else None
    if freedom > 0:
        known["misfit"] = rls.misfit / freedom
        known["misfit_p"] = stated_p(rls.misfit, freedom, 1.0)
    return Fit(
        **known, level=job.level, noise=job.noise, rows=rls.readings,
        dropped=whole.dropped,
    )  # fmt: skip


def _number(given: float | PrivacyLevel | str, what: str) -> float | str:
    """A number > 0, or the name of a column."""
    if isinstance(given, PrivacyLevel):
        if given.number is None:
            raise InvalidInput("fit takes one level for all rows, or the name of a column of them.")
        return given.number
    return given if isinstance(given, str) else as_positive(given, what)


def as_features(given: Features | Sequence[str]) -> Features:
    """Names of columns as features, with an intercept."""
    if isinstance(given, str):  # a sequence of letters
        raise InvalidInput(f"features is a list of column names: write [{given!r}].")
    return given if isinstance(given, Features) else Features(tuple(given))


def require_frame(frame: Any, columns: tuple[str, ...], text: frozenset[str]) -> None:  # noqa: ANN401
    """A Dask frame with these columns; nothing is read for that."""
    dataframe = sys.modules.get("dask.dataframe")
    if dataframe is None or not isinstance(frame, dataframe.DataFrame):
        raise InvalidInput(
            "fit needs a Dask DataFrame, for example dask.dataframe.read_parquet(folder); received "
            f"{type(frame).__name__}. Tables of one machine: privest.workflow."
        )
    source = PandasSource(frame._meta, "the frame")
    source.blocks(columns, text=text)  # refuses absent and repeated names
    if not set(columns) <= set(frame.columns):  # 0 is not "0"
        raise InvalidInput("column names must be texts: frame.rename(columns=str) makes them so.")


def _reduced(parts: Sequence[Any], job: Job, client: Any) -> Piece:  # noqa: ANN401
    """All partitions as one piece: a map, and a tree of merges."""
    try:
        import dask
    except ImportError as missing:  # pragma: no cover - a Dask frame without Dask
        raise MissingDependency('fit needs Dask: install the extra "dask".') from missing
    begin, join = dask.delayed(reduce_partition, pure=False), dask.delayed(merge, pure=False)
    pieces = [begin(part, number, job) for number, part in enumerate(parts)]
    pieces = [join(pieces[at : at + FAN], job) for at in range(0, len(pieces), FAN)]
    while len(pieces) > 1:
        pieces = [join(pieces[at : at + FAN], job) for at in range(0, len(pieces), FAN)]
    found: Piece = computed(pieces[0], client)
    return found


def computed(task: Any, client: Any) -> Any:  # noqa: ANN401
    """What a task gives; where this is interrupted it is cancelled."""
    if client is None:
        return task.compute()  # Dask drops the tasks if this is interrupted
    future = client.compute(task)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
