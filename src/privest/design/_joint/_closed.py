"""A and C under a budget alone: the best linear release (docs/theory.md 3), without a solver."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array
from privest.bounds import best_linear_release
from privest.design._criteria import A, C, weight_factor
from privest.design._joint._problem import JointPrices, JointProblem
from privest.design._joint._release import times
from privest.design._joint._sdp import Proposal
from privest.design._scaled import Trace
from privest.errors import NumericalFailure
from privest.linalg import PSD
from privest.linalg.batched import substitute
from privest.model import LinearModel
from privest.noise import Gaussian


def closed_form(problem: JointProblem, budget: float) -> Proposal | None:
    """The optimum and its witness; None where this form does not apply.

    Costs are units of readings: with y_k/√c_k for y_k the cost is the trace.
    """
    asked, limits = problem.asked, problem.limits
    if limits.limited or len(limits.blocks) > 1 or not isinstance(asked, A | C):
        return None
    root = 1.0 / np.sqrt(limits.cost)
    B = targets_of(asked, problem.model.parameters)
    matrix = root[:, None] * problem.model.matrix
    scaled = LinearModel(matrix, Gaussian(cov=_scaled(problem.sigma, root)))
    try:
        best = best_linear_release(scaled, budget, B @ B.T)
    except NumericalFailure:
        return None  # the alternating search stalled: the program below does not
    values, vectors = np.linalg.eigh(best.noise)
    factor = root[:, None] * (best.map.T @ (vectors / np.sqrt(values)))
    prices = JointPrices(1.0, np.zeros(len(root)), np.zeros(0))
    # The multiplier of MH = Bᵀ: HZ = ΣMᵀ + (‖M‖_*/s)·(the polar factor of Mᵀ), with t = Mᵀ.
    left, strength, right = np.linalg.svd(best.map.T, full_matrices=False)
    fitted = times(scaled.covariance, best.map.T) + strength.sum() / budget * (left @ right)
    weights = np.linalg.lstsq(matrix, fitted, rcond=None)[0]
    columns = substitute(problem.triangle, best.root, transposed=True)
    witness = Trace(columns).of(problem.triangle @ weights)
    shown = root[:, None] * best.map.T
    return Proposal(factor, prices, witness, shown, 1, "the best linear release")


def targets_of(asked: A | C, n: int) -> Array:
    """B (n, q) with f = tr BᵀΣB."""
    return weight_factor(asked.weight, n) if isinstance(asked, A) else asked.vector[:, None]


def _scaled(sigma: PSD, root: Array) -> Array:
    if sigma.pointwise is not None:
        return np.asarray(sigma.diagonal() * root**2)
    return np.asarray(sigma.dense() * root * root[:, None])
