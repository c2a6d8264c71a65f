"""The matrices of a system, checked at the door."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array, ArrayLike, as_array
from privest.errors import InvalidInput
from privest.linalg import psd
from privest.linalg.tolerances import EXTREME, SQUARED


def matrices_of(value: ArrayLike, name: str) -> Array:
    """(rows, columns) or with a time axis; a number is 1×1."""
    array = as_array(value, name, ndim=(0, 2, 3))
    if np.abs(array).max(initial=0.0) > 1.0 / SQUARED:
        raise InvalidInput(
            f"{name} has entries beyond {1 / SQUARED:g}, whose squares leave the range of numbers: "
            "state states or readings in other units."
        )
    return array.reshape(1, 1) if array.ndim == 0 else array


def covariances_of(value: ArrayLike, name: str, size: int) -> Array:
    """Symmetric and ≥ 0, (size, size) or with a time axis; a number stands for that times I."""
    array = as_array(value, name, ndim=(0, 2, 3))
    if array.ndim == 0:
        array = array * np.eye(size)
    if array.shape[-2:] != (size, size):
        raise InvalidInput(
            f"{name} must be {size}×{size} (or a number, or with a time axis); received shape "
            f"{array.shape}."
        )
    variances = np.diagonal(array, axis1=-2, axis2=-1)
    far = (variances > 1.0 / EXTREME) | ((variances < EXTREME) & (variances > 0))
    if far.any():
        raise InvalidInput(
            f"{name} has a variance of {variances[far].flat[0]:.1g}, beyond the range in which "
            "covariances can be computed: state states or readings in other units."
        )
    psd(array, name)
    return array / 2 + array.swapaxes(-1, -2) / 2  # a sum first could overflow


def diffuse_columns(value: ArrayLike | bool | None, size: int) -> Array | None:
    """D (size, q) of linearly independent columns, or None: from True, truth values, or columns."""
    if value is None or value is False:
        return None
    given = as_array(value, "diffuse", ndim=(0, 1, 2))
    if np.asarray(value).dtype == np.bool_ and given.shape in ((), (size,)):
        columns: Array = np.eye(size)[:, np.broadcast_to(given > 0, size)]
    else:
        columns = as_array(value, "diffuse", ndim=2)
    q = columns.shape[1]
    if len(columns) != size or q == 0:
        raise InvalidInput(
            f"diffuse must be True, {size} truth values (some True), or columns of {size} entries; "
            f"received shape {given.shape}."
        )
    if np.linalg.matrix_rank(columns / np.maximum(np.linalg.norm(columns, axis=0), SQUARED)) < q:
        raise InvalidInput(f"The {q} columns of diffuse are not linearly independent.")
    return columns
