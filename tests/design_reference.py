"""Best allocations by CVXPY + Clarabel, and the arithmetic to judge anybody's levels.

Independent of `privest.design`: levels s_g of atoms (readings that share a level),
x_k = s/(1 + v_k s), M = Σ x_k h_k h_kᵀ. The reference is scaled: levels in units of a typical
one, rows H R⁻¹ with RᵀR = HᵀH/K, and x ≤ s/(1 + vs) written as the second-order cone

    (s − x)(1 + vs) ≥ v s²    ⇔    ‖(2√v s, s − x − 1 − vs)‖ ≤ s − x + 1 + vs ,

which stays well conditioned as v → 0. Clarabel's tolerances are 1e-10.
"""

import warnings
from dataclasses import dataclass
from functools import cached_property

import cvxpy as cp
import numpy as np
import scipy

TOLERANCES = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}


@dataclass(frozen=True)
class Criterion:
    """kind "trace", "logdet", "least" or "largest"; `matrix`: B (n, r), none, W, or the c_j/e_j.

    trace    tr BᵀM⁻¹B          (A with W = BBᵀ, c with one column)
    logdet   −log det M         (D)
    least    1/λ, λ the largest number with M ≥ λW  (E)
    largest  max_j c_jᵀM⁻¹c_j   (several standard errors: met when at most 1)
    """

    kind: str
    matrix: np.ndarray | None = None


@dataclass(frozen=True)
class Case:
    """A model and its constraints, with one entry a READING; `atom` says which share a level."""

    H: np.ndarray
    v: np.ndarray
    cost: np.ndarray
    cap: np.ndarray
    atom: np.ndarray
    person: np.ndarray | None = None  # of a reading; its levels add up to at most `most`
    most: np.ndarray | None = None

    @cached_property
    def spread(self):
        """(m, g) zeros and ones: levels of readings from levels of atoms."""
        return (self.atom[:, None] == np.arange(self.atom.max() + 1)).astype(float)

    @cached_property
    def member(self):
        """(p, m): which readings a person has."""
        return (np.arange(len(self.most))[:, None] == self.person).astype(float)

    def spent(self, s):
        """Σ c_k s_k of levels of the readings."""
        return float(self.cost @ s)

    def violation(self, s, budget=np.inf):
        """The worst relative excess over a constraint; 0 where all of them hold."""
        excess = [-s.min(), self.spent(s) / budget - 1, (s / self.cap - 1).max()]
        low, high = np.full(self.atom.max() + 1, np.inf), np.zeros(self.atom.max() + 1)
        np.minimum.at(low, self.atom, s)
        np.maximum.at(high, self.atom, s)
        excess.append(((high - low) / np.maximum(high, 1e-300)).max())  # shared levels are equal
        if self.most is not None:
            excess.append((self.member @ s / self.most - 1).max())
        return max(0.0, *excess)

    def feasible(self, s, budget=np.inf):
        """Levels that meet every constraint exactly, near s: clipped, then scaled down."""
        g = self.spread.sum(axis=0)
        s = self.spread @ (self.spread.T @ np.maximum(s, 0) / g)
        s = np.minimum(s, self._least_cap()[self.atom])
        factor = min(1.0, budget / self.spent(s)) if s.any() else 1.0
        if self.most is not None:
            factor = min(factor, (self.most / np.maximum(self.member @ s, 1e-300)).min())
        return s * factor

    def _least_cap(self):
        least = np.full(self.atom.max() + 1, np.inf)
        np.minimum.at(least, self.atom, self.cap)
        return least

    def information(self, s):
        return (self.H * shown(s, self.v)[:, None]).T @ self.H


def shown(s, v):
    """x = s/(1 + vs), the information that is left of the level s; 1/v at s = ∞."""
    s = np.asarray(s, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isinf(s), 1 / v, s / (1 + v * s))


def value_of(criterion, case, s):
    """The criterion at levels s of the readings, from the triangle of √x H: never from M."""
    rows = np.sqrt(shown(s, case.v))[:, None] * case.H
    units = np.linalg.norm(rows, axis=0)
    upper = np.linalg.qr(rows / units, mode="r")
    if criterion.kind == "logdet":
        return float(-2 * np.log(np.abs(np.diag(upper) * units)).sum())
    if criterion.kind == "least":
        root = scipy.linalg.cholesky(criterion.matrix).T
        solved = scipy.linalg.solve_triangular(upper, root / units[:, None], trans="T")
        return float(np.linalg.norm(solved, 2) ** 2)
    solved = scipy.linalg.solve_triangular(upper, criterion.matrix / units[:, None], trans="T")
    squares = (solved**2).sum(axis=0)
    return float(squares.sum() if criterion.kind == "trace" else squares.max())


