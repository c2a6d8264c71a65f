"""Information of a channel from its density alone, I(u) = E (∂ ln p/∂u)², continuous or discrete.

A plain integral or sum fails where

- p jumps in u (a jump in z that moves with u): the information is infinite. Every jump in z is
  followed as u moves;
- p has a kink in u: the larger of the one-sided limits counts, E s±² with the scores at u itself;
- the probability of an outcome vanishes at u: it adds lim p'²/p, not 0.
"""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import EPS, Array
from privest.errors import InvalidInput
from privest.mechanism._mechanism import Channel
from privest.noise.numerics.density import NumericalDensity
from privest.noise.numerics.differences import find_jumps, first_derivative, one_sided_derivative
from privest.noise.quadrature import Integrand, Quadrature

# Where the law of z is looked at for kinks and jumps in u: no round numbers, which hit kinks in z.
PROBES = np.array([0.03, 0.0873, 0.1931, 0.337, 0.4639, 0.6127, 0.7591, 0.8853, 0.9689])
# A vanishing outcome is looked at from these distances (in units of u); the last two extrapolated.
LADDER = 2.0 ** -np.array([8.0, 12.0, 16.0, 17.0])
# If its part still grows by this factor from rung to rung (16 times closer), it has no limit.
GROWS = 1.15
# Closer than this (in units of u) a kink or a vanishing outcome counts as being at u.
CLOSE = 2.0**-26
# ln of the probability from which on an outcome is expected in some thousand releases.
SEEN = math.log(1e-4)


def information_by_numbers(channel: Channel, u: float) -> Quadrature:
    """I(u) from `log_density` alone, with an error bound: a channel's own score is not used.

    Infinite where p(z|u) jumps in u, an outcome vanishes slower than quadratically, or z is
    constant. Cost: 10⁵ to 10⁷ log-densities for a continuous channel, hundreds an outcome for a
    discrete one.
    """
    return _summed(channel, float(u)) if channel.discrete else _integrated(channel, float(u))


# --- continuous ---------------------------------------------------------------------------------


def _integrated(channel: Channel, u: float) -> Quadrature:
    try:
        density = density_at(channel, u)
        _ = density.log_mass
    except InvalidInput:
        _ = density_at(channel, u + max(abs(u), 1.0) * CLOSE).log_mass
        return Quadrature(math.inf, 0.0)  # z is a constant at u, and not beside it: y/g at y = 0
    probes = density.quantile(PROBES)
    unit = float(np.median(_reach(channel, probes, u)))
    if _nothing(unit, u) or any(
        _moves(channel, point, u, unit, density.width) for point in density.jumps
    ):
        return Quadrature(math.inf, 0.0)
    kink, most = _kinks(channel, probes, u, unit, at_least=2)
    sides = (-1, 1) if kink else (0,)
    found = [density.expectation(_squared(channel, u, most, side)) for side in sides]
    return max(found, key=lambda estimate: estimate.value)


def density_at(channel: Channel, u: float) -> NumericalDensity:
    """p(·|u) of a continuous channel as a numerical density; InvalidInput where there is none."""
    low, high = (float(end) for end in channel.support(u))
    if not low < high:
        raise InvalidInput(f"the channel has no density at input {u:g}: its support is empty.")
    inside = sorted({float(p) for p in channel.landmarks(u) if low < p < high})
    return NumericalDensity(
        lambda z: channel.log_density(z, np.full(z.shape, u)),
        support=(low, high),
        breaks=tuple(inside),
    )


def _moves(channel: Channel, point: float, u: float, unit: float, width: float) -> bool:
    """Whether the jump of p(·|u) at this z moves with u."""
    near = point + np.array([-1e-8, 1e-8]) * width
    level = float(np.max(log_density(channel, near, u)))

    def seen(v: Array) -> Array:
        return np.asarray(np.exp(log_density(channel, np.full(v.shape, point), v) - level))

    far = max(1e-3 * unit, 1e6 * EPS * abs(u))
    cell = np.array([u - 0.9 * far]), np.array([u + 1.1 * far])
    return bool(
        find_jumps(
            seen, cell, width=1e-12 * unit, least=lambda a, b: 1e-7 * np.maximum(a, b), kept=0.9
        )
    )


# --- discrete -----------------------------------------------------------------------------------


