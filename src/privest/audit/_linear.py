"""Attackers on a linear release with Gaussian noise: everything in closed form."""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import Array
from privest.audit._attack import NOT_SHOWN, Attack, Errors, Prior
from privest.audit._floors import inverse_root, unbiased_floors
from privest.mechanism._vector import Mechanism


def attack_linear(
    mechanism: Mechanism,
    S: Array,
    y: Array,
    floors: Array | None,
    prior: Prior | None,
    trials: int,
    rng: np.random.Generator,
) -> list[Attack]:
    """One attack a reading on ln p(z|y) = pᵀy − ½yᵀSy + const, where p = score(z|0) is sufficient.

    best unbiased     ŷ = S⁺p (generalised least squares), of variance e_iᵀS⁺e_i; it exists for the
                      readings with e_i in the range of S.
    posterior mean    (S + I/v)⁻¹(p + μ/v), of variance [(S + I/v)⁻¹]_ii, which is van Trees' bound
    S may be dense and singular. Cost: m³, and m² a trial.
    """
    m = y.size
    root, _ = inverse_root(S)
    mine = unbiased_floors(np.eye(m), S)
    z = mechanism.simulate(y, rng, trials=trials)
    guess = _sufficient(mechanism, z) @ root @ root.T
    shown = np.isfinite(mine)
    likelihood = [Errors.of(guess[:, i], float(y[i])) if shown[i] else None for i in range(m)]
    bayesian: list[Errors | None] = [None] * m
    averaged: list[Errors | None] = [None] * m
    bounds: list[float | None] = [None] * m
    if prior is not None:
        mean, variance = prior
        # In units of the prior: S·v + I has no eigenvalue below 1.
        factor = np.linalg.cholesky(S * variance + np.eye(m))
        inverse = np.linalg.inv(factor)
        covariance = variance * inverse.T @ inverse

        def posterior(z: Array) -> Array:
            return (_sufficient(mechanism, z) + mean / variance) @ covariance

        drawn = rng.normal(mean, math.sqrt(variance), (trials, m))
        seen = posterior(mechanism.simulate(drawn, rng))
        here = posterior(z)
        bayesian = [Errors.of(here[:, i], float(y[i])) for i in range(m)]
        averaged = [Errors.of(seen[:, i], drawn[:, i]) for i in range(m)]
        bounds = np.diagonal(covariance).tolist()
    return [
        Attack(
            i,
            likelihood[i],
            float(mine[i]),
            None if floors is None else float(floors[i]),
            prior,
            bayesian[i],
            averaged[i],
            bounds[i],
            target="reading",
            attacker="best unbiased",
            notes=() if shown[i] else (NOT_SHOWN,),
        )
        for i in range(m)
    ]


def _sufficient(mechanism: Mechanism, z: Array) -> Array:
    return mechanism.score(z, np.zeros(mechanism.readings))
