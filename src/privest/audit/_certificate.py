"""Does a mechanism keep I_z(y) ≤ S for every y? A verdict with its reasons."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array
from privest.audit._by_simulation import by_samples, by_scores
from privest.audit._checks import as_confidence, as_count, required
from privest.audit._floors import relative
from privest.audit._information import Audited, as_sampler, fisher_information, has_density, spread
from privest.audit._quadratic import checked_precision
from privest.audit._search import AGREE, Found, worst_input
from privest.audit._verdict import TOLERANCE, UNSURE, Certificate, Verdict
from privest.errors import InvalidInput
from privest.linalg import PSD
from privest.mechanism._additive import Additive
from privest.mechanism._channel import Channel
from privest.mechanism._gaussian import GaussianMechanism
from privest.mechanism._vector import Componentwise, Mechanism
from privest.privacy import PrivacyLevel


def certify(
    mechanism: Audited,
    level: PrivacyLevel | float,
    *,
    search: ArrayLike | None = None,
    samples: int = 200_000,
    rng: np.random.Generator | None = None,
    confidence: float = 0.999,
) -> Certificate:
    """Search for the y that shows most, and compare with the level and with what is claimed.

    `search`: reading vectors (k, m) to look at besides those of the search (for channels), or
    the only ones to look at (for samplers, default y = 0; other mechanisms: default a few
    random directions at several distances). A search looks at sizes that appear among the
    public parameters, at landmarks that stay where they are as the input moves, at kinks and at
    vanishing outcomes; a peak that is narrow and has none of these is missed unless you name it.

    Independent channels (`Componentwise`, or one `Channel`): one input at a time by `audit.search`.
      "holds" needs both: the mechanism's own supremum within the level, and a search that found
      nothing above that supremum. A supremum that the search exceeds is a lie, and is said.
    `GaussianMechanism`: its log-density is checked to be quadratic in y with the stated curvature,
      which is then the information at every y; no random numbers are needed.
    Other mechanisms: simulated scores at each y; half of the `samples` choose the direction that
      shows most, the others measure it. "violated" needs an excess beyond the interval at
      `confidence` for all y together; "holds" rests on the mechanism's own supremum.
    A plain sampler `f(y, rng, n)`: "violated" if the lower bound of `audit.sampled` exceeds the
      level, at `confidence` for all y looked at together, or if an exact output moves with y
      (`audit.atoms`: infinite); else "undecided". Samples cannot prove
      that something never happens.

    >>> import privest.noise
    >>> from privest.mechanism._additive import Additive
    >>> print(certify(Additive(privest.noise.Laplace(1.0)), 1.0))
    HOLDS: the information stays within the level.
      worst information 1 of the level ± ... (closed form supremum)
      The same at every input.
      A search over 1 input found nothing above what it says itself.
    >>> certify(Additive(privest.noise.Uniform(1.0)), 1.0).margin
    inf
    """
    samples, confidence = as_count(samples, "samples", least=4), as_confidence(confidence)
    level = level if isinstance(level, PrivacyLevel) else PrivacyLevel(level)
    if isinstance(mechanism, Channel):
        mechanism = Componentwise(mechanism, readings=1)
    if isinstance(mechanism, Componentwise) and has_density(mechanism):
        return _channels(mechanism, level.for_size(mechanism.readings), search)
    if isinstance(mechanism, GaussianMechanism):
        known = _gaussian(mechanism, level, search)
        if known is not None:
            return known
    if isinstance(mechanism, Mechanism) and has_density(mechanism):
        places = _places(mechanism.readings, search, required(rng))
        return by_scores(mechanism, level, places, samples, required(rng), confidence)
    if not isinstance(mechanism, Mechanism) and not callable(mechanism):
        raise InvalidInput(
            "certify a Mechanism, a Channel or a sampler f(y, rng, n); received "
            f"{type(mechanism).__name__}."
        )
    size = mechanism.readings if isinstance(mechanism, Mechanism) else level.size or 1
    places = np.zeros((1, size)) if search is None else _vectors(search)
    return by_samples(as_sampler(mechanism), level, places, samples, required(rng), confidence)


# --- independent channels -----------------------------------------------------------------------


def _channels(mechanism: Componentwise, S: PSD, search: ArrayLike | None) -> Certificate:
    inputs = None if search is None else mechanism.inputs(_vectors(search))
    found: dict[Channel, Found] = {}
    for channel in mechanism.channels:
        if channel not in found:
            same = [j for j, other in enumerate(mechanism.channels) if other == channel]
            own = None if inputs is None else inputs[:, same]
            found[channel] = worst_input(channel, inputs=own)
    each = [found[channel] for channel in mechanism.channels]
    known = not any(math.isnan(channel.worst.information) for channel in mechanism.channels)
    claimed = relative(S, mechanism.worst_information()) if known else math.nan
    values, errors = np.array([f.information for f in each]), np.array([f.error for f in each])
    every = relative(S, spread(mechanism, values))
    error = relative(S, spread(mechanism, errors)) if math.isfinite(every) else 0.0
    u = np.array([f.at for f in each])
    y, together = _reachable(mechanism, u)
    # Inputs that no y reaches together: the sum is a bound; what some y shows is looked at apart.
    margin = every if together else max(_shown(mechanism, S, y), _shown(mechanism, S, 0 * y))
    lies = [
        f"The supremum it claims, {c.worst.information:.6g}, is wrong: at input {f.at:.6g} the "
        f"information is {f.information:.6g}."
        for c, f in found.items()
        if f.information - 4 * f.error > c.worst.information * (1 + AGREE)
    ]
    lies += [
        f"Its own formula for the information is wrong at input {f.disagrees_at:.6g}."
        for f in found.values()
        if f.disagrees_at is not None
    ]
    looked = sum(f.evaluations for f in found.values())
    constant = all(f.constant for f in each)
    if margin - error > 1 + TOLERANCE:
        verdict: Verdict = "violated"
    elif not lies and claimed <= 1 + TOLERANCE and error <= UNSURE:
        verdict = "holds"
    else:
        verdict = "undecided"
    reasons = list(lies)
    if constant and all(isinstance(channel, Additive) for channel in found):
        reasons.append("The same at every input.")
    elif constant:
        reasons.append("The same at every input that was tried: a shift, as far as can be seen.")
    if error > UNSURE:
        reasons.append("The numbers are too uncertain for a verdict: see the error.")
    noun = "input" if looked == 1 else "inputs"
    if not known:
        reasons.append(f"It states no supremum; {looked} {noun} were looked at by numbers.")
    elif not lies:
        reasons.append(f"A search over {looked} {noun} found nothing above what it says itself.")
    if verdict == "undecided" and not lies and known:
        reasons.append("Its supremum exceeds the level, and the search does not reach that far.")
    agreed = verdict == "holds" or (not lies and claimed == margin == math.inf)
    return Certificate(
        verdict,
        margin,
        error,
        claimed,
        None if constant else y,
        "closed form supremum" if agreed else "search by quadrature",
        reasons=tuple(reasons),
    )


def _reachable(mechanism: Componentwise, u: Array) -> tuple[Array, bool]:
    """The y with Ay + b = u, and whether there is one."""
    if mechanism.matrix is None:
        return u - mechanism.offset, True
    y = np.linalg.lstsq(mechanism.matrix, u - mechanism.offset, rcond=None)[0]
    off = np.abs(mechanism.inputs(y) - u).max()
    return y, bool(off <= 1e-9 * (1 + np.abs(u).max()))


def _shown(mechanism: Componentwise, S: PSD, y: Array) -> float:
    return relative(S, fisher_information(mechanism, y).matrix)


# --- Gaussian noise ------------------------------------------------------------------------------


def _gaussian(
    mechanism: GaussianMechanism, level: PrivacyLevel, search: ArrayLike | None
) -> Certificate | None:
    """The closed form, if numbers bear it out."""
    places = np.zeros((0, mechanism.readings)) if search is None else _vectors(search)
    checked = checked_precision(mechanism, places)
    if checked is None:
        return None
    margin, error = relative(level.for_size(mechanism.readings), checked[0]), checked[1]
    error = error * margin if math.isfinite(margin) else 0.0
    reasons = (
        "The same at every y.",
        "Second differences of its log-density in y are those of its supremum.",
    )
    verdict: Verdict = "holds" if margin <= 1 + TOLERANCE else "violated"
    method = "closed form supremum"
    return Certificate(verdict, margin, error, margin, None, method, reasons=reasons)


# --- where to look -----------------------------------------------------------------------------


def _places(readings: int, search: ArrayLike | None, rng: np.random.Generator) -> Array:
    if search is not None:
        return _vectors(search)
    directions = rng.standard_normal((8, readings))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    distances = np.array([1e-3, 0.1, 1.0, 3.0, 10.0])[:, None, None]
    return (distances * directions).reshape(-1, readings)


def _vectors(search: ArrayLike) -> Array:
    return np.atleast_2d(as_array(search, "search", ndim=(1, 2)))
