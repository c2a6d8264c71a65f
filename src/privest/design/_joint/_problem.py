"""What is asked of a full S: rows in good coordinates, limits of its diagonal, floors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privest.arrays import EPS, Array, Index
from privest.design._criteria import Criterion
from privest.design._joint._caps import SLACK, within_caps
from privest.design._joint._floor import Tangent, without_slack
from privest.design._joint._release import joint_level, joint_release
from privest.design._scaled import Largest, Least, LogDet, Scaled, Trace, Witness
from privest.linalg import PSD, Diagonal, private_root
from privest.linalg.batched import substitute
from privest.linalg.tolerances import rounding
from privest.model import LinearModel


@dataclass(frozen=True, eq=False)
class JointLimits:
    """Σ c_k S_kk is the cost; S_kk ≤ u_k (∞ allowed); Σ_{k∈P} S_kk ≤ b_P; S block by block.

    person (m,): 0 … p − 1, or None.
    """

    cost: Array
    caps: Array
    blocks: list[Index]
    person: Index | None = None
    most: Array | None = None

    @property
    def limited(self) -> bool:
        """Whether anything but the budget limits S."""
        return self.person is not None or bool(np.isfinite(self.caps).any())

    def spent(self, factor: Array) -> float:
        """Σ c_k S_kk of S = LLᵀ."""
        return float(self.cost @ (factor**2).sum(axis=1))

    def used(self, factor: Array) -> Array:
        """(p,): Σ S_kk of every person."""
        assert self.person is not None
        assert self.most is not None
        levels = (factor**2).sum(axis=1)
        return np.asarray(np.bincount(self.person, levels, len(self.most)), dtype=float)

    def feasible(self, factor: Array, budget: float = np.inf) -> Array:
        """L with rows shortened until every limit holds, in exact numbers and as computed."""
        factor = within_caps(factor, self.caps)
        margin = 1.0 - 4.0 * (factor.size + 4) * EPS
        if self.person is not None:
            assert self.most is not None
            used = self.used(factor)
            with np.errstate(divide="ignore", invalid="ignore"):
                part = np.where(used > margin * self.most, margin * self.most / used, 1.0)
            factor = factor * np.sqrt(part[self.person])[:, None]
        spent = self.spent(factor)
        return factor * np.sqrt(margin * budget / spent) if spent > margin * budget else factor


@dataclass(frozen=True, eq=False)
class JointPrices:
    """ν of the budget, y (m,) of caps and ν_P (p,) of persons: p_k = νc_k + y_k + ν_P."""

    budget: float
    caps: Array
    persons: Array

    def of(self, limits: JointLimits) -> Array:
        """p (m,)."""
        prices = self.budget * limits.cost + self.caps
        return prices if limits.person is None else prices + self.persons[limits.person]

    def held(self, limits: JointLimits) -> float:
        """Σ y_k u_k + Σ ν_P b_P."""
        finite = np.isfinite(limits.caps)
        total = float(self.caps[finite] @ limits.caps[finite])
        return total if limits.most is None else total + float(self.persons @ limits.most)


@dataclass(frozen=True, eq=False)
class JointProblem:
    """A model and a criterion in coordinates Rθ, R = `triangle`, with the limits of S.

    Floors are made in the user's own H: no rounding of the coordinates is in them.
    """

    model: LinearModel
    asked: Criterion
    limits: JointLimits
    triangle: Array

    @classmethod
    def of(
        cls, model: LinearModel, asked: Criterion, limits: JointLimits, unit: Array
    ) -> JointProblem:
        """R with RᵀR = PI at independent levels `unit`: the program's P is then near one."""
        root = private_root(model.matrix, Diagonal(unit), model.inverse_information)
        return cls(model, asked, limits, root.triangle)

    @cached_property
    def rows(self) -> Array:
        return np.ascontiguousarray(
            substitute(self.triangle, self.model.matrix.T, transposed=True).T
        )

    @cached_property
    def criterion(self) -> Scaled:
        return self.asked.scaled(self.triangle, self.model.names)

    @property
    def sigma(self) -> PSD:
        return self.model.inverse_information

    def value(self, factor: Array) -> float:
        """The criterion at S = LLᵀ, without its offset, by the kernel of the bounds."""
        return self.value_of(joint_level(factor))

    def value_of(self, level: PSD) -> float:
        """From the root of PI: a nearly singular PI keeps twice the digits."""
        root = private_root(self.rows, level, self.sigma)
        if root.rank < len(root.triangle):
            return self.criterion.value(root.information)
        return from_root(self.criterion, root.triangle)

    def witness(self, factor: Array) -> Witness | None:
        """What S itself says about how good it is."""
        root = private_root(self.rows, joint_level(factor), self.sigma)
        return self.criterion.witness(root.information)

    def tangents(self, factor: Array, witness: Witness) -> list[Tangent]:
        """Tangents of the witness at S; beside the plain one those with E = 0 below the caps."""
        release = joint_release(self.rows, self.sigma, factor)
        weights, shown = substitute(self.triangle, witness.factor), release.shown(witness.factor)
        matrix = self.model.matrix
        found = [Tangent.of(matrix, self.sigma, weights, shown)]
        part = (factor**2).sum(axis=1) / self.limits.caps
        for slack in SLACK if self.limits.limited else ():
            idle = np.flatnonzero(part < 1.0 - slack)
            found.append(without_slack(found[0], matrix, self.sigma, weights, shown, idle))
        return found

    def tangent(self, witness: Witness, shown: Array) -> Tangent:
        """The tangent of any witness and t."""
        weights = substitute(self.triangle, witness.factor)
        return Tangent.of(self.model.matrix, self.sigma, weights, shown)

    def ceiling(self, tangent: Tangent, prices: JointPrices, budget: float) -> float:
        """<ZZᵀ, PI(S)> is at most this for every S within the limits and the budget."""
        kappa, dearest, held = self._raised(tangent, prices)
        most = 0.0 if not np.isfinite(budget) else (kappa * prices.budget + dearest) * budget
        if not np.isfinite(budget) and (kappa * prices.budget + dearest) > 0:
            return np.inf
        return (tangent.base + kappa * prices.held(self.limits) + held + most) * self._up

    def least_cost(self, tangent: Tangent, prices: JointPrices, needed: float) -> float:
        """Σ c_k S_kk is at least this wherever <ZZᵀ, PI(S)> ≥ `needed`."""
        kappa, dearest, held = self._raised(tangent, prices)
        price = kappa * prices.budget + dearest
        if not 0 < price < np.inf:
            return 0.0
        rest = tangent.base + kappa * prices.held(self.limits) + held
        return max((needed - rest * self._up) / (price * self._up), 0.0)

    def _raised(self, tangent: Tangent, prices: JointPrices) -> tuple[float, float, float]:
        """(κ, ν, Σ): prices times κ, ν more on the budget and Σ more for the caps prove it."""
        kappa, extra = tangent.scale(prices.of(self.limits), self.limits.blocks)
        capped = np.isfinite(self.limits.caps)
        held = float(extra[capped] @ self.limits.caps[capped])
        dearest = float((extra / self.limits.cost).max(initial=0.0, where=~capped))
        return kappa, dearest, held

    @property
    def _up(self) -> float:
        return 1.0 + rounding(len(self.rows))


