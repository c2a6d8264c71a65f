"""The privacy-preserving Cramér-Rao lower bound and its cost (`thm:crbound`, `coro:PPCR`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from privest.arrays import Array, ArrayLike
from privest.bounds._classical import (
    Floor,
    Identifiability,
    classical_bound,
    in_range,
    level_for,
    local_model,
    require_seen,
    verdict,
)
from privest.errors import NotIdentifiable, NumericalFailure
from privest.linalg import (
    InformationRoot,
    level_root,
    pointwise_weight,
    private_root,
    weighted_roots,
)
from privest.model import LinearModel, NonlinearModel
from privest.privacy import PrivacyLevel
from privest.records import plain


@dataclass(frozen=True, eq=False)
class Bound(Floor):
    """The floor on the error covariance of any unbiased estimate under any admissible mechanism.

    information       PI, (n, n): the privacy-preserving Fisher information matrix.
    classical         Σ_CR, (n, n): the bound without privacy.
    ppcrlb            Σ_PPCR = PI⁻¹, (n, n): the bound under the level.
    privacy_cost      Σ_PPCR − Σ_CR: what privacy costs; a difference, so where privacy is weak it
                      has the absolute, not the relative, accuracy of the two.
    cost_floor        (HᵀSH)⁻¹ ≤ privacy_cost (`coro:PPCR`), whatever the noise.
    identifiable      whether ppcrlb exists; `identifiability` says what is hidden if not.
    constraint        "pointwise": I_z(y) ≤ S for every y; "average": E I_z(y) ≤ S only.
    names             of the parameters.

    ppcrlb, privacy_cost, cost_floor and standard_error raise NotIdentifiable where they do not
    exist.
    """

    information: Array
    classical: Array
    identifiability: Identifiability
    constraint: Literal["pointwise", "average"]
    _ppcrlb: Array | None
    _cost_floor: Array | None

    @property
    def names(self) -> tuple[str, ...]:
        return self.identifiability.names

    @property
    def identifiable(self) -> bool:
        return self.identifiability.identifiable

    @property
    def ppcrlb(self) -> Array:
        return self._existing(self._ppcrlb)

    @property
    def cost_floor(self) -> Array:
        return self._existing(self._cost_floor)

    @property
    def privacy_cost(self) -> Array:
        return self.ppcrlb - self.classical

    def _existing(self, matrix: Array | None) -> Array:
        if matrix is None:
            raise NotIdentifiable(
                f"There is no finite bound: {self.identifiability.explain()}.",
                self.identifiability.hidden_directions,
            )
        return matrix

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, for JSON. Where there is no bound: None."""
        found = self.identifiability
        always = ("names", "identifiable", "constraint", "information", "classical",
                  "classical_error")  # fmt: skip
        existing = ("ppcrlb", "privacy_cost", "cost_floor", "standard_error")
        return {
            **{name: plain(getattr(self, name)) for name in always},
            **{name: plain(getattr(self, name)) if found else None for name in existing},
            "rank": found.rank,
            "hidden_directions": plain(found.hidden_directions),
            "unseen_directions": plain(found.unseen_directions),
            "readings_to_reveal": plain(found.readings_to_reveal),
        }

    def __repr__(self) -> str:
        n = len(self.information)
        if not self.identifiable:
            return f"Bound({n} parameters, {self.identifiability.explain()})"
        private, without = np.trace(self.ppcrlb), np.trace(self.classical)
        return f"Bound({n} parameters, trace {private:.4g}, without privacy {without:.4g})"


def bound(
    model: LinearModel | NonlinearModel, level: PrivacyLevel | ArrayLike,
    theta: ArrayLike | None = None,
) -> Bound:  # fmt: skip
    """What accuracy is possible at all under the level, and what does privacy cost?

        Σ_PPCR = (Hᵀ L (LᵀΣL + I)⁻¹ Lᵀ H)⁻¹ ,   S = L Lᵀ ,  Σ = (I_y(Hθ))⁻¹
        Σ_PPCR ≥ Σ_CR + (HᵀSH)⁻¹                          (equality when H is square)

    Symbols: `model` holds H (m, n) and the law of w, `level` is S, or what makes one (a number, a
    vector, a matrix); `theta` is needed by a nonlinear
    model, where H = F'(θ) and the bound is for unbiased estimates near that θ.
    Assumes a continuous noise density that does not depend on θ (`assum:w0`).
    Guarantees: E(θ̂ − θ)(θ̂ − θ)ᵀ ≥ Σ_PPCR in the PSD order, for every mechanism with
    I_z(y) ≤ S and every unbiased θ̂(z).
    Attained by the Gaussian mechanism z = Sy + d, d ~ N(0, S), with least squares, if w is
    Gaussian (`thm:opt`); not attained exactly for other noise.
    Raises NotIdentifiable if H does not determine θ even without privacy. If only the level hides
    something, the result says so (`.identifiable`, `.identifiability`).
    Numerics: no inverse of S, no jitter; see `privest.linalg._whitening`. One pass over H for
    diagonal S and Σ, two m×m Choleskys for dense S and diagonal Σ.
    Source: `thm:crbound` in the whitened form, by `lemma:PPCR_S`; `coro:PPCR`.

    >>> from privest.noise import Gaussian
    >>> b = bound(LinearModel([[2.0]], noise=Gaussian(cov=0.5)), 4.0)
    >>> [float(x[0, 0].round(12)) for x in (b.classical, b.ppcrlb, b.cost_floor)]
    [0.125, 0.1875, 0.0625]
    """
    local = in_range(local_model(model, theta))
    matrix, sigma = local.matrix, local.inverse_information
    s = level_for(level, local)
    weight, variance = s.pointwise, sigma.pointwise
    if weight is not None and variance is not None and np.min(variance) > 0:
        # All three information matrices in one pass over H.
        weights = [pointwise_weight(weight, variance), weight, 1.0 / variance, 1.0]
        private, allowed, open_root, seen = weighted_roots(matrix, weights)
        require_seen(local, seen)
        classical = open_root.inverse(graded=True)
    else:
        classical = classical_bound(local)
        private, allowed = private_root(matrix, s, sigma), level_root(matrix, s)
    found = verdict(local, allowed)
    return Bound(
        information=private.information,
        classical=classical,
        identifiability=found,
        constraint="pointwise",
        _ppcrlb=inverse_information(private) if found.identifiable else None,
        _cost_floor=inverse_information(allowed) if found.identifiable else None,
    )


def averaged_bound(
    model: LinearModel | NonlinearModel, level: PrivacyLevel | ArrayLike,
    theta: ArrayLike | None = None,
) -> Bound:  # fmt: skip
    """The same floor when only the average E[I_z(y) | θ] ≤ S is promised.

    The number is that of `bound`: the proof uses only the average (`ineq:ES`). The promise is
    weaker: for some y the release may carry far more than S, and those y are exposed. The result is
    marked `constraint="average"` so that the two are not confused.
    Source: the remark after `thm:crbound` on averaged constraints.
    """
    return replace(bound(model, level, theta), constraint="average")


def inverse_information(root: InformationRoot) -> Array:
    """PI⁻¹ from the root of PI, where θ is identifiable."""
    try:
        return root.inverse()
    except NotIdentifiable:
        raise NumericalFailure(
            "θ is identifiable under this level, but the information matrix is too ill-conditioned "
            f"to invert in double precision (condition {root.condition:.2g} of its root). "
            "Rescale or drop nearly dependent parameters."
        ) from None
