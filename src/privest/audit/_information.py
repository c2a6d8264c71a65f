"""I_z(y) of any mechanism at one y; next to a level, by simulated scores and by running code."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, Array, ArrayLike, as_choice
from privest.audit._density import checked_precision, information_of_channels
from privest.audit._draws import density_answers
from privest.audit._samples import Information, Sampled, information_from_samples, moving_atoms
from privest.audit._terms import (
    AGREE,
    EXAMINED,
    PAIRS,
    Audited,
    Finding,
    Look,
    Sampler,
    as_audited,
    as_sampler,
    has_density,
    inverse_root,
    one_vector,
    relative,
)
from privest.errors import InvalidInput
from privest.linalg import PSD
from privest.mechanism import Channel, Componentwise, GaussianMechanism, Mechanism
from privest.mechanism.affine import RunningMechanism
from privest.mechanism.numerics import differences

Method = Literal["density", "samples"]
KNOWN = "curvature of a quadratic log-density"
# A run of code costs as much as many draws of a density: this part of the samples at each place.
SHARE, FEWEST = 0.1, 100
# Places at which a score is compared with the density; draws there if it must be derived.
FEW_PLACES, DERIVED = 5, 2000
# Draws at which a score is compared with the density, along at most so many directions.
COMPARED, DIRECTIONS = 16, 8
TESTS = ("mean", "covariance", "distribution")
OWN_WORD = "It gives no log-density to derive its score from: the score is unproved."


def fisher_information(
    mechanism: Audited,
    y: ArrayLike,
    *,
    method: Method | None = None,
    samples: int = 200_000,
    rng: np.random.Generator | int | None = None,
    confidence: float = CONFIDENCE,
) -> Information:
    """I_z(y) = E[s sᵀ], s = ∂ ln p(z|y)/∂y, of any mechanism at one y (`def:Fisher`).

    The mechanism's own closed forms are not used.

    method="density" (the default where there is one):
      independent channels: quadrature or summation for each, with an error bound;
      `GaussianMechanism`, and running code: S, checked as in `certify`;
      any other mechanism: the mean of s sᵀ over `samples` simulated releases, with an interval. It
      does not see a density that jumps; the samples method does.
    method="samples" (the only one for a plain sampler f(y, rng, n) → (n, q)): an estimate and lower
      bounds that hold whatever the mechanism is; infinite if an exact output moves with y.
      `samples` draws at each of about sixteen points per measurement.
      **At a kink of p(z|·) at y, or where an outcome vanishes, the estimate averages the two
      one-sided limits and is too small**; the lower bounds hold.

    >>> import privest.noise
    >>> from privest.mechanism import Additive
    >>> found = fisher_information(Additive(privest.noise.Laplace(0.5)), [1.0])
    >>> found.matrix.round(8).tolist(), bool(found.error.max() < 1e-8)
    ([[4.0]], True)
    """
    if method is not None:
        as_choice(method, get_args(Method), "method")
    audited = as_audited(mechanism)
    look = Look.checked(one_vector(y, audited)[None], samples, confidence, rng)
    if isinstance(audited, Mechanism) and has_density(audited) and method != "samples":
        return _by_density(audited, look)
    if method == "density":
        raise InvalidInput("a plain sampler has no density: use method='samples'.")
    return _by_samples(audited, look)


def _by_density(audited: Mechanism, look: Look) -> Information:
    if isinstance(audited, Componentwise):
        matrix, error = information_of_channels(audited, look.places[0])
        kind = "summation" if audited.discrete else "quadrature"
        return Information(matrix=matrix, error=error, method=kind)
    if isinstance(audited, GaussianMechanism):
        checked = checked_precision(audited, look.places)
        if checked is not None:
            S, off = checked
            error = np.full(S.shape, off * np.abs(S).max())
            return Information(matrix=S, error=error, method=KNOWN)
    return (
        _by_runs(audited, look)
        if isinstance(audited, RunningMechanism)
        else _by_scores(audited, look)
    )


def _by_scores(mechanism: Mechanism, look: Look) -> Information:
    (y,), scores = look.places, Scores(mechanism, look)
    score = scores.at(y, look.rng)
    samples = len(score)
    matrix = score.T @ score / samples
    fourth = (score**2).T @ score**2 / samples
    deviation = np.sqrt(np.maximum(fourth - matrix**2, 0.0) / samples)
    wide = scipy.stats.norm.ppf((1 + look.confidence) / 2)
    how, sure = "mean over simulated scores", look.confidence
    error, notes = wide * deviation, scores.said
    return Information(matrix=matrix, error=error, method=how, confidence=sure, notes=notes)


def _by_runs(mechanism: RunningMechanism, look: Look) -> Information:
    place = noise_test(mechanism, look.places[0], look)
    notes = (described([place], look)[0],)
    if place.wrong or place.atom is not None:
        found = _by_samples(mechanism, look)
        return replace(found, notes=notes + found.notes)
    S, how = mechanism.worst_information(), "as claimed, borne out by runs of the code"
    error, sure = np.zeros_like(S), look.confidence
    return Information(matrix=S, error=error, method=how, confidence=sure, notes=notes)


def _by_samples(sampler: Mechanism | Sampler, look: Look) -> Sampled:
    (y,), sure = look.places, look.confidence
    return information_from_samples(sampler, y, samples=look.samples, rng=look.rng, confidence=sure)


# --- next to a level, by simulated scores ---------------------------------------------------------


def by_scores(mechanism: Mechanism, S: PSD, look: Look) -> Finding:
    """λ_max(S^-½ I S^-½) at every place from simulated scores, next to the claimed supremum."""
    claimed = relative(S, mechanism.worst_information())
    method = "simulated scores"
    if claimed == math.inf:
        said = "It states itself that its information is not bounded."
        return Finding(claimed, 0.0, claimed, claimed, None, method, (said,))
    look = look.at(lambda: _around(S.size, look))
    scores = Scores(mechanism, look)
    margin, error, worst = -math.inf, 0.0, look.places[0]
    for y in look.places:
        here, doubt = _shown(scores, S, y, look)
        if here == math.inf or here - doubt > margin - error:
            margin, error, worst = here, doubt, y
    lies = margin - error > claimed * (1 + AGREE)
    reach = float(np.linalg.norm(look.places, axis=1).max())
    said = (
        f"Looked at {len(look.places)} measurement vectors, of norm {reach:.4g} at most; scores do "
        "not show a density that jumps, and other vectors were not examined."
    )
    lie = (f"The supremum it claims, {claimed:.6g} of the level, is wrong.",) * lies
    return Finding(
        margin, error, margin - error, claimed, worst, method, (said, *scores.said, *lie),
        look.confidence, lies or scores.false, not scores.known, where=EXAMINED,
        resolution=math.nan,
    )  # fmt: skip


class Scores:
    """The scores of a mechanism: its own if they are derivatives of its density, else those."""

    def __init__(self, mechanism: Mechanism, look: Look) -> None:
        self.mechanism, self.samples, self.said = mechanism, look.samples, tuple[str, ...]()
        self.known = density_answers(mechanism, look.places[0], look.rng)
        some = look.places[:: max(1, len(look.places) // FEW_PLACES)]
        self.false = self.known and any(_false_score(mechanism, y, look.rng) for y in some)
        if not self.known:
            self.said = (OWN_WORD,)
        elif self.false:
            self.samples = min(look.samples, DERIVED)
            self.said = (
                "Its score is not the derivative of its log-density; the information is that of "
                f"scores derived from the density, {self.samples} at each place.",
            )

    def at(self, y: Array, rng: np.random.Generator) -> Array:
        z = self.mechanism.simulate(y, rng, trials=self.samples)
        if not self.false:
            return self.mechanism.score(z, y)
        return np.nan_to_num(_derived_scores(self.mechanism, z, y, np.eye(y.size))[0])


def _around(measurements: int, look: Look) -> Array:
    directions = look.rng.standard_normal((8, measurements))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    distances = np.array([1e-3, 0.1, 1.0, 3.0, 10.0])[:, None, None]
    return (distances * directions).reshape(-1, measurements)


def _shown(scores: Scores, S: PSD, y: Array, look: Look) -> tuple[float, float]:
    """E (wᵀs)² for the direction w with the most information, and the half width of its interval.

    w comes from the first half of the samples and is judged on the second: the largest eigenvalue
    of a noisy matrix would be too large.
    """
    score = scores.at(y, look.rng)
    first, second = score[: len(score) // 2], score[len(score) // 2 :]
    matrix = first.T @ first / len(first)
    if relative(S, matrix) == math.inf:
        return math.inf, 0.0
    root, _ = inverse_root(S.dense())
    if root.size == 0:
        return 0.0, 0.0
    direction = root @ np.linalg.eigh(root.T @ matrix @ root)[1][:, -1]
    return _mean((second @ direction) ** 2, look)


def _mean(x: Array, look: Look) -> tuple[float, float]:
    wide = scipy.stats.norm.ppf((1 + look.each) / 2)
    return float(x.mean()), float(wide * x.std(ddof=1) / math.sqrt(x.size))


# --- scores, next to the density ------------------------------------------------------------------


def _derived_scores(
    mechanism: Mechanism, z: Array, y: Array, directions: Array
) -> tuple[Array, Array]:
    """vᵀ∂ ln p(z|y)/∂y by differences, for draws z (n, q) and directions v (k, m); with errors."""

    def line(v: Array) -> Channel:
        """ln p(z_i|y + t·v) as a function of t, for draw number i."""

        def log_density(i: Array, t: Array) -> Array:
            rows = y + t.reshape(-1, 1) * v
            return mechanism.log_density(z[i.ravel().astype(np.intp)], rows).reshape(t.shape)

        return Channel.from_functions(log_density=log_density)

    count = np.arange(len(z), dtype=np.float64)
    wide, zero = np.full(len(z), math.inf), np.zeros(len(z))
    found = [differences(line(v), count, zero, wide) for v in directions]
    return np.stack([s for s, _ in found], axis=1), np.stack([e for _, e in found], axis=1)


def _false_score(mechanism: Mechanism, y: Array, rng: np.random.Generator) -> bool:
    z = mechanism.simulate(y, rng, trials=COMPARED)
    m = y.size
    v = np.eye(m) if m <= DIRECTIONS else rng.standard_normal((DIRECTIONS, m))
    found, error = _derived_scores(mechanism, z, y, v)
    with np.errstate(all="ignore"):
        own = mechanism.score(z, y) @ v.T
        apart = ~(np.abs(own - found) <= 1e-4 * (np.abs(own) + np.abs(found)) + 10 * error)
    return bool(np.count_nonzero(apart) > 1)


# --- running code: is its noise that of the density it claims? ------------------------------------


class NoiseTest(NamedTuple):
    """The TESTS that running code failed at one y, and an atom that moves."""

    wrong: tuple[str, ...]
    atom: str | None


def _runs(look: Look) -> int:
    return max(int(SHARE * look.samples), FEWEST)


def _usual_places(mechanism: RunningMechanism) -> Array:
    scale = math.sqrt(float(np.diagonal(mechanism.worst_information()).max()))
    fixed = np.random.default_rng(5).standard_normal((3, mechanism.measurements))
    return np.asarray(np.array([[0.0], [1.0], [10.0]]) * fixed / scale)


def noise_test(mechanism: RunningMechanism, y: Array, look: Look) -> NoiseTest:
    """The noise e = z̃ − Ay of n runs at y, which must be N(0, I).

    mean            n‖ē‖² ~ χ²_q.
    covariance      the directions of least and most variance in one half of the runs: in the other
                    half Σ(wᵀe)² ~ χ².
    distribution    Kolmogorov and Smirnov's distance of all entries to the normal distribution.
    atoms           exact outputs that move with y.

    Code that does what it claims fails with a probability below 1 − confidence over all places.
    """
    count = _runs(look)
    noise = mechanism.simulate(y, look.rng, trials=count) - mechanism.matrix @ y
    first, second = noise[: count // 2], noise[count // 2 :]
    mean = noise.mean(axis=0)
    ends = np.linalg.eigh(first.T @ first)[1][:, [0, -1]]
    total = ((second @ ends) ** 2).sum(axis=0)
    law = scipy.stats.chi2(len(second))
    p = {
        "mean": scipy.stats.chi2.sf(count * mean @ mean, mean.size),
        "covariance": 4 * min(law.cdf(total).min(), law.sf(total).min()),  # two ends, two sides
        "distribution": scipy.stats.kstest(noise.ravel(), "norm").pvalue,
    }
    wrong = tuple(test for test in TESTS if p[test] < (1 - look.each) / 3)
    atoms = moving_atoms(as_sampler(mechanism), y, np.eye(y.size), count, look.rng)
    return NoiseTest(wrong, next((atom for atom in atoms if atom is not None), None))


def described(every: list[NoiseTest], look: Look) -> tuple[str, float]:
    """A sentence on what was examined, with the outcome; the excess that would be seen."""
    count = _runs(look)
    where = f"{count} runs" + (f" at each of {len(every)} measurement vectors" if every[1:] else "")
    failed = [test for test in TESTS if any(test in place.wrong for place in every)]
    if failed:
        return (
            f"The {' and the '.join(failed)} of its noise contradict what it claims ({where}; "
            f"false alarm below {1 - look.confidence:.1g})."
        ), math.nan
    # Σx²/n of normal x is that far from 1 with the probability that the test allows; twice as far
    # is all but certain to be seen.
    half = count - count // 2
    seen = 2 * (scipy.stats.chi2.isf((1 - look.each) / 12, half) / half - 1)
    said = (
        f"Mean, covariance and distribution of its noise are those it claims ({where}, tests at "
        f"level {1 - look.confidence:.1g} together; a variance off by {seen:.0%} would be seen)."
    )
    return said, seen / (1 - seen) if seen < 1 else math.nan


def by_running(mechanism: RunningMechanism, S: PSD, look: Look) -> Finding:
    """The claim of the code, if its noise agrees with it; else the information that runs show."""
    claimed = relative(S, mechanism.worst_information())
    look = look.at(lambda: _usual_places(mechanism))
    every = [noise_test(mechanism, y, look) for y in look.places]
    (report, power), method, sure = described(every, look), "runs of the code", look.confidence
    for y, place in zip(look.places, every):
        if place.atom is not None:
            return Finding(math.inf, 0.0, math.inf, claimed, y, method, (place.atom,), sure)
    if not any(place.wrong for place in every):
        reasons = (
            "The same at every y, by its claim; run at some measurement vectors only.",
            report,
        )
        return Finding(
            claimed, 0.0, claimed, claimed, None, method, reasons, sure,
            where=EXAMINED, resolution=math.nan, sampler="agrees", power=power,
            looked={PAIRS: True},
        )  # fmt: skip
    margin, error, worst = 0.0, 0.0, look.places[0]
    for y, place in zip(look.places, every):
        shown, doubt = _carried(mechanism, S, y, look)
        if "mean" not in place.wrong and shown - doubt > margin - error:
            margin, error, worst = shown, doubt, y
    least = margin - error
    return Finding(
        margin, error, least, claimed, worst, method, (report,), sure, refuted=True,
        sampler="contradicts",
    )  # fmt: skip


def _carried(mechanism: RunningMechanism, S: PSD, y: Array, look: Look) -> tuple[float, float]:
    """(cᵀAd)²/Var cᵀz̃ ≤ dᵀI(y)d, with dᵀSd = 1, and the half width of its interval.

    For every c and d and any noise with E z̃ = Ay; c and d are chosen on the first half of the
    runs, the variance is that of the second.
    """
    noise = mechanism.simulate(y, look.rng, trials=_runs(look)) - mechanism.matrix @ y
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
    mean, doubt = _mean(square, look)
    return slope / mean, slope / mean - slope / (mean + doubt)
