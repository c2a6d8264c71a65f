"""Noise drawn jointly, under a cap for every reading: much better, for a weaker promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, require_scales
from privest.bounds._classical import classical_bound, in_range, local_model
from privest.design._allocation import Allocation
from privest.design._criteria import A, weight_factor
from privest.design._joint._caps import JointOptimum, best_under_caps, seen
from privest.design._joint._release import joint_level
from privest.errors import InvalidInput, MissingDependency, NotIdentifiable, NumericalFailure
from privest.linalg import PSD, Diagonal, private_root
from privest.linalg.batched import substitute
from privest.model import LinearModel
from privest.records import plain

TOLERANCE = 1e-6
PROGRAM = 200  # readings up to which the program is tried where the descent is not close enough


class CorrelatedAllocation(Allocation):
    """The level that jointly drawn noise makes possible; an `Allocation` with direction "caps".

    caps         (m,): S_kk ≤ e_k, what was promised of each reading by itself.
    factor       L (m, r), S = LLᵀ: what is released is Lᵀy + N(0, I), r numbers, r ≤ n.
    value        tr WΣ at S; `floor`: no S ≥ 0 with these caps is below it.
    independent  tr WΣ of the best independent noise with the same caps: S = diag(e).
    classical    tr WΣ without any privacy.
    gain         independent/value; `privacy_gain`: the same of the parts above `classical`.
    prices       (m,): −d value/d e_k, what raising a cap would take off the value.
    spent, asked Σ S_kk and Σ e_k; there is no budget and so no `price` (NaN).
    """

    caps: Array
    factor: Array
    independent: float
    classical: float
    prices: Array

    @property
    def gain(self) -> float:
        return self.independent / self.value

    @property
    def privacy_gain(self) -> float:
        extra = self.value - self.classical
        return (self.independent - self.classical) / extra if extra > 0 else np.inf

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON; with L, which is the level."""
        own = ("caps", "independent", "classical", "gain", "privacy_gain", "prices", "factor")
        return {**super().to_dict(), **{name: plain(getattr(self, name)) for name in own}}

    def explain(self) -> str:
        """What was found, how sure it is, and which promise it is."""
        sure = (
            f"Proved: no noise at all that keeps these caps has a value below {self.floor:.6g} "
            f"(gap {self.gap:.1e}; {self.method}, {self.iterations} steps)."
        )
        if not self.certified:
            sure += f" NOT as close as {self.tolerance:.0e}."
        return "\n".join([
            f"Made small: {self.criterion.words()}. It is {self.value:.6g} with noise drawn "
            f"jointly for all {len(self.caps)} readings; independent noise with the same caps has "
            f"{self.independent:.6g}, {self.gain:.4g} times as much (of what privacy adds: "
            f"{self.privacy_gain:.4g} times).",
            sure,
            f"Released: {self.factor.shape[1]} numbers Lᵀy + noise, not one for each reading.",
            "The promise is of each reading by itself: whoever knows all the OTHER readings learns "
            "reading k to information S_kk ≤ its cap. It is NOT the joint promise I_z ≤ "
            "diag(caps), which independent noise keeps: a combination of readings is shown far "
            f"better (the largest eigenvalue of S is {self._largest():.4g}, the largest cap "
            f"{self.caps.max():.4g}).",
            "It needs one trusted curator who sees every reading and draws the noise jointly; "
            "people who add noise to their own reading cannot keep it.",
        ])  # fmt: skip

    def _largest(self) -> float:
        return float(np.linalg.norm(self.factor, 2)) ** 2

    def __repr__(self) -> str:
        return (
            f"CorrelatedAllocation({len(self.caps)} readings, rank {self.factor.shape[1]}, value "
            f"{self.value:.6g}, independent {self.independent:.6g}, gap {self.gap:.1e})"
        )


