"""Diffuse starts, exactly: x_0 = mean0 + D δ + N(0, cov0), nothing being known of δ.

Given δ everything is linear in it: with M the response of an estimate to δ and X̃ that of the
whitened innovations, both found by the filter that believes δ = 0 (covariances P⁰),

    ζ(δ) = ζ(0) − X̃ δ ,   x̂(δ) = x̂(0) + M δ ,    δ | releases ~ N(δ̂, (X̃ᵀX̃)⁻¹) by least squares,
    x̂ = x̂(0) + M δ̂ ,   P = P⁰ + M (X̃ᵀX̃)⁻¹ Mᵀ ,
    ℓ = −½(N log 2π + log|V| + log|X̃ᵀX̃| + RSS)      (= lim ℓ_κ + (q/2) log κ for δ ~ N(0, κI))

X̃ᵀX̃ = RᵀR by QR, step by step. As soon as R has full rank, the state has a proper law and the
ordinary filter goes on from it. Before that, estimates and covariances are the limits κ → ∞: entry
by entry infinite (with its sign) where a direction Z that no release has shown matters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from privest.arrays import Array
from privest.dynamics._means import (
    Means,
    end_of,
    filtered_means,
    log_density,
    smoothed_means,
)
from privest.dynamics._observed import Observed
from privest.dynamics._sweep import Marginals, Sweep, backward, forward
from privest.dynamics._system import StateSpace
from privest.errors import InvalidInput, NotIdentifiable
from privest.linalg.batched import substitute
from privest.linalg.tolerances import rank_tolerance

HIDDEN = 1e-8  # part of a response below which it is rounding of none
FIRST = 8  # steps that are looked at first, beyond one for each column of D


class Undetermined(NamedTuple):
    """What is known of δ: response M of the state (N, q); R (q, q) and Qᵀζ (q, series), by QR.

    reach (q,): the squared length that the columns of R would have if nothing had cancelled.
    density (series,): −½(N log 2π + log|V| + RSS) so far.
    """

    response: Array
    triangle: Array
    right: Array
    reach: Array
    density: Array

    def after(self, response: Array, shown: Array, size: Array, fresh: Array) -> Undetermined:
        """With rows X̃ (r, q), their `size` without cancellation, and ζ (r, series) more."""
        rows = np.concatenate([self.triangle, shown])
        turn, upper = np.linalg.qr(rows, mode="complete")
        moved = turn.T @ np.concatenate([self.right, fresh])
        q, reach = rows.shape[1], self.reach + np.square(size).sum(axis=0)
        density = self.density - 0.5 * np.square(moved[q:]).sum(axis=0)
        return Undetermined(response, upper[:q], moved[:q], reach, density)


class Known(NamedTuple):
    """δ̂ (q, series), a factor of its covariance (q, ·), directions Z (q, h) not known at all."""

    mean: Array
    root: Array
    hidden: Array

    def estimate(self, base: Array, response: Array) -> Array:
        return np.asarray(base + response @ self.mean)

    def covariance(self, base: Array, response: Array) -> Array:
        """P⁰ + M cov(δ) Mᵀ: the limit for δ ~ N(0, κI), κ → ∞, entry by entry."""
        half = response @ self.root
        result = np.asarray(base + half @ half.swapaxes(-1, -2))
        if not self.hidden.shape[1]:
            return result
        open_ = response @ self.hidden
        size = np.linalg.norm(open_, axis=-1, keepdims=True)
        least = HIDDEN * np.linalg.norm(response, axis=-1, keepdims=True)
        open_ = np.where(size > least, open_, 0.0)
        product = open_ @ open_.swapaxes(-1, -2)
        matters = np.abs(product) > HIDDEN * size * size.swapaxes(-1, -2)
        return np.where(matters, np.copysign(np.inf, product), result)


def known(now: Undetermined) -> Known:
    """The least squares of least norm, by singular values of R in units of `reach`."""
    scale = np.sqrt(np.where(now.reach > 0, now.reach, 1.0))
    left, values, right = np.linalg.svd(now.triangle / scale)
    rank = int((values > rank_tolerance(len(scale))).sum())
    rest, _ = np.linalg.qr((right[rank:] / scale).T)
    root = (right[:rank] / scale).T / values[:rank]
    root = root - rest @ (rest.T @ root)
    return Known(root @ (left[:, :rank].T @ now.right), root, rest)


def nothing_known(system: StateSpace, size: int, series: int) -> Undetermined:
    """Before the first step, of a state of `size` entries of which x is the first."""
    assert system.diffuse is not None
    q = system.diffuse.shape[1]
    response = np.zeros((size, q))
    response[: system.states] = system.diffuse
    zeros = np.zeros((q, q)), np.zeros((q, series)), np.zeros(q), np.zeros(series)
    return Undetermined(response, *zeros)


def require_proper(system: StateSpace, what: str) -> None:
    """Refuse what a diffuse start has no meaning for, or no route to."""
    if system.diffuse is not None:
        raise InvalidInput(
            f"{what} needs a proper start, and x_0 is diffuse: give cov0 (a large one) instead of "
            "diffuse."
        )


def require_determined(system: StateSpace, now: Undetermined | None) -> None:
    """Raise NotIdentifiable, naming directions of x_0 (n, h), if some were never shown."""
    if now is None:
        return
    assert system.diffuse is not None
    hidden = system.diffuse @ known(now).hidden
    raise NotIdentifiable(
        f"The releases do not determine x_0, of which nothing is known: {hidden.shape[1]} of its "
        f"{system.diffuse.shape[1]} diffuse directions are never shown (`hidden_directions`). Take "
        "more steps, another level, or give cov0.",
        hidden,
    )


class Early(NamedTuple):
    """The steps until δ is determined: filtered and predicted (d, N, series), P (d, N, N).

    mean (N, series), root (N, N): of the state after them if δ is determined, else of the filter
    that believes δ = 0. now: what is known of δ; determined: all of it.
    """

    filtered: Array
    predicted: Array
    covariance: Array
    predicted_covariance: Array
    mean: Array
    root: Array
    now: Undetermined
    determined: bool

    @property
    def log_density(self) -> Array:
        """ℓ of all steps so far, (series,): nothing before δ is determined."""
        if not self.determined:
            return np.zeros_like(self.now.density)
        size = np.log(np.abs(self.now.triangle.diagonal())).sum()
        return np.asarray(self.now.density - size)


def _steps(seen: Observed, sweep: Sweep, means: Means, now: Undetermined) -> Early:
    """Step by step until R has full rank, or to the last of these steps."""
    found: list[tuple[Array, Array, Array, Array]] = []
    own, table, r = known(now), sweep.table, seen.rows.shape[1]
    determined = False
    for k, e in enumerate(sweep.entry.tolist()):
        j = sweep.kind[e]
        rows, ahead = substitute(table.scale[e], seen.rows[j], lower=True), seen.transition[j]
        ahead = ahead @ now.response
        shown = rows @ ahead
        before = own
        now = now.after(
            ahead - table.gain[e] @ shown, shown, np.abs(rows) @ np.abs(ahead),
            means.innovations[k],
        )  # fmt: skip
        own = known(now)
        found.append((
            own.estimate(means.filtered[k], now.response),
            before.estimate(means.predicted[k], ahead),
            own.covariance(table.filtered[e], now.response),
            before.covariance(table.predicted[e], ahead),
        ))  # fmt: skip
        determined = not own.hidden.shape[1]
        if determined:
            break
    steps = len(found)
    # The density of innovations that are all zeros: −½(N log 2π + log|V|).
    part = replace(sweep, entry=sweep.entry[:steps])
    alone = log_density(part, np.zeros((steps, r, 1)), seen.absent[:steps])
    now = now._replace(density=now.density + alone)
    mean, root = means.filtered[steps - 1], table.factor[sweep.entry[steps - 1]]
    if determined:
        mean = found[-1][0]
        half = np.concatenate([root, now.response @ own.root], axis=1)
        root = np.asarray(np.linalg.qr(half.T, mode="r")).T
    filtered, predicted, narrow, wide = (np.stack(part) for part in zip(*found))
    return Early(filtered, predicted, narrow, wide, mean, root, now, determined)


class Data(NamedTuple):
    """z̃ (K, r, series), zeros where nothing was shown, and what known inputs add (`_means`)."""

    values: Array
    shift: Array
    offset: Array

    def between(self, start: int, stop: int | None) -> Data:
        return Data(*(part[start:stop] for part in self))


def no_data(seen: Observed) -> Data:
    """For covariances, which do not depend on data."""
    K, r, N = seen.steps, seen.rows.shape[1], len(seen.start)
    return Data(np.zeros((K, r, 1)), np.zeros((K, N)), np.zeros((K, r)))


def early_steps(seen: Observed, data: Data, now: Undetermined) -> Early:
    """The first steps; of as few as are needed."""
    count = min(seen.steps, now.response.shape[1] + FIRST)
    while True:
        part = part_of(seen, 0, count)
        sweep = forward(part)
        means = filtered_means(part, sweep, *data.between(0, count))
        early = _steps(part, sweep, means, now)
        if early.determined or count == seen.steps:
            return early
        count = min(4 * count, seen.steps)


def part_of(seen: Observed, start: int, stop: int | None) -> Observed:
    return replace(seen, kind=seen.kind[start:stop], absent=seen.absent[start:stop])


def later_steps(seen: Observed, early: Early) -> Observed:
    """The steps after δ was determined, from where it was."""
    rest = part_of(seen, len(early.filtered), None)
    return replace(rest, start=early.mean, root=early.root)


def with_unit_part(system: StateSpace, seen: Observed) -> Observed:
    """δ of which nothing is known may be N(0, I) and that besides: the same system.

    But then no reading without noise is known before it is taken.
    """
    half = np.concatenate([seen.root, nothing_known(system, len(seen.root), 1).response], axis=1)
    return replace(seen, root=np.asarray(np.linalg.qr(half.T, mode="r")).T)


def _response_means(seen: Observed, sweep: Sweep, response: Array) -> list[Means]:
    """Estimates and innovations of no data from the columns of a response as starts."""
    nothing = no_data(seen)
    return [
        filtered_means(replace(seen, start=column), sweep, *nothing) for column in response.T
    ]  # fmt: skip


def whitened_responses(system: StateSpace, seen: Observed, sweep: Sweep) -> Array:
    """X̃ of all steps (Kr, q)."""
    response = nothing_known(system, len(seen.start), 1).response
    found = _response_means(seen, sweep, response)
    return -np.concatenate([own.innovations for own in found], axis=2).reshape(-1, len(found))


def diffuse_marginals(system: StateSpace, seen: Observed) -> Marginals:
    """Predicted, filtered, smoothed covariances (K, n, n), or NotIdentifiable."""
    n, now = system.states, nothing_known(system, len(seen.start), 1)
    seen = with_unit_part(system, seen)
    early = early_steps(seen, no_data(seen), now)
    require_determined(system, None if early.determined else early.now)
    predicted, filtered = early.predicted_covariance[:, :n, :n], early.covariance[:, :n, :n]
    if len(filtered) < seen.steps:
        sweep = forward(later_steps(seen, early))
        predicted = np.concatenate([predicted, sweep.predicted(n)])
        filtered = np.concatenate([filtered, sweep.filtered(n)])
    return Marginals(predicted, filtered, diffuse_smoothed(seen, no_data(seen), now, n)[1])


class Passed(NamedTuple):
    """All steps of a filter that starts diffuse: estimates (K, N, series), covariances (K, n, n).

    fit: log density (series,); mean, unit, root, gap: where it stands, as in `Sweep`, `Means`;
    open: what is known of δ where that is not all.
    """

    filtered: Array
    predicted: Array
    innovations: Array
    covariance: Array
    predicted_covariance: Array
    fit: Array
    mean: Array
    unit: Array
    root: Array
    gap: Array
    open: Undetermined | None


def diffuse_pass(seen: Observed, data: Data, now: Undetermined, n: int) -> Passed:
    """The filter, of n states: the first steps, then from a proper state the others.

    Innovations are NaN until δ is determined: those of the first steps are spent on it.
    """
    early, N = early_steps(seen, data, now), len(seen.root)
    done = len(early.filtered)
    wide = early.covariance[:, :n, :n], early.predicted_covariance[:, :n, :n]
    spent = np.full((done, *data.values.shape[1:]), np.nan)
    if done == seen.steps:
        return Passed(
            early.filtered, early.predicted, spent, *wide, early.log_density, early.mean[:, 0],
            np.zeros(N), early.root, np.zeros(N), None if early.determined else early.now,
        )  # fmt: skip
    rest = later_steps(seen, early)
    sweep = forward(rest)
    means = filtered_means(rest, sweep, *data.between(done, None))
    mean, unit = end_of(sweep, means)
    filtered, predicted, innovations, own, ahead = (np.concatenate(pair) for pair in (
        (early.filtered, means.filtered), (early.predicted, means.predicted),
        (spent, means.innovations), (wide[0], sweep.filtered(n)), (wide[1], sweep.predicted(n)),
    ))  # fmt: skip
    fit = early.log_density + log_density(sweep, means.innovations, rest.absent)
    gap = np.zeros(N) if sweep.gap_units is None else sweep.gap_units
    root = sweep.table.factor[sweep.entry[-1]]
    return Passed(
        filtered, predicted, innovations, own, ahead, fit, mean, unit, root, gap, None
    )  # fmt: skip


def diffuse_smoothed(seen: Observed, data: Data, now: Undetermined, n: int) -> tuple[Array, Array]:
    """Smoothed estimates (K, n, series) and covariances (K, n, n): δ̂ from all steps."""
    sweep = forward(seen)
    means = filtered_means(seen, sweep, *data)
    responses, q = _response_means(seen, sweep, now.response), now.response.shape[1]
    shown = -np.concatenate([own.innovations for own in responses], axis=2).reshape(-1, q)
    size = np.abs(shown)  # of all steps: those of `early_steps` have shown what there is
    white = means.innovations.reshape(len(shown), -1)
    own = known(now.after(now.response, shown, size, white))
    moved = np.concatenate([smoothed_means(sweep, one)[:, :n] for one in responses], axis=2)
    states = own.estimate(smoothed_means(sweep, means)[:, :n], moved)
    return states, own.covariance(backward(sweep, n), moved)
