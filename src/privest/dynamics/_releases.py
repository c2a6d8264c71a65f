"""What a filter takes: releases of the level it was told, whole and finite. Never readings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privest.arrays import Array, Flags
from privest.dynamics._series import SeriesRelease
from privest.dynamics._system import StateSpace
from privest.errors import InvalidInput
from privest.privacy import SequentialLevel
from privest.release import StreamRelease


def given_values(
    release: StreamRelease | SeriesRelease, level: SequentialLevel, system: StateSpace
) -> tuple[Array, Flags]:
    """z̃ (…, K, m) and which steps are missing."""
    if not isinstance(release, StreamRelease | SeriesRelease):
        raise InvalidInput(
            "The filter takes a release (StreamMechanism.simulate, or release_series), not "
            f"{type(release).__name__}: it must never see readings."
        )
    if release.fingerprint != level.fingerprint:
        raise InvalidInput("The release was made with another level than the one given here.")
    if release.start != 0:
        raise InvalidInput(
            f"The release starts at step {release.start}: give all steps from 0, or use "
            "PrivateKalman.update for a stream as it comes."
        )
    if isinstance(release, SeriesRelease):
        _require_shown(release.values, release.missing, system.readings)
        return release.values, release.missing
    return stream_values(release, system)


def stream_values(release: StreamRelease, system: StateSpace) -> tuple[Array, Flags]:
    """z̃ (K, m) and which steps are missing; refuses values that are not there."""
    steps, m = release.steps, system.readings
    if release.values.shape != (steps * m,):
        raise InvalidInput(
            f"A release of {steps} steps of {m} readings has {steps * m} values; received shape "
            f"{release.values.shape}."
        )
    missing = np.zeros(steps, dtype=bool) if release.missing is None else release.missing
    values = release.values.reshape(steps, m)
    _require_shown(values, missing, m)
    return values, missing


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
        at_step += release.steps
    parts = [
        np.zeros(release.steps, dtype=bool) if release.missing is None else release.missing
        for release in releases
    ]
    missing = np.concatenate(parts)
    return StreamRelease(
        start, at_step - start, np.concatenate([release.values for release in releases]),
        missing if missing.any() else None, releases[0].fingerprint,
        any(release.simulated for release in releases),
    )  # fmt: skip
