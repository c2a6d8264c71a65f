"""The Bayesian privacy-preserving bound Σ_BPPCR, batch form (section on dynamic models)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privest.arrays import Array, ArrayLike, Flags
from privest.bounds._classical import Floor, in_range, level_for, local_model
from privest.errors import InvalidInput, LevelBelowPrior
from privest.linalg import PSD, Blocks, loewner, psd, require_range, root_of_rows, whitening
from privest.linalg.batched import cholesky, solve_lower
from privest.linalg.tolerances import condition, inverse_rounding
from privest.model import LinearModel
from privest.privacy import PrivacyLevel
from privest.records import standard_errors


@dataclass(frozen=True, eq=False)
class BayesianBound(Floor):
    """The floor on the mean-square error matrix when θ has a prior.

    bppcrlb                    Σ_BPPCR (n, n).
    classical                  Σ_BCR, the same with the readings themselves, without privacy.
    prior_covariance           the error matrix of knowing the prior only.
    measurement_information    J_Y (m, m): what the prior alone tells about the readings.
    extra_level                S − J_Y (m, m): what a mechanism may add.
    names                      of the parameters.
    """

    bppcrlb: Array
    classical: Array
    prior_covariance: Array
    measurement_information: Array
    extra_level: Array
    names: tuple[str, ...]

    DERIVED: ClassVar[tuple[str, ...]] = ("standard_error", "classical_error")

    @property
    def standard_error(self) -> Array:
        """√diag Σ_BPPCR."""
        return standard_errors(self.bppcrlb)

    def __repr__(self) -> str:
        private, without = np.trace(self.bppcrlb), np.trace(self.classical)
        return (
            f"BayesianBound({len(self.bppcrlb)} parameters, trace {private:.4g}, "
            f"without privacy {without:.4g}, prior alone {np.trace(self.prior_covariance):.4g})"
        )


def bayesian_bound(
    model: LinearModel, level: PrivacyLevel | ArrayLike, prior_cov: ArrayLike
) -> BayesianBound:
    """How well can a random θ be estimated when everything known of Y stays below S?

        Σ_BPPCR = (Hᵀ L(LᵀΣL + I)⁻¹Lᵀ H + J_θ)⁻¹ ,   L Lᵀ = S − J_Y ,   J_Y = (HPHᵀ + Σ)⁻¹

    Symbols: `prior_cov` P (n, n), θ ~ N(·, P), singular allowed (then J_θ = P⁻¹ does not exist and
    the bound is the limit); Σ = I_y⁻¹ of the model; `level` is S in BI_z(Y) ≤ S, which counts the
    prior's own information J_Y about the readings.
    Assumes Gaussian prior and Gaussian noise (J_Y is then exact); for other priors see
    `bayesian_bound_from_information`.
    Mind: this S counts what the prior and the noise law tell by themselves. With more readings
    than parameters it must be at least Σ⁻¹ in the directions that Hθ cannot reach, however vague
    the prior is; the level of `bound` counts the release only.
    Attained by the Gaussian mechanism with level S − J_Y and the posterior mean.
    Raises LevelBelowPrior, naming the direction, if S − J_Y is not ≥ 0: then no mechanism exists,
    not even silence. Nothing is clipped beyond rounding.
    Numerics: θ = Bξ with P = BBᵀ makes the prior n extra rows [G; I] of the kernel: no difference
    of large matrices, P may be singular. m³ flops: J_Y is dense.
    Source: Σ_BPPCR of the section on dynamic models.

    >>> from privest.noise import Gaussian
    >>> model = LinearModel([[1.0]], noise=Gaussian(cov=1.0))
    >>> b = bayesian_bound(model, PrivacyLevel(1.5), prior_cov=1.0)
    >>> b.extra_level.round(12).tolist()  # S − 1/(1 + 1)
    [[1.0]]
    >>> b.bppcrlb.round(12).tolist()  # 1/(1 + 1/(1 + 1))
    [[0.666666666667]]
    """
    local = in_range(local_model(model))
    if not local.noise.gaussian:
        raise InvalidInput(
            "bayesian_bound needs Gaussian noise: for other laws J_Y is not (HPHᵀ + Σ)⁻¹. Use "
            "bayesian_bound_from_information with the J_Y of your marginal density."
        )
    n = local.parameters
    prior = psd(prior_cov, "the prior covariance", size=n)
    root = prior.times_factor(np.eye(n))
    root = root[:, root.any(axis=0)]
    reduced = local.matrix @ root
    sigma = local.inverse_information
    known, spread = _marginal(reduced, sigma)
    extra = _extra_level(level_for(level, local), known)
    return BayesianBound(
        bppcrlb=_posterior(whitening(extra, sigma).rows(reduced), root),
        classical=_symmetric(root @ spread @ root.T),
        prior_covariance=prior.dense(),
        measurement_information=known,
        extra_level=extra.dense(),
        names=model.names,
    )


def _marginal(reduced: Array, sigma: PSD) -> tuple[Array, Array]:
    """J_Y = (H'H'ᵀ + Σ)⁻¹ and (I − H'ᵀJ_YH'), the posterior of ξ ~ N(0, I), H' = HB.

    In units of the noise, with H' = U diag(s) Vᵀ and all left and right singular vectors:
    J_Y = U diag(1/(1 + s²)) Uᵀ, sums of squares that keep their digits however vague the prior is.
    Where Σ is singular, or worse conditioned than the sum, the Cholesky factor of the sum does.
    """
    unit, total = _noise_whitener(sigma), sigma.dense() + reduced @ reduced.T
    spread = None
    if unit is not None:
        left, values, right = np.linalg.svd(unit @ reduced)
        seen, known = np.zeros(len(left)), np.zeros(len(right))
        seen[: len(values)] = known[: len(values)] = values
        half, rest = (left / np.hypot(1.0, seen)).T @ unit, right / np.hypot(1.0, known)[:, None]
        spread = rest.T @ rest
        if sigma.pointwise is not None or condition(sigma.dense()) <= condition(total):
            return half.T @ half, spread
    lower = cholesky(total[None])
    if lower is None:
        raise LevelBelowPrior(
            "The prior and the noise leave some combination of the readings without any "
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


def bayesian_bound_from_information(
    model: LinearModel, level: PrivacyLevel | ArrayLike, prior_information: ArrayLike,
    measurement_information: ArrayLike,
) -> BayesianBound:  # fmt: skip
    """Σ_BPPCR for any prior, from J_θ (n, n) > 0 and J_Y (m, m) as defined in `def:prior`.

    Both are the caller's promise: J_θ = E[(∂ ln f_θ)(∂ ln f_θ)ᵀ] and J_Y the same for the marginal
    density of Y. The result is a lower bound (Jensen), not attained in general.
    """
    n = in_range(local_model(model)).parameters
    information = psd(prior_information, "the prior information", size=n).dense()
    known = psd(measurement_information, "the measurement information", size=model.readings).dense()
    lower = cholesky(information[None])
    if lower is None:
        raise InvalidInput(
            "the prior information must be positive definite; for a prior with exactly known "
            "parameters use bayesian_bound with a singular covariance."
        )
    root = solve_lower(lower, np.eye(n)[None])[0].T  # J_θ⁻¹ = root rootᵀ
    reduced = model.matrix @ root
    sigma = model.inverse_information
    extra = _extra_level(level_for(level, model), known)
    unit = _noise_whitener(sigma)
    if unit is None:
        raise InvalidInput("the noise must not be singular here; use bayesian_bound.")
    return BayesianBound(
        bppcrlb=_posterior(whitening(extra, sigma).rows(reduced), root),
        classical=_posterior(unit @ reduced, root),
        prior_covariance=root @ root.T,
        measurement_information=known,
        extra_level=extra.dense(),
        names=model.names,
    )


def _extra_level(level: PSD, known: Array) -> Blocks:
    """S − J_Y as a structured level."""
    revealed = "the prior and the known noise law reveal"
    factor, _ = above_prior(level.dense(), known, revealed, "y[{0}]".format)
    return Blocks([factor @ factor.T], [factor])


def above_prior(
    level: Array, known: Array, revealed: str, name: Callable[[int], str]
) -> tuple[Array, Flags]:
    """F with FFᵀ = S − J_Y, and which of its columns are not zero, or LevelBelowPrior.

    Decided for readings in the units 1/√J_Y,kk, so that their own units do not matter. J_Y is an
    inverse: whoever adds to it knows it up to (1 ± tol) J_Y only, tol = 10·m·eps times its
    condition number in these units (`inverse_rounding`), so of an S that is not diagonal (one that
    was computed) S ≥ (1 − tol) J_Y is asked for.
    The error says what was `revealed` before, and the violated direction in the names of the
    readings.
    """
    own = np.diagonal(known)
    unit = 1.0 / np.sqrt(np.where(own > 0, own, 1.0))
    with np.errstate(over="ignore"):
        total, prior = level * unit * unit[:, None], known * unit * unit[:, None]
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
            f"The level asks for less than {revealed} about the readings before anything is "
            f"released: S − J_Y is negative in the direction {listed}"
            f"{' + …' if len(direction) > 5 else ''}. No mechanism satisfies it, not even silence. "
            f"A level s·I must have s ≥ {np.linalg.eigvalsh(known)[-1]:.6g} here."
        )
    values, vectors = np.linalg.eigh(_symmetric(total - prior))
    kept = values > order.tolerance + lost * np.linalg.norm(prior, 2)
    return vectors * np.sqrt(np.where(kept, values, 0.0)) / unit[:, None], kept


def _posterior(rows: Array, root: Array) -> Array:
    """B (GᵀG + I)⁻¹ Bᵀ by QR of the stacked rows."""
    n = root.shape[1]
    if n == 0:  # θ is known
        return np.zeros((len(root), len(root)))
    inner = root_of_rows(np.concatenate([rows, np.eye(n)])).inverse()
    return _symmetric(root @ inner @ root.T)


def _symmetric(matrix: Array) -> Array:
    return (matrix + matrix.T) / 2
