"""An attacker that can only simulate: the posterior mean, learnt by regression."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privest.arrays import Array
from privest.audit._score_regression import Splines

# (u (n, m), rng) → z (n, q): one release for every row.
Releases = Callable[[Array, np.random.Generator], Array]
PAIRS = 8000
LEAST = 1e-10


def learnt_note(pairs: int) -> str:
    """What the attacker is."""
    return (
        f"No density: E[y|z] was learnt by regression on {pairs} simulated pairs. An attacker "
        "who knows more does at least as well: a large error here is no evidence of privacy, "
        "run certify. No attacker without a prior was run."
    )


def learnt_mean(
    release: Releases, mean: float, deviation: float, size: int, rng: np.random.Generator,
    pairs: int = PAIRS,
) -> Callable[[Array], Array]:  # fmt: skip
    """z (n, q) → an estimate (n, size) of E[y|z] under y_i ~ N(mean, deviation²), independent.

    Least squares of y on hat functions of each output and of the length of z (`scored.py`): piece-
    wise linear, constant beyond what was met. Its error on fresh pairs is that of a real attacker,
    and never below that of the true posterior mean on average.
    Cost: `pairs`·K² flops, K at most a few hundred.
    """
    y = rng.normal(mean, deviation, (pairs, size))
    z = release(y, rng)
    basis = Splines.through(z, pairs)
    centre, covariance = basis.moments(z)
    values, vectors = np.linalg.eigh(covariance)
    # Hats of one output sum to one: what does not vary tells nothing.
    kept = values > LEAST * max(float(values[-1]), np.finfo(float).tiny)
    both = basis.features(z).T @ (y - mean) / pairs - np.outer(centre, y.mean(axis=0) - mean)
    weights = vectors[:, kept] @ ((vectors[:, kept].T @ both) / values[kept][:, None])
    start = y.mean(axis=0)
    return lambda seen: start + (basis.features(seen) - centre) @ weights
