"""The covariances of filter and smoother: one orthogonal transformation a step, nothing inverted.

With P_{k−1|k−1} = B Bᵀ and unit vectors ξ (the state's error), ω, ε of noise, QR of the transposed
array gives (square-root filter, unit coordinates kept):

    [G A B, G F, N]   [c  0  0]
    [  A B,   F, 0] = [κ B⁺  0] Θᵀ ,      (ξ, ω, ε) = Θ (ζ, ξ⁺, ν)

ζ is the whitened innovation, z̃ − ẑ = cζ, and x_k − x̂_{k|k−1} = κζ + B⁺ξ⁺. The rows of Θ for ξ,
[Θ_a Θ_b Θ_c], say how the old error depends on the new one; nothing later depends on ν. So

    cov(ξ | all) = X_{k−1} = Θ_b X_k Θ_bᵀ + Θ_cΘ_cᵀ ,   smoothed P = B X Bᵀ ,   X_{K−1} = I

a sum of squares of contractions: no inverse of P_{k+1|k}, so Q and cov0 may be singular, nothing
overflows when the system is unstable, and covariances are positive semi-definite by construction.
Householder QR is backward stable column by column: the units of the states do not matter. Where
directions of one factor differ by more than 1e3 in size, steps are taken by `_graded`.

Where steps repeat (`Observed.kind`) and the covariance has arrived at its limit, it is kept; many
steps that do not are done in pieces side by side (`forward_pieces`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import Array, Index
from privest.dynamics import _machine as machine
from privest.dynamics._graded import Gap, Graded, graded_step
from privest.dynamics._machine import Parts, Turns
from privest.dynamics._observed import Observed
from privest.dynamics._recursions import (
    PATIENCE,
    REACHED,
    backwards,
    forward_pieces,
    relative_change,
    run_starts,
    settled,
    spread,
    worthwhile,
)
from privest.errors import NumericalFailure
from privest.linalg.batched import substitute
from privest.records import Record


class Step(NamedTuple):
    """One step, or with a leading axis one entry for each distinct step.

    predicted P_{k|k−1} and filtered P_{k|k} (N, N), factor B⁺ (N, N), gain κ (N, r), scale c (r,
    r), fresh Θ_a (N, r), later Θ_b (N, N), lost Θ_cΘ_cᵀ (N, N).
    """

    predicted: Array
    filtered: Array
    factor: Array
    gain: Array
    scale: Array
    fresh: Array
    later: Array
    lost: Array


@dataclass(frozen=True, eq=False)
class Sweep:
    """Filter covariances: the distinct steps, their kinds (E,), and which one each step is (K,).

    gap_units (N,): of a gap that is open after the last step (`_graded.Gap`), else None.
    graded: the entries that were taken as `graded_step`.
    found: what the loops of `_machine` go on from, where they made it and no step is graded.
    """

    table: Parts
    kind: Index
    entry: Index
    gap_units: Array | None
    graded: Mapping[int, Graded]
    found: machine.Found | None
    _turns: Callable[[], Turns]

    @cached_property
    def turns(self) -> Turns:
        """Rows of Θ of every entry, found when a smoother first asks for them."""
        return self._turns()

    def predicted(self, n: int) -> Array:
        """P_{k|k−1} of the first n states, (K, n, n)."""
        return spread(self.table.predicted[:, :n, :n], self.entry)

    def filtered(self, n: int) -> Array:
        """P_{k|k} of the first n states, (K, n, n)."""
        return spread(self.table.filtered[:, :n, :n], self.entry)


def step(root: Array, transition: Array, drive: Array, rows: Array, noise: Array) -> Step:
    """One step from the factor B of P_{k−1|k−1}."""
    lower, theta = _rotated(root, transition, drive, rows, noise)
    table = _table(root, lower[None], theta[None], transition[None], drive[None], len(rows))
    return Step(*(part[0] for part in table))


def _rotated(
    root: Array, transition: Array, drive: Array, rows: Array, noise: Array
) -> tuple[Array, Array]:
    """[[c, 0], [κ, B⁺]] and the rows of Θ for ξ: one QR of (2N + r)×(N + r)."""
    (n, own), r = root.shape, len(rows)
    array = _array(root, transition, drive, rows, noise)
    reflected, tau, _, _ = scipy.linalg.lapack.dgeqrf(array, overwrite_a=1)
    triangle, unit = _templates(r + n, len(array), own)
    signs = np.copysign(1.0, reflected.diagonal())
    turned, _, _ = scipy.linalg.lapack.dormqr(
        "L", "T", reflected, tau, unit.copy(order="F"), 64 * own, overwrite_c=1
    )
    theta = turned.T
    theta[:, : r + n] *= signs
    return reflected[: r + n].T * (triangle * signs), theta


def _array(root: Array, transition: Array, drive: Array, rows: Array, noise: Array) -> Array:
    """The array of a step, transposed."""
    (n, own), r = root.shape, len(rows)
    end = own + drive.shape[1]
    array = np.zeros((end + noise.shape[1], r + n), order="F")
    array[:own, r:], array[own:end, r:] = (transition @ root).T, drive.T
    array[:end, :r] = array[:end, r:] @ rows.T
    array[end:, :r] = noise.T
    return array


def factor_step(
    root: Array, transition: Array, drive: Array, rows: Array, noise: Array
) -> tuple[Array, Array]:
    """[[c, 0], [κ, B⁺]] alone, and [A B, F]ᵀ."""
    array, r = _array(root, transition, drive, rows, noise), len(rows)
    moved = array[:, r:].copy()
    reflected, _, _, _ = scipy.linalg.lapack.dgeqrf(array, overwrite_a=1)
    size = array.shape[1]
    triangle, _ = _templates(size, len(array), 0)
    return reflected[:size].T * (triangle * np.copysign(1.0, reflected.diagonal())), moved


@cache
def _templates(columns: int, rows: int, own: int) -> tuple[Array, Array]:
    """Ones on and below the diagonal; the first unit vectors."""
    return np.tri(columns), np.eye(rows, own)


def _table(
    root: Array, lower: Array, theta: Array, transition: Array, drive: Array, r: int
) -> Step:
    """Everything about steps that follow one another from `root`, each axis led by the step."""
    size = lower.shape[-1]
    factor, rest = lower[:, r:, r:], theta[:, :, size:]
    moved = transition @ np.concatenate([root[None], factor[:-1]])
    return Step(
        predicted=_square(moved) + _square(drive),
        filtered=_square(factor),
        factor=factor,
        gain=lower[:, r:, :r],
        scale=lower[:, :r, :r],
        fresh=theta[:, :, :r],
        later=theta[:, :, r:size],
        lost=_square(rest),
    )


def _square(half: Array) -> Array:
    """X Xᵀ, symmetric to the last bit."""
    whole = half @ half.swapaxes(-1, -2)
    return np.asarray((whole + whole.swapaxes(-1, -2)) / 2)


def forward(
    seen: Observed, gap_units: Array | None = None, *, compiled: bool | None = None
) -> Sweep:
    """Filter covariances of all steps. O(K N³), or O(N³) a step until the limit is reached.

    `gap_units`: the `Sweep.gap_units` of the steps before the first one here. `compiled`: by the
    loops of `_machine`; None where these are worth their start.
    """
    if machine.wanted(compiled, seen.steps):
        return _by_machine(seen, gap_units)
    steps, kind = seen.steps, seen.kind
    start, stop = run_starts(kind), steps - run_starts(kind[::-1])[::-1]
    r = seen.rows.shape[1]
    found: list[tuple[Array, Array]] = []
    entry = np.empty(steps, dtype=np.intp)
    root, k, next_check = seen.root, 0, 0
    rest: tuple[Array, Array] | None = None
    gap, graded = Gap(seen, gap_units), dict[int, Graded]()
    with np.errstate(over="ignore", invalid="ignore"):  # looked at below, all steps together
        while k < steps and rest is None:
            j = int(kind[k])
            if gap.wide:
                lower, theta, graded[len(found)] = graded_step(root, *seen.of_kind(j), gap.scales)
            else:
                lower, theta = _rotated(root, *seen.of_kind(j))
            before, root = root, lower[r:, r:]
            if gap.open or gap.hidden[j]:
                gap.look(j, before, root)
            entry[k] = len(found)
            found.append((lower, theta))
            run, age, k = int(stop[k]), k - int(start[k]), k + 1
            if age == 0:
                next_check = 1
            elif k < run and age >= next_check:
                change = _change(root, before)
                if _settled(seen, j, lower, change):
                    entry[k:run] = len(found) - 1
                    k = run
                elif change <= REACHED:
                    next_check = int(PATIENCE * age) + 1
            if not gap.wide and worthwhile(len(found), k, steps - k):
                rest = gap.narrow(forward_pieces(seen.tables, kind[k:], root), root)
        lowers, thetas = (np.stack(parts) for parts in zip(*found))
        if rest is not None:
            entry[k:] = len(found) + np.arange(steps - k)
            lowers, thetas = (np.concatenate(parts) for parts in zip((lowers, thetas), rest))
        own = kind[np.diff(entry, prepend=-1) > 0]  # of the first step of each entry
        table = _table(seen.root, lowers, thetas, seen.transition[own], seen.drive[own], r)
    parts, turns = Parts(*table[:5]), Turns(*table[5:])
    _require_sound(parts, entry)
    return Sweep(parts, own, entry, gap.open_units, graded, None, lambda: turns)


def _by_machine(seen: Observed, gap_units: Array | None) -> Sweep:
    def arrived(j: int, lower: Array, before: Array, now: Array) -> bool:
        return _settled(seen, j, lower, _change(now, before))

    with np.errstate(over="ignore", invalid="ignore"):
        found = machine.forward_steps(seen, gap_units, arrived)
    _require_sound(found.parts, found.entry)
    return Sweep(
        found.parts, found.kind, found.entry, found.gap_units, found.graded,
        None if found.graded else found, lambda: machine.turns(found),
    )  # fmt: skip


def _change(new: Array, old: Array) -> float:
    """Of P = BBᵀ and of the factor B, which a singular P leaves free to turn; in units of P."""
    P = new @ new.T
    unit = np.sqrt(P.diagonal())
    turned = np.abs(new - old).max(axis=1) / np.where(unit > 0, unit, 1.0)
    return max(relative_change(P, old @ old.T), float(turned.max()))


def _require_sound(table: Parts, entry: Index) -> None:
    """Refuse covariances that overflowed and readings that were known before they were taken."""
    with np.errstate(over="ignore", invalid="ignore"):
        good = np.isfinite(table.filtered.sum()) and np.isfinite(table.factor.sum())
    if good and table.scale.diagonal(axis1=1, axis2=2).all():
        return
    finite = np.asarray(np.isfinite(table.filtered).all(axis=(1, 2)))
    if not finite.all():
        k = int(np.argmin(finite[entry]))
        raise NumericalFailure(
            f"The covariance of the state overflows at step {k}: the system is unstable and what "
            "is released does not show it."
        )
    shown = np.asarray(table.scale.diagonal(axis1=1, axis2=2).all(axis=1))
    if not shown.all():
        k = int(np.argmin(shown[entry]))
        raise NumericalFailure(
            f"The innovation of step {k} has a singular covariance: some reading is known exactly "
            "before it is taken (C P Cᵀ + R is singular)."
        )


def _settled(seen: Observed, j: int, lower: Array, change: float) -> bool:
    """Whether P has settled; (I − κc⁻¹G) A takes an error of the filtered state to the next."""
    if change == 0.0 or change > REACHED:
        return change == 0.0
    r, A = seen.rows.shape[1], seen.transition[j]
    root = lower[r:, r:]
    heard = substitute(lower[:r, :r], seen.rows[j] @ A, lower=True)
    return settled(change, root @ root.T, np.asarray(A - lower[r:, :r] @ heard))


def backward(sweep: Sweep, n: int) -> Array:
    """Smoothed covariances (K, n, n) of the first n states, from the last step back. O(K N³)."""
    table = sweep.table
    if sweep.found is not None:
        steps, N, r = len(sweep.entry), *table.gain.shape[1:]
        return machine.smoothed(sweep.found, n, np.empty((steps, N, 0)), np.empty((steps, r, 0)))[0]
    turns = sweep.turns
    units, entry = backwards(turns.later, turns.lost, sweep.entry, np.eye(table.factor.shape[1]))
    owner = np.empty(len(units), dtype=np.intp)
    owner[entry] = sweep.entry
    factor = table.factor[owner]
    smoothed = factor @ units @ factor.swapaxes(-1, -2)
    return spread(((smoothed + smoothed.swapaxes(-1, -2)) / 2)[:, :n, :n], entry)


@dataclass(frozen=True, eq=False)
class Marginals(Record):
    """Covariances (K, n, n) of x_k given what was seen: before k, up to k, and in all."""

    predicted: Array
    filtered: Array
    smoothed: Array


def marginals(sweep: Sweep, n: int) -> Marginals:
    """Of the first n states."""
    return Marginals(sweep.predicted(n), sweep.filtered(n), backward(sweep, n))
