"""What users really run: is the noise of the code that of the density it claims?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import Array
from privest.audit._move_size import moving_atoms
from privest.audit._sampled import Look
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


def usual_places(mechanism: RunningMechanism) -> Array:
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

    def draw(y: Array, rng: np.random.Generator, n: int) -> Array:
        return mechanism.simulate(y, rng, trials=n)

    atoms = moving_atoms(draw, y, np.eye(y.size), count, look.rng)
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
