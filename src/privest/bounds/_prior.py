"""Bounds with a prior θ ~ N(·, P): Σ_BPPCR, J_Y, and levels that count the prior."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from privest.arrays import Array, ArrayLike, Flags
from privest.bounds._bound import Bound, Kind, LinearBound
from privest.bounds._classical import in_range, level_for, local_model
from privest.errors import InvalidInput, LevelBelowPrior
from privest.linalg import PSD, Blocks, loewner, psd, require_range, root_of_rows, whitening
from privest.linalg.batched import cholesky, solve_lower
from privest.linalg.tolerances import condition, inverse_rounding
from privest.model import LinearModel
from privest.privacy import PrivacyLevel


class PriorBound(LinearBound):
    """Σ_BPPCR = (PI + P⁻¹)⁻¹; θ = Bξ with P = BBᵀ of any rank: the prior is extra rows [G; I]."""

    kind: Kind = "bayesian"

    def __init__(self, model: LinearModel, level: PSD, prior: ArrayLike) -> None:
        super().__init__(model, level)
        self.prior, self._root = _prior(model, prior)
        self._reduced = model.matrix @ self._root

    @property
    def identifiable(self) -> bool:
        return True

    @cached_property
    def covariance(self) -> Array:
        rows = whitening(self._level, self._model.inverse_information).rows(self._reduced)
        n = self._root.shape[1]
        if n == 0:  # θ is known
            return np.zeros(self.prior.shape)
        inner = root_of_rows(np.concatenate([rows, np.eye(n)])).inverse()
        return _symmetric(self._root @ inner @ self._root.T)

    @cached_property
    def classical(self) -> Array:
        spread = _marginal(self._reduced, self._model.inverse_information)[1]
        return _symmetric(self._root @ spread @ self._root.T)

    @property
    def cost_floor(self) -> Array:
        raise InvalidInput("cost_floor is for unbiased estimates (`coro:PPCR`), without a prior.")

    contrast = Bound.contrast


def prior_information(
    model: object, *, prior: ArrayLike | None = None, steps: int | None = None
) -> Array:
    """J_Y = (HPHᵀ + Σ)⁻¹, (m, m): the information of the prior about y (`def:prior`).

    `prior` P of a linear model; `steps` K of a `dynamics.StateSpace`, (Km, Km).

    >>> from privest.noise import Gaussian
    >>> model = LinearModel([[1.0]], noise=Gaussian(cov=1.0))
    >>> prior_information(model, prior=1.0).round(12).tolist()
    [[0.5]]
    """
    if hasattr(model, "__prior_information__"):
        return np.asarray(model.__prior_information__(steps))
    local = in_range(local_model(model))
    if prior is None:
        raise InvalidInput("a linear model has no prior of its own: prior=P.")
    if not local.noise.gaussian:
        raise InvalidInput("J_Y = (HPHᵀ + Σ)⁻¹ is that of Gaussian noise.")
    _, root = _prior(local, prior)
    return _marginal(local.matrix @ root, local.inverse_information)[0]


def release_level(
    model: object, total: PrivacyLevel | ArrayLike, *, prior: ArrayLike | None = None,
    steps: int | None = None, lookback: bool = True,
) -> Any:  # fmt: skip  # noqa: ANN401
    """S − J_Y: what a release may add so that everything known of Y stays below S = `total`.

    The paper's BI_z(Y) ≤ S: the total counts what the prior and the noise reveal by themselves.
    A PrivacyLevel of a linear model with a `prior`; a dense StreamLevel of a `dynamics.StateSpace`
    for `steps` K (`lookback=False`: the lower S − R⁻¹ of a stream that may have no end).
    Raises LevelBelowPrior, naming the direction, if S − J_Y is not ≥ 0: no mechanism exists.

    >>> from privest.noise import Gaussian
    >>> model = LinearModel([[1.0]], noise=Gaussian(cov=1.0))
    >>> level = release_level(model, 1.5, prior=1.0)  # S − 1/(1 + 1)
    >>> level.dense().round(12).tolist()
    [[1.0]]
    """
    if hasattr(model, "__release_level__"):
        return model.__release_level__(total, steps, lookback=lookback)
    local = in_range(local_model(model))
    known = prior_information(local, prior=prior)
    revealed = "the prior and the known noise reveal"
    factor, _ = above_prior(level_for(total, local).dense(), known, revealed, "y[{0}]".format)
    return PrivacyLevel.from_matrix(Blocks([factor @ factor.T], [factor]))


def _prior(model: LinearModel, prior: ArrayLike) -> tuple[Array, Array]:
    """P (n, n), and B with P = BBᵀ without zero columns."""
    n = model.parameters
    matrix = psd(prior, "the prior covariance", size=n)
    root = matrix.times_factor(np.eye(n))
    return matrix.dense(), root[:, root.any(axis=0)]


def _marginal(reduced: Array, sigma: PSD) -> tuple[Array, Array]:
    """J_Y = (H'H'ᵀ + Σ)⁻¹ and the posterior I − H'ᵀJ_YH' of ξ ~ N(0, I), H' = HB.

    In units of the noise J_Y = U diag(1/(1 + s²)) Uᵀ, H' = U diag(s) Vᵀ. Where Σ is singular, or
    worse conditioned than the sum, the Cholesky factor of the sum.
    """
    unit = _noise_whitener(sigma)
    total = sigma.dense() + reduced @ reduced.T
    spread = None
    if unit is not None:
        left, values, right = np.linalg.svd(unit @ reduced)
        seen = np.zeros(len(left))
        known = np.zeros(len(right))
        seen[: len(values)] = known[: len(values)] = values
        half = (left / np.hypot(1.0, seen)).T @ unit
        rest = right / np.hypot(1.0, known)[:, None]
        spread = rest.T @ rest
        if sigma.pointwise is not None or condition(sigma.dense()) <= condition(total):
            return half.T @ half, spread
    lower = cholesky(total[None])
    if lower is None:
        raise LevelBelowPrior(
            "The prior and the noise leave some combination of the measurements without any "
            "uncertainty (HPHᵀ + Σ is singular): the prior alone exceeds every finite level."
        )
    whitener = solve_lower(lower, np.eye(sigma.size)[None])[0]
    gain = whitener @ reduced
    own = np.eye(reduced.shape[1]) - gain.T @ gain if spread is None else spread
    return whitener.T @ whitener, own


def _noise_whitener(sigma: PSD) -> Array | None:
    """R⁻¹ with Σ = RRᵀ, or None if Σ is singular."""
    size = np.eye(sigma.size)
    if sigma.pointwise is not None:
        variance = sigma.diagonal()
        return size / np.sqrt(variance)[:, None] if (variance > 0).all() else None
    lower = cholesky(sigma.dense()[None])
    return None if lower is None else solve_lower(lower, size[None])[0]


def above_prior(
    level: Array, known: Array, revealed: str, name: Callable[[int], str]
) -> tuple[Array, Flags]:
    """F with FFᵀ = S − J_Y, and which of its columns are not zero, or LevelBelowPrior.

    Decided in the units 1/√J_Y,kk. J_Y is known up to (1 ± tol) J_Y (`inverse_rounding`): an S that
    is not diagonal, hence computed, must be ≥ (1 − tol) J_Y. The error says what was `revealed`
    before, and names the violated direction.
    """
    own = np.diagonal(known)
    unit = 1.0 / np.sqrt(np.where(own > 0, own, 1.0))
    with np.errstate(over="ignore"):
        total = level * unit * unit[:, None]
        prior = known * unit * unit[:, None]
    require_range(total + prior, "the level and what is known before, together,")
    typed = np.count_nonzero(level) == np.count_nonzero(level.diagonal())
    lost = 0.0 if typed else inverse_rounding(prior)
    order = loewner((1.0 - lost) * prior, total)
    if not order:
        direction = order.direction * unit
        direction /= np.linalg.norm(direction)
        strongest = np.argsort(-np.abs(direction))[:5]
        listed = ", ".join(f"{direction[k]:+.2f}·{name(int(k))}" for k in strongest)
        raise LevelBelowPrior(
            f"The level asks for less than {revealed} about the measurements before anything is "
            f"released: S − J_Y is negative in the direction {listed}"
            f"{' + …' if len(direction) > 5 else ''}. No mechanism satisfies it, not even silence. "
            f"A level s·I must have s ≥ {np.linalg.eigvalsh(known)[-1]:.6g} here."
        )
    values, vectors = np.linalg.eigh(_symmetric(total - prior))
    kept = values > order.tolerance + lost * np.linalg.norm(prior, 2)
    return vectors * np.sqrt(np.where(kept, values, 0.0)) / unit[:, None], kept


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.T) / 2