def from_root(criterion: Scaled, triangle: Array) -> float:
    """f(RᵀR) from R of full rank."""
    if isinstance(criterion, LogDet):
        return -2.0 * float(np.log(np.abs(np.diagonal(triangle))).sum())
    return _from_rows(criterion, lambda B: substitute(triangle, B, transposed=True))


def from_covariance(criterion: Scaled, covariance: Array) -> float:
    """f(Σ⁻¹) from Σ ≥ 0, which may be singular: directions that are known exactly."""
    if isinstance(criterion, LogDet):
        sign, size = np.linalg.slogdet(covariance)
        return float(size) if sign > 0 else -np.inf
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    half = vectors * np.sqrt(np.maximum(values, 0.0))
    return _from_rows(criterion, lambda B: half.T @ B)


def _from_rows(criterion: Scaled, rows: Callable[[Array], Array]) -> float:
    """f from B ↦ X with XᵀX = BᵀM⁻¹B."""
    if isinstance(criterion, Least):
        values, vectors = np.linalg.eigh(criterion.weight)
        columns = vectors * np.sqrt(np.maximum(values, 0.0))
        return float(np.linalg.norm(rows(columns), 2)) ** 2
    assert isinstance(criterion, Trace | Largest)
    columns = criterion.root if isinstance(criterion, Trace) else criterion.columns
    each = (rows(columns) ** 2).sum(axis=0)
    return float(each.sum() if isinstance(criterion, Trace) else each.max())
