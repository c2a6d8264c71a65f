"""A posterior as points with weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from privest.arrays import Array, Flags
from privest.dynamics._identification._constrained import Scale

NOTHING = 1e-9  # of all weight: points that are left out


class Chart(Scale, Protocol):
    """A Family, as far as it is needed here."""

    names: tuple[str, ...]
    labels: tuple[str, ...]

    def working(self, theta: Array) -> Array:
        """t of θ; InvalidInput where no t leads there."""


Visit = Callable[[Array], tuple[float, Any]]  # t ↦ ℓ and what is wanted there


class Posterior(NamedTuple):
    """Weights (N,) that sum to one and what was found at each point; how many count, of `points`.

    effective = 1/Σw² for draws; for a grid it is the number of its points. notes: what a reader
    should know, in words.
    """

    weights: Array
    found: list[Any]
    effective: float
    points: int
    notes: tuple[str, ...] = ()


def variances(chart: Chart) -> Flags:
    """Which natural parameters are worked with as logarithms."""
    pairs = zip(chart.names, chart.labels)
    return np.array([label == f"log {name}" for name, label in pairs], dtype=bool)


def thinned(found: Posterior) -> Posterior:
    """Without the points that weigh nothing."""
    kept = np.flatnonzero(found.weights > NOTHING)
    weights = found.weights[kept]
    return found._replace(
        weights=weights / weights.sum(), found=[found.found[i] for i in kept.tolist()]
    )