def correlated(
    model: LinearModel, caps: ArrayLike, weight: ArrayLike | None = None
) -> CorrelatedAllocation:
    """The most accurate release if only every reading by itself is limited: S_kk ≤ e_k.

        minimise tr W Σ_PPCR(S)   over S ≥ 0 of any shape with S_kk ≤ e_k

    Symbols: `caps` e (a number, or one for each reading; 0: never shown), `weight` W (n, n) ≥ 0 or
    its diagonal, the identity if not given.
    Assumes one trusted curator, who sees all readings and draws the noise jointly, and people who
    accept a promise of each reading by itself: under the joint promise I_z ≤ diag(e) independent
    noise is as good as any (`bound(model, caps)`). `explain()` says it.
    Guarantees: the caps hold to the letter; `floor` is below the value of every S with these caps.
    A gap above 1e-6 is possible for hard problems (caps and variances over many orders), and said.
    The level has rank ≤ n: a release is n numbers, by the ordinary Gaussian mechanism.
    Any covariance of the noise, also singular.
    Numerics: descent in a factor of n + 1 columns, then n (`_descent`), with a proof that
    does not depend on it (`_floor`); where that leaves a gap, up to 200 readings, the program
    of `allocate(shape="full")` if the extra `design` is there. O(mn²) a step, m² memory.
    Source: docs/design.md; for n = 1, equal caps and no measurement noise the gain is
    (Σ|h_k|)²/Σh_k², for normal h_k about 2m/π.

    >>> model = LinearModel([[1.0], [1.0], [1.0], [1.0]], noise=1.0)
    >>> found = correlated(model, 1.0)
    >>> round(found.value, 6), round(found.independent, 6)  # (1 + 1/4)/4 against (1 + 1)/4
    (0.3125, 0.5)
    >>> found.levels.round(6).tolist(), found.rank
    ([1.0, 1.0, 1.0, 1.0], 1)
    """
    local = in_range(local_model(model))
    limits = _caps(caps, local.readings)
    sigma, names = local.inverse_information, local.names
    asked = A(weight)
    targets = weight_factor(asked.weight, local.parameters)
    best = best_under_caps(local.matrix, sigma, targets, limits, names, local.accuracy)
    value = value_at(local, targets, limits, joint_level(best.factor))
    if value - best.floor > TOLERANCE * value and np.count_nonzero(limits) <= PROGRAM:
        best = _refined(local, asked, limits, best)
        value = value_at(local, targets, limits, joint_level(best.factor))
    # The classical bound in coordinates that exist also where some parameters are hidden.
    whole = seen(local.matrix, 1.0, targets, names, local.accuracy)
    classical = classical_bound(LinearModel(whole.rows, noise=local.noise))
    independent = value_at(local, targets, limits, Diagonal(limits))
    return CorrelatedAllocation(
        joint_level(best.factor), local, asked,
        direction="caps", value=value, floor=min(best.floor, value),
        gap=max((value - best.floor) / value, 0.0), tolerance=TOLERANCE,
        spent=float((best.factor**2).sum()), asked=float(limits.sum()), price=np.nan,
        iterations=best.steps, method=best.method,
        equal=independent, independent=independent,
        classical=float(np.trace(whole.targets.T @ classical @ whole.targets)),
        caps=limits, factor=best.factor, prices=best.prices,
    )  # fmt: skip


def _refined(model: LinearModel, asked: A, caps: Array, best: JointOptimum) -> JointOptimum:
    """The better L and the higher floor, if the program (extra `design`) can be solved."""
    from privest.design._joint._full import full_caps

    try:
        factor, floor, steps = full_caps(model, asked, caps)
    except (MissingDependency, NotIdentifiable, NumericalFailure):
        return best
    targets = weight_factor(asked.weight, model.parameters)
    value = value_at(model, targets, caps, joint_level(factor))
    kept = factor if value < best.value else best.factor
    method = f"{best.method}, then a semidefinite program"
    return replace(
        best, factor=kept, value=min(value, best.value), floor=max(floor, best.floor),
        steps=best.steps + steps, method=method,
    )  # fmt: skip


def value_at(model: LinearModel, targets: Array, caps: Array, level: PSD) -> float:
    """tr BᵀPI⁻¹B at a level, by the kernel of the bounds, in coordinates that the caps show."""
    shown = np.flatnonzero(caps > 0)
    found = seen(model.matrix[shown], caps[shown], targets, model.names, model.accuracy)
    root = private_root(model.matrix @ found.lift, level, model.inverse_information)
    return float((substitute(root.triangle, found.targets, transposed=True) ** 2).sum())


def _caps(given: ArrayLike, m: int) -> Array:
    caps = as_array(given, "caps", ndim=(0, 1))
    if caps.ndim == 1 and len(caps) != m:
        raise InvalidInput(f"caps are one number or one for each of {m} readings; received shape "
                           f"{caps.shape}.")  # fmt: skip
    if (caps < 0).any():
        raise InvalidInput("caps must be ≥ 0 (0: that reading is never shown).")
    require_scales(caps, "caps")
    return np.broadcast_to(caps, (m,)).astype(float)
