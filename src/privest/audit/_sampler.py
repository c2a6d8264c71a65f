"""Does a mechanism draw from the density that it states? One goodness-of-fit test of its draws.

Draws at some measurement vectors become numbers that are N(0, I) if they come from the density:
z̃ − Lᵀy of Gaussian noise, Φ⁻¹(F(z_i|u_i)) of independent channels (of a discrete one at random
between the values of F below and at z_i). Kolmogorov and Smirnov's test of every coordinate, and of
sums of all of them with random signs, which show noise that outputs share. An exact output that
moves with y is looked for, too, as is y itself. All of it can contradict a density, and proves
nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import scipy

from privest.arrays import Array
from privest.audit._samples import by_samples, moving_atoms
from privest.audit._terms import LIMIT, Finding, Look, as_sampler
from privest.errors import InvalidInput, PrivestError
from privest.linalg import PSD
from privest.mechanism import Additive, Channel, Componentwise, GaussianMechanism, Mechanism

# Sizes of the measurement vectors in units of the noise; most of those that the user names.
SIZES, NAMED = (0.1, 1.0, 10.0, 60.0), 5
NUMBERS, FEWEST = 4_000_000, 100  # drawn at a place; the fewest draws
COSTLY = 10  # a draw by numbers, or a run of code, costs as much as so many others
OUTPUTS, SUMS = 100, 8  # outputs and sums of them that are tested
ALREADY = "Sampler not examined: by the density alone the level is broken."
NOT_EXAMINED = "Sampler not examined: there is nothing to compare its draws with."
EDGE = 1e-300  # Φ⁻¹ of it is finite


def compared(mechanism: Mechanism, S: PSD, found: Finding, look: Look) -> Finding:
    """The finding, with a test of the draws; where that fails, the draws themselves are audited."""
    if found.least > LIMIT:
        return replace(found, reasons=(*found.reasons, ALREADY))
    costly = isinstance(mechanism, Componentwise) and mechanism.costly_draws
    samples = max(look.samples // (COSTLY if costly else 1), FEWEST)
    look = replace(look, samples=samples, generator=look.any_rng, places=_places(mechanism, look))
    for y in look.places:
        try:
            wrong, exact = _wrong(mechanism, y, look)
        except (NotImplementedError, PrivestError):
            return replace(found, reasons=(*found.reasons, NOT_EXAMINED))
        if wrong:
            wrong = f"Its sampler contradicts its density: {wrong}"
            return _contradicted(mechanism, S, replace(found, worst_y=y), look, wrong, exact)
    said = (
        f"Its sampler is not broken, which proves nothing: {samples} draws at each of "
        f"{len(look.places)} measurement vectors (Kolmogorov-Smirnov, confidence "
        f"{look.confidence:.4g} together)."
    )
    return replace(found, sampler="not broken", reasons=(*found.reasons, said))


def _places(mechanism: Mechanism, look: Look) -> Array:
    if look.domain is not None:
        return look.places[:NAMED] if look.places.size else look.in_domain(len(SIZES))
    top = float(mechanism.worst_information().diagonal().max())
    unit = 1 / math.sqrt(top) if 0 < top < math.inf else 1.0
    normal = np.random.default_rng(5).standard_normal((len(SIZES), mechanism.measurements))
    fixed = unit * np.array(SIZES)[:, None] * normal
    return np.concatenate([fixed, look.places[:NAMED]]) if look.places.size else fixed


def _wrong(mechanism: Mechanism, y: Array, look: Look) -> tuple[str, bool]:
    """Faults of the draws at y, empty if nothing; and whether an exact output moves with y."""
    rng, count = look.rng, max(min(look.samples, NUMBERS // mechanism.outputs), FEWEST)
    z = mechanism.simulate(y, rng, trials=count)
    if not np.isfinite(z).all():
        return "numbers that are not finite.", False
    x = _normal(mechanism, z, y, rng)
    direction = rng.standard_normal((y.size, 1))
    beside = y + direction[:, 0]
    if _shows(mechanism, z, y) and _shows(
        mechanism, mechanism.simulate(beside, rng, trials=count), beside
    ):
        return "it returns a measurement itself, infinite information.", True
    (atom,) = moving_atoms(as_sampler(mechanism), y, direction, count, rng)
    if atom is not None:
        return atom, True
    columns = x.T[:OUTPUTS]
    if len(columns) > 1:
        signs = rng.choice([-1.0, 1.0], (SUMS, len(x.T))) / math.sqrt(len(x.T))
        columns = np.concatenate([columns, signs @ x.T])
    least = min(float(scipy.stats.kstest(column, "norm").pvalue) for column in columns)
    if least * len(columns) * len(look.places) < 1 - look.confidence:
        return f"the distribution of {count} draws is another one (p = {least:.1g}).", False
    return "", False


def _shows(mechanism: Mechanism, z: Array, y: Array) -> bool:
    """Whether a number that noise is added to comes out twice, as doubles never do by chance."""
    own = np.append(y, mechanism.inputs(y)) if isinstance(mechanism, Componentwise) else y
    return not mechanism.discrete and int(np.isin(z, own[own != 0]).any(axis=1).sum()) > 1


def _normal(mechanism: Mechanism, z: Array, y: Array, rng: np.random.Generator) -> Array:
    """(n, q) numbers that are N(0, I) if the draws z come from p(·|y)."""
    own = type(mechanism).log_density
    if isinstance(mechanism, GaussianMechanism) and own is GaussianMechanism.log_density:
        return mechanism.noise(z, y)
    if not isinstance(mechanism, Componentwise):
        raise NotImplementedError
    u = mechanism.inputs(y)
    below = [_share(c, z[:, i], float(u[i]), rng) for i, c in enumerate(mechanism.channels)]
    return np.asarray(scipy.special.ndtri(np.clip(np.stack(below, axis=1), EDGE, 1 - 1e-16)))


def _share(channel: Channel, z: Array, u: float, rng: np.random.Generator) -> Array:
    """F(z|u), uniform on (0, 1) if z is drawn from p(·|u)."""
    if getattr(channel, "draws_from_density", False):
        raise NotImplementedError
    if isinstance(channel, Additive):
        return channel.law.cdf(z - u)
    if not channel.discrete:
        from privest.mechanism.numerics import density_at

        return density_at(channel, u).cdf(z)
    every = np.union1d(z, np.asarray(channel.outcomes(u), dtype=np.float64))
    mass = np.exp(channel.log_density(every, np.full(every.shape, u)))
    at = np.searchsorted(every, z)
    return np.asarray((np.cumsum(mass) - mass)[at] + mass[at] * rng.random(z.shape))


def _contradicted(
    mechanism: Mechanism, S: PSD, found: Finding, look: Look, said: str, exact: bool
) -> Finding:
    wrong = replace(
        found, reasons=(*found.reasons, said), refuted=True, sampler="contradicts", undecided=()
    )
    if exact:
        return replace(wrong, margin=math.inf, error=0.0, least=math.inf, method="draws")
    assert found.worst_y is not None
    try:
        shown = by_samples(mechanism, S, replace(look, places=found.worst_y[None]))
    except InvalidInput:  # hidden directions, or the edge of a domain: nothing follows from samples
        return wrong
    if shown.least <= LIMIT:
        return wrong
    return replace(
        wrong, margin=shown.margin, error=shown.error, least=shown.least, method=shown.method,
        reasons=(*wrong.reasons, *shown.reasons), confidence=shown.confidence,
    )  # fmt: skip