def _summed(channel: Channel, u: float) -> Quadrature:
    listed = _outcomes(channel, u)
    mass = log_density(channel, listed, u)
    total = float(np.exp(mass).sum())
    if not abs(total - 1.0) < 1e-9:
        raise InvalidInput(
            f"the outcomes that the channel lists have probability {total:.9g} together, not 1: "
            "others are left out, and their information with them."
        )
    unit = float(_reach(channel, listed[mass > mass.max() - 3], u).min())
    if _nothing(unit, u) or _outcomes_move(channel, listed[mass > SEEN], u):
        return Quadrature(math.inf, 0.0)
    around = [_outcomes(channel, u + side * LADDER[0] * unit) for side in (-1, 1)]
    z = np.unique(np.concatenate([listed, *around]))
    near = max(CLOSE * unit, 1e3 * EPS * abs(u))
    beside = np.maximum(log_density(channel, z, u - near), log_density(channel, z, u + near))
    z = z[beside > -np.inf]
    mass = log_density(channel, z, u)
    far = np.zeros(z.shape)
    far[mass > -np.inf] = _reach(channel, z[mass > -np.inf], u)
    gone = far < near  # vanishes at u, or so close to it that the limit there is what counts
    lost, z, mass = z[gone], z[~gone], mass[~gone]
    kink, most = False, math.inf
    if z.size:
        kink, most = _kinks(channel, z[mass > mass.max() - 9], u, unit, at_least=1)
        # A small reach of one outcome: something happens at that distance, for all of them.
        most = min(most, float(far[~gone].min()))
    if not (kink or lost.size):
        return _sum(z, mass, _squared(channel, u, most))
    found = []
    for side in (-1, 1):
        own = _sum(z, mass, _squared(channel, u, most, side))
        limit = _limit(channel, lost, u, side * unit)
        value = own.value + limit.value
        found.append(Quadrature(value, own.error + limit.error if math.isfinite(value) else 0.0))
    return max(found, key=lambda estimate: estimate.value)


def _outcomes_move(channel: Channel, likely: Array, u: float) -> bool:
    """Whether a likely outcome is not listed next to u: it moves with u, and reveals it."""
    for v in (u - CLOSE * max(abs(u), 1.0), u + CLOSE * max(abs(u), 1.0)):
        gap = np.abs(likely[:, None] - _outcomes(channel, v)).min(axis=1, initial=math.inf)
        if (gap > np.maximum(1e-3 * abs(v - u), 64 * EPS * np.abs(likely))).any():
            return True
    return False


def _outcomes(channel: Channel, u: float) -> Array:
    return np.asarray(channel.outcomes(u), dtype=np.float64)


def _sum(z: Array, mass: Array, squared: Integrand) -> Quadrature:
    value, error = squared(z)
    p = np.exp(mass)
    total = float(p @ value)
    return Quadrature(total, float(p @ error) + 16 * EPS * total)


def _limit(channel: Channel, z: Array, u: float, unit: float) -> Quadrature:
    """lim Σ p'²/p over vanishing outcomes as u is approached from one side."""
    if z.size == 0:
        return Quadrature(0.0, 0.0)
    rungs = []
    for distance in LADDER:
        at = u + unit * distance
        mass = log_density(channel, z, at)
        seen = mass > -np.inf
        rungs.append(_sum(z[seen], mass[seen], _squared(channel, at, abs(unit) * distance / 4)))
    far, middle, near, last = (rung.value for rung in rungs)
    if math.isinf(last) or (near > GROWS * middle > GROWS**2 * far):
        return Quadrature(math.inf, 0.0)
    error = abs(last - near) + 3 * max(rung.error for rung in rungs[-2:])
    return Quadrature(max(2 * last - near, 0.0), error)


# --- both -----------------------------------------------------------------------------------------


def _squared(channel: Channel, u: float, most: float, side: int = 0) -> Integrand:
    """The squared score at u, or that from one side of a kink."""

    def squared(z: Array) -> tuple[Array, Array]:
        clear = np.full(z.shape, math.inf) if side else clear_of_landmarks(channel, z, u)
        with np.errstate(all="ignore"):
            steps = np.minimum(clear, most)
            value, error = differences(channel, z, np.full(z.shape, u), steps, side)
            return value**2, 2 * np.abs(value) * error + error**2

    return squared


def _reach(channel: Channel, z: Array, u: float) -> Array:
    return reach(channel, z, np.full(z.shape, u), log_density(channel, z, u))


def _nothing(unit: float, u: float) -> bool:
    return unit <= max(64 * EPS * abs(u), 1e-30)


