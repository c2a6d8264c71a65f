"""Steps of which some measurements are missing: what a level lets the others show.

A step shows z̃ = Ay + e, AᵀA = S. With the measurements O alone it shows B y_O + e, BᵀB = S_O, the
largest level whose embedding stays below S (`linalg.shorted`). A level that looks back, or a dense
one, shows nothing of such a step: what later steps will miss is not known yet.
"""

from __future__ import annotations

import numpy as np

from privest.arrays import Array, Flags
from privest.linalg.shorted import shorted_root
from privest.privacy.stream import StreamLevel


def mixes_a_step(level: StreamLevel) -> bool:
    """Whether releases show sums of the measurements of one step: U = 0, S not diagonal."""
    return level.form == "independent" and level.pointwise(0, 1) is None


def partial_steps(absent: Flags) -> list[int]:
    """The steps of which some of the entries (K, m) are absent, not all."""
    return np.flatnonzero(absent.any(axis=1) & ~absent.all(axis=1)).tolist()


def hidden_entries(level: StreamLevel, start: int, absent: Flags, *, parts: bool = True) -> Flags:
    """Which entries of steps show nothing, (…, K, m), where the measurements `absent` are missing.

    `parts` False: a level that mixes measurements shows nothing of a step of which one is missing.
    """
    alone = level.form == "independent" and not mixes_a_step(level)
    some = np.asarray(absent.any(axis=-1))
    if alone or not some.any():
        return absent
    if level.form != "independent" or not parts:
        return np.asarray(absent | some[..., None])
    shown = rows_of_parts(level, start, absent).any(axis=(-2, -1))
    return np.asarray(absent | (some & ~shown)[..., None])


def rows_of_parts(level: StreamLevel, start: int, absent: Flags) -> Array:
    """A_k of steps from `start` on, (…, K, m, m), zeros in the rows and columns of `absent`."""
    own = level.blocks(start, start + absent.shape[-2])[0]
    return restricted(np.broadcast_to(own, (*absent.shape, absent.shape[-1])), absent, level)


def restricted(rows: Array, absent: Flags, level: StreamLevel) -> Array:
    """A (…, m, m) of steps of a level without their entries `absent` (…, m)."""
    whole = np.array(rows)
    if not mixes_a_step(level):
        whole[absent] = 0.0
        return np.asarray(np.where(absent[..., None, :], 0.0, whole))
    whole[absent.all(axis=-1)] = 0.0
    partly = absent.any(axis=-1) & ~absent.all(axis=-1)
    for place in np.argwhere(partly):
        at = tuple(place)
        whole[at] = shorted_root(whole[at], ~absent[at])
    return whole
