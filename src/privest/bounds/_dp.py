"""Estimation floors under differential privacy and under a trace constraint (`coro:DP`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, as_count, as_positive
from privest.bounds._classical import classical_bound, local_model, require_size
from privest.bounds._trace_budget import inverse_gram, least_squares_strength
from privest.errors import InvalidInput
from privest.model import LinearModel
from privest.privacy import metric
from privest.records import Record


@dataclass(frozen=True, eq=False)
class TraceBound(Record):
    """Floors under tr I_z(Y) ≤ s.

    classical       Σ_CR (n, n).
    matrix          Σ_CR + A/s, A = (ΣH_kᵀH_k)⁻¹: the corollary as printed, in the PSD order.
    printed_trace   its trace.
    trace           tr Σ_CR + (tr A^½)²/s: the tighter floor on the trace, between 1 and n times the
                    printed privacy term.
    """

    budget: float
    classical: Array
    matrix: Array
    printed_trace: float
    trace: float

    def __repr__(self) -> str:
        return f"TraceBound(budget {self.budget:g}, trace {self.trace:.4g})"


def trace_bound(model: LinearModel, budget: float) -> TraceBound:
    """What any mechanism with tr I_z(Y) ≤ s costs at least, for any noise law.

        MSE ≥ Σ_CR + (ΣH_kᵀH_k)⁻¹ / s                      (`coro:DP`, as printed)
        tr MSE ≥ tr Σ_CR + (tr (ΣH_kᵀH_k)^-½)² / s         (tighter; docs/theory.md 3)

    For a floor that is attained under general Gaussian noise see `trace_budget_bound`.

    >>> from privest.noise import Gaussian
    >>> floor = trace_bound(LinearModel(np.eye(3), noise=Gaussian(cov=1.0)), budget=9.0)
    >>> round(floor.printed_trace, 9), round(floor.trace, 9)  # 3 + 3/9 against 3 + 3²/9
    (3.333333333, 4.0)
    """
    s = as_positive(budget, "budget")
    require_size(s, "the budget")
    classical = classical_bound(local_model(model))
    inverse = inverse_gram(model)
    matrix = classical + inverse / s
    return TraceBound(
        budget=s,
        classical=classical,
        matrix=matrix,
        printed_trace=float(np.trace(matrix)),
        trace=float(np.trace(classical)) + least_squares_strength(model) ** 2 / s,
    )


def metric_dp_bound(
    model: LinearModel, epsilon: float, *, readings: int | None = None
) -> TraceBound:
    """What the paper's metric ε-differential privacy costs at least.

    The metric promise (probability ratio ≤ e^{ε‖y_k − y_k'‖} at every distance; `def:DP`) implies
    tr I_z(Y) ≤ Kε² (`prop:DP2Fisher`), hence `trace_bound` with s = Kε². `readings` is K, the
    number of (possibly vector) readings y_k; by default each row of H is one.
    Classical ε-DP at a fixed distance implies no Fisher bound and none of this: see
    `privest.privacy.metric`.

    >>> from privest.noise import Gaussian
    >>> model = LinearModel(np.ones((4, 1)), noise=Gaussian(cov=1.0))
    >>> metric_dp_bound(model, epsilon=0.5).trace  # 1/K + 1/(K·Kε²): K = 4
    0.5
    """
    rows = local_model(model).readings
    count = as_count(rows if readings is None else readings, "readings", least=1)
    if rows % count:
        raise InvalidInput(
            f"readings must divide the {rows} rows of H into K equal readings; received {count!r}."
        )
    return trace_bound(model, metric.trace_bound(epsilon, count))
