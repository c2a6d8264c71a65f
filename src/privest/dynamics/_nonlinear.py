"""Filters of nonlinear systems: one pass for all of them, and back again.

A rule takes the estimate and the factor of its covariance over one step, and says what release it
expects: `_extended` by the slopes of f and h, `_unscented` by their values at chosen points. Its
`Step` is that of `_sweep`, so smoothing is the same for every rule, without inverses:

    ξ̂_{k−1} = Θ_a ζ_k + Θ_b ξ̂_k ,   smoothed x̂ = x̂_{k|k} + B ξ̂ ,   X_{k−1} = Θ_b X_k Θ_bᵀ + Θ_cΘ_cᵀ

(the Kalman smoother of linear systems, else the extended or unscented Rauch-Tung-Striebel one).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privest.arrays import Array, ArrayLike, as_count
from privest.dynamics._filtering import Predicted, Smoothed
from privest.dynamics._observed import Level, level_of, of_entries
from privest.dynamics._releases import given_values
from privest.dynamics._sweep import Step
from privest.errors import InvalidInput
from privest.linalg.batched import substitute
from privest.privacy._parts import rows_of_parts
from privest.records import Estimated, Record
from privest.release import StreamRelease

if TYPE_CHECKING:
    from privest.dynamics._extended import ExtendedStateSpace


class State(NamedTuple):
    """An estimate (n,), a factor (n, n) of its covariance, and the input (p,) of its step."""

    mean: Array
    root: Array
    input: Array


class Taken(NamedTuple):
    """One step: x̂_{k|k−1} (n,), the release that is expected (m,), and what the step did."""

    mean: Array
    expected: Array
    step: Step


# The state before the step and whether it is moved (step 0 is not); then rows Lᵀ (m, m) of what is
# shown, or None, and the input of the step.
Rule = Callable[["ExtendedStateSpace", State, bool, "Array | None", Array], Taken]


@dataclass(frozen=True, eq=False)
class ExtendedFiltered(Estimated, Record):
    """What a filter of a nonlinear system gives, extended or unscented. Approximations.

    estimate x̂_{k|k} (K, n), covariance (K, n, n); predicted_estimate and predicted_covariance:
    the same before the release of the step. innovations ζ_k (K, m), NaN where nothing was shown.
    simulated: whether the release was a simulation. `smooth` and `predict` take it.
    """

    estimate: Array
    covariance: Array
    predicted_estimate: Array
    predicted_covariance: Array
    innovations: Array
    simulated: bool
    _smoothed: Callable[[], Smoothed]
    _ahead: Callable[[int, ArrayLike | None], Predicted]

    def __repr__(self) -> str:
        steps, n = self.estimate.shape
        return f"ExtendedFiltered({steps} steps, {n} states{', simulated' * self.simulated})"


def require_nonlinear(system: object) -> None:
    """InvalidInput for what is no ExtendedStateSpace."""
    if not hasattr(system, "frame"):
        raise InvalidInput(
            "system must be a dynamics.ExtendedStateSpace; received a "
            f"{type(system).__name__}. (A linear StateSpace: filter_releases, which is exact.)"
        )


def filtered_by(
    rule: Rule, system: ExtendedStateSpace, level: Level, release: StreamRelease,
    inputs: ArrayLike | None,
) -> ExtendedFiltered:  # fmt: skip
    """The filter with a rule, on releases at a level that does not look back."""
    require_nonlinear(system)
    frame = system.frame
    wanted = level_of(level, frame)
    if wanted.reach:
        raise InvalidInput("Filters of nonlinear systems need a level that does not look back.")
    values, missing, unit, simulated = given_values(release, wanted)
    K, m, u = release.steps, system.readings, system.inputs_of(release.steps, inputs)
    hidden = np.broadcast_to(of_entries(missing), (K, m))
    shown = unit * rows_of_parts(wanted, 0, hidden)
    now, steps = State(frame.mean0, frame.root0, np.zeros(system.inputs)), list[Step]()
    means, before = np.empty((2, K, system.states))
    innovations = np.full((K, m), np.nan)
    for k in range(K):
        rows = None if hidden[k].all() else shown[k]
        taken = rule(system, now, k > 0, rows, u[k])
        mean = before[k] = taken.mean
        if rows is not None:
            fresh = np.where(hidden[k], 0.0, values[k] - taken.expected)
            white = substitute(taken.step.scale, fresh, lower=True)
            innovations[k] = np.where(hidden[k], np.nan, white)
            mean = mean + taken.step.gain @ white
        means[k], now = mean, State(mean, taken.step.factor, u[k])
        steps.append(taken.step)
    return ExtendedFiltered(
        means, np.stack([step.filtered for step in steps]),
        before, np.stack([step.predicted for step in steps]), innovations, simulated,
        partial(_smoothed, means, innovations, steps, simulated),
        partial(_ahead, rule, system, now, simulated),
    )  # fmt: skip


def _smoothed(means: Array, innovations: Array, steps: list[Step], simulated: bool) -> Smoothed:
    states, n = means.copy(), means.shape[1]
    covariances, unit, X = np.empty((*means.shape, n)), np.zeros(n), np.eye(n)
    for k in range(len(steps) - 1, -1, -1):
        own = steps[k]
        states[k] += own.factor @ unit
        P = own.factor @ X @ own.factor.T
        covariances[k] = (P + P.T) / 2
        unit = own.later @ unit + own.fresh @ np.nan_to_num(innovations[k])
        X = own.later @ X @ own.later.T + own.lost
    return Smoothed(states, covariances, simulated)


def _ahead(
    rule: Rule, system: ExtendedStateSpace, now: State, simulated: bool, ahead: int,
    inputs: ArrayLike | None,
) -> Predicted:  # fmt: skip
    """The next states; `inputs` are those of their steps."""
    count = as_count(ahead, "ahead", least=1)
    u, n = system.inputs_of(count, inputs), system.states
    means, covariances = np.empty((count, n)), np.empty((count, n, n))
    for h in range(count):
        taken = rule(system, now, True, None, u[h])
        means[h], covariances[h] = taken.mean, taken.step.predicted
        now = State(taken.mean, taken.step.factor, u[h])
    return Predicted(means, covariances, simulated)
