"""Estimates from the releases of a stream: at once by dense algebra, and step by step."""

import numpy as np

import privest as pv


def dense_estimate(model, level, released):
    """(HᵀAᵀV⁻¹AH)⁻¹ HᵀAᵀV⁻¹(z̃ − A E w), V = A cov(w) Aᵀ + I."""
    A = level.rows.dense()
    V = A @ model.covariance.dense() @ A.T + np.eye(len(A))
    mean = np.broadcast_to(model.noise.expectation(model.measurements), model.measurements)
    half = np.linalg.inv(np.linalg.cholesky(V))
    return np.linalg.lstsq(half @ A @ model.matrix, half @ (released - A @ mean), rcond=None)[0]


def rls_path(model, level, released):
    """θ̂_k of `PrivateRLS`, from the first step on at which θ is identifiable."""
    rls = pv.PrivateRLS(level, model.parameters, noise=1.0)
    sigma, path = model.covariance.dense(), []
    ends = np.cumsum(level.sizes)
    for k, end in enumerate(ends):
        part = slice(end - level.sizes[k], end)
        release = pv.Release(k, 1, released[part], None, level.fingerprint, True)
        rls.update(release, model.matrix[part], noise=pv.noise.Gaussian(cov=sigma[part, part]))
        if rls.identifiable:
            path.append(rls.value)
    return np.array(path)
