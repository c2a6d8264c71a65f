"""Does a mechanism keep I_z(y) ≤ S for every y? A verdict with its reasons."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array
from privest.audit.information import (
    Audited,
    as_sampler,
    fisher_information,
    has_density,
    required,
    spread,
)
from privest.audit.quadratic import checked_precision
from privest.audit.sampled import UNCHANGED, Sampled, Sampler, information_from_samples
from privest.audit.search import AGREE, Found, worst_input
from privest.errors import InvalidInput
from privest.linalg import PSD
from privest.mechanism.additive import Additive
from privest.mechanism.channel import Channel
from privest.mechanism.gaussian import GaussianMechanism
from privest.mechanism.vector import Componentwise, Mechanism
from privest.privacy import PrivacyLevel

Verdict = Literal["holds", "violated", "undecided"]
# A margin of 1 is what a calibrated mechanism has; so much above it is rounding.
TOLERANCE = 1e-6
UNSURE = 1e-3  # an error of the margin beyond which numbers do not support a "holds"


@dataclass(frozen=True, eq=False)
class Certificate:
    """What an audit of I_z(y) ≤ S found.

    verdict     "holds", "violated" or "undecided"; `bool(certificate)` is true for "holds" only.
    margin      the largest λ_max(S^-½ I_z(y) S^-½) that was found: 1 is exactly the level.
    error       of the margin: a bound, or at `confidence` where that is given.
    claimed     the same from the mechanism's own supremum; inf: it says that there is none; NaN: it
                says nothing.
    worst_y     a y at which the margin is found (or approached); None for a mechanism that shows
                the same everywhere.
    method      "closed form supremum", "search by quadrature", "simulated scores", "samples".
    reasons     sentences for people.
    """

    verdict: Verdict
    margin: float
    error: float
    claimed: float
    worst_y: Array | None
    method: str
    confidence: float | None = None
    reasons: tuple[str, ...] = field(default=())

    def __bool__(self) -> bool:
        return self.verdict == "holds"

    def __str__(self) -> str:
        head = {
            "holds": "HOLDS: the information stays within the level",
            "violated": "VIOLATED: the release shows more than the level allows",
            "undecided": "UNDECIDED: no violation was found, and none was excluded",
        }[self.verdict]
        size = f"{self.margin:.6g} of the level"
        doubt = f" ± {self.error:.1g}" if self.error > 0 else ""
        sure = "" if self.confidence is None else f", confidence {self.confidence:.4g}"
        what = f"worst information {size}{doubt}"
        if UNCHANGED in self.reasons:
            what = "no information was seen"
        lines = [f"{head}.", f"  {what} ({self.method}{sure})"]
        return "\n".join([*lines, *(f"  {reason}" for reason in self.reasons)])


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
    random directions at several distances).

    Independent channels (`Componentwise`, or one `Channel`): one input at a time by `audit.search`.
      "holds" needs both: the mechanism's own supremum within the level, and a search that found
      nothing above that supremum. A supremum that the search exceeds is a lie, and is said.
    `GaussianMechanism`: its log-density is checked to be quadratic in y with the stated curvature,
      which is then the information at every y; no random numbers are needed.
    Other mechanisms: mean of the scores over `samples` simulated releases at each y. "violated"
      needs an excess beyond the interval; "holds" rests on the mechanism's own supremum.
    A plain sampler `f(y, rng, n)`: "violated" if the lower bound of `audit.sampled` exceeds the
      level, at `confidence` for all y looked at together, or if an exact output moves with y
      (`audit.atoms`: infinite); else "undecided". Samples cannot prove
      that something never happens.

    >>> import privest.noise
    >>> from privest.mechanism.additive import Additive
    >>> print(certify(Additive(privest.noise.Laplace(1.0)), 1.0))
    HOLDS: the information stays within the level.
      worst information 1 of the level ± ... (closed form supremum)
      The same at every input.
      A search over 1 input found nothing above its supremum.
    >>> certify(Additive(privest.noise.Uniform(1.0)), 1.0).margin
    inf
    """
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
        return _scores(mechanism, level, places, samples, required(rng), confidence)
    if not isinstance(mechanism, Mechanism) and not callable(mechanism):
        raise InvalidInput(
            "certify a Mechanism, a Channel or a sampler f(y, rng, n); received "
            f"{type(mechanism).__name__}."
        )
    size = mechanism.readings if isinstance(mechanism, Mechanism) else level.size or 1
    places = np.zeros((1, size)) if search is None else _vectors(search)
    return _samples(as_sampler(mechanism), level, places, samples, required(rng), confidence)


