"""A plan and an estimate as one page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from privest.estimator.result import Result
from privest.privacy import PrivacyLevel
from privest.report._canvas import save
from privest.report._page import save_page
from privest.report._page_sections import Facts, story
from privest.report._streams import Trail
from privest.report._tradeoff import Curve, tradeoff_figure
from privest.workflow import Estimate, Plan
from privest.workflow._modelled import counted_move


def curve_of(plan: Plan, estimate: Estimate | None = None) -> Curve:
    """Standard errors over levels, with ε where δ and the move are stated.

    With an estimate: for the rows that were released. The plan does not know which readings are
    missing, so its rows may be more. (Not with one that undoes clipping: what that costs at other
    levels is another curve.)
    """
    levels, errors = plan.curve()
    open_errors = plan.classical_error
    if estimate is not None and estimate.sampling is not None:
        # Sampling stays as it is; what privacy adds goes with 1/s.
        assert estimate.privacy is not None
        assert estimate.classical_error is not None
        own, private = np.diagonal(estimate.sampling), np.diagonal(estimate.privacy)
        errors = np.sqrt(own + np.outer(estimate.release.level / levels, private))
        open_errors = estimate.classical_error
    stated, move = plan.spec.privacy, plan.move
    epsilons = None
    if stated.delta is not None and move is not None:
        epsilons = np.array(
            [PrivacyLevel(s).to_epsilon(delta=stated.delta, move=move) for s in levels]
        )
    target = {}
    if stated.standard_error is not None and stated.of is not None:
        target = {stated.of: stated.standard_error}
    return Curve(plan.names, levels, errors, open_errors, epsilons, target)


def save_plan_figure(plan: Plan, path: Path) -> None:
    """Write the curve of errors over levels, before any data."""
    save(tradeoff_figure(curve_of(plan), plan.level), path)


def save_report(plan: Plan, estimate: Estimate, commands: Sequence[str], path: Path) -> None:
    """One self-contained page: what was found, what privacy cost, what is promised."""
    header = estimate.release
    assert header.noise_variance is not None
    transform = "" if header.transform == "none" else f" ({header.transform})"
    facts = Facts(
        response=header.target + transform,
        result=estimate,
        level=header.level,
        rows=header.rows,
        dropped=header.dropped,
        doubt=estimate.doubt,
        noise_variance=header.noise_variance,
        simulated=header.simulated,
        commands=commands,
        epsilon=header.epsilon,
        delta=header.delta,
        move=counted_move(header.move, header.limits) if header.delta is not None else None,
        limits=header.limits,
        clipped=estimate.clipped,
        # What clipping costs at other levels is not known here.
        curve=None if estimate.clipped is not None else curve_of(plan, estimate),
        pair=_pair(estimate),
        trail=_trail(estimate),
    )
    save_page(
        f"{header.target}: a private regression",
        f"{header.rows:,} rows, {len(header.names)} coefficients, privacy level {header.level:.4g}",
        story(facts),
        path,
    )


def _pair(result: Result) -> Result | None:
    """The two coefficients, not the intercept, whose errors are tied most."""
    slopes = [i for i, name in enumerate(result.names) if name != "intercept"]
    if len(slopes) < 2:
        return None
    size = result.standard_error
    tied = np.abs(result.covariance / np.outer(size, size))
    two = list(max(combinations(slopes, 2), key=lambda pair: tied[pair]))
    assert result.classical is not None
    return Result(
        estimate=result.estimate[two],
        covariance=result.covariance[np.ix_(two, two)],
        classical=result.classical[np.ix_(two, two)],
        names=(result.names[two[0]], result.names[two[1]]),
    )


def _trail(estimate: Estimate) -> Trail | None:
    if estimate.trail is None:
        return None
    trail = Trail()
    for count, value, error in zip(*estimate.trail):
        trail.add(int(count) - 1, value, error)
    return trail
