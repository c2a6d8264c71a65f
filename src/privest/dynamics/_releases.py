"""Releases of many series, and what filters and fits take: releases, never measurements."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, as_flags, as_kind, plural
from privest.dynamics._steps import Matrices, Plan, numbers_shown, of_entries, plan_of
from privest.dynamics._system import StateSpace, as_system, known_inputs
from privest.errors import InvalidInput
from privest.privacy import PrivacyLevel, StreamLevel, as_stream_level
from privest.privacy.parts import hidden_entries
from privest.release import Release

Level = StreamLevel | PrivacyLevel | ArrayLike  # what every call for a level takes


def level_of(level: Level, system: StateSpace) -> StreamLevel:
    return as_stream_level(level, measurements=as_system(system).measurements)


def level_of_release(release: Release, level: Level | None, measurements: int) -> StreamLevel:
    carried = getattr(release, "level", None)
    wanted = carried if level is None else level
    if wanted is None:
        raise InvalidInput(
            "This release does not carry its level (it was read from a record, or is none): give "
            "the level of the mechanism as level=."
        )
    return as_stream_level(wanted, measurements=measurements)


def asked(
    system: StateSpace, level: Level, steps: int | None, missing: ArrayLike | None
) -> tuple[StreamLevel, int, Flags]:
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
    flags = as_flags(missing, "missing", ((count,), (count, system.measurements)))
    return wanted, count, as_seen(wanted, flags)


def as_seen(level: StreamLevel, missing: Flags) -> Flags:
    """Which steps show nothing, (K,), or where some show a part, which entries do not, (K, m)."""
    if missing.ndim == 1:
        return missing
    sizes = (missing.shape[1],) * len(missing)
    hidden = hidden_entries(level, missing.ravel(), sizes).reshape(missing.shape)
    some = np.asarray(hidden.any(axis=1))
    return some if np.array_equal(some, hidden.all(axis=1)) else hidden


class Given(NamedTuple):
    """z̃ (…, K, m) in units of the deviation of its noise, what is missing, (K,) or (K, m), and the
    unit 1/√v.
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
    release: Release, level: StreamLevel, start: int = 0, *, series: bool = False
) -> Given:
    as_kind(release, Release, "a filter takes a Release of a stream, never measurements")
    release.require(level.fingerprint, series=series)
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
    return Given(shown, as_seen(level, missing), unit, release.simulated)


def _shown(release: Release, m: int) -> tuple[Array, Flags]:
    values = release.values
    steps = release.steps
    missing = np.zeros(steps, dtype=bool) if release.missing is None else release.missing
    if values.ndim == 3:
        if values.shape[1:] != (steps, m):
            raise InvalidInput(f"values {values.shape} of the release are not {m} a step.")
        if missing.ndim == 3 and not (missing == missing[0]).all():
            raise InvalidInput(
                "The series miss different steps, so their covariances differ: filter each pattern "
                "by itself (by_pattern)."
            )
        return values, missing[0] if missing.ndim == 3 else missing
    if values.shape != (steps * m,) or missing.shape not in ((steps,), (steps, m)):
        raise InvalidInput(
            f"A release of {plural(steps, 'step')} of {plural(m, 'measurement')} has "
            f"{plural(steps * m, 'value')}; received shape {values.shape}, with flags of shape "
            f"{missing.shape}."
        )
    return values.reshape(-1, m), missing


class _DataFields(NamedTuple):
    values: Array
    missing: Flags
    level: StreamLevel
    unit: float
    inputs: Array
    simulated: bool


class Data(_DataFields):
    """Releases of one or many series that miss the same steps, checked once.

    values (K, r, S) in units of the deviation 1/unit of their noise, zeros where nothing is shown;
    inputs (K, p).
    """

    def plan(self, matrices: Matrices) -> Plan:
        if self.level.form == "dense":
            raise InvalidInput(
                "A fit needs a level with U = 0 or a fixed number of lags; this one is dense."
            )
        varying = matrices.varying
        if varying not in self._plans:
            self._plans[varying] = plan_of(
                self.level, self.values.shape[1], self.missing, varying=varying, unit=self.unit,
            )  # fmt: skip
        return self._plans[varying]

    @cached_property
    def _plans(self) -> dict[bool, Plan]:
        return {}

    @cached_property
    def by_series(self) -> Array:
        return np.ascontiguousarray(self.values.transpose(0, 2, 1))

    @property
    def steps(self) -> int:
        return len(self.values)

    @property
    def series(self) -> int:
        return int(self.values.shape[2])

    @property
    def shown(self) -> int:
        return numbers_shown(self.missing, int(self.values.shape[1])) * self.series


def data_of(
    level: Level | None, release: Release, inputs: ArrayLike | None,
    measurements: int,
) -> list[Data]:  # fmt: skip
    """The data of a release: one entry for each pattern of missing steps, if it shows something."""
    wanted = level_of_release(release, level, measurements)
    many = isinstance(release, Release) and release.values.ndim == 3
    found = []
    for part in [part for _, part in release.by_pattern()] if many else [release]:
        given = given_values(part, wanted, series=True)
        every = given.values if given.values.ndim == 3 else given.values[None]
        values = np.ascontiguousarray(np.nan_to_num(every).transpose(1, 2, 0))
        u = known_inputs(inputs, len(values))
        found.append(Data(values, given.missing, wanted, given.unit, u, given.simulated))
    return [own for own in found if own.shown] or found