def relative(S: PSD, information: Array) -> float:
    """λ_max(S^-½ I S^-½); inf where I shows a direction that S hides."""
    if not np.isfinite(information).all():
        return math.inf
    root, hidden = _inverse_root(S)
    scale = float(np.abs(information).max())
    if hidden.size and np.abs(hidden.T @ information @ hidden).max() > 1e-12 * scale:
        return math.inf
    return float(np.linalg.eigvalsh(root.T @ information @ root)[-1]) if root.size else 0.0


def _inverse_root(S: PSD) -> tuple[Array, Array]:
    """W with WWᵀ = S⁺, and the directions that S hides (columns)."""
    values, vectors = np.linalg.eigh(S.dense())
    kept = values > 1e-12 * max(values[-1], np.finfo(float).tiny)
    return vectors[:, kept] / np.sqrt(values[kept]), vectors[:, ~kept]


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
        reasons.append(f"A search over {looked} {noun} found nothing above its supremum.")
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


# --- any other mechanism, and samplers ----------------------------------------------------------


def _scores(
    mechanism: Mechanism,
    level: PrivacyLevel,
    places: Array,
    samples: int,
    rng: np.random.Generator,
    confidence: float,
) -> Certificate:
    S = level.for_size(mechanism.readings)
    claimed = relative(S, mechanism.worst_information())
    if claimed == math.inf:
        reason = "It says itself that its information is not bounded."
        method = "closed form supremum"
        return Certificate("violated", claimed, 0.0, claimed, None, method, reasons=(reason,))
    each = 1 - (1 - confidence) / len(places)
    root, _ = _inverse_root(S)
    margin, error, worst = -math.inf, 0.0, places[0]
    for y in places:
        found = fisher_information(
            mechanism, y, method="density", samples=samples, rng=rng, confidence=each
        )
        here = relative(S, found.matrix)
        if here > margin:
            doubt = float(np.linalg.norm(root.T @ found.error @ root, 2)) if root.size else 0.0
            margin, error, worst = here, doubt, y
    reasons = [f"Looked at {len(places)} reading vectors; scores do not show a density that jumps."]
    lies = margin - error > claimed * (1 + AGREE)
    if lies:
        reasons.append(f"The supremum it claims, {claimed:.6g} of the level, is wrong.")
    verdict: Verdict = "undecided"
    if margin - error > 1 + TOLERANCE:
        verdict = "violated"
    elif claimed <= 1 + TOLERANCE and not lies:
        verdict = "holds"
    method = "closed form supremum" if verdict == "holds" else "simulated scores"
    return Certificate(verdict, margin, error, claimed, worst, method, confidence, tuple(reasons))


def _samples(
    sampler: Sampler,
    level: PrivacyLevel,
    places: Array,
    samples: int,
    rng: np.random.Generator,
    confidence: float,
) -> Certificate:
    """Estimate everywhere; then bound the direction that shows most, with fresh samples."""
    S = level.for_size(places.shape[1])
    root, hidden = _inverse_root(S)
    if hidden.size:
        raise InvalidInput(
            "a level with hidden directions cannot be audited from samples: no sample shows that "
            "nothing at all is shown. Audit the density."
        )
    margin, lower, worst = -math.inf, -math.inf, places[0]
    each = 1 - (1 - confidence) / len(places)
    unchanged = True
    for y in places:
        first = information_from_samples(sampler, y, samples=samples, rng=rng, directions=root)
        if np.isinf(first.matrix).any():
            return _endless(y, first, confidence)
        direction = root @ np.linalg.eigh(first.matrix)[1][:, -1:]
        found = information_from_samples(
            sampler, y, samples=samples, rng=rng, directions=direction, confidence=each
        )
        if np.isinf(found.matrix).any():
            return _endless(y, found, confidence)
        margin = max(margin, float(found.matrix[0, 0]))
        unchanged = unchanged and bool(first.unchanged.all() and found.unchanged.all())
        if found.lower[0] > lower:
            lower, worst = float(found.lower[0]), y
    reasons = (
        f"Looked at {len(places)} reading vectors: at least {lower:.4g} of the level is shown "
        "close to one of them.",
    )
    if unchanged:
        reasons = (UNCHANGED,)
    return Certificate(
        "violated" if lower > 1 else "undecided",
        margin,
        max(margin - lower, 0.0),
        math.nan,
        worst,
        "samples",
        confidence,
        reasons,
    )


def _endless(y: Array, found: Sampled, confidence: float) -> Certificate:
    return Certificate("violated", math.inf, 0.0, math.nan, y, "samples", confidence, found.notes)


def _places(readings: int, search: ArrayLike | None, rng: np.random.Generator) -> Array:
    if search is not None:
        return _vectors(search)
    directions = rng.standard_normal((8, readings))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    distances = np.array([1e-3, 0.1, 1.0, 3.0, 10.0])[:, None, None]
    return (distances * directions).reshape(-1, readings)


def _vectors(search: ArrayLike) -> Array:
    return np.atleast_2d(as_array(search, "search", ndim=(1, 2)))
