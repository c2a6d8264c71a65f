"""Tables with one entry for each distinct step, and what they say of every step."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array, Index

LONG = 8  # steps in a mean run of equal entries from which on work a run pays


def run_starts(entry: Index) -> Index:
    """For every step the first step of its run of equal entries."""
    first = runs(entry)
    return np.repeat(first, np.diff([*first, len(entry)]))


def runs(entry: Index) -> list[int]:
    """The first steps of the runs of equal entries."""
    if len(entry) == 1:
        return [0]
    return [0, *(np.flatnonzero(np.diff(entry)) + 1).tolist()]


def spread(table: Array, entry: Index) -> Array:
    """table[entry], run by run where runs are long: quicker than looking each step up."""
    first = runs(entry)
    if len(first) * LONG > len(entry):
        return np.asarray(table[entry])
    result = np.empty((len(entry), *table.shape[1:]))
    for start, stop in zip(first, [*first[1:], len(entry)]):
        result[start:stop] = table[entry[start]]
    return result


def distinct(code: Index) -> tuple[Index, Index]:
    """The distinct codes ≥ 0, sorted, and which one each is: np.unique without sorting."""
    present = np.bincount(code) > 0
    return np.flatnonzero(present), (np.cumsum(present) - 1)[code]
