"""A plan and an estimate as one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from privest.privacy import PrivacyLevel
from privest.report._canvas import save
from privest.report._convergence import Trail
from privest.report._page import save_page
from privest.report._page_sections import story
from privest.report._pictures import Curve, Pair
from privest.report._tradeoff import tradeoff_figure
from privest.workflow import Estimate, Plan


def curve_of(plan: Plan, estimate: Estimate | None = None) -> Curve:
    """Standard errors over levels, with ε where δ and the move are stated.

    With an estimate: for the rows that were released. The plan does not know which readings are
    missing, so its rows may be more.
    """
    levels, errors = plan.curve()
    if estimate is not None:
        # Variances are (σ² + 1/s) times the same unit, whatever the level.
        share = estimate.header.noise_variance + 1 / levels
        own = estimate.header.noise_variance + 1 / estimate.header.level
        errors = np.sqrt(share / own)[:, None] * estimate.standard_error
    stated = plan.spec.privacy
    epsilons = None
    if stated.delta is not None and stated.move is not None:
        epsilons = np.array(
            [PrivacyLevel(s).to_epsilon(delta=stated.delta, move=stated.move) for s in levels]
        )
    target = None
    if stated.standard_error is not None and stated.of is not None:
        target = {stated.of: stated.standard_error}
    return Curve(levels, errors, epsilons, target)


def save_plan_figure(plan: Plan, path: Path) -> None:
    """Write the curve of errors over levels, before any data."""
    curve = curve_of(plan)
    figure = tradeoff_figure(
        curve.levels,
        curve.with_privacy,
        plan.without_privacy,
        plan.names,
        plan.level,
        target=curve.target,
        epsilons=curve.epsilons,
    )
    save(figure, path)


def save_report(plan: Plan, estimate: Estimate, commands: Sequence[str], path: Path) -> None:
    """One self-contained page: what was found, what privacy cost, what is promised."""
    header = estimate.header
    sections = story(
        response=header.target
        if header.transform == "none"
        else f"{header.target} ({header.transform})",
        names=header.names,
        estimate=estimate.estimate,
        with_privacy=estimate.standard_error,
        without_privacy=estimate.without_privacy,
        level=header.level,
        rows=header.rows,
        noise_variance=header.noise_variance,
        simulated=header.simulated,
        commands=commands,
        epsilon=header.epsilon,
        delta=header.delta,
        move=header.move,
        curve=curve_of(plan, estimate),
        pair=_pair(estimate),
        trail=_trail(estimate),
    )
    save_page(
        f"{header.target}: a private regression",
        f"{header.rows:,} rows, {len(header.names)} coefficients, privacy level {header.level:.4g}",
        sections,
        path,
    )


def _pair(estimate: Estimate) -> Pair | None:
    """The two coefficients, not the intercept, whose errors are tied most."""
    names = estimate.header.names
    chosen = [i for i, name in enumerate(names) if name != "intercept"]
    if len(chosen) < 2:
        return None
    size = estimate.standard_error
    correlation = np.abs(estimate.covariance / np.outer(size, size))
    i, j = max(
        ((i, j) for i in chosen for j in chosen if i < j), key=lambda pair: correlation[pair]
    )
    block = estimate.covariance[np.ix_([i, j], [i, j])]
    share = float((estimate.without_privacy[i] / size[i]) ** 2)
    return Pair((names[i], names[j]), estimate.estimate[[i, j]], block, share * block)


def _trail(estimate: Estimate) -> Trail:
    trail = Trail()
    for count, value, error in zip(*estimate.trail):
        trail.add(int(count) - 1, value, error)
    return trail
