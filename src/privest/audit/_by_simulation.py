"""Levels that simulation refutes: by scores where there is a density, else by samples alone."""

from __future__ import annotations

import math

import numpy as np
import scipy

from privest.arrays import Array
from privest.audit._floors import inverse_root, relative
from privest.audit._move_size import Sampler
from privest.audit._sampled import UNCHANGED, Sampled, information_from_samples
from privest.audit._search import AGREE
from privest.audit._verdict import TOLERANCE, Certificate, Verdict
from privest.errors import InvalidInput
from privest.linalg import PSD
from privest.mechanism._vector import Mechanism
from privest.privacy import PrivacyLevel


def by_scores(
    mechanism: Mechanism,
    level: PrivacyLevel,
    places: Array,
    samples: int,
    rng: np.random.Generator,
    confidence: float,
) -> Certificate:
    """λ_max(S^-½ I S^-½) at every place from simulated scores, next to what is claimed.

    The worst place is that with the largest lower end of its interval; the intervals hold together
    at `confidence` (Bonferroni over the places).
    """
    S = level.for_size(mechanism.readings)
    claimed = relative(S, mechanism.worst_information())
    if claimed == math.inf:
        reason = "It says itself that its information is not bounded."
        method = "closed form supremum"
        return Certificate("violated", claimed, 0.0, claimed, None, method, reasons=(reason,))
    each = 1 - (1 - confidence) / len(places)
    margin, error, worst = -math.inf, 0.0, places[0]
    for y in places:
        here, doubt = _shown(mechanism, S, y, samples, rng, each)
        if here == math.inf or here - doubt > margin - error:
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


def _shown(
    mechanism: Mechanism,
    S: PSD,
    y: Array,
    samples: int,
    rng: np.random.Generator,
    confidence: float,
) -> tuple[float, float]:
    """E (wᵀs)² for the direction w that shows most, and the half width of its interval.

    w comes from the first half of the samples and is judged on the second: the largest eigenvalue
    of a noisy matrix would be too large, and the errors of its entries do not bound its own.
    """
    score = mechanism.score(mechanism.simulate(y, rng, trials=samples), y)
    first, second = score[: samples // 2], score[samples // 2 :]
    matrix = first.T @ first / len(first)
    if relative(S, matrix) == math.inf:
        return math.inf, 0.0
    root, _ = inverse_root(S.dense())
    if root.size == 0:
        return 0.0, 0.0
    direction = root @ np.linalg.eigh(root.T @ matrix @ root)[1][:, -1]
    shown = (second @ direction) ** 2
    wide = scipy.stats.norm.ppf((1 + confidence) / 2)
    return float(shown.mean()), float(wide * shown.std(ddof=1) / math.sqrt(shown.size))


def by_samples(
    sampler: Sampler,
    level: PrivacyLevel,
    places: Array,
    samples: int,
    rng: np.random.Generator,
    confidence: float,
) -> Certificate:
    """Estimate everywhere; then bound the direction that shows most, with fresh samples."""
    S = level.for_size(places.shape[1])
    root, hidden = inverse_root(S.dense())
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
        direction = root @ np.linalg.eigh(np.nan_to_num(first.matrix))[1][:, -1:]
        found = information_from_samples(
            sampler, y, samples=samples, rng=rng, directions=direction, confidence=each
        )
        if np.isinf(found.matrix).any():
            return _endless(y, found, confidence)
        # An estimate below its own lower bound (or below 0, by noise) says no more than that.
        margin = max(margin, float(np.fmax(found.matrix[0, 0], found.lower[0])))
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
