"""Releases of many series, and what filters and fits take: releases, never measurements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from privest import lattice
from privest.arrays import Array, ArrayLike, Flags, Index, as_array, as_flags, plural
from privest.dynamics._steps import Matrices, Plan, numbers_shown, of_entries, plan_of
from privest.dynamics._system import StateSpace, as_system
from privest.errors import InvalidInput
from privest.mechanism.rows import as_range, marked, real_numbers, split_missing
from privest.mechanism.source import Source, as_protected, as_source
from privest.mechanism.stream_terms import begun, clip_between, stream_terms
from privest.privacy import PrivacyLevel, SequentialLevel, as_stream_level
from privest.privacy.parts import (
    hidden_entries,
    mixes_a_step,
    partial_steps,
    rows_of_parts,
)
from privest.reading import read_count
from privest.release import Release, StreamRelease

Level = SequentialLevel | PrivacyLevel | ArrayLike  # what every call for a level takes


def level_of(level: Level, system: StateSpace) -> SequentialLevel:
    """The level of a stream of the system's measurements, in whatever form it was given."""
    return as_stream_level(level, readings=as_system(system).readings)


def level_of_release(release: Release, level: Level | None, measurements: int) -> SequentialLevel:
    """The level that was given, or that which the release carries."""
    carried = getattr(release, "level", None)
    wanted = carried if level is None else level
    if wanted is None:
        raise InvalidInput(
            "This release does not carry its level (it was read from a record, or is none): give "
            "the level of the mechanism as level=."
        )
    return as_stream_level(wanted, readings=measurements)


def asked(
    system: StateSpace, level: Level, steps: int | None, missing: ArrayLike | None
) -> tuple[SequentialLevel, int, Flags]:
    """The level for this system, K, and what shows nothing: (K,), or (K, m) (`as_seen`)."""
    wanted = level_of(level, system)
    limits = [limit for limit in (wanted.steps, system.steps) if limit is not None]
    if steps is None:
        if not limits:
            raise InvalidInput("Neither the system nor the level has an end: say how many steps.")
        count = min(limits)
    elif wanted.steps is not None and steps > wanted.steps:
        raise InvalidInput(f"The level has {wanted.steps} steps; asked for {steps}.")
    else:
        count = system.require_steps(steps)
    if missing is None:
        return wanted, count, np.zeros(count, dtype=bool)
    flags = as_flags(missing, "missing", ((count,), (count, system.readings)))
    return wanted, count, as_seen(wanted, 0, flags)


def as_seen(level: SequentialLevel, start: int, missing: Flags) -> Flags:
    """Which steps show nothing, (K,), or where some show a part, which entries do not, (K, m).

    From flags of steps (K,) or of measurements (K, m), of step `start` and those after it.
    """
    if missing.ndim == 1:
        return missing
    hidden = hidden_entries(level, start, missing)
    some = np.asarray(hidden.any(axis=1))
    return some if np.array_equal(some, hidden.all(axis=1)) else hidden


@dataclass(frozen=True, eq=False, slots=True)
class SeriesRelease(Release):
    """z̃ of many series, (series, K, m), with noise of their own; NaN where nothing is shown."""

    KIND: ClassVar[str] = "series release"
    NDIM: ClassVar[int] = 3

    values: Array
    fingerprint: str
    simulated: bool
    start: int = 0
    grid: float = 0.0
    level: SequentialLevel | None = field(default=None, repr=False)

    @property
    def missing(self) -> Flags:
        """(series, K, m): what is not shown."""
        return np.isnan(self.values)

    def __repr__(self) -> str:
        series, steps, m = self.values.shape
        return f"SeriesRelease({series} series, {steps} steps, {m} readings a step)"

    def by_pattern(self) -> Iterator[tuple[Index, SeriesRelease]]:
        """The series that miss the same, together: their numbers and their releases."""
        missing = self.missing
        if (missing == missing[0]).all():
            yield np.arange(len(missing)), self
            return
        patterns, own = np.unique(missing, axis=0, return_inverse=True)
        for j in range(len(patterns)):
            members = np.flatnonzero(own.reshape(-1) == j)
            yield members, replace(self, values=self.values[members])

    @classmethod
    def _checked(cls, record: dict[str, Any]) -> dict[str, Any]:
        record = super(SeriesRelease, cls)._checked(record)
        record["start"] = read_count(record["start"], "start")
        if record["values"].size == 0 or np.isinf(record["values"]).any():
            raise InvalidInput("the values of a release must be finite, or absent where missing.")
        return record