def best(case, criterion, budget):
    """The least criterion for a budget: (Clarabel's value, levels that meet the budget exactly)."""
    unit = budget / case.cost.sum()
    form = _Form(case, criterion, unit)
    loss = form.loss()
    value = form.solve(loss, form.limits([form.cost <= 1]))
    return form.loss_of(value), case.feasible(form.levels(), budget)


def cheapest(case, criterion, target):
    """The least cost for a target: (Clarabel's cost, levels that meet the target)."""
    unit = equal_level(case, criterion, target)
    form = _Form(case, criterion, unit)
    value = form.solve(form.cost, form.limits(form.meets(target)))
    s = form.levels()
    for step in range(40):  # a little more until the target is met: no less than the least cost
        if value_of(criterion, case, s) <= target:
            break
        s = case.feasible(s * (1 + 1e-13 * 2**step))
    return value * unit * case.cost.sum(), s


def equal_level(case, criterion, target):
    """A level for everybody that would meet the target without caps, within a factor of two."""
    level = 1e-12
    while value_of(criterion, case, np.full(len(case.v), level)) > target and level < 1e12:
        level *= 2
    return level


class _Form:
    """One scaled problem: t = s/unit, rows √unit H R⁻¹, v·unit; the cost in units of Σ c_k."""

    def __init__(self, case, criterion, unit):
        self.case, self.criterion, self.unit = case, criterion, unit
        self.R = np.linalg.cholesky(case.H.T @ case.H / len(case.H)).T
        rows = np.sqrt(unit) * np.linalg.solve(self.R.T, case.H.T).T
        v = case.v * unit
        self.t = cp.Variable(case.spread.shape[1], nonneg=True)
        s = case.spread @ self.t
        if (v > 0).any():
            x = cp.Variable(len(v))
            left, right = s - x, 1 + cp.multiply(v, s)
            cone = cp.vstack([2 * cp.multiply(np.sqrt(v), s), left - right])
            self.cone = [cp.SOC(left + right, cone, axis=0)]
        else:
            x, self.cone = s, []
        self.M = rows.T @ cp.diag(x) @ rows
        self.cost = (case.cost @ s) / case.cost.sum()
        self.s = s

    def limits(self, more):
        found = [*self.cone, *more]
        cap = self.case._least_cap()
        if np.isfinite(cap).any():
            held = np.flatnonzero(np.isfinite(cap))
            found.append(self.t[held] <= cap[held] / self.unit)
        if self.case.most is not None:
            found.append(self.case.member @ self.s <= self.case.most / self.unit)
        return found

    @property
    def matrix(self):
        """B, W or the columns in the scaled parameters R θ."""
        solved = np.linalg.solve(self.R.T, self.criterion.matrix)
        if self.criterion.kind == "least":
            solved = np.linalg.solve(self.R.T, solved.T)
            return (solved + solved.T) / 2
        return solved

    def loss(self):
        """What is minimised; for E it is −λ."""
        kind = self.criterion.kind
        if kind == "logdet":
            return -cp.log_det(self.M)
        if kind == "least":
            lam = cp.Variable()
            self.cone.append(self.M >> lam * self.matrix)
            return -lam
        if kind == "trace":
            return cp.matrix_frac(self.matrix, self.M)
        return cp.max(cp.hstack(list(self._each())))

    def loss_of(self, value):
        if self.criterion.kind == "logdet":
            return value - 2 * np.log(np.abs(np.diag(self.R))).sum()
        return -1 / value if self.criterion.kind == "least" else value

    def meets(self, target):
        kind = self.criterion.kind
        if kind == "logdet":
            return [cp.log_det(self.M) >= -target - 2 * np.log(np.abs(np.diag(self.R))).sum()]
        if kind == "least":
            return [target * self.M >> self.matrix]
        if kind == "trace":
            return [cp.matrix_frac(self.matrix, self.M) / target <= 1]
        return [each / target <= 1 for each in self._each()]

    def _each(self):
        return (cp.matrix_frac(column, self.M) for column in self.matrix.T)

    def solve(self, objective, constraints):
        problem = cp.Problem(cp.Minimize(objective), constraints)
        with warnings.catch_warnings():  # 1e-10 not reached: the caller compares with the levels
            warnings.filterwarnings("ignore", "Solution may be inaccurate")
            problem.solve(solver=cp.CLARABEL, **TOLERANCES)
        assert problem.status in ("optimal", "optimal_inaccurate"), problem.status
        return float(problem.value)

    def levels(self):
        s = self.case.spread @ np.maximum(self.t.value, 0) * self.unit
        return self.case.feasible(s)
