"""A state-space model as plain arrays, and the same arrays as slopes or gradients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privest.arrays import Array
from privest.dynamics._system import StateSpace


class Matrices(NamedTuple):
    """x_{k+1} = A x_k + B u_k + w , y_k = C x_k + D u_k + v , x_0 = mean0 + diffuse·δ + N(0, cov0)

    cov w = Q, cov v = R; of δ nothing is known. Unchecked arrays, made anew for every θ:
    A (n, n), C (m, n), Q (n, n), R (m, m), mean0 (n,), cov0 (n, n), B (n, p), D (m, p) with p = 0
    where there are no inputs, diffuse (n, q) with q = 0 where x_0 has a law. A, C, Q, R, B and D
    may have a leading time axis of K steps, as in StateSpace.

    Slopes ∂/∂t are Matrices with a leading axis of parameters; the gradient of a log-likelihood
    has the shapes of the matrices themselves (dℓ = Σ ⟨∂X, dX⟩; `diffuse` does not change).
    """

    A: Array
    C: Array
    Q: Array
    R: Array
    mean0: Array
    cov0: Array
    B: Array
    D: Array
    diffuse: Array

    @classmethod
    def of(cls, system: StateSpace) -> Matrices:
        """The arrays of a checked system, of [x; ω] where its noise is correlated."""
        system = system.uncorrelated
        n, m = system.states, system.readings
        B = np.zeros((n, system.inputs)) if system.B is None else system.B
        D = np.zeros((m, system.inputs)) if system.D is None else system.D
        diffuse = np.zeros((n, 0)) if system.diffuse is None else system.diffuse
        return cls(
            system.A, system.C, system.Q, system.R, system.mean0, system.cov0, B, D, diffuse
        )  # fmt: skip

    def system(self, known: Array | None = None) -> StateSpace:
        """The checked system; from x_0 = mean0 + diffuse·`known` where that is given."""
        open_ = known is None and self.diffuse.shape[1] > 0
        start = self.mean0 if known is None else self.mean0 + self.diffuse @ known
        given = self.B.shape[-1] > 0
        return StateSpace(
            self.A, self.C, self.Q, self.R, start, self.cov0,
            B=self.B if given else None, D=self.D if given else None,
            diffuse=self.diffuse if open_ else None,
        )  # fmt: skip


def along(gradient: Matrices, slopes: Matrices) -> Array:
    """∂ℓ/∂t (p,) = Σ ⟨∂ℓ/∂X, ∂X/∂t⟩."""
    total: Array = np.zeros(len(slopes.A))
    for own, slope in zip(gradient[:-1], slopes[:-1]):
        if own.size:
            total = total + slope.reshape(len(slope), -1) @ own.ravel()
    return total
