"""A lower bound on μ of Gaussian differential privacy, from releases of two values."""

import numpy as np
import scipy


def share_interval(marks, level):
    """Clopper and Pearson's."""
    k, n = int(marks.sum()), marks.size
    low = 0.0 if k == 0 else float(scipy.stats.beta.ppf(level, k, n - k + 1))
    high = 1.0 if k == n else float(scipy.stats.beta.ppf(1 - level, k + 1, n - k))
    return low, high


def proved_mu(release, ends, count, confidence):
    """Φ⁻¹(p) − Φ⁻¹(q) of a linear test, learnt from half of the outputs and judged on the others.

    p and q: how often it says "the second end" there and at the first, by Clopper and Pearson.
    `release(rows (n, 1))` gives a release per row.
    """
    outputs = [np.asarray(release(np.full((2 * count, 1), v))).reshape(2 * count, -1) for v in ends]
    learnt_from, judged = zip(*(np.split(z, 2) for z in outputs), strict=True)
    spread = sum(np.atleast_2d(np.cov(z.T)) for z in learnt_from)
    gap = learnt_from[1].mean(axis=0) - learnt_from[0].mean(axis=0)
    # A little more spread: outputs without noise are told apart along the gap itself.
    little = 1e-12 * (np.trace(spread) + gap @ gap) + np.finfo(float).tiny
    toward = np.linalg.solve(spread + little * np.eye(len(gap)), gap)
    middle = float(np.mean([z.mean(axis=0) for z in learnt_from], axis=0) @ toward)
    level = (1 - confidence) / 2
    least, most = (share_interval(z @ toward > middle, level) for z in judged)
    return float(scipy.special.ndtri(most[0]) - scipy.special.ndtri(least[1]))
