"""Full S, small: one semidefinite program in what the best estimate reads (CVXPY and Clarabel).

The variable is the score u = Yy + noise of covariance N (n, n): Y (n, m), P = YH the information
that it carries. With a block of S for each b (one block: all measurements together)

    YΣYᵀ + Σ_b N_b ≤ P ,   [[N_b, Y_k], [Y_kᵀ, s_k]] ≥ 0  for every k of b ,   s_k = S_kk :

then S_b = Y_bᵀN_b⁺Y_b has this diagonal and information ≥ P, and every S gives such Y = HᵀX and N.
The matrices have n + 1 rows, not m; Σ and S may be singular. Units are such that all numbers are
near one: else the solver loses four digits. What comes out `_full` makes feasible and certifies.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from privest.arrays import EPS, Array, Index
from privest.design._criteria import Least, LogDet, Scaled, Variances, Witness
from privest.errors import MissingDependency, NumericalFailure
from privest.linalg import PSD, Blocks

TOLERANCES = (1e-10, 1e-9, 1e-8)  # of Clarabel: until the certificate is satisfied
UNSOLVED = (
    "Clarabel did not solve the program of a full S. Choose units in which budget, caps and "
    "variances are nearer to each other."
)
NO_NOISE = 1e-12  # of the largest eigenvalue of N
NO_WEIGHT = 1e-10  # of the largest eigenvalue of ZZᵀ


@dataclass(frozen=True, eq=False)
class Limits:
    """Σ c_k S_kk is the cost; S_kk ≤ u_k (∞ allowed); Σ_{k∈P} S_kk ≤ b_P; S block by block."""

    cost: Array
    caps: Array
    blocks: list[Index]
    person: Index | None = None
    most: Array | None = None

    @property
    def limited(self) -> bool:
        return self.person is not None or bool(np.isfinite(self.caps).any())

    def spent(self, factor: Array) -> float:
        return float(self.cost @ (factor**2).sum(axis=1))

    def unit(self, levels: Array) -> Array:
        unit = np.minimum(levels, self.caps)
        if self.person is not None and self.most is not None:
            count = np.bincount(self.person, minlength=len(self.most))
            unit = np.minimum(unit, (self.most / np.maximum(count, 1))[self.person])
        return np.asarray(unit)

    def feasible(self, factor: Array, budget: float = np.inf) -> Array:
        """L with rows shortened until every limit holds, in exact numbers and as computed."""
        margin = 1.0 - 4.0 * (factor.size + 4) * EPS
        length = (factor**2).sum(axis=1)
        factor = factor * np.sqrt(_part(length, margin * self.caps))[:, None]
        if self.person is not None and self.most is not None:
            used = np.bincount(self.person, (factor**2).sum(axis=1), len(self.most)) * 1.0
            factor = factor * np.sqrt(_part(used, margin * self.most)[self.person])[:, None]
        spent = self.spent(factor)
        return factor * np.sqrt(margin * budget / spent) if spent > margin * budget else factor


def _part(used: Array, allowed: Array) -> Array:
    return np.divide(allowed, used, out=np.ones(len(used)), where=used > allowed)


@dataclass(frozen=True, eq=False)
class JointPrices:
    """ν of the budget, y (m,) of caps and ν_P (p,) of persons: p_k = νc_k + y_k + ν_P."""

    budget: float
    caps: Array
    persons: Array

    def of(self, limits: Limits) -> Array:
        """p (m,)."""
        prices = self.budget * limits.cost + self.caps
        return prices if limits.person is None else prices + self.persons[limits.person]

    def held(self, limits: Limits) -> float:
        """Σ y_k u_k + Σ ν_P b_P."""
        finite = np.isfinite(limits.caps)
        total = float(self.caps[finite] @ limits.caps[finite])
        return total if limits.most is None else total + float(self.persons @ limits.most)


@dataclass(frozen=True, eq=False)
class Proposal:
    """L (m, r), the dual prices, a witness (in the coordinates of the rows) and its t (m, q)."""

    factor: Array
    prices: JointPrices
    witness: Witness | None
    shown: Array
    steps: int
    method: str = "semidefinite program (Clarabel)"


def cvxpy_or_error() -> Any:  # noqa: ANN401 - a module without types
    try:
        import clarabel  # noqa: F401
        import cvxpy
    except ImportError as missing:
        raise MissingDependency(
            "a full matrix S is found by CVXPY with Clarabel: pip install 'privest[design]'. "
            "Diagonal levels (the default) need neither."
        ) from missing
    return cvxpy


class ScoreProgram:
    """The variables and constraints above, in units where a level of `unit` (m,) is one."""

    def __init__(self, rows: Array, covariance: PSD, limits: Limits, unit: Array) -> None:
        self.cp = cp = cvxpy_or_error()
        self.limits = limits
        self.unit = unit
        self.weight = unit / (1.0 + covariance.diagonal() * unit)
        m, n = rows.shape
        self.score = cp.Variable((n, m))
        self.levels = cp.Variable(m, nonneg=True)
        self.information = cp.Variable((n, n), symmetric=True)
        scaled = np.sqrt(self.weight)[:, None] * rows
        self.noises = [cp.Variable((n, n), symmetric=True) for _ in limits.blocks]
        # N is about Σ y y'/s: its own unit for each block keeps it near one as well.
        self.quiet = [float(np.exp(np.log(unit[b] / self.weight[b]).mean())) for b in limits.blocks]
        self.sampling: list[Any] = []
        self.roots = noise_roots(covariance, np.sqrt(self.weight))
        spent = [self._sampling(*root) for root in self.roots]
        spent += [noise / quiet for noise, quiet in zip(self.noises, self.quiet)]
        self.order = self.information - cp.sum(spent) >> 0
        self.equal = self.score @ scaled == self.information
        self.constraints = [self.equal, self.order, *self.sampling]
        self._levels()
        self._limit()

    def _sampling(self, rows: Index, root: Array) -> Any:  # noqa: ANN401
        """U ≥ YΣYᵀ for a block of Σ that is not zero."""
        cp = self.cp
        part = cp.Variable(self.information.shape, symmetric=True)
        size = np.linalg.norm(root, axis=0)
        read = self.score[:, rows] @ (root / size)
        self.sampling.append(cp.bmat([[part, read], [read.T, np.diag(1.0 / size**2)]]) >> 0)
        return part

    def _levels(self) -> None:
        cp = self.cp
        n = self.score.shape[0]
        for block, noise, quiet in zip(self.limits.blocks, self.noises, self.quiet):
            for k in map(int, block):
                y = cp.reshape(self.score[:, k], (n, 1), order="F")
                size = float(self.unit[k] / self.weight[k] / quiet)
                level = cp.reshape(self.levels[k] * size, (1, 1), order="F")
                self.constraints.append(cp.bmat([[noise, y], [y.T, level]]) >> 0)

    def _limit(self) -> None:
        cp = self.cp
        limits = self.limits
        self.capped = np.flatnonzero(np.isfinite(limits.caps))
        self.caps = self.levels[self.capped] <= (limits.caps / self.unit)[self.capped]
        self.persons = None
        if len(self.capped):
            self.constraints.append(self.caps)
        if limits.person is not None and limits.most is not None:
            spread = np.zeros((len(limits.most), len(self.unit)))
            spread[limits.person, np.arange(len(self.unit))] = self.unit
            self.persons = (spread / limits.most[:, None]) @ self.levels <= 1.0
            self.constraints.append(self.persons)
        self.cost = cp.sum(cp.multiply(limits.cost * self.unit, self.levels))

    def least_criterion(self, criterion: Scaled, budget: float, tolerance: float) -> Proposal:
        paid = [] if np.isinf(budget) else [self.cost / budget <= 1.0]
        objective, constraints, duals = self._criterion(criterion)
        if not self._solved(objective, [*paid, *constraints], tolerance):
            raise NumericalFailure(UNSOLVED)
        price = float(np.maximum(paid[0].dual_value, 0.0)) / budget if paid else 0.0
        return self._proposal(price, criterion, duals())

    def least_cost(
        self, criterion: Scaled, target: float, unit: float, tolerance: float
    ) -> Proposal | None:
        """The least cost (about `unit`) for a criterion of at most `target`; None: infeasible."""
        _, constraints, duals = self._criterion(criterion, target)
        if not self._solved(self.cp.Minimize(self.cost / unit), constraints, tolerance):
            return None
        return self._proposal(1.0 / unit, criterion, duals())

    def _criterion(
        self, criterion: Scaled, target: float | None = None
    ) -> tuple[Any, list[Any], Callable[[], Array | None]]:
        """Objective, constraints, and what reads the duals of the criterion afterwards."""
        cp = self.cp
        P = self.information
        if isinstance(criterion, LogDet):
            if target is not None:
                return None, [cp.log_det(P) >= -target], lambda: None
            return cp.Maximize(cp.log_det(P)), [], lambda: None
        if isinstance(criterion, Least):
            size = float(np.sum(criterion.root**2))
            least = cp.Variable() if target is None else size / target
            order = P - least * (criterion.weight / size) >> 0
            return cp.Maximize(least), [order], lambda: None
        assert isinstance(criterion, Variances)
        size = float(np.linalg.norm(criterion.columns))
        top = cp.Variable() if target is None else target / size**2
        constraints = []
        corners = []
        for block in criterion.blocks:
            B = block / size
            T = cp.Variable((B.shape[1], B.shape[1]), symmetric=True)
            corners.append(cp.bmat([[P, B], [B.T, T]]) >> 0)
            constraints += [corners[-1], cp.trace(T) <= top]
        return (
            cp.Minimize(top), constraints,
            lambda: np.array([max(float(one.dual_value[-1, -1]), 0.0) for one in corners]),
        )  # fmt: skip

    def _solved(self, objective: Any, constraints: list[Any], tolerance: float) -> bool:  # noqa: ANN401
        cp = self.cp
        problem = cp.Problem(objective, [*self.constraints, *constraints])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                problem.solve(
                    solver=cp.CLARABEL, tol_gap_rel=tolerance, tol_gap_abs=tolerance,
                    tol_feas=tolerance,
                )  # fmt: skip
        except cp.error.SolverError as failed:
            raise NumericalFailure(UNSOLVED) from failed
        if problem.status in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE):
            return False
        if problem.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
            raise NumericalFailure(UNSOLVED)
        self.steps = int(problem.solver_stats.num_iters)
        return True

    def _proposal(self, price: float, criterion: Scaled, duals: Array | None) -> Proposal:
        """S_b = Y_bᵀN_b⁺Y_b as one factor, in the user's units, and the dual prices."""
        score = np.asarray(self.score.value)
        root = np.sqrt(self.weight)
        parts = []
        for block, noise, quiet in zip(self.limits.blocks, self.noises, self.quiet):
            values, vectors = np.linalg.eigh(np.asarray(noise.value) / quiet)
            # Directions with no noise are not shown: what the solver leaves there is rounding.
            kept = values > NO_NOISE * max(float(values[-1]), 0.0)
            inner = (vectors[:, kept] / np.sqrt(values[kept])).T @ score[:, block]
            part = np.zeros((len(self.unit), min(inner.shape)))
            part[block] = narrow(inner.T * root[block, None])
            parts.append(part)
        caps = np.zeros(len(self.unit))
        if len(self.capped):
            caps[self.capped] = np.maximum(self.caps.dual_value, 0) / self.unit[self.capped]
        persons = np.zeros(0)
        if self.persons is not None and self.limits.most is not None:
            persons = np.maximum(np.atleast_1d(self.persons.dual_value), 0) / self.limits.most
        witness, shown = self._witness(criterion, duals)
        prices = JointPrices(price, caps, persons)
        return Proposal(np.hstack(parts), prices, witness, shown, self.steps)

    def _witness(self, criterion: Scaled, duals: Array | None) -> tuple[Witness | None, Array]:
        """Z and t from the dual matrices.

        With G = KKᵀ of the order YΣYᵀ + ΣN ≤ P, Λ of P = YH, C of a sampling part and c_k of a
        measurement, the solver solved −½ΛHᵀ = CFᵀ + c and Σ_k c_kc_kᵀ/p_k ≤ G. Times K⁺ it reads
        HZ = Σt + E and Σ_k E_kE_kᵀ/p_k ≤ I, with Z = ½ΛᵀK⁺ᵀ and Fᵀt = −CᵀK⁺ᵀ.
        """
        values, vectors = np.linalg.eigh(np.asarray(self.order.dual_value))
        kept = values > NO_WEIGHT * values[-1]
        half = vectors[:, kept] * np.sqrt(values[kept])
        inverse = (vectors[:, kept] / np.sqrt(values[kept])).T
        weights = np.asarray(self.equal.dual_value).T @ inverse.T / 2.0
        if float((weights * half).sum()) < 0:
            weights = -weights
        shown = np.zeros((len(self.unit), half.shape[1]))
        n = len(values)
        for (rows, root), sampled in zip(self.roots, self.sampling):
            size = np.linalg.norm(root, axis=0)
            read = -(inverse @ np.asarray(sampled.dual_value)[:n, n:] / size)
            shown[rows] = np.linalg.lstsq(root.T, read.T, rcond=None)[0]
        found = witness_of(criterion, weights, duals)
        return found, shown * np.sqrt(self.weight)[:, None]


