"""Levels that simulation refutes: by scores where there is a density, else by samples alone."""

from __future__ import annotations

import math

import numpy as np
import scipy

from privest.arrays import Array
from privest.audit._by_density import Finding
from privest.audit._floors import inverse_root, relative
from privest.audit._move_size import Sampler
from privest.audit._running import described, examined, runs
from privest.audit._sampled import UNCHANGED, Look, Sampled, information_from_samples
from privest.audit._search import AGREE
from privest.errors import InvalidInput
from privest.linalg import PSD
from privest.mechanism import Mechanism, RunningMechanism


def by_scores(mechanism: Mechanism, S: PSD, look: Look) -> Finding:
    """λ_max(S^-½ I S^-½) at every place from simulated scores, next to what is claimed.

    The worst place is that with the largest lower end of its interval.
    """
    claimed = relative(S, mechanism.worst_information())
    method = "simulated scores"
    if claimed == math.inf:
        said = "It says itself that its information is not bounded."
        return Finding(claimed, 0.0, claimed, claimed, None, method, (said,))
    margin, error, worst = -math.inf, 0.0, look.places[0]
    for y in look.places:
        here, doubt = _shown(mechanism, S, y, look)
        if here == math.inf or here - doubt > margin - error:
            margin, error, worst = here, doubt, y
    least = margin - error
    lies = least > claimed * (1 + AGREE)
    said = f"The supremum it claims, {claimed:.6g} of the level, is wrong."
    reasons = (
        f"Looked at {len(look.places)} reading vectors; scores do not show a density that jumps.",
        *([said] if lies else []),
    )
    return Finding(
        margin, error, least, claimed, worst, method, reasons, look.confidence, refuted=lies
    )


def _shown(mechanism: Mechanism, S: PSD, y: Array, look: Look) -> tuple[float, float]:
    """E (wᵀs)² for the direction w that shows most, and the half width of its interval.

    w comes from the first half of the samples and is judged on the second: the largest eigenvalue
    of a noisy matrix would be too large, and the errors of its entries do not bound its own.
    """
    score = mechanism.score(mechanism.simulate(y, look.rng, trials=look.samples), y)
    first, second = score[: look.samples // 2], score[look.samples // 2 :]
    matrix = first.T @ first / len(first)
    if relative(S, matrix) == math.inf:
        return math.inf, 0.0
    root, _ = inverse_root(S.dense())
    if root.size == 0:
        return 0.0, 0.0
    direction = root @ np.linalg.eigh(root.T @ matrix @ root)[1][:, -1]
    shown = (second @ direction) ** 2
    wide = scipy.stats.norm.ppf((1 + look.each) / 2)
    return float(shown.mean()), float(wide * shown.std(ddof=1) / math.sqrt(shown.size))


def by_samples(sampler: Sampler, S: PSD, look: Look) -> Finding:
    """Estimate everywhere; then bound the direction that shows most, with fresh samples."""
    root, hidden = inverse_root(S.dense())
    if hidden.size:
        raise InvalidInput(
            "a level with hidden directions cannot be audited from samples: no sample shows that "
            "nothing at all is shown. Audit the density."
        )
    margin, lower, worst = -math.inf, -math.inf, look.places[0]
    samples, rng, unchanged = look.samples, look.rng, True
    for y in look.places:
        first = information_from_samples(sampler, y, samples=samples, rng=rng, directions=root)
        if np.isinf(first.matrix).any():
            return _endless(y, first, look)
        direction = root @ np.linalg.eigh(np.nan_to_num(first.matrix))[1][:, -1:]
        found = information_from_samples(
            sampler, y, samples=samples, rng=rng, directions=direction, confidence=look.each
        )
        if np.isinf(found.matrix).any():
            return _endless(y, found, look)
        # An estimate below its own lower bound (or below 0, by noise) says no more than that.
        margin = max(margin, float(np.fmax(found.matrix[0, 0], found.lower[0])))
        unchanged = unchanged and bool(first.unchanged.all() and found.unchanged.all())
        if found.lower[0] > lower:
            lower, worst = float(found.lower[0]), y
    reasons = (
        f"Looked at {len(look.places)} reading vectors: at least {lower:.4g} of the level is shown "
        "close to one of them.",
    )
    return Finding(
        margin,
        max(margin - lower, 0.0),
        lower,
        math.nan,
        worst,
        "samples",
        (UNCHANGED,) if unchanged else reasons,
        look.confidence,
    )


def _endless(y: Array, found: Sampled, look: Look) -> Finding:
    notes, sure = found.notes, look.confidence
    return Finding(math.inf, 0.0, math.inf, math.nan, y, "samples", notes, sure)


def by_running(mechanism: RunningMechanism, S: PSD, look: Look) -> Finding:
    """What the code claims, if its noise bears that out; else what runs of it show."""
    claimed = relative(S, mechanism.worst_information())
    every = [examined(mechanism, y, look) for y in look.places]
    report, method, sure = described(every, look), "runs of the code", look.confidence
    for y, place in zip(look.places, every):
        if place.atom is not None:
            return Finding(math.inf, 0.0, math.inf, claimed, y, method, (place.atom,), sure)
    if not any(place.wrong for place in every):
        reasons = ("The same at every y, by what it claims.", report)
        return Finding(claimed, 0.0, claimed, claimed, None, method, reasons, sure)
    margin, error, worst = 0.0, 0.0, look.places[0]
    for y, place in zip(look.places, every):
        shown, doubt = _carried(mechanism, S, y, look)
        if "mean" not in place.wrong and shown - doubt > margin - error:
            margin, error, worst = shown, doubt, y
    least = margin - error
    return Finding(margin, error, least, claimed, worst, method, (report,), sure, refuted=True)


def _carried(mechanism: RunningMechanism, S: PSD, y: Array, look: Look) -> tuple[float, float]:
    """(cᵀAd)²/Var cᵀz̃ ≤ dᵀI(y)d, with dᵀSd = 1, and the half width of its interval.

    True of every c and d, whatever the law of the noise, where E z̃ = Ay: c and d are those that
    show most in the first half of the runs, the variance is that of the second.
    """
    noise = mechanism.simulate(y, look.rng, trials=runs(look)) - mechanism.matrix @ y
    first, second = noise[: len(noise) // 2], noise[len(noise) // 2 :]
    root, _ = inverse_root(S.dense())
    if root.size == 0:
        return 0.0, 0.0
    A = mechanism.matrix @ root
    weights = np.linalg.pinv(np.cov(first, rowvar=False).reshape(len(A), len(A)), hermitian=True)
    d = np.linalg.eigh(A.T @ weights @ A)[1][:, -1]
    square = (second @ (weights @ A @ d)) ** 2
    if not square.any():  # no noise at all
        return math.inf, 0.0
    slope = float((A @ d) @ weights @ (A @ d)) ** 2
    wide = scipy.stats.norm.ppf((1 + look.each) / 2)
    largest = square.mean() + wide * square.std(ddof=1) / math.sqrt(square.size)
    shown = slope / square.mean()
    return float(shown), float(shown - slope / largest)
