"""Random state-space systems, and their joint Gaussian written out without any recursion."""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from privest.dynamics import StateSpace


def random_psd(rng, size, rank):
    factor = rng.standard_normal((size, rank))
    return factor @ factor.T


def random_system(rng, *, steps, n=3, m=2, varying=False, singular=False, radius=1.0, inputs=0):
    """A system with spectral radius about `radius`; singular: Q, R and cov0 of low rank."""
    K = (steps,) if varying else ()

    def draw(*shape):
        return rng.standard_normal((*K, *shape))

    def covariance(size, rank):
        factor = draw(size, rank)
        return factor @ factor.swapaxes(-1, -2)

    A = draw(n, n)
    A *= radius / np.abs(np.linalg.eigvals(A)).max(-1)[..., None, None]
    return StateSpace(
        A,
        draw(m, n),
        covariance(n, 1 if singular else n),
        covariance(m, 1 if singular else m) + (0.0 if singular else 0.1) * np.eye(m),
        mean0=rng.standard_normal(n),
        cov0=random_psd(rng, n, n - 1 if singular else n),
        B=draw(n, inputs) if inputs else None,
        D=draw(m, inputs) if inputs else None,
    )


@dataclass
class Joint:
    """The trajectory x ~ N(mean, P) and Y = H x + own + v, cov v = R, as dense matrices."""

    mean: np.ndarray
    P: np.ndarray
    H: np.ndarray
    R: np.ndarray
    own: np.ndarray

    @property
    def marginal(self):
        return self.H @ self.P @ self.H.T + self.R

    def posterior(self, A):
        """Σ = P − PHᵀAᵀ(A(HPHᵀ + R)Aᵀ + I)⁻¹AHP, and the gain on A(Y − E Y) + e."""
        cross = self.P @ self.H.T @ A.T
        V = A @ self.marginal @ A.T + np.eye(len(A))
        gain = np.linalg.solve(V, cross.T).T
        return self.P - gain @ cross.T, gain


def joint(system, steps, inputs=None):
    """Built from x = Φ(w), Φ the inverse of the difference operator: no filter, no recursion."""
    n, m = system.states, system.measurements

    def each(matrix, k):
        return matrix[k] if matrix.ndim == 3 else matrix

    difference = np.eye(steps * n)
    sources = [system.cov0]
    drift = np.zeros((steps, n))
    drift[0] = system.mean0
    own = np.zeros((steps, m))
    for k in range(steps):
        if k:
            block = slice(k * n, (k + 1) * n), slice((k - 1) * n, k * n)
            difference[block] = -each(system.A, k - 1)
            sources.append(each(system.Q, k - 1))
            if inputs is not None:
                drift[k] = each(system.B, k - 1) @ inputs[k - 1]
        if inputs is not None:
            own[k] = each(system.D, k) @ inputs[k]
    solved = np.linalg.inv(difference)
    return Joint(
        solved @ drift.ravel(),
        solved @ scipy.linalg.block_diag(*sources) @ solved.T,
        scipy.linalg.block_diag(*[each(system.C, k) for k in range(steps)]),
        scipy.linalg.block_diag(*[each(system.R, k) for k in range(steps)]),
        own.ravel(),
    )


def leading(whole, steps, n, m):
    """The joint law of the first `steps` steps."""
    x, y = slice(0, steps * n), slice(0, steps * m)
    return Joint(whole.mean[x], whole.P[x, x], whole.H[y, x], whole.R[y, y], whole.own[y])


def blocks(matrix, size):
    count = len(matrix) // size
    own = np.arange(count)
    return matrix.reshape(count, size, count, size)[own, :, own, :]


def statsmodels_of(system, y):
    """The peer's filter and smoother of the readings themselves, NaN where they are missing."""
    from statsmodels.tsa.statespace.mlemodel import MLEModel

    n = system.states
    peer = MLEModel(
        y, k_states=n, k_posdef=n, initialization="known", initial_state=system.mean0,
        initial_state_cov=system.cov0,
    )  # fmt: skip
    peer.ssm.tolerance = 0
    peer["transition"], peer["design"], peer["selection"] = system.A, system.C, np.eye(n)
    peer["state_cov"], peer["obs_cov"] = system.Q, system.R
    return peer.ssm
