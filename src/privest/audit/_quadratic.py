"""Is ln p(z|y) quadratic in y with the stated curvature? Then I_z(y) is that curvature."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array
from privest.mechanism._gaussian import GaussianMechanism

AGREE = 1e-6
STEPS = (0.3, 1.0, 3.0)
RANDOM = 8


def checked_precision(mechanism: GaussianMechanism, places: Array) -> tuple[Array, float] | None:
    """The stated S, and its largest relative disagreement with second differences.

        ln p(z|y + hd) − 2 ln p(z|y) + ln p(z|y − hd) = −h² dᵀSd

    for every z, y, h and d if ln p is quadratic in y; then I_z(y) = −E ∂²ln p = S for every y.
    Checked to 1e-6 around 0, two fixed vectors and the `places` (k, m), along each coordinate,
    random directions and the eigenvectors of S. None if it fails. Uses fixed random numbers only.
    Cost: 6(2m + 8) log-densities a place.
    """
    S = mechanism.worst_information()
    m, top = mechanism.readings, float(np.diagonal(S).max())
    rng = np.random.default_rng(5)
    own = np.linalg.eigh(S)[1].T
    d = np.concatenate([np.eye(m), rng.standard_normal((RANDOM, m)), own])
    size = np.einsum("ki,ij,kj->k", d, S, d, optimize=True)
    # Away from the coordinates dᵀSd is known to rounding of the largest one only.
    rounding = np.where(np.arange(len(d)) < m, 0.0, 1e-14 * top)
    shown = size > 100 * rounding
    unit = 1 / np.sqrt(np.where(shown, size, top))
    fixed = np.array([[0.0], [1.0], [10.0]]) * rng.standard_normal((3, m)) / np.sqrt(top)
    most = 0.0
    for y in np.concatenate([fixed, places]):
        z = mechanism.simulate(y, rng)
        allowed = AGREE + 1e-14 * float(np.abs(z).max()) + rounding * unit**2
        middle = mechanism.log_density(z, y)
        for step in STEPS:
            move = (step * unit)[:, None] * d
            ends = mechanism.log_density(z, y + move) + mechanism.log_density(z, y - move)
            off = np.abs((ends - 2 * middle) / step**2 + np.where(shown, 1.0, 0.0))
            if not (off <= allowed).all():
                return None
            most = max(most, float(off[shown].max()))
    return S, most