def _kinks(channel: Channel, z: Array, u: float, unit: float, at_least: int) -> tuple[bool, float]:
    """Whether ln p(z|·) has a kink at u (for `at_least` z); if one is near: a step clear of it.

    D(h) = |l(u+h) + l(u−h) − 2l(u)|/h falls like h where l is smooth; over a kink it stays.
    """
    h = unit * 2.0 ** -np.arange(10.0, 27.0, 2.0)[:, None]
    middle = log_density(channel, z, u)
    wide = np.broadcast_to(z, (len(h), z.size))
    with np.errstate(all="ignore"):
        both = log_density(channel, wide, u + h) + log_density(channel, wide, u - h)
        second = np.abs(both - 2 * middle) / h
        # Rounding: of u; of l it is below 1e-4/unit, whatever the units.
        stays = (second > 0.35 * second[0]) & (second > (1e-4 + EPS * abs(u) / h) / unit)
    down_to = np.where(stays, np.arange(len(h))[:, None], -1).max(axis=0)
    deepest = int(np.sort(down_to)[-min(at_least, down_to.size)])
    if deepest == len(h) - 1:
        return True, math.inf
    return False, float(h[deepest, 0]) / 8 if deepest >= 1 else math.inf


# --- the score by differences, with steps that fit the place --------------------------------------


def score_by_differences(channel: Channel, z: Array, u: Array) -> Array:
    """∂ ln p(z|u)/∂u by extrapolated central differences; NaN where p is zero.

    Steps stay clear of the channel's landmarks as they move with u; at a landmark the result is the
    mean of both sides. Cost: about 50 log-densities an entry.
    """
    z, u = np.broadcast_arrays(z, u)
    clear = np.full(z.shape, np.inf)
    for value in () if channel.discrete else np.unique(u):
        here = u == value
        clear[here] = clear_of_landmarks(channel, z[here], float(value))
    return differences(channel, z, u, clear)[0]


def differences(
    channel: Channel, z: Array, u: Array, most: Array, side: int = 0
) -> tuple[Array, Array]:
    """The score and its error by differences with steps of at most `most`.

    `side` 0: central; ±1: the derivative from that side alone, for a kink at u.
    """
    start = log_density(channel, z, u)
    live = start > -np.inf
    score, error = np.full(z.shape, np.nan), np.full(z.shape, np.nan)
    zs, us = z[live], u[live]
    step = np.minimum(reach(channel, zs, us, start[live]), most[live])

    def along(v: Array) -> Array:
        return log_density(channel, np.broadcast_to(zs, v.shape), v)

    with np.errstate(all="ignore"):
        score[live], error[live] = (
            one_sided_derivative(along, us, step, side)
            if side
            else first_derivative(along, us, step)
        )
    return score, error


def reach(channel: Channel, z: Array, u: Array, start: Array) -> Array:
    """How far u can go, at each z, before ln p changes by more than ½ (within a factor 4).

    `start` is ln p(z|u). Almost nothing where ln p jumps at u.
    """
    step = 16 * np.maximum(np.maximum(np.abs(u), np.abs(z)), 1.0)
    todo = np.arange(z.size)
    for _ in range(60):
        h, v, w = step[todo], z[todo], u[todo]
        with np.errstate(all="ignore"):
            change = np.maximum(
                np.abs(log_density(channel, v, w + h) - start[todo]),
                np.abs(log_density(channel, v, w - h) - start[todo]),
            )
        todo = todo[~(change <= 0.5) & (h > 16 * EPS * np.abs(w))]
        if todo.size == 0:
            break
        step[todo] /= 4
    return step


def clear_of_landmarks(channel: Channel, z: Array, u: float) -> Array:
    """Half the change of u after which a landmark or an end of the support arrives at z.

    At a landmark itself: no limit from that one. None at all where z is discrete.
    """
    here = _special(channel, u)
    if channel.discrete or here.size == 0:
        return np.full(z.shape, np.inf)
    h = 2.0**-20 * max(abs(u), 1.0)
    moved = [_special(channel, v) for v in (u - h, u + h)]
    # The slower side: where the channel changes its rule next to u, landmarks leap on one side.
    speed = np.min(
        [np.abs(here[:, None] - there).min(axis=1, initial=np.inf) / h for there in moved], axis=0
    )
    gap = np.abs(z[..., None] - here)
    at = gap <= 64 * EPS * np.abs(z[..., None])
    with np.errstate(all="ignore"):
        room = np.where(at | (speed == 0), np.inf, gap / (2 * speed))
    return np.asarray(np.maximum(room.min(axis=-1), 4096 * EPS * abs(u)))


def _special(channel: Channel, u: float) -> Array:
    points = np.array([*channel.landmarks(u), *channel.support(u)], dtype=np.float64)
    return points[np.isfinite(points)]


def log_density(channel: Channel, z: Array, u: Array | float) -> Array:
    """ln p(z|u) without warnings; NaN (∞ − ∞ in a far tail) counts as −∞."""
    if z.size == 0:
        return np.zeros(z.shape)
    with np.errstate(all="ignore"):
        value = channel.log_density(z, np.broadcast_to(np.asarray(u, dtype=np.float64), z.shape))
    return np.where(np.isnan(value), -np.inf, value)
