"""One-sided points: where p(z|·) has a kink at y, or the probability of an outcome vanishes there.

The information is then a one-sided limit, the larger of two. Differences across y average two
scores, or never see the outcome, and show too little. So y is looked at from both sides.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from privest.arrays import Array
from privest.audit._door import Sampler, as_sampler
from privest.audit._move_size import NAMED, seen_unit
from privest.audit._sampled import (
    MOST_STEP,
    SHORT,
    SHORT_WEIGHTS,
    UNCHANGED,
    Asked,
    Sampled,
    estimated,
    information_from_samples,
    learning_share,
)
from privest.mechanism import Mechanism

RULE = ((SHORT, SHORT_WEIGHTS),)
# A side must show so much more, beyond the noise of both; a unit is too wide from this on.
SMOOTH, CLOSER = 0.1, 1.5
# Outcomes that vanish at y are looked for at this part of a unit.
ASIDE = 0.25
ENOUGH = 100_000  # draws at a place


def information_with_sides(
    sampler: Mechanism | Sampler,
    y: Array,
    *,
    samples: int,
    rng: np.random.Generator,
    confidence: float,
) -> Sampled:
    """`information_from_samples`; at a one-sided point the larger limit, and a note.

    A side counts if it shows more than differences across y do, beyond the noise of both (what
    splines miss is missing in both) and a tenth. Cost: about as many draws again.
    """
    found = information_from_samples(sampler, y, samples=samples, rng=rng, confidence=confidence)
    few = min(max(samples // 2, 2), ENOUGH)
    matrix, error, notes = found.matrix.copy(), found.error.copy(), list(found.notes)
    unchanged = found.unchanged.copy()
    for i, across in enumerate(np.diagonal(found.matrix).tolist()):
        if not (0 < across < math.inf or found.unchanged[i]):
            continue
        for side, where in ((-1, "below"), (1, "above")):
            direction = side * np.eye(y.size)[:, i : i + 1]
            asked = Asked(as_sampler(sampler), y, direction, few, rng, confidence)
            limit, noise, bend, missed = _limit(asked, across)
            noise += float(found.error[i, i]) - missed * across
            if limit > across * (1 + SMOOTH) + noise and limit > matrix[i, i]:
                matrix[i, i], error[i, i] = limit, noise + bend + missed * limit
                unchanged[i] = False
                notes.append(
                    f"A one-sided point of reading {i}: {limit:.3g} is shown from {where}, "
                    f"{across:.3g} by differences across it. The larger counts."
                )
    kept = tuple(note for note in notes if note != UNCHANGED or unchanged.any())
    return replace(found, matrix=matrix, error=error, notes=kept, unchanged=unchanged)


def _limit(asked: Asked, across: float) -> tuple[float, float, float, float]:
    """I at y from the side to which D points, its noise, its bend, and the part that is missed."""
    try:
        unit = 1 / math.sqrt(across) if across > 0 else _unit_aside(asked)
        limit, noise, bend, missed = _on_a_line(asked, unit)
        new = across + _vanishing(asked, ASIDE * unit)
    except Exception:  # whatever a user's function raises outside its domain
        return math.nan, 0.0, 0.0, 0.0
    return (limit, noise, bend, missed) if limit - noise > new else (new, 0.0, 0.0, missed)


def _unit_aside(asked: Asked) -> float:
    """About 1/√I between y and places on the side, where y ± h cannot be told apart (|y|)."""

    def draw(t: Array, rng: np.random.Generator, n: int) -> Array:
        return asked.draw(asked.y + 2 * max(float(t[0]), 0.0) * asked.D[:, 0], rng, n)

    return seen_unit(draw, np.zeros(1), np.ones(1), asked.rng, 2 * MOST_STEP)[0]


def _on_a_line(asked: Asked, unit: float) -> tuple[float, float, float, float]:
    """From two places so far from y that no difference reaches across it, by a straight line.

    A second time closer, if more is shown than the unit says. The bend is how far the line falls
    between the two places, twice: I need not be one, and is often convex.
    """
    v = asked.D[:, 0]
    for last in (False, True):
        step = max(learning_share(asked.samples), 2 * SHORT) * unit
        (near, missed), (far, _) = (
            estimated(replace(asked, y=asked.y + away * step * v), np.array([unit]), RULE)
            for away in (1.0, 2.0)
        )
        a, b = float(near.matrix[0, 0]), float(far.matrix[0, 0])
        noise = float(2 * near.error[0, 0] + far.error[0, 0]) - missed * (2 * abs(a) + abs(b))
        limit = 2 * a - b
        if last or not limit * unit**2 > CLOSER:
            break
        unit = 1 / math.sqrt(limit)
    return limit, noise, 2 * abs(a - b), missed


def _vanishing(asked: Asked, step: float) -> float:
    """Σ p'²/p = 4p/step² of outcomes that are seen there and not at y, if they vanish like x²."""
    here = asked.draw(asked.y, asked.rng, asked.samples)
    there = asked.draw(asked.y + step * asked.D[:, 0], asked.rng, asked.samples)
    parts = [0.0]
    for old, column in zip(here.T, there.T):
        values, often = np.unique(column, return_counts=True)
        new = often[(often >= NAMED) & ~np.isin(values, old)]
        parts.append(4 * float(new.sum()) / asked.samples / step**2)
    return max(parts)
