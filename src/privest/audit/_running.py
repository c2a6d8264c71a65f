"""What users really run: is the noise of the code that of the density it claims?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import Array
from privest.audit._by_density import Finding
from privest.audit._door import Look, as_sampler
from privest.audit._floors import inverse_root, relative
from privest.audit._move_size import moving_atoms
from privest.linalg import PSD
from privest.mechanism import RunningMechanism

# A run of code costs as much as many draws of a density: this part of the samples at each place.
SHARE, FEWEST = 0.1, 100
TESTS = ("mean", "covariance", "distribution")


@dataclass(frozen=True)
class Examined:
    """What the noise of running code was at one y: the TESTS it failed, and an atom that moves."""

    wrong: tuple[str, ...]
    atom: str | None

    @property
    def good(self) -> bool:
        """Nothing speaks against what the code claims."""
        return not self.wrong and self.atom is None


def runs(look: Look) -> int:
    """How often the code is run at each place."""
    return max(int(SHARE * look.samples), FEWEST)


def _usual_places(mechanism: RunningMechanism) -> Array:
    """0 and two fixed vectors, of the size of the noise and of ten times that."""
    scale = math.sqrt(float(np.diagonal(mechanism.worst_information()).max()))
    fixed = np.random.default_rng(5).standard_normal((3, mechanism.readings))
    return np.asarray(np.array([[0.0], [1.0], [10.0]]) * fixed / scale)


def examined(mechanism: RunningMechanism, y: Array, look: Look) -> Examined:
    """The noise e = z̃ − Ay of n runs at y, which must be N(0, I).

    mean            n‖ē‖² ~ χ²_q.
    covariance      the directions of least and most variance in one half of the runs: in the other
                    half Σ(wᵀe)² ~ χ². Sees any covariance that is not I.
    distribution    Kolmogorov and Smirnov's distance of all entries to the normal law.
    atoms           exact outputs that move with y: some runs show it without noise.

    Each of the three p-values must exceed (1 − confidence)/3, divided by the number of places: code
    that does what it claims fails with a probability below 1 − confidence.
    """
    count = runs(look)
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
    return Examined(wrong, next((atom for atom in atoms if atom is not None), None))


def described(every: list[Examined], look: Look) -> str:
    """One sentence on what was examined, and how it came out."""
    count = runs(look)
    where = (
        f"{count} runs at each of {len(every)} reading vectors" if every[1:] else f"{count} runs"
    )
    failed = [test for test in TESTS if any(test in place.wrong for place in every)]
    if failed:
        return (
            f"The {' and the '.join(failed)} of its noise contradict what it claims ({where}; "
            f"false alarm below {1 - look.confidence:.1g})."
        )
    # Σx²/n of normal x is that far from 1 with the probability that the test allows; twice as far
    # is all but certain to be seen.
    half = count - count // 2
    seen = 2 * (scipy.stats.chi2.isf((1 - look.each) / 12, half) / half - 1)
    return (
        f"Mean, covariance and distribution of its noise are those it claims ({where}, tests at "
        f"level {1 - look.confidence:.1g} together; a variance off by {seen:.0%} would be seen)."
    )


def by_running(mechanism: RunningMechanism, S: PSD, look: Look) -> Finding:
    """What the code claims, if its noise bears that out; else what runs of it show."""
    claimed = relative(S, mechanism.worst_information())
    look = look.at(lambda: _usual_places(mechanism))
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
