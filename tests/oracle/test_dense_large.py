"""A dense stream of 20 000 steps: above the size at which LAPACK's own Cholesky crashes.

Needs 7 GB and two minutes: run by `make test-slow`. The reference never forms V: conjugate
gradients on V x = A(Σ(Aᵀx)) + x.
"""

import os

import numpy as np
import pytest
import scipy.sparse.linalg

import privest as pv
from privest.linalg.sequential import DenseRows

STEPS, N, VARIANCE = 20_000, 5, 0.5


@pytest.mark.slow
@pytest.mark.skipif(
    os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") < 12e9, reason="needs 12 GB of memory"
)
def test_twenty_thousand_steps():
    rng = np.random.default_rng(0)
    A = np.zeros((STEPS, STEPS))
    for k in range(0, STEPS, 500):
        A[k : k + 500] = np.tril(0.1 * rng.standard_normal((500, STEPS)), k - 1)
    np.fill_diagonal(A, np.sqrt(rng.uniform(0.2, 2, STEPS)))
    level = pv.StreamLevel._of(DenseRows(A, 1), (1,) * STEPS)
    H = rng.standard_normal((STEPS, N))
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=VARIANCE))
    bound = pv.bound(model, level)

    V = scipy.sparse.linalg.LinearOperator(
        (STEPS, STEPS), matvec=lambda x: VARIANCE * (A @ (A.T @ x)) + x
    )
    shown, mix = A @ H, rng.standard_normal(N)
    solved, failed = scipy.sparse.linalg.cg(V, shown @ mix, rtol=1e-13, maxiter=3000)
    assert not failed
    found = bound.covariance[-1] @ (shown.T @ solved)  # Σ PI mix
    assert np.abs(found - mix).max() < 1e-9 * np.abs(mix).max()
