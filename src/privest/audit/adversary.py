"""What attackers make of a release of one reading vector: a report for the data holder."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array
from privest.audit.attackers import most_likely, posterior_mean
from privest.errors import InvalidInput
from privest.mechanism.channel import Channel
from privest.mechanism.gaussian import GaussianMechanism
from privest.mechanism.vector import Componentwise
from privest.privacy import PrivacyLevel


@dataclass(frozen=True)
class Errors:
    """How far one attacker was off, over the trials: mean error, mean-square error, their errors.

    `typical` is the median absolute error (a mean may be ruled by rare, huge errors); `unbounded`
    the share of releases for which the likelihood has no maximum in the window searched.
    """

    bias: float
    bias_error: float
    mse: float
    mse_error: float
    typical: float
    unbounded: float = 0.0

    @classmethod
    def of(cls, guess: Array, truth: Array | float, unbounded: float = 0.0) -> Errors:
        """Summarise guesses (trials,)."""
        off = guess - truth
        root = math.sqrt(off.size)
        return cls(
            float(off.mean()),
            float(off.std(ddof=1)) / root,
            float((off**2).mean()),
            float((off**2).std(ddof=1)) / root,
            float(np.median(np.abs(off))),
            unbounded,
        )


@dataclass(frozen=True)
class Attack:
    """Attackers on one input u_i of the mechanism, and the floors that they cannot pass.

    likelihood        argmax_u p(z|u), releases of the u at hand.
    bayesian          E[u|z] under the stated prior, releases of the same u: biased towards the
                      prior, so it can be better or worse than any floor at a single u.
    averaged          E[u|z] with u drawn from the prior: what van Trees bounds.
    unbiased_floor    1/I(u): no unbiased attacker does better, for many releases also not
                      the most likely u.
    level_floor       what the level allows an unbiased attacker; None without a level.
    van_trees         1/(E I(u) + 1/variance): no attacker does better than this on average
                      over the prior.
    """

    output: int
    likelihood: Errors
    unbiased_floor: float
    level_floor: float | None = None
    prior: tuple[float, float] | None = None
    bayesian: Errors | None = None
    averaged: Errors | None = None
    van_trees: float | None = None

    def __str__(self) -> str:
        lines = [f"input {self.output}"]
        rows = [("most likely value", self.likelihood)]
        if self.bayesian is not None and self.averaged is not None:
            rows += [("posterior mean", self.bayesian), ("  averaged over prior", self.averaged)]
        for name, e in rows:
            lines.append(
                f"  {name:22s} mse {e.mse:.4g} ± {e.mse_error:.2g}, bias {e.bias:+.3g} ± "
                f"{e.bias_error:.2g}, typical error {e.typical:.4g}"
                + (f", no maximum in {e.unbounded:.0%}" if e.unbounded else "")
            )
        lines.append(f"  {'unbiased floor 1/I':22s} {self.unbiased_floor:.4g}")
        if self.level_floor is not None:
            lines.append(f"  {'level allows 1/S':22s} {self.level_floor:.4g}")
        if self.van_trees is not None and self.prior is not None:
            mean, variance = self.prior
            lines.append(
                f"  {'van Trees bound':22s} {self.van_trees:.4g} for the prior "
                f"N({mean:.4g}, {variance:.4g})"
            )
        return "\n".join(lines)


def adversary(
    mechanism: Componentwise | Channel | GaussianMechanism,
    y: ArrayLike,
    *,
    rng: np.random.Generator,
    level: PrivacyLevel | float | None = None,
    prior: tuple[float, float] | None = None,
    trials: int = 2000,
) -> list[Attack]:
    """Release y `trials` times and attack every release, input by input.

    Independent channels only: z_i tells about u_i = (Ay + b)_i alone, so each input is attacked by
    itself. `prior` = (mean, variance) of what the attacker believes about each u_i.
    `level_floor` is a_iᵀ S⁺ a_i, a_i the i-th row of A: 1/s for data perturbation at level s.
    A `GaussianMechanism` with diagonal S shows each reading by itself: u_i = y_i, for s_i > 0.
    The report shows the private readings' errors: it is for the data holder only.
    Cost: per input about 600 log-densities a trial, and up to 4000 more with a prior.

    >>> import privest.noise
    >>> from privest.mechanism.additive import Additive
    >>> channel = Additive(privest.noise.GaussianLaw(variance=1.0))
    >>> rng = np.random.default_rng(1)
    >>> attack = adversary(channel, [3.0], rng=rng, level=1.0, prior=(3.0, 1.0))[0]
    >>> round(attack.unbiased_floor, 9), attack.level_floor, round(attack.van_trees, 9)
    (1.0, 1.0, 0.5)
    >>> abs(attack.averaged.mse - 0.5) < 5 * attack.averaged.mse_error
    True
    """
    if isinstance(mechanism, Channel):
        mechanism = Componentwise(mechanism, readings=1)
    if isinstance(mechanism, GaussianMechanism):
        mechanism = mechanism.by_reading()
    if not isinstance(mechanism, Componentwise):
        raise InvalidInput(
            "attacks are made input by input, on mechanisms of independent channels "
            f"(Componentwise); received {type(mechanism).__name__}."
        )
    if prior is not None:
        prior = (float(prior[0]), float(prior[1]))
        if not prior[1] > 0:
            raise InvalidInput(f"the prior's variance must be > 0; received {prior[1]:g}.")
    u = mechanism.inputs(np.atleast_1d(as_array(y, "y", ndim=(0, 1))))
    floors = _level_floors(mechanism, level)
    attacks = []
    for i, (channel, value) in enumerate(zip(mechanism.channels, u.tolist())):
        z = channel.sample(np.full(trials, value), rng)
        guess, unbounded = most_likely(channel, z, value)
        attacks.append(
            Attack(
                i,
                Errors.of(guess, value, unbounded),
                _inverse(channel.information_estimate(value).value),
                None if floors is None else float(floors[i]),
                prior,
                *(_bayesian(channel, z, value, prior, rng) if prior else ()),
            )
        )
    return attacks


def _bayesian(
    channel: Channel, z: Array, u: float, prior: tuple[float, float], rng: np.random.Generator
) -> tuple[Errors, Errors, float]:
    mean, variance = prior
    drawn = rng.normal(mean, math.sqrt(variance), z.size)
    seen = channel.sample(drawn, rng)
    here = Errors.of(posterior_mean(channel, z, *prior), u)
    averaged = Errors.of(posterior_mean(channel, seen, *prior), drawn)
    expected = _expected_information(channel, mean, math.sqrt(variance))
    return here, averaged, 1 / (expected + 1 / variance)


def _expected_information(channel: Channel, mean: float, deviation: float) -> float:
    """E I(u) over the prior: 2000 midpoints where I has a formula, else 24 (each an integral)."""
    count = 24 if type(channel).information is Channel.information else 2000
    shares = (np.arange(count) + 0.5) / count
    u = mean + deviation * scipy.special.ndtri(shares)
    return float(channel.information(u).mean())


def _level_floors(mechanism: Componentwise, level: PrivacyLevel | float | None) -> Array | None:
    if level is None:
        return None
    S = (level if isinstance(level, PrivacyLevel) else PrivacyLevel(level)).dense(
        mechanism.readings
    )
    values, vectors = np.linalg.eigh(S)
    A = np.eye(mechanism.readings) if mechanism.matrix is None else mechanism.matrix
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = (A @ vectors) ** 2 / np.where(values > 1e-12 * values[-1], values, 0.0)
    return np.asarray(np.where(np.isnan(parts), 0.0, parts).sum(axis=1))


def _inverse(information: float) -> float:
    return math.inf if information == 0 else 1 / information
