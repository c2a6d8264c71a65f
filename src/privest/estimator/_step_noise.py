"""The noise of the steps of one release: the law of one step, or one given for all of them."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.linalg import PSD, Blocks, Diagonal
from privest.noise import JointNoise
from privest.privacy import SequentialLevel
from privest.release import StreamRelease


def step_covariance(
    law: JointNoise, given: bool, release: StreamRelease, level: SequentialLevel
) -> PSD:
    """Σ of these steps; it must not tie steps together."""
    total, steps = len(release.values), release.steps
    if not given:
        if law.size is None:
            return law.covariance(total)
        one = law.covariance(law.size)
        if one.pointwise is not None:
            return Diagonal(np.tile(one.diagonal(), steps))
        return Blocks(np.broadcast_to(one.dense(), (steps, *one.dense().shape)))
    if law.size not in (None, total):
        raise InvalidInput(
            f"The noise has {law.size} components; this release has {total} readings."
        )
    sigma = law.covariance(total)
    if isinstance(sigma, Blocks):
        sizes = level.sizes_between(release.start, release.start + steps)
        ends = np.cumsum(sizes).tolist()
        if not set(np.cumsum(sigma.sizes).tolist()).issuperset(ends):
            return _step_blocks(sigma.dense(), ends, sizes)
    return sigma


def step_mean(law: JointNoise, given: bool, release: StreamRelease) -> Array | float:
    """E w of these steps."""
    if given or law.size is None:
        return law.expectation(len(release.values))
    mean = np.broadcast_to(law.expectation(law.size), law.size)
    return np.tile(mean, release.steps) if mean.any() else 0.0


def _step_blocks(sigma: Array, ends: list[int], sizes: tuple[int, ...]) -> Blocks:
    """The diagonal blocks of a matrix that has nothing outside them."""
    blocks = [sigma[end - m : end, end - m : end] for end, m in zip(ends, sizes)]
    if np.count_nonzero(sigma) != sum(np.count_nonzero(block) for block in blocks):
        raise InvalidInput(
            "The noise ties steps together. PrivateRLS needs noise that is independent between "
            "steps; use bounds.stream_estimates on the whole stream."
        )
    return Blocks(blocks)