def witness_of(criterion: Scaled, weights: Array, duals: Array | None) -> Witness | None:
    if isinstance(criterion, LogDet | Least):
        return criterion.of(weights)
    assert isinstance(criterion, Variances)
    w = np.ones(1) if duals is None or len(duals) == 1 else duals / duals.sum()
    B = criterion.columns * np.sqrt(w)[criterion.owner]
    # Of all ZO with OOᵀ ≤ I the one for which tr BᵀZO is largest.
    return Witness(weights, float(np.linalg.svd(weights.T @ B, compute_uv=False).sum()) ** 2)


def narrow(factor: Array) -> Array:
    if factor.shape[1] <= len(factor):
        return factor
    return np.asarray(np.linalg.qr(factor.T, mode="r")).T


def noise_roots(covariance: PSD, scale: Array) -> list[tuple[Index, Array]]:
    """(rows, F) with Σ scaled = FFᵀ for every block of Σ, without the zero columns of F."""
    if not isinstance(covariance, Blocks):
        deviation = np.sqrt(covariance.diagonal()) * scale
        return [(np.array([k]), deviation[k : k + 1, None]) for k in np.flatnonzero(deviation)]
    found: list[tuple[Index, Array]] = []
    ends = np.cumsum(covariance.sizes)
    for lower, end in zip(covariance.lowers(), ends):
        root = lower[:, lower.any(axis=0)] * scale[end - len(lower) : end, None]
        if root.shape[1]:
            found.append((np.arange(end - len(lower), end), root))
    return found
