"""Starts of which nothing is known: x_0 = mean0 + E δ + N(0, cov0), δ free.

With V the covariance of the releases for a known δ and X = their response to δ,

    ℓ = −½ (N log 2π + log|V| + log|S| + ‖z̃ − μ − Xδ̂‖²_{V⁻¹}) ,   S = XᵀV⁻¹X ,   δ̂ = S⁻¹XᵀV⁻¹(z̃ − μ)

the limit of ℓ + (q/2) log κ for δ ~ N(0, κI). Its gradient: the ordinary one at δ̂ (there ℓ does not
change with δ), and −½ d tr(S⁻¹XᵀV⁻¹X) with S held: that of series which show zeros and start at the
columns of E S^{−½}, squares only.
"""

from __future__ import annotations

import numpy as np
import scipy

from privest.arrays import Array
from privest.dynamics._diffuse import HIDDEN
from privest.dynamics._identification._adjoint import Passed
from privest.errors import NotIdentifiable


def profiled(way: Passed, series: int) -> tuple[Passed, float]:
    """The data with δ̂ of each series, then the whitened columns, √series times; and log|S|."""
    columns = way.innovations.shape[2] - series
    if not columns:
        return way, 0.0
    upper = _response(way.innovations[:, :, series:], way.begun[:, series:])
    # Whitened responses are −ζ of the series that start at a column and show zeros.
    whitened = _against(upper, way, series)
    flat = whitened.innovations.reshape(-1, columns)
    known = -flat.T @ way.innovations[:, :, :series].reshape(-1, series)

    def joined(all_series: Array, white: Array) -> Array:
        data = all_series[..., :series] + white @ known
        return np.concatenate([data, np.sqrt(series) * white], axis=-1)

    found = way._replace(
        begun=joined(way.begun, whitened.begun),
        filtered=joined(way.filtered, whitened.filtered),
        innovations=joined(way.innovations, whitened.innovations),
    )
    return found, 2.0 * float(np.log(np.abs(upper.diagonal())).sum())


def response_size(innovations: Array, begun: Array) -> float:
    """The smallest eigenvalue of S: what is known at least of any direction of δ."""
    return float(np.linalg.svd(_response(innovations, begun), compute_uv=False)[-1] ** 2)


def _response(innovations: Array, begun: Array) -> Array:
    """Upper-triangular with UᵀU = S; NotIdentifiable where the releases do not show all of δ.

    begun (N, q): the columns of E.
    """
    flat = innovations.reshape(-1, innovations.shape[2])
    upper: Array = np.asarray(np.linalg.qr(flat, mode="r"))
    size = np.linalg.norm(upper, axis=0)
    unit = np.where(size > 0, size, 1.0)
    _, values, right = np.linalg.svd(upper / unit)
    columns = len(size)
    values = np.concatenate([values, np.zeros(columns - len(values))])
    if values[-1] <= HIDDEN:
        hidden = begun @ (right[values <= HIDDEN] / unit).T
        raise NotIdentifiable(
            f"The releases do not determine x_0, of which nothing is known: {hidden.shape[1]} of "
            f"the {columns} directions in which the model starts diffuse are never shown "
            "(`hidden_directions`). Take more steps, another level, or give cov0.",
            hidden,
        )
    return upper


def _against(upper: Array, way: Passed, series: int) -> Passed:
    """The columns times S^{−½} = U⁻¹."""
    inverse = scipy.linalg.solve_triangular(upper, np.eye(len(upper)))
    return way._replace(
        begun=way.begun[:, series:] @ inverse,
        filtered=way.filtered[:, :, series:] @ inverse,
        innovations=way.innovations[:, :, series:] @ inverse,
    )
