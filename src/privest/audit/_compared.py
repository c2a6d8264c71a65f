"""A finding about a density, after a look at what the mechanism really draws."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from privest.arrays import Array
from privest.audit._by_density import MORE, PAIRS, Draws, Finding, reachable
from privest.audit._by_simulation import by_samples
from privest.audit._door import Look
from privest.audit._drawn import Drawn, drawn_as_stated
from privest.audit._drawn_jointly import drawn_independently
from privest.audit._drawn_vectors import vectors_drawn_as_stated
from privest.audit._screen import Range
from privest.audit._search import Found
from privest.errors import InvalidInput
from privest.linalg import PSD
from privest.mechanism import Channel, Componentwise, Mechanism
from privest.mechanism._numerics import density_at

# Inputs at which many draws are made, as parts of the range; of a shift three are enough.
INPUTS, ENDS = (0.0, 0.24, 0.5, 0.53, 1.0), (0.0, 0.5, 1.0)
# All draws of a certificate together, as a multiple of `samples` at one input of one channel.
CHANNELS, LEAST, COSTLY = 4, 20_000, 10
NAMED = 5
ALREADY = "Sampler not examined: by the density alone the level is broken."


def compared(mechanism: Mechanism, S: PSD, found: Finding, look: Look, limit: float) -> Finding:
    """The finding, with what draws say of the density that it is about.

    Where they contradict it the samples themselves are audited, at the place that showed it.
    """
    if found.least > limit:
        return replace(found, reasons=(*found.reasons, ALREADY))
    if isinstance(mechanism, Componentwise):
        drawn, y = _of_channels(mechanism, found, look)
    else:
        places = _reading_vectors(mechanism, look)
        drawn = vectors_drawn_as_stated(mechanism, places, look.samples, look.any_rng)
        y = places[0] if drawn.wrong_at is None else np.asarray(drawn.wrong_at)
    if isinstance(mechanism, Componentwise) and drawn.wrong_at is None:
        found, drawn, y = _as_a_whole(mechanism, found, drawn, look)
    reasons = (*found.reasons, drawn.said)
    found = replace(found, power=drawn.power)
    if drawn.wrong_at is None:
        sampler: Draws = "agrees" if drawn.examined else "not examined"
        return replace(found, reasons=reasons, sampler=sampler)
    wrong = replace(
        found, reasons=reasons, refuted=True, sampler="contradicts", undecided=(), worst_y=y
    )
    if drawn.exact:
        return replace(wrong, margin=math.inf, error=0.0, least=math.inf, method="draws")
    try:
        shown = by_samples(mechanism, S, replace(look, places=y[None], generator=look.any_rng))
    except InvalidInput:  # hidden directions, or the edge of a domain: nothing follows from samples
        return wrong
    if shown.least <= limit:
        return wrong
    said = (*reasons, *shown.reasons)
    margin, error, least, sure = shown.margin, shown.error, shown.least, shown.confidence
    return replace(
        wrong, margin=margin, error=error, least=least, method=shown.method, reasons=said,
        confidence=sure,
    )  # fmt: skip


def _of_channels(mechanism: Componentwise, found: Finding, look: Look) -> tuple[Drawn, Array]:
    """The first channel that draws something else, or what was looked at; and a y there."""
    y = np.zeros(mechanism.readings)
    samples = look.samples
    if len(found.searched) > CHANNELS:
        samples = min(samples, max(samples * CHANNELS // len(found.searched), LEAST))
    every = []
    for channel, seen in found.searched.items():
        j = mechanism.channels.index(channel)
        named = mechanism.inputs(look.places)[:NAMED, j] if look.places.size else np.zeros(0)
        drawn = _of_one(channel, seen, named, samples, look.any_rng)
        if drawn.wrong_at is not None:
            inputs = mechanism.inputs(y) * np.ones(mechanism.outputs)
            inputs[j] = drawn.wrong_at
            return drawn, reachable(mechanism, inputs)[0]
        every.append(drawn)
    # What is said is the weakest: that a sampler was not examined, or the fewest inputs.
    power = float(np.max([drawn.power for drawn in every]))  # not known if one is not
    return replace(min(every, key=lambda drawn: drawn.examined), power=power), y


def _as_a_whole(
    mechanism: Componentwise, found: Finding, drawn: Drawn, look: Look
) -> tuple[Finding, Drawn, Array]:
    """The same after releases of all outputs at once, by the mechanism's own `simulate`.

    Another `simulate` than that of independent channels is compared with the density at some
    reading vectors; the verdict then is about these.
    """
    places, rng = _reading_vectors(mechanism, look), look.any_rng
    own = type(mechanism).simulate is not Componentwise.simulate
    costly = any(channel.costly_draws for channel in found.searched)
    samples = max(look.samples // COSTLY, 2) if costly else look.samples
    looks = [drawn_independently] if mechanism.outputs > 1 else []
    several = dict.fromkeys((PAIRS, MORE), True)  # of one output there is nothing to look at
    for looked in [vectors_drawn_as_stated] * own + looks:
        seen = looked(mechanism, places, samples, rng)
        if seen.wrong_at is not None:
            return found, seen, np.asarray(seen.wrong_at)
        drawn = replace(
            drawn, said=f"{drawn.said} {seen.said}", examined=drawn.examined and seen.examined
        )
        several |= dict.fromkeys((PAIRS, MORE), seen.examined)
    found = replace(found, looked=several)
    if own:
        found = replace(found, where="where it was examined", resolution=math.nan)
    return found, drawn, places[0]


def _of_one(
    channel: Channel, seen: Found, named: Array, samples: int, rng: np.random.Generator
) -> Drawn:
    span = seen.examined
    if span is None:
        far = 64 * density_at(channel, 0.0).width
        span = Range(-far, far)
    costly = channel.costly_draws
    parts = np.array(ENDS if seen.constant or costly else INPUTS)
    inputs = np.concatenate([span.low + (span.high - span.low) * parts, named, [seen.at]])
    n = max(samples // COSTLY, 2) if costly else samples
    return drawn_as_stated(channel, span, inputs, n, rng, seen.constant)


def _reading_vectors(mechanism: Mechanism, look: Look) -> Array:
    """Those of the look, and three fixed ones: of the size of the noise, a tenth, ten times it."""
    if look.domain is not None:
        return look.places[:NAMED] if look.places.size else look.in_domain(3, look.any_rng)
    top = float(np.diagonal(mechanism.worst_information()).max())
    unit = 1 / math.sqrt(top) if 0 < top < math.inf else 1.0
    sizes = unit * np.array([[0.1], [1.0], [10.0]])
    fixed = sizes * np.random.default_rng(5).standard_normal((3, mechanism.readings))
    named = look.places[:NAMED] if look.places.size else np.zeros((0, mechanism.readings))
    return np.concatenate([fixed, named])
