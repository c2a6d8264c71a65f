"""What a fit sees: releases, their level, public inputs. Made once; every θ looks at the same."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, as_array
from privest.dynamics._identification._plan import Plan, plan_of
from privest.dynamics._observed import Level
from privest.dynamics._releases import SeriesRelease, given_values
from privest.errors import InvalidInput
from privest.privacy import SequentialLevel, as_stream_level
from privest.release import StreamRelease


class _Fields(NamedTuple):
    values: Array
    missing: Flags
    level: SequentialLevel
    unit: float
    inputs: Array
    simulated: bool


class Data(_Fields):
    """Releases of one or many series that miss the same steps.

    values (K, r, series) in units of the deviation of their noise, zeros where nothing is shown;
    missing as the release says; unit 1/√v of the release noise; inputs (K, p), p = 0 without any.
    """

    @cached_property
    def constant(self) -> Plan:
        """How the level shows the steps of a model without a time axis."""
        return plan_of(self.level, self.steps, self.missing, self.unit, varying=False)

    @cached_property
    def varying(self) -> Plan:
        """The same for a model with a time axis."""
        return plan_of(self.level, self.steps, self.missing, self.unit, varying=True)

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
        each = int(self.values.shape[1]) // int(self.missing[0].size)
        return int((~self.missing).sum()) * each * self.series


def data_of(
    level: Level, release: StreamRelease | SeriesRelease, inputs: ArrayLike | None, readings: int
) -> list[Data]:
    """The data of a release: one entry for each pattern of missing steps.

    The inputs (K, p) are the same for all series. Series that show nothing are left out, if others
    show something.
    """
    if not isinstance(release, StreamRelease | SeriesRelease):
        raise InvalidInput(
            "A fit takes a release as StreamRelease or SeriesRelease, not "
            f"{type(release).__name__}: it must never see readings."
        )
    wanted = as_stream_level(level, readings=readings)
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
