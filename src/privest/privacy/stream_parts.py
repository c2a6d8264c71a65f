"""The parts S, U and lags of a stream level, checked and put into rows A of their structure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from privest.arrays import AnyArray, Array, ArrayLike, as_array, as_count, as_counts
from privest.errors import InvalidInput
from privest.lattice import literal_root
from privest.linalg import PSD, BandedRows, Blocks, DenseRows, psd, psd_blocks
from privest.privacy.level import PrivacyLevel

NAME = "the stream level"
MOST = 10**9  # measurements of a level that is written down: 8 GB at least
RANGE_TOLERANCE = 1e-10  # part of ‖U_k‖ that may lie outside the range of S_k


def squares_by_lag(blocks: Array) -> Array:
    """[AᵀA]_kk (K, m, m) from A by lag (b + 1, K, m, m): all that is revealed of each y_k."""
    steps = blocks.shape[1]
    total = np.zeros(blocks.shape[1:])
    for lag in range(min(len(blocks), steps)):
        own = blocks[lag, lag:]
        total[: steps - lag] += own.swapaxes(-1, -2) @ own
    return total


def as_steps(steps: int, measurements: int = 1) -> int:
    count = as_count(steps, "steps", least=1)
    if count * measurements > MOST:
        raise InvalidInput(
            f"a level of {count} steps is too long to be written down (at most {MOST:.0e} "
            "measurements): use StreamLevel.constant(S)."
        )
    return count


def as_sizes(given: Sequence[int] | AnyArray) -> tuple[int, ...]:
    sizes = as_counts(given, "sizes of the steps")
    if sum(sizes) > MOST:
        raise InvalidInput(f"sizes must add up to at most {MOST:.0e} measurements.")
    return sizes


def level_of_a_step(S: PrivacyLevel | ArrayLike) -> Array:
    if isinstance(S, PrivacyLevel):
        return np.asarray(S.dense() if S.number is None else S.number)
    return as_array(S, NAME, ndim=(0, 2))


def require_in_range(blocks: Array) -> None:
    """Refuse numbers whose squares, the information about a measurement, leave double precision."""
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(np.square(blocks).sum()):
            raise InvalidInput(
                f"{NAME} and its weights leave the range of double precision: their squares are "
                "no finite numbers."
            )


def own_levels(given: ArrayLike) -> tuple[PSD, tuple[int, ...]]:
    """The S_k as one block-diagonal matrix, and their sizes m_k."""
    if isinstance(given, PrivacyLevel):
        raise InvalidInput(
            "a PrivacyLevel does not say where steps begin and end: state one level a step, or "
            "StreamLevel.constant(level, steps=K) for the same at every step."
        )
    if isinstance(given, Sequence) and any(_is_matrix(part) for part in given):
        parts = [as_array(part, f"S of step {k}") for k, part in enumerate(given)]
        blocks = [np.atleast_2d(part) for part in parts]
        return psd_blocks(blocks, NAME), tuple(len(b) for b in blocks)
    array = as_array(given, NAME, ndim=(1, 3))
    size = array.shape[1] if array.ndim == 3 else 1
    return psd(array, NAME), (size,) * len(array)


def _is_matrix(part: Any) -> bool:  # noqa: ANN401 - whatever was given
    try:
        return np.ndim(part) == 2
    except ValueError:  # rows of different lengths
        return False


def step_lowers(own: PSD, sizes: tuple[int, ...]) -> Array:
    """ℓ_k (K, m, m) for measurements of one size; roots of numbers are rounded down: ℓ² ≤ s."""
    m = sizes[0]
    steps = len(sizes)
    if own.pointwise is None:
        assert isinstance(own, Blocks)
        return own.factors[0].lower
    result = np.zeros((steps, m, m))
    result[:, np.arange(m), np.arange(m)] = literal_root(own.diagonal()).reshape(steps, m)
    return result


def lag_blocks(own: PSD, sizes: tuple[int, ...], weights: Sequence[ArrayLike]) -> Array:
    """A by lag, ℓ_kᵀ and ℓ_kᵀW_j: (b + 1, K, m, m) for measurements of one size."""
    given: object = weights
    if not isinstance(given, Sequence) and not (isinstance(given, np.ndarray) and given.ndim):
        raise InvalidInput("lags must be a sequence of weights, such as [0.5, 0.25].")
    m = sizes[0]
    blocks = np.zeros((len(weights) + 1, len(sizes), m, m))
    blocks[0] = step_lowers(own, sizes).transpose(0, 2, 1)
    for j, weight in enumerate(weights, start=1):
        matrix = as_array(weight, f"the weight of lag {j}")
        matrix = matrix * np.eye(m) if matrix.ndim == 0 else matrix
        if matrix.shape != (m, m):
            raise InvalidInput(f"the weight of lag {j} must be a number or {m}×{m}.")
        with np.errstate(over="ignore", invalid="ignore"):
            blocks[j] = blocks[0] @ matrix
    require_in_range(blocks)
    return blocks


def past_of(U: object, sizes: tuple[int, ...]) -> list[Array]:
    """U_k as arrays (M_{k−1}, m_k)."""
    steps = len(sizes)
    if isinstance(U, np.ndarray) and U.shape == (steps, steps):
        matrix = as_array(U, "U")
        if np.triu(matrix).any():
            raise InvalidInput("U as a matrix must be strictly lower-triangular: U_k in row k.")
        return [matrix[k, :k, None] for k in range(steps)]
    if not isinstance(U, Sequence) or len(U) != steps:
        raise InvalidInput(f"U must have one entry for each of the {steps} steps.")
    starts = np.cumsum([0, *sizes[:-1]])
    return [_past_of(k, U[k], int(starts[k]), sizes[k]) for k in range(steps)]


def _past_of(k: int, given: ArrayLike | None, before: int, m: int) -> Array:
    if given is None:
        return np.zeros((before, m))
    array = as_array(given, f"U of step {k}", ndim=(1, 2))
    array = array[:, None] if array.ndim == 1 and m == 1 else array
    if array.size == 0 and before == 0:
        return np.zeros((0, m))
    if array.shape != (before, m):
        raise InvalidInput(f"U of step {k} must have shape {(before, m)}; received {array.shape}.")
    return array


def reach_of(past: list[Array], sizes: tuple[int, ...]) -> int:
    """The largest lag at which some U_k is not zero."""
    step_of = np.repeat(np.arange(len(sizes)), sizes)
    reach = 0
    for k, array in enumerate(past):
        used = np.flatnonzero(array.any(axis=1))
        if len(used):
            reach = max(reach, k - int(step_of[used[0]]))
    return reach


def rows_with_past(
    own: PSD, past: list[Array], sizes: tuple[int, ...], reach: int
) -> BandedRows | DenseRows:
    """A_k = [ℓ_k⁺U_kᵀ, ℓ_kᵀ], banded where it pays."""
    lowers = own.blocks(sizes).lowers()
    coefficients = []
    for k, (lower, array) in enumerate(zip(lowers, past)):
        part = np.linalg.pinv(lower) @ array.T
        outside = np.abs(array.T - lower @ part).max(initial=0.0)
        if outside > RANGE_TOLERANCE * np.abs(array).max(initial=0.0):
            raise InvalidInput(
                f"U of step {k} does not lie in the range of S (U = U S⁺ S fails by "
                f"{outside:.2g}): a release cannot tie earlier measurements to what step {k} hides."
            )
        coefficients.append(part)
    if len(set(sizes)) == 1 and (reach + 1) * 4 <= len(sizes):
        (m,) = set(sizes)
        blocks = np.zeros((reach + 1, len(sizes), m, m))
        for k, (lower, part) in enumerate(zip(lowers, coefficients)):
            blocks[0, k] = lower.T
            for lag in range(1, min(reach, k) + 1):
                blocks[lag, k] = part[:, (k - lag) * m : (k - lag + 1) * m]
        return BandedRows(blocks)
    matrix = np.zeros((sum(sizes),) * 2)
    for end, size, lower, part in zip(np.cumsum(sizes), sizes, lowers, coefficients):
        matrix[end - size : end, : end - size] = part
        matrix[end - size : end, end - size : end] = lower.T
    return DenseRows(matrix, max(sizes))
