"""The paper's *metric* ε-DP, and the Fisher information that it allows. Not classical ε-DP.

Metric ε-DP (`def:DP`): for all Y, Y' that differ in one reading y_k, and every set O,

    P(z ∈ O | Y) ≤ e^{ε‖y_k − y_k'‖} P(z ∈ O | Y'),

at *every* distance, with the Euclidean norm: ε has the unit 1/[y]. As the distance goes to 0 the
score of each reading is bounded, ‖∂ log p(z|Y)/∂y_k‖ ≤ ε, and so is its Fisher information.

What does not follow, and must not be read into these numbers:

- Classical ε-DP (ratio ≤ e^ε for all pairs up to one fixed distance) implies no Fisher bound.
  Staircase noise is classically ε-DP, has jumps, and has infinite Fisher information.
- A Fisher bound I_z(y) ≤ S implies no differential privacy, metric or classical: smooth bounded
  noise has finite information, and some outputs rule some y out. Only for a Gaussian release does
  S say more, and then exactly: μ-GDP with μ² = (y−y')ᵀS(y−y') (see `privest.privacy.gdp`).

So the bounds below are necessary conditions for metric ε-DP, never sufficient ones.
"""

from __future__ import annotations

import math

from privest.arrays import ArrayLike, as_count, as_positive
from privest.errors import InvalidInput


def reading_trace_bound(epsilon: ArrayLike) -> float:
    """The most Fisher information that metric ε-DP allows about one reading.

        tr [I_z(Y)]_kk ≤ ε²    for every k and every Y.

    Symbols: epsilon ↔ ε > 0 of `def:DP`, per unit of y; [·]_kk the diagonal block of y_k.
    Assumes (the caller's promise): a density differentiable in Y almost everywhere.
    Guarantees: ≤, for every metric ε-DP mechanism. Not for classical ε-DP (module docstring).
    Attained by: independent noise of density ∝ e^{−ε‖d‖} on each reading (scalar: Laplace of
    scale 1/ε), whose score has norm ε almost everywhere.
    Source: `prop:DP2Fisher`; the paper states the sum over k, its proof this line.

    >>> reading_trace_bound(0.5)
    0.25
    """
    number = as_positive(epsilon, "epsilon")
    return _finite(number * number, number)


def trace_bound(epsilon: ArrayLike, readings: int) -> float:
    """The most Fisher information that metric ε-DP allows about all K readings together.

        tr I_z(Y) ≤ K ε²,    Y = col{y_1, …, y_K}.

    Symbols: readings ↔ K ≥ 1, the number of readings (not of scalar entries of Y).
    Assumes, guarantees, attained by: as `reading_trace_bound`.
    Source: `prop:DP2Fisher`.

    >>> trace_bound(0.5, 8)
    2.0
    """
    number = as_positive(epsilon, "epsilon")
    count = as_count(readings, "readings", least=1)
    return _finite(count * (number * number), number)


def _finite(bound: float, epsilon: float) -> float:
    if math.isinf(bound):
        raise InvalidInput(
            f"epsilon must be small enough for its square to be a float; received {epsilon:g}. "
            "Measure y in a larger unit."
        )
    return bound
