"""Releases of many series, and what a filter takes: releases whole and finite, never readings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from privest import lattice
from privest.arrays import Array, ArrayLike, Flags, Index
from privest.dynamics._observed import Level
from privest.errors import InvalidInput
from privest.mechanism._missing import marked, real_numbers, split_missing
from privest.mechanism._range import as_range
from privest.mechanism._stream_terms import begun, clip_between, stream_terms
from privest.mechanism.source import Source, as_protected, as_source
from privest.privacy import SequentialLevel, as_stream_level
from privest.reading import read_count, read_flags
from privest.release import Release, StreamRelease


@dataclass(frozen=True, eq=False, slots=True)
class SeriesRelease(Release):
    """z̃ of many series, (series, K, m), with noise of their own; it cannot hold y.

    values     NaN where a step is missing.
    missing    (K,) if all series miss the same steps, else (series, K).
    """

    KIND: ClassVar[str] = "series release"
    NDIM: ClassVar[int] = 3

    values: Array
    missing: Flags
    fingerprint: str
    simulated: bool
    start: int = 0
    grid: float = 0.0

    def __repr__(self) -> str:
        series, steps, m = self.values.shape
        return f"SeriesRelease({series} series, {steps} steps, {m} readings a step)"

    def by_pattern(self) -> Iterator[tuple[Index, SeriesRelease]]:
        """The series that miss the same steps, together: their numbers and their releases."""
        if self.missing.ndim == 1:
            yield np.arange(len(self.values)), self
            return
        patterns, own = np.unique(self.missing, axis=0, return_inverse=True)
        for j, pattern in enumerate(patterns):
            members = np.flatnonzero(own.reshape(-1) == j)
            yield members, replace(self, values=self.values[members], missing=pattern)

    @classmethod
    def _checked(cls, record: dict[str, Any]) -> dict[str, Any]:
        record = super(SeriesRelease, cls)._checked(record)
        record["start"] = read_count(record["start"], "start")
        values, given = record["values"], record["missing"]
        series, steps, m = values.shape
        if isinstance(given, list | tuple) and len(given) == series and _rows(given):
            missing = np.stack([read_flags(row, steps, "missing") for row in given])
        else:
            missing = read_flags(given, steps, "missing")
        _require_shown(values, missing, m)
        gone = np.isnan(values).all(axis=-1) | ~missing
        if values.size == 0 or not gone.all():
            raise InvalidInput("a release has values, and none at the steps that are missing.")
        return record | {"missing": missing}


def _rows(given: Sequence[object]) -> bool:
    return all(isinstance(row, list | tuple) for row in given)


def simulate_series(level: Level, y: ArrayLike, rng: np.random.Generator | Source) -> SeriesRelease:
    """Readings (series, K, m), or (series, K) for scalar ones, with simulated noise: for trials.

    Each series is a stream of its own at the given level, as with one StreamMechanism each. NaN:
    missing; a reading of which a part is missing counts as missing.
    """
    source, given = as_source(rng), real_numbers(y)
    wanted = _series_level(level, given)
    raw = _shaped(given, wanted)
    values, missing = _split(raw, finite=True)
    noisy = source.add_noise(shown_series(wanted, values), fingerprint=wanted.fingerprint)
    noisy[missing] = np.nan
    return _released(noisy, wanted, source)


def release_series(
    level: Level,
    y: ArrayLike,
    source: Source | None = None,
    *,
    range: tuple[float, float] | None = None,
) -> SeriesRelease:
    """The same with protected noise (`StreamMechanism.release`); it has no seed.

    I ≤ S̄_k in every series. Nothing is refused because of a value: what lies beyond the public
    `range` (of every coordinate) is clipped, NaN is missing.
    """
    protected, given = as_protected(source), real_numbers(y)
    wanted = _series_level(level, given)
    raw = _shaped(given, wanted)
    series, steps, m = raw.shape
    past = begun(wanted)
    clip = clip_between(wanted, as_range(range), past, 0, steps)

    def shown() -> lattice.Exactly:
        values, missing = _split(raw, finite=False)
        flat = values.reshape(series, -1)
        before = np.broadcast_to(past, (series, len(past)))
        exact = lattice.sum_of_products(stream_terms(wanted, before, flat, 0, steps)[0])
        return marked(exact, np.repeat(missing, m, axis=1))

    noisy = protected.add_noise(
        shown, shape=(series, steps * m), clip=clip, fingerprint=wanted.fingerprint
    )
    return _released(noisy.reshape(raw.shape), wanted, protected)


def _released(values: Array, level: SequentialLevel, source: Source) -> SeriesRelease:
    missing = np.asarray(np.isnan(values).any(axis=2))
    shared = missing[0] if (missing == missing[0]).all() else missing
    return SeriesRelease(values, shared, level.fingerprint, source.simulated, grid=source.grid)


def _series_level(level: Level, y: Array) -> SequentialLevel:
    m = y.shape[2] if y.ndim == 3 else 1
    wanted = as_stream_level(level, readings=None if isinstance(level, SequentialLevel) else m)
    if wanted.block is None:
        raise InvalidInput("Many series need a level with readings of one size.")
    return wanted


def _shaped(raw: Array, level: SequentialLevel) -> Array:
    """Readings (series, K, m)."""
    every = raw[:, :, None] if raw.ndim == 2 and level.block == 1 else raw
    if every.ndim != 3 or every.shape[2] != level.block or every.size == 0:
        raise InvalidInput(
            f"readings must be (series, steps, {level.block}); received shape {raw.shape}."
        )
    if level.steps is not None and every.shape[1] > level.steps:
        raise InvalidInput(
            f"The level has {level.steps} steps; received {every.shape[1]} readings."
        )
    return every


def _split(raw: Array, *, finite: bool) -> tuple[Array, Flags]:
    """The readings, 0 where a step is missing, and which ones are (series, K)."""
    values, absent = split_missing(raw, finite=finite)
    if absent is None:
        return values, np.zeros(raw.shape[:2], dtype=bool)
    missing = np.asarray(absent.any(axis=2))
    return np.where(missing[:, :, None], 0.0, values), missing


def shown_series(level: SequentialLevel, values: Array) -> Array:
    """A_kȲ_k of every series, (series, K, m)."""
    count, steps, _ = values.shape
    if level.form == "dense":
        rows = level.dense_rows(0, steps)
        return np.asarray((values.reshape(count, -1) @ rows.T).reshape(values.shape))
    blocks, shown = level.blocks(0, steps), np.zeros(values.shape)
    for lag in range(min(level.reach + 1, steps)):
        shown[:, lag:] += np.einsum("kij,skj->ski", blocks[lag, lag:], values[:, : steps - lag])
    return shown


class Given(NamedTuple):
    """z̃ (…, K, m) in units of the deviation of its noise, and which steps are missing.

    unit  1/√v: z̃/√v is a release with unit noise of the rows A/√v.
    """

    values: Array
    missing: Flags
    unit: float
    simulated: bool

    def log_likelihood(self, of_units: Array) -> Array:
        """The log density of z̃ from that of z̃/√v."""
        count = int((~self.missing).sum()) * self.values.shape[-1]
        return np.asarray(of_units + count * math.log(self.unit))


def given_values(
    release: Release, level: SequentialLevel, start: int = 0, *, series: bool = False
) -> Given:
    """What a release at this level shows from step `start` on.

    A SeriesRelease is taken where the caller says so.
    """
    kinds = (SeriesRelease, StreamRelease) if series else (StreamRelease,)
    if not isinstance(release, kinds):
        listed = " or ".join(kind.__name__ for kind in kinds)
        raise InvalidInput(
            f"The filter takes a release as {listed}, not {type(release).__name__}: it must never "
            "see readings."
        )
    release.require(level.fingerprint)
    if release.start != start:
        raise InvalidInput(
            f"The release starts at step {release.start}; the next must be that of step {start}. "
            "(PrivateKalman.update takes a stream as it comes, other filters all steps from 0.)"
        )
    assert level.block is not None
    m, values = level.block, release.values
    if isinstance(release, SeriesRelease):
        missing = release.missing
    else:
        if values.shape != (release.steps * m,):
            raise InvalidInput(
                f"A release of {release.steps} steps of {m} readings has {release.steps * m} "
                f"values; received shape {values.shape}."
            )
        values, missing = values.reshape(-1, m), _flags(release)
    _require_shown(values, missing, m)
    unit = 1.0 / math.sqrt(release.unit_variance)
    return Given(values if unit == 1.0 else unit * values, missing, unit, release.simulated)


def _flags(release: StreamRelease) -> Flags:
    return np.zeros(release.steps, dtype=bool) if release.missing is None else release.missing


def _require_shown(values: Array, missing: Flags, m: int) -> None:
    """Every step that is not missing has finite values (a file may have been changed)."""
    if values.shape[-1] != m or missing.shape not in (values.shape[:-1], values.shape[-2:-1]):
        raise InvalidInput(
            f"values {values.shape} and missing steps {missing.shape} of the release do not match."
        )
    if not (np.isfinite(values).all(axis=-1) | missing).all():
        raise InvalidInput("The release has values that are not finite at steps not missing.")


def joined(releases: Sequence[StreamRelease]) -> StreamRelease:
    """Releases that follow one another as one."""
    if not releases:
        raise InvalidInput("There are no releases to join.")
    start, at_step = releases[0].start, releases[0].start
    for release in releases:
        if release.start != at_step or release.fingerprint != releases[0].fingerprint:
            raise InvalidInput(
                f"Releases must follow one another at one level: expected step {at_step}, received "
                f"step {release.start}."
            )
        if release.grid != releases[0].grid:
            raise InvalidInput("Simulated and protected releases cannot be joined into one.")
        at_step += release.steps
    missing = np.concatenate([_flags(release) for release in releases])
    return StreamRelease(
        start, at_step - start, np.concatenate([release.values for release in releases]),
        missing if missing.any() else None, releases[0].fingerprint,
        any(release.simulated for release in releases), releases[0].grid,
    )  # fmt: skip
