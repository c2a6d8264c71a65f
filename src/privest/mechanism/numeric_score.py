"""∂ ln p(z|u)/∂u of a channel from its log-density, with steps that fit the place."""

from __future__ import annotations

import numpy as np

from privest.arrays import EPS, Array
from privest.mechanism._channel import Channel
from privest.noise.numerics.differences import first_derivative, one_sided_derivative


def score_by_differences(channel: Channel, z: Array, u: Array) -> Array:
    """∂ ln p(z|u)/∂u by extrapolated central differences; NaN where p is zero.

    Steps stay clear of the channel's landmarks as they move with u; at a landmark itself the
    result is the mean of both sides.
    Cost: about 50 log-densities an entry, and `landmarks` for every different u.
    """
    z, u = np.broadcast_arrays(z, u)
    clear = np.full(z.shape, np.inf)
    for value in () if channel.discrete else np.unique(u):
        here = u == value
        clear[here] = clear_of_landmarks(channel, z[here], float(value))
    return differences(channel, z, u, clear)[0]


def has_score(channel: Channel) -> bool:
    """Does the channel bring its own score, not the one by differences?"""
    return bool(getattr(channel, "has_score", type(channel).score is not Channel.score))


def score_and_error(channel: Channel, z: Array, u: float, most: float) -> tuple[Array, Array]:
    """The score at one u and its error: 0 for the channel's own, else steps of at most `most`."""
    if has_score(channel):
        with np.errstate(all="ignore"):
            return channel.score(z, np.full(z.shape, u)), np.zeros(z.shape)
    clear = clear_of_landmarks(channel, z, u)
    return differences(channel, z, np.full(z.shape, u), np.minimum(clear, most))


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
    """Half the move of u after which a landmark or an end of the support arrives at z.

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
