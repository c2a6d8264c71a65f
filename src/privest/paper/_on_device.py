"""The first experiment on one device: measurements, releases and errors as arrays of a backend.

Distributions are drawn by their inverse from the uniform numbers of a `Counter`, so that a graphics
processor and this machine see the same trials (to rounding).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

import privest as pv
from privest.arrays import Array
from privest.errors import InvalidInput
from privest.estimator.device import as_backend
from privest.estimator.likelihood import Backend
from privest.mechanism import (
    Additive,
    Channel,
    Componentwise,
    GaussianMechanism,
    Inverse,
    Mechanism,
    ProbabilisticQuantiser,
)
from privest.noise import Cauchy, CosSquared, Distribution, Gaussian, Laplace
from privest.paper._engine import Counter
from privest.paper._methods import Likely, Linear, Method, Setting, pair_of

AT_ONCE = 2**22  # trials simulated together, if memory allows
ARRAYS = 8  # of the size of the uniform numbers, alive at the same time

# z from inputs (trials, m) and uniform numbers
Sample = Callable[[Array, Array, Backend], Array]


def squared_errors(
    counter: Counter, trials: int, *, method: Method, s: float, setting: Setting, backend: str
) -> Array:
    """‖θ̂ − θ‖² of every trial of one method at level s: nothing else leaves the device."""
    where = as_backend(backend)
    return np.asarray(where.host(squared_errors_there(counter, trials, method, s, setting, where)))


def squared_errors_there(
    counter: Counter, trials: int, method: Method, s: float, setting: Setting, where: Backend
) -> Array:
    """The same, as an array of the backend."""
    xp, model = where.xp, setting.model
    mechanism, estimate = pair_of(method, model, s)
    draw, further = _sampler(mechanism, method)
    solve = _solver(estimate, method, where)
    places = model.measurements + further
    step = min(trials, AT_ONCE, where.block(ARRAYS * places) if where.remote else AT_ONCE)
    mean, theta = xp.asarray(model.matrix @ setting.theta), xp.asarray(setting.theta)
    parts = []
    for at in range(0, trials, step):
        u = counter.uniform(min(step, trials - at), places, where, skip=at)
        noise = setting.deviation * where.special.ndtri(u[:, : model.measurements])
        found = solve(draw(mean + noise, u[:, model.measurements :], where))
        parts.append(xp.sum((found - theta) ** 2, axis=1))
    errors: Array = xp.concat(parts)
    return errors


def _solver(estimate: object, method: Method, where: Backend) -> Callable[[Array], Array]:
    if isinstance(estimate, Linear):
        matrix = where.xp.asarray(estimate.matrix)
        return lambda z: z @ matrix
    if isinstance(estimate, Likely):
        H, likelihood = estimate.matrix, estimate.likelihood
        as_backend(where, likelihood)
        return lambda z: pv.estimator.maximum_likelihood(H, z, likelihood, backend=where).value
    raise InvalidInput(_cannot(method, "its estimator is a function of NumPy's arrays"))


def _sampler(mechanism: Mechanism, method: Method) -> tuple[Sample, int]:
    """z from measurements and uniform numbers, and how many of those a trial needs."""
    if isinstance(mechanism, GaussianMechanism) and mechanism.ends is None:
        level = mechanism.level.for_size(mechanism.measurements)
        L = level.factor_rows(np.eye(mechanism.measurements))[level.informative()].T

        def gaussian(y: Array, u: Array, where: Backend) -> Array:
            z: Array = y @ where.xp.asarray(L) + where.special.ndtri(u)
            return z

        return gaussian, mechanism.outputs
    if not isinstance(mechanism, Componentwise) or mechanism.common is None:
        raise InvalidInput(_cannot(method, f"{type(mechanism).__name__} has no sampler there"))
    found = sampler_of(mechanism.common)
    if found is None:
        kind = type(mechanism.common).__name__
        raise InvalidInput(_cannot(method, f"{kind} has no sampler there"))
    places, sample = found

    def componentwise(y: Array, u: Array, where: Backend) -> Array:
        xp = where.xp
        inputs = y if mechanism.matrix is None else y @ xp.asarray(mechanism.matrix.T)
        parts = xp.reshape(u, (len(u), places, mechanism.outputs))
        return sample(inputs + xp.asarray(mechanism.offset), parts, where)

    return componentwise, places * mechanism.outputs


def _cannot(method: Method, why: str) -> str:
    return (
        f"method {method.name} cannot run on a graphics processor: {why}. Choose methods of "
        "the paper's list, or backend='numpy'."
    )


def drawn(law: Distribution, u: Array, where: Backend) -> Array:
    """Quantiles of a distribution at uniform numbers (trials, places, q)."""
    xp = where.xp
    first = u[:, 0]
    near, side = xp.minimum(first, 1.0 - first), xp.where(first < 0.5, -1.0, 1.0)
    value: Array
    if isinstance(law, Gaussian):
        value = law.mean + math.sqrt(law.variance) * where.special.ndtri(first)
    elif isinstance(law, Laplace):
        value = -side * law.scale * xp.log(2.0 * near)
    elif isinstance(law, Cauchy):
        value = side * law.scale / xp.tan(math.pi * near)
    else:
        assert isinstance(law, CosSquared)
        # Kept, or moved to the other side of 0 (`CosSquared.sample`).
        x = law.half_width * (2.0 * first - 1.0)
        kept = u[:, 1] < xp.cos((0.5 * math.pi / law.half_width) * x) ** 2
        value = xp.where(kept, x, x - side * law.half_width)
    return value


def _places(law: Distribution) -> int:
    if isinstance(law, CosSquared):
        return 2
    return 1 if isinstance(law, Gaussian | Laplace | Cauchy) else 0


def sampler_of(channel: Channel) -> tuple[int, Sample] | None:
    """How many uniform numbers an output needs, and the sampler of its inputs; None: not here."""
    if isinstance(channel, Additive) and (places := _places(channel.law)):
        law = channel.law
        return places, lambda u, parts, where: u + drawn(law, parts, where)
    if isinstance(channel, Inverse) and (places := _places(channel.noise)):
        return places + (channel.truncate is not None), partial(_inverse, channel)
    if isinstance(channel, ProbabilisticQuantiser) and channel.dither == "triangular":
        return 2, partial(_quantised, channel)
    return None


def _inverse(channel: Inverse, u: Array, parts: Array, where: Backend) -> Array:
    xp, edge, seen = where.xp, channel.truncate, u
    if edge is not None:
        ends = xp.where(parts[:, 0] < 0.5 * (1.0 + u / edge), edge, -edge)
        seen, parts = xp.where(xp.abs(u) < edge, ends, u), parts[:, 1:]
    z: Array = seen / (1.0 + drawn(channel.noise, parts, where))
    return z


def _quantised(channel: ProbabilisticQuantiser, u: Array, parts: Array, where: Backend) -> Array:
    dither: Array = parts[:, 0] + parts[:, 1] - 1.0
    z: Array = where.xp.rint(u / channel.step + dither) * channel.step
    return z
