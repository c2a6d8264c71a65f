"""Fisher's information about parameters that move what an unknown x_0 does to later readings.

Of x_0 = mean0 + Eδ nothing is known. Where θ does not move the response X to δ, the limit of vaguer
and vaguer laws of δ says what is known of θ (`_information`). Where it does (autoregressions driven
by inputs) that limit is infinite: from ever farther away every coefficient is seen better. Then
δ counts as what it is, q more parameters, and the information about θ beside them is

    I_θθ − I_θδ I_δδ⁻¹ I_δθ    at the δ that is given: the Cramér-Rao bound with x_0 unknown.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy

from privest.arrays import Array
from privest.dynamics._releases import Data
from privest.dynamics._identification._information import information
from privest.dynamics._steps import Matrices
from privest.errors import NumericalFailure

Start = Callable[[], Array]  # x_0 of each series, (n, series)


def information_of(
    matrices: Matrices, slopes: Matrices, data: Data, start: Start | None = None
) -> Array:
    """I (p, p) from all series, for any start; at mean0 where none is given and it matters."""
    if not matrices.diffuse.shape[1] or not (slopes.A.any() or slopes.C.any()):
        return information(matrices, slopes, data)
    x = np.repeat(matrices.mean0[:, None], data.series, axis=1) if start is None else start()
    one = Data(*data._replace(values=data.values[:, :, :1]))
    points = _as_good(x)
    found = np.array([_beside_start(matrices, slopes, one, x_0) for x_0 in points.T])
    return np.asarray(found.mean(axis=0) * data.series)


def _as_good(x: Array) -> Array:
    """At most 2n points with the mean and the covariance of all: I is quadratic in x_0."""
    n, count = x.shape
    if count <= 2 * n:
        return x
    mean = x.mean(axis=1, keepdims=True)
    left, size, _ = np.linalg.svd(x - mean, full_matrices=False)
    aside = left * size * np.sqrt(n / count)
    return np.concatenate([mean + aside, mean - aside], axis=1)


def _beside_start(matrices: Matrices, slopes: Matrices, data: Data, x_0: Array) -> Array:
    """I_θθ − I_θδ I_δδ⁻¹ I_δθ of one series that starts at x_0."""
    p, q = len(slopes.A), matrices.diffuse.shape[1]
    known = matrices._replace(mean0=x_0, diffuse=matrices.diffuse[:, :0])
    wide = Matrices(*(np.concatenate([own, np.zeros((q, *own.shape[1:]))]) for own in slopes))
    wide = wide._replace(diffuse=wide.diffuse[:, :, :0])
    wide.mean0[p:] = matrices.diffuse.T
    # A mean and x_0 shift the first readings alike: the difference of two large numbers. So θ is
    # turned first to directions that move δ along, about which the releases know the difference.
    shared = _shared(information(known, wide, data), p)
    wide.mean0[:p] -= shared @ wide.mean0[p:]
    total = information(known, wide, data)
    return np.asarray(total[:p, :p] - _shared(total, p) @ total[p:, :p])


def _shared(total: Array, p: int) -> Array:
    """I_θδ I_δδ⁻¹."""
    own = total[p:, p:]
    unit = np.sqrt(own.diagonal())
    try:
        half = scipy.linalg.cho_factor(own / np.outer(unit, unit), lower=True)
    except np.linalg.LinAlgError:
        raise NumericalFailure("The releases do not tell all of x_0 apart.") from None
    return np.asarray(scipy.linalg.cho_solve(half, total[p:, :p] / unit[:, None]).T / unit)
