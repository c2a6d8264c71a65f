"""What a simulation knows and agents do not: the mean over all agents, and the distance from it."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array
from privest.errors import NotIdentifiable, NumericalFailure
from privest.linalg import batched
from privest.linalg.tolerances import rank_tolerance
from privest.network import _certificate as certificate
from privest.network._averaging import radius
from privest.network._spectrum import Method, Spectrum
from privest.network.agent import unpacked


def split(values: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """x (..., trials·n) and r (..., n, n) of vectors (..., trials·n + n(n+1)/2).

    `shape` is that of x of all agents: (N, n) or (N, trials, n).
    """
    n = shape[-1]
    flat = values.shape[-1] - n * (n + 1) // 2
    behind_zeros = np.concatenate([np.zeros((*values.shape[:-1], n)), values[..., flat:]], axis=-1)
    return values[..., :flat], unpacked(behind_zeros)[1]


class NetworkMean:
    """x̄ and r̄ of the start X_0 (N, d); distances in standard errors of θ* = r̄⁻¹x̄.

    Raises NotIdentifiable if all agents together do not show θ.
    """

    def __init__(self, values: Array, shape: tuple[int, ...]) -> None:
        self.shape, self.agents = shape, shape[0]
        self.mean = certificate.centre(values)
        self.radius = radius(values, self.mean)
        self.x, self.r = self.parts(self.mean)
        if not batched.cholesky_of_many(self.r[None])[1]:
            raise _hidden(self.r, self.agents)

    def parts(self, vector: Array) -> tuple[Array, Array]:
        """(trials, n) and (n, n) of one vector (d,)."""
        x, r = split(vector, self.shape)
        return x.reshape(-1, self.shape[-1]), r

    def error(self, spread: Array) -> float:
        """The certificate that all agents share, for entries within `spread` (d,) of the mean."""
        return certificate.common_error(self.x, self.r, *self.parts(spread), self.agents)

    def drift(self, values: Array) -> Array:
        """How far the mean over agents has moved since the start, (d,)."""
        return np.abs(certificate.centre(values) - self.mean)

    def require_reachable(self, tolerance: float) -> None:
        """Refuse a tolerance that the rounding of r⁻¹x alone exceeds."""
        floor = self.error(np.zeros_like(self.mean))
        if floor > tolerance / 2:
            raise NumericalFailure(
                f"Rounding alone is {floor:.2g} standard errors here: ask for a tolerance above "
                f"{2 * floor:.1g} (received {tolerance:.2g})."
            )

    def require_kept(self, moved: float, tolerance: float) -> None:
        """The average of links that keep it moves by rounding only, and never comes back."""
        if moved > tolerance:
            raise NumericalFailure(
                f"Rounding has moved the average over the agents by {moved:.2g} standard errors, "
                f"more than the tolerance ({tolerance:.2g}): ask for less. (It grows with the "
                "rounds, and in standard errors with the root of the number of agents.)"
            )

    def predicted(self, tolerance: float, method: Method, spectrum: Spectrum | None) -> int | None:
        """Rounds after which the bound ‖X_k − X̄‖ ≤ c_k‖X_0 − X̄‖ alone meets the certificate.

        The spread of a coordinate is at most 2‖X_k − X̄‖; for spreads 2c‖X_0 − X̄‖ the certificate
        is c a/(1 − c b), so that c = t/(a + t b) meets a tolerance t. None without a spectrum.
        """
        if spectrum is None:
            return None
        wide = self.parts(self.radius)
        a, b = certificate.slopes(self.x, self.r, *wide, self.agents)
        factor = tolerance / (a + tolerance * b) if a > 0 else 1.0
        if factor >= 1.0:
            return 0
        return spectrum.rounds(method, factor)


def _hidden(r: Array, agents: int) -> NotIdentifiable:
    diagonal = np.diagonal(r)
    unit = np.where(diagonal > 0, 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 1.0)
    values, vectors = np.linalg.eigh(r * unit[:, None] * unit)
    hidden = values <= rank_tolerance(len(r))
    hidden[0] = True
    return NotIdentifiable(
        f"all {agents} agents together show {len(r) - int(hidden.sum())} of {len(r)} directions of "
        "θ (better than 1e-11 of the others).",
        np.linalg.qr(vectors[:, hidden] * unit[:, None])[0],
    )
