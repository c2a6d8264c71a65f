"""Filter and smoother by compiled loops (`_loops`, numba): the numbers of `_sweep` and `_means`.

Where nothing repeats (changing matrices, gaps, short series) a step costs about 0.3 µs in place of
10 to 20. What needs judgement stays where it was: whether a limit is reached (`settled`), and steps
after a wide gap (`graded_step`); the loops stop and ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from privest.arrays import Array, Index, room_for
from privest.dynamics import _loops as loops
from privest.dynamics._graded import Gap, Graded, graded_step
from privest.dynamics._observed import Observed
from privest.dynamics._recursions import (
    LONG,
    PATIENCE,
    REACHED,
    relative_change,
    run_bounds,
    settled,
    spread,
)
from privest.dynamics._triangular import triangular
from privest.linalg import _compiling as compiling

FEW = 1024  # entries that are made room for at first, where steps repeat
ENOUGH = 20_000  # steps taken without, after which a process compiles the loops (or reads them)
SMALL = 4  # states of systems that are worth a loop of their own, where ENOUGH steps are taken

STEP = (loops.time_update, loops.reading_update, loops.moved_factor, loops.heard_rows, loops.gram)
TURN = (loops.turn_room, loops.turns)


class _Taken:
    """Steps that this process took without compiled loops."""

    steps = 0


def wanted(compiled: bool | None, steps: int) -> bool:
    """Whether to use the compiled loops: True insists, None after ENOUGH steps of this process.

    Importing numba takes half a second, compiling (once on a machine) several.
    """
    if compiled is None:
        _Taken.steps += steps
    return compiling.wanted(compiled, _Taken.steps >= ENOUGH)


class Parts(NamedTuple):
    """predicted, filtered, factor (E, N, N), gain (E, N, r), scale (E, r, r) of `_sweep.Step`."""

    predicted: Array
    filtered: Array
    factor: Array
    gain: Array
    scale: Array


class Kept(NamedTuple):
    """Of every entry its reflections (E, N, N + 2) and rotations (E, r, 2N): Θ in short."""

    reflections: Array
    rotations: Array


def _more(tables: list[Array], room: int) -> list[Array]:
    """With room for so many entries."""
    longer = room_for(*((room, *table.shape[1:]) for table in tables))
    for table, grown in zip(tables, longer):
        grown[: len(table)] = table
    return longer


class Turns(NamedTuple):
    """fresh Θ_a (E, N, r), later Θ_b (E, N, N), lost Θ_cΘ_cᵀ (E, N, N)."""

    fresh: Array
    later: Array
    lost: Array


class Found(NamedTuple):
    """A sweep by the loops: parts of the entries, their kinds (E,), the entry of each step (K,).

    kept: what the steps did. tables: A, F, G, N of all kinds, F and N lower triangular.
    gap_units, graded: of `_sweep.Sweep`; thetas: rows of Θ of the graded entries.
    """

    parts: Parts
    kind: Index
    entry: Index
    kept: Kept
    tables: tuple[Array, ...]
    gap_units: Array | None
    graded: dict[int, Graded]
    thetas: dict[int, Array]


def forward_steps(
    seen: Observed, gap_units: Array | None, arrived: Callable[[int, Array, Array, Array], bool]
) -> Found:
    """`_sweep.forward`; arrived(kind, [[c, 0], [κ, B⁺]], before, now): whether to stay."""
    steps, kind, N, r = seen.steps, seen.kind, len(seen.root), seen.rows.shape[1]
    start, stop = run_bounds(kind)
    tables = tuple(
        np.ascontiguousarray(table)
        for table in (seen.transition, triangular(seen.drive), seen.rows, triangular(seen.noise))
    )
    changes = int(np.count_nonzero(start == np.arange(steps)))
    room = steps if LONG * changes > steps else min(steps, FEW)
    sizes = (N, N), (N, N), (N, N), (N, r), (r, r), (N, N + 2), (r, 2 * N)
    made = room_for(*((room, *size) for size in sizes))
    entry = np.empty(steps, dtype=np.intp)
    gap, graded, thetas = Gap(seen, gap_units), dict[int, Graded](), dict[int, Array]()
    before, now = np.empty((N, N)), np.array(seen.root, order="C")
    units = np.zeros(N)
    loop = _forward_loop(N if N <= SMALL and room >= ENOUGH else 0)
    k, e, next_check = 0, 0, 1
    while k < steps:
        if e == len(made[0]):
            made = _more(made, min(2 * e, steps))
        parts = Parts(*made[:5])
        if gap.wide:
            before[:] = now
            A, F, G, noise = (table[kind[k]] for table in tables)
            lower, thetas[e], graded[e] = graded_step(now, A, F, G, noise, gap.scales)
            _write(parts, e, lower, before, tables, int(kind[k]))
            now[:], entry[k] = lower[r:, r:], e
            gap.look(int(kind[k]), before, now)
            k, e = k + 1, e + 1
        else:
            units[:] = gap.units
            k, e, next_check, gap.open = loop(
                kind, start, stop, gap.blind, *tables, k, e, next_check, gap.open, before, now,
                units, entry, *made,
            )  # fmt: skip
            gap.units = units.copy()
            if gap.open:
                gap.look(int(kind[k - 1]), before, now)
        age = k - 1 - int(start[k - 1])
        if k < stop[k - 1] and age >= next_check and e < len(parts.factor):
            lower = np.block([[parts.scale[e - 1], np.zeros((r, N))], [parts.gain[e - 1], now]])
            if arrived(int(kind[k - 1]), lower, before, now):
                last = int(stop[k - 1])
                entry[k:last], k = e - 1, last
            else:
                next_check = int(PATIENCE * age) + 1
    own = kind[np.diff(entry, prepend=-1) > 0]  # of the first step of each entry
    return Found(
        Parts(*(part[:e] for part in made[:5])), own, entry, Kept(*(part[:e] for part in made[5:])),
        tables, gap.open_units, graded, thetas,
    )  # fmt: skip


def _forward_loop(states: int) -> Callable[..., Any]:
    """For any number of states (0), or for just so many, a quarter faster."""
    return compiling.machine_code(
        loops.forward_steps,
        "index index index flags rows3 rows3 rows3 rows3 int int int flag out2 out2 out1 outindex"
        " out3 out3 out3 out3 out3 out3 out3",
        uses=(*STEP, loops.near, loops.grown),
        constants=(("STATES", states),) if states else (),
    )


def _write(
    parts: Parts, e: int, lower: Array, before: Array, tables: tuple[Array, ...], j: int
) -> None:
    """An entry that was not made by the loop."""
    r = parts.scale.shape[1]
    moved, factor = np.hstack([tables[0][j] @ before, tables[1][j]]), lower[r:, r:]
    for target, whole in ((parts.predicted, moved), (parts.filtered, factor)):
        target[e] = whole @ whole.T
    parts.factor[e], parts.gain[e], parts.scale[e] = factor, lower[r:, :r], lower[:r, :r]


def turns(found: Found) -> Turns:
    """Of every entry."""
    count, N, r = found.parts.gain.shape
    fresh, later, lost = np.empty((count, N, r)), np.empty((count, N, N)), np.empty((count, N, N))
    loop = compiling.machine_code(loops.turn_steps, "rows3 rows3 out3 out3 out3", uses=TURN)
    loop(*found.kept, fresh, later, lost)
    for e, theta in found.thetas.items():
        fresh[e], later[e] = theta[:, :r], theta[:, r : r + N]
        lost[e] = theta[:, r + N :] @ theta[:, r + N :].T
    return Turns(fresh, later, lost)


def filtered_series(
    found: Found, kind: Index, values: Array, shift: Array, offset: Array, first: Array
) -> tuple[Array, Array, Array, Array]:  # fmt: skip
    """filtered, predicted (K, N, series), ζ (K, r, series), and Σζᵀζ + 2 log det c (series,)."""
    steps, r, series = values.shape
    N = len(first)
    filtered, predicted, innovations = room_for(
        (series, steps, N), (series, steps, N), (series, steps, r)
    )
    deviance = np.empty(series)
    loop = compiling.machine_code(
        loops.filtered_steps,
        "index index rows3 rows3 rows3 rows3 in2 in2 in2 out1 out2 out2 out2",
    )
    shift, offset = (added if added.any() else added[:0] for added in (shift, offset))
    for s in range(series):
        mean = np.array(first[:, s if first.shape[1] > 1 else 0])
        squares, logs = loop(
            kind, found.entry, found.tables[0], found.tables[2], found.parts.gain,
            found.parts.scale, values[:, :, s], shift, offset, mean, filtered[s], predicted[s],
            innovations[s],
        )  # fmt: skip
        deviance[s] = squares + 2.0 * logs
    filtered, predicted, innovations = (
        part.transpose(1, 2, 0) for part in (filtered, predicted, innovations)
    )
    return filtered, predicted, innovations, deviance


def smoothed(found: Found, n: int, filtered: Array, innovations: Array) -> tuple[Array, Array]:
    """Covariances (K, n, n) of the first n states and estimates (K, N, series), all smoothed.

    From filtered estimates (K, N, series) and ζ (K, r, series), of no series for covariances alone.
    """
    entry, factor = found.entry, found.parts.factor
    steps, N, series = filtered.shape
    first, count = run_bounds(entry)[0], len(factor)
    room = steps if 2 * count > steps else min(steps, count + FEW)
    covariances, estimates = room_for((room, n, n), (series, steps, N))
    which = np.empty(steps, dtype=np.intp)
    covariances[-1] = (last := factor[entry[-1], :n]) @ last.T
    which[-1] = at = room - 1
    by_series = [np.ascontiguousarray(part.transpose(2, 0, 1)) for part in (innovations, filtered)]
    estimates[:, -1] = by_series[1][:, -1]
    value, before, later, unit = np.eye(N), np.eye(N), np.eye(N), np.zeros((series, N))
    loop = compiling.machine_code(
        loops.smooth_steps,
        "rows3 rows3 index index rows3 rows3 rows3 int int int int out2 out2 out2 out2 outindex"
        " out3 out3",
        uses=(*TURN, loops.near, loops.carried, loops.around),
    )
    given = (*found.kept, entry, first, factor, *by_series)
    k, next_check, hold = steps - 2, 0, steps
    while k >= 0:
        if at == 0 and k < hold:
            longer = np.empty((min(2 * room, steps), n, n))
            added = len(longer) - room
            longer[added:], room = covariances, len(longer)
            covariances, at = longer, added
            which[k + 1 :] += added
        k, at, next_check = loop(
            *given, k, at, next_check, hold, value, before, later, unit, which, covariances,
            estimates,
        )  # fmt: skip
        done = k + 1
        start = int(first[done])
        if start < done < hold and entry[done + 1] == entry[done] and steps - done >= next_check:
            change = relative_change(value, before)
            if change == 0.0 or (change <= REACHED and settled(change, value, later)):
                hold = start
            else:
                next_check = int(PATIENCE * (steps - done)) + 1
    which -= at
    return spread(covariances[at:], which), estimates.transpose(1, 2, 0)