def simulate_series(level: Level, y: ArrayLike, rng: np.random.Generator | Source) -> SeriesRelease:
    """Readings (series, K, m), or (series, K) for scalar ones, with simulated noise: for trials.

    Each series is a stream of its own at the given level, as with one StreamMechanism each. NaN:
    missing; of a reading of which a part is missing the rest is shown (`StreamMechanism`).
    """
    source, given = as_source(rng), real_numbers(y)
    wanted = _series_level(level, given)
    raw = _shaped(given, wanted)
    values, absent = _split(raw, wanted, finite=True)
    noisy = source.add_noise(shown_series(wanted, values, absent), fingerprint=wanted.fingerprint)
    noisy[absent] = np.nan
    return SeriesRelease(noisy, wanted.fingerprint, source.simulated, 0, source.grid, wanted)


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
    past, span = begun(wanted), as_range(range)
    clip = clip_between(wanted, span, past, 0, steps)
    parts = not (span and mixes_a_step(wanted))  # as of `StreamMechanism`

    def shown() -> lattice.Exactly:
        values, absent = _split(raw, wanted, finite=False, parts=parts)
        flat, hidden = values.reshape(series, -1), absent.reshape(series, -1)
        before = np.broadcast_to(past, (series, len(past)))
        terms = stream_terms(wanted, before, flat, 0, steps, hidden if absent.any() else None)[0]
        return marked(lattice.sum_of_products(terms), hidden)

    noisy = protected.add_noise(
        shown, shape=(series, steps * m), clip=clip, fingerprint=wanted.fingerprint
    )
    values = noisy.reshape(raw.shape)
    return SeriesRelease(
        values, wanted.fingerprint, protected.simulated, 0, protected.grid, wanted
    )  # fmt: skip


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


def _split(
    raw: Array, level: SequentialLevel, *, finite: bool, parts: bool = True
) -> tuple[Array, Flags]:
    """The readings, 0 where nothing is shown, and where that is (series, K, m)."""
    values, absent = split_missing(raw, finite=finite)
    if absent is None:
        return values, np.zeros(raw.shape, dtype=bool)
    hidden = hidden_entries(level, 0, absent, parts=parts)
    return np.where(hidden, 0.0, values), hidden


def shown_series(level: SequentialLevel, values: Array, absent: Flags | None = None) -> Array:
    """A_kȲ_k of every series, (series, K, m); `absent` (…, K, m): 0, and not shown."""
    count, steps, m = values.shape
    if level.form == "dense":
        rows = level.dense_rows(0, steps)
        return np.asarray((values.reshape(count, -1) @ rows.T).reshape(values.shape))
    blocks, shown = level.blocks(0, steps), np.zeros(values.shape)
    for lag in range(min(level.reach + 1, steps)):
        shown[:, lag:] += np.einsum("kij,skj->ski", blocks[lag, lag:], values[:, : steps - lag])
    if absent is not None and mixes_a_step(level):
        flags = np.broadcast_to(absent, values.shape)
        for k in partial_steps(flags.transpose(1, 0, 2).reshape(steps, count * m)):
            rows = rows_of_parts(level, k, flags[:, k : k + 1])[:, 0]
            shown[:, k] = (rows @ values[:, k, :, None])[..., 0]
    return shown


class Given(NamedTuple):
    """z̃ (…, K, m) in units of the deviation of its noise, and what is missing (`as_seen`).

    missing  (K,) steps, or (K, m) entries where of some step a part is missing.
    unit  1/√v: z̃/√v is a release with unit noise of the rows A/√v.
    """

    values: Array
    missing: Flags
    unit: float
    simulated: bool

    def log_likelihood(self, of_units: Array) -> Array:
        """The log density of z̃ from that of z̃/√v."""
        count = numbers_shown(self.missing, self.values.shape[-1])
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
            f"A filter takes a release as {listed}, not {type(release).__name__}: it must never "
            "see measurements."
        )
    release.require(level.fingerprint)
    if release.start != start:
        raise InvalidInput(
            f"The release starts at step {release.start}; the next must be that of step {start}. "
            "(PrivateKalman.update takes a stream as it comes, other filters all steps from 0.)"
        )
    values, missing = _shown(release, level.block or 0)
    if not (np.isfinite(values) | of_entries(missing)).all():
        raise InvalidInput("The release has values that are not finite at steps not missing.")
    unit = 1.0 / math.sqrt(release.unit_variance)
    shown = values if unit == 1.0 else unit * values
    return Given(shown, as_seen(level, start, missing), unit, release.simulated)


