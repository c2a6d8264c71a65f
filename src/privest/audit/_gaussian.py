"""Linear releases with Gaussian noise: is the stated curvature true, and the best attackers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from privest.arrays import Array
from privest.audit._attack import Attack, Believer, Task, drawn_from
from privest.audit._floors import AGREE, inverse_root, unbiased_floors
from privest.mechanism import AffineMechanism, GaussianMechanism, Mechanism
from privest.noise import GaussianLaw

STEPS = (0.3, 1.0, 3.0)
RANDOM = 8
# An attacker whose error is so many standard errors below the floor: by chance once in 10⁶.
SURE = 5.0
EXPOSED = (
    "This attacker does better than the release's own density allows: there is less noise in it "
    "than it claims."
)


def checked_precision(mechanism: GaussianMechanism, places: Array) -> tuple[Array, float] | None:
    """The stated S, and its largest relative disagreement with second differences.

        ln p(z|y + hd) − 2 ln p(z|y) + ln p(z|y − hd) = −h² dᵀSd

    for every z, y, h and d if ln p is quadratic in y; then I_z(y) = −E ∂²ln p = S for every y.
    Checked to 1e-6 around 0, two fixed vectors and the `places` (k, m), along each coordinate,
    random directions and the eigenvectors of S. None if it fails. Uses fixed random numbers only.
    Cost: 6(2m + 8) log-densities a place.
    """
    S = mechanism.worst_information()
    m, top = mechanism.readings, float(np.diagonal(S).max())
    rng = np.random.default_rng(5)
    own = np.linalg.eigh(S)[1].T
    d = np.concatenate([np.eye(m), rng.standard_normal((RANDOM, m)), own])
    size = np.einsum("ki,ij,kj->k", d, S, d, optimize=True)
    # Away from the coordinates dᵀSd is known to rounding of the largest one only.
    rounding = np.where(np.arange(len(d)) < m, 0.0, 1e-14 * top)
    shown = size > 100 * rounding
    unit = 1 / np.sqrt(np.where(shown, size, top))
    fixed = np.array([[0.0], [1.0], [10.0]]) * rng.standard_normal((3, m)) / np.sqrt(top)
    most = 0.0
    for y in np.concatenate([fixed, places]):
        z = mechanism.simulate(y, rng)
        allowed = AGREE + 1e-14 * float(np.abs(z).max()) + rounding * unit**2
        middle = mechanism.log_density(z, y)
        for step in STEPS:
            move = (step * unit)[:, None] * d
            ends = mechanism.log_density(z, y + move) + mechanism.log_density(z, y - move)
            off = np.abs((ends - 2 * middle) / step**2 + np.where(shown, 1.0, 0.0))
            if not (off <= allowed).all():
                return None
            most = max(most, float(off[shown].max()))
    return S, most


def linear_information(mechanism: Mechanism, y: Array) -> Array | None:
    """S of a release that is linear with Gaussian noise; None for any other."""
    if isinstance(mechanism, GaussianMechanism):
        checked = checked_precision(mechanism, y[None])
        return None if checked is None else checked[0]
    if isinstance(mechanism, AffineMechanism) and isinstance(mechanism.law, GaussianLaw):
        return mechanism.worst_information()
    return None


def attack_linear(mechanism: Mechanism, S: Array, task: Task) -> list[Attack]:
    """One attack a reading on ln p(z|y) = pᵀy − ½yᵀSy + const, where p = score(z|0) is sufficient.

    best unbiased     ŷ = S⁺p (generalised least squares), of variance e_iᵀS⁺e_i; it exists for the
                      readings with e_i in the range of S.
    posterior mean    (S + I/v)⁻¹(p + μ/v), of variance [(S + I/v)⁻¹]_ii, which is van Trees' bound
    S may be dense and singular. Cost: m³, and m² a trial.
    """
    root, _ = inverse_root(S)
    floors = unbiased_floors(np.eye(len(S)), S)
    z = task.releases(mechanism)
    guess = _sufficient(mechanism, z) @ root @ root.T
    attacks = []
    for attack in task.readings(guess, floors, _believers(mechanism, S, task, z)):
        best, floor = attack.likelihood, attack.unbiased_floor
        exposed = best and floor and best.mse + SURE * best.mse_error < floor
        notes = (EXPOSED,) if exposed else attack.notes
        attacks.append(replace(attack, attacker="best unbiased", notes=notes))
    return attacks


def _believers(mechanism: Mechanism, S: Array, task: Task, z: Array) -> list[Believer]:
    if task.prior is None:
        return [Believer()] * len(S)
    mean, variance = task.prior
    # In units of the prior: S·v + I has no eigenvalue below 1.
    inverse = np.linalg.inv(np.linalg.cholesky(S * variance + np.eye(len(S))))
    covariance = variance * inverse.T @ inverse

    def posterior(z: Array) -> Array:
        return (_sufficient(mechanism, z) + mean / variance) @ covariance

    drawn = drawn_from(task.prior, task.rng, task.trials, len(S))
    there = posterior(mechanism.simulate(drawn, task.rng))
    bounds = np.diagonal(covariance).tolist()
    return Believer.of_each(posterior(z), task.truth, there, drawn, bounds)


def _sufficient(mechanism: Mechanism, z: Array) -> Array:
    return mechanism.score(z, np.zeros(mechanism.readings))
