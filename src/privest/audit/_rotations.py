"""Attackers on rotated readings: the length is shown, the direction is not."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array
from privest.audit._attack import NOT_SHOWN, Attack, Errors, Prior
from privest.audit._attackers import most_likely
from privest.mechanism._channel import Channel, Worst
from privest.mechanism._rotation import GeometricPerturbation, Rotation, radial_information
from privest.mechanism._sphere import log_average, mean_cosine


def attack_rotation(
    mechanism: Rotation,
    y: Array,
    floors: Array | None,
    prior: Prior | None,
    trials: int,
    rng: np.random.Generator,
) -> list[Attack]:
    """One attack a reading, one on the length: z = Ry shows ‖y‖ = ‖z‖ exactly and nothing else.

    No T(z) is unbiased for a reading: E T depends on ‖y‖ alone. The posterior of y ~ N(μ1, vI) is
    the prior on the sphere of radius r = ‖z‖, a von Mises-Fisher law about the direction 1/√m:

        E[y_i|z] = r A_m(r √m |μ|/v) sign(μ)/√m      (A_m: `mean_cosine`)

    van Trees' bound is 0: the information along y is infinite at every y.
    """
    m, length = y.size, float(np.linalg.norm(y))
    z = mechanism.simulate(y, rng, trials=trials)
    radius = np.linalg.norm(z, axis=1)
    here: list[Errors | None] = [None] * m
    there: list[Errors | None] = [None] * m
    bound = None
    notes: tuple[str, ...] = (NOT_SHOWN,)
    if prior is not None:
        drawn = rng.normal(prior[0], math.sqrt(prior[1]), (trials, m))
        seen = mechanism.simulate(drawn, rng)
        guess, other = (posterior_on_sphere(r, m, prior) for r in (radius, _norm(seen)))
        here = [Errors.of(guess, float(y[i])) for i in range(m)]
        there = [Errors.of(other, drawn[:, i]) for i in range(m)]
        bound = 0.0
        notes = (NOT_SHOWN, "The information along y is infinite: van Trees' bound is 0.")
    attacks = [
        Attack(
            i, None, math.inf, None if floors is None else float(floors[i]), prior,
            here[i], there[i], bound, target="reading", notes=notes,
        )
        for i in range(m)
    ]  # fmt: skip
    exact = Errors.of(radius, length)
    return [*attacks, Attack(0, exact, 0.0, target="length", attacker="length of z")]


def posterior_on_sphere(radius: Array, dimension: int, prior: Prior) -> Array:
    """E[y_i | ‖y‖ = r], the same for every i, for y ~ N(μ1, vI)."""
    mean, variance = prior
    root = math.sqrt(dimension)
    cosine = mean_cosine(radius * root * abs(mean) / variance, dimension)
    return np.asarray(radius * cosine * np.sign(mean) / root)


class Radius(Channel):
    """ρ → r = ‖z − t‖ of a noisy rotation, in units of σ: what it shows of ‖Ay‖, as a channel."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        """‖ρn + e‖, e standard normal."""
        rho = as_array(u, "u")
        noise = rng.standard_normal((*rho.shape, self.dimension))
        noise[..., 0] += rho
        return np.asarray(np.linalg.norm(noise, axis=-1))

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        """ln p(r|ρ), for |ρ|."""
        r, rho, q = np.asarray(z), np.abs(u), self.dimension
        constant = (1 - q / 2) * math.log(2.0) - math.lgamma(q / 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = (q - 1) * np.log(r) - 0.5 * (r - rho) ** 2 + log_average(r * rho, q)
        return np.where(r > 0, constant + inside, -np.inf)

    @property
    def worst(self) -> Worst:
        return Worst(1.0, attained=False)


def attack_length(
    mechanism: GeometricPerturbation,
    z: Array,
    length: float,
    here: Errors | None,
    there: Errors | None,
    prior: Prior | None,
) -> Attack:
    """The most likely ρ = ‖Ay‖ from r = ‖z − t‖, which is sufficient, next to 1/I(ρ) = σ²/i(ρ)."""
    sigma = math.sqrt(mechanism.variance)
    r = _norm(z - mechanism.translation) / sigma
    guess, unbounded = most_likely(Radius(mechanism.outputs), r, length / sigma)
    shown = radial_information(length / sigma, mechanism.outputs)[0]
    floor = math.inf if shown <= 0 else mechanism.variance / shown
    likelihood = Errors.of(sigma * np.abs(guess), length, unbounded)
    return Attack(
        0, likelihood, floor, None, prior, here, there, target="length", attacker="most likely ρ"
    )


def input_length(mechanism: GeometricPerturbation, y: Array) -> Array:
    """‖Ay‖ for y (n, m)."""
    return _norm(y if mechanism.matrix is None else y @ mechanism.matrix.T)


def _norm(x: Array) -> Array:
    return np.asarray(np.linalg.norm(x, axis=-1))