def _shown(release: StreamRelease | SeriesRelease, m: int) -> tuple[Array, Flags]:
    """z̃ (K, m) and what is missing, (K,) or (K, m); with an axis of series, z̃ (series, K, m)."""
    values = release.values
    if isinstance(release, SeriesRelease):
        flags = release.missing
        if values.ndim != 3 or values.shape[-1] != m:
            raise InvalidInput(f"values {values.shape} of the release are not {m} a step.")
        if not (flags == flags[0]).all():
            raise InvalidInput(
                "The series miss different steps, so their covariances differ: filter each pattern "
                "by itself (SeriesRelease.by_pattern)."
            )
        return values, np.asarray(flags[0])
    steps, missing = release.steps, _flags(release)
    if values.shape != (steps * m,) or missing.shape not in ((steps,), (steps, m)):
        raise InvalidInput(
            f"A release of {plural(steps, 'step')} of {plural(m, 'reading')} has "
            f"{plural(steps * m, 'value')}; received shape {values.shape}, with flags of shape "
            f"{missing.shape}."
        )
    return values.reshape(-1, m), missing


def _flags(release: StreamRelease) -> Flags:
    return np.zeros(release.steps, dtype=bool) if release.missing is None else release.missing


def joined(releases: Sequence[StreamRelease]) -> StreamRelease:
    """Releases that follow one another as one."""
    good = isinstance(releases, list | tuple) and len(releases) > 0
    if not good or not all(isinstance(release, StreamRelease) for release in releases):
        raise InvalidInput("releases must be a list of releases of a stream, and not empty.")
    first, steps = releases[0], 0
    for release in releases:
        _require_next(release, first, first.start + steps)
        steps += release.steps
    values = np.concatenate([release.values for release in releases])
    flags = [_flags(release) for release in releases]
    if any(own.ndim > 1 for own in flags):
        shape = len(values) // steps
        flags = [np.broadcast_to(of_entries(own), (len(own), shape)) for own in flags]
    missing = np.concatenate(flags)
    return StreamRelease(
        first.start, steps, values, missing if missing.any() else None, first.fingerprint,
        any(release.simulated for release in releases), first.grid, first.level,
    )  # fmt: skip


def _require_next(release: StreamRelease, first: StreamRelease, step: int) -> None:
    if release.start != step or release.fingerprint != first.fingerprint:
        raise InvalidInput(
            f"Releases must follow one another at one level: expected step {step}, received step "
            f"{release.start}."
        )
    if release.grid != first.grid:
        raise InvalidInput("Simulated and protected releases cannot be joined into one.")


class _DataFields(NamedTuple):
    values: Array
    missing: Flags
    level: SequentialLevel
    unit: float
    inputs: Array
    simulated: bool


class Data(_DataFields):
    """Releases of one or many series that miss the same steps: made once, every θ looks at them.

    values (K, r, S) in units of the deviation of their noise, zeros where nothing is shown; unit
    1/√v of the privacy noise; inputs (K, p), p = 0 without any.
    """

    def plan(self, matrices: Matrices) -> Plan:
        """How the level shows the steps of a model."""
        varying = matrices.varying
        if varying not in self._plans:
            self._plans[varying] = plan_of(
                self.level, self.values.shape[1], self.steps, self.missing, varying=varying,
                unit=self.unit,
            )  # fmt: skip
        return self._plans[varying]

    @cached_property
    def _plans(self) -> dict[bool, Plan]:
        return {}

    @cached_property
    def by_series(self) -> Array:
        """The values as (K, S, r)."""
        return np.ascontiguousarray(self.values.transpose(0, 2, 1))

    @property
    def steps(self) -> int:
        """K."""
        return len(self.values)

    @property
    def series(self) -> int:
        """How many share one system."""
        return int(self.values.shape[2])

    @property
    def shown(self) -> int:
        """Numbers that were released."""
        return numbers_shown(self.missing, int(self.values.shape[1])) * self.series


def data_of(
    level: Level | None, release: StreamRelease | SeriesRelease, inputs: ArrayLike | None,
    readings: int,
) -> list[Data]:  # fmt: skip
    """The data of a release: one entry for each pattern of missing steps.

    The inputs (K, p) are the same for all series. Series that show nothing are left out, if others
    show something.
    """
    wanted = level_of_release(release, level, readings)
    parts = (
        [part for _, part in release.by_pattern()]
        if isinstance(release, SeriesRelease)
        else [release]
    )
    found = []
    for part in parts:
        given = given_values(part, wanted, series=True)
        every = given.values if given.values.ndim == 3 else given.values[None]
        values = np.ascontiguousarray(np.nan_to_num(every).transpose(1, 2, 0))
        u = inputs_of(inputs, len(values))
        found.append(Data(values, given.missing, wanted, given.unit, u, given.simulated))
    return [own for own in found if own.shown] or found


def inputs_of(given: ArrayLike | None, steps: int) -> Array:
    """Public inputs (K, p); p = 0 where there are none."""
    if given is None:
        return np.zeros((steps, 0))
    u = as_array(given, "inputs", ndim=(1, 2))
    u = u[:, None] if u.ndim == 1 else u
    if len(u) != steps:
        raise InvalidInput(
            f"inputs must have a row for each of the {steps} steps; received shape {u.shape}."
        )
    return u
