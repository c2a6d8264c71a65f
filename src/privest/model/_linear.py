"""The linear measurement model y = Hθ + w (`sys`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array, as_number
from privest.errors import InvalidInput
from privest.linalg import PSD
from privest.noise import JointNoise, ScalarLaw, as_joint


class LinearModel:
    """y = Hθ + w: m sensitive readings y of n parameters θ, H and the law of w public.

    Symbols
        matrix   H, shape (m, n), finite. Kept as given, not copied.
        noise    the law of w: `noise.Gaussian(cov)`, any scalar law (i.i.d. components), a list of
                 laws, `noise.Independent(law, scales=...)`, or your own `JointNoise`.
        accuracy relative error of the columns of H, 0 if they are exact: directions of θ that H
                 shows no better than this count as not seen.

    H and the noise are public inputs: fitted on the private readings they leak.

    >>> from privest.noise import Gaussian
    >>> LinearModel([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], noise=Gaussian(cov=0.04))
    LinearModel(3 readings, 2 parameters, noise=GaussianLaw(variance=0.04, loc=0.0))
    """

    def __init__(
        self,
        matrix: ArrayLike,
        noise: ScalarLaw | JointNoise | Sequence[ScalarLaw],
        *,
        accuracy: float = 0.0,
    ) -> None:
        self.accuracy = as_number(accuracy, "accuracy of H")
        if self.accuracy < 0:
            raise InvalidInput(f"accuracy of H must be ≥ 0; received {self.accuracy:g}.")
        self.matrix = as_array(matrix, "H")
        if self.matrix.ndim != 2:
            raise InvalidInput(
                "H must be 2-dimensional, one row a reading and one column a parameter; received "
                f"shape {self.matrix.shape}. For one parameter use H.reshape(-1, 1)."
            )
        if self.matrix.size == 0:
            raise InvalidInput(f"H is empty (shape {self.matrix.shape}).")
        self.noise = as_joint(noise)
        self._given_noise = noise
        if self.noise.size not in (None, self.readings):
            raise InvalidInput(
                f"The noise has {self.noise.size} components but H has {self.readings} rows."
            )

    @property
    def readings(self) -> int:
        """m, the number of readings."""
        return int(self.matrix.shape[0])

    @property
    def parameters(self) -> int:
        """n, the number of parameters."""
        return int(self.matrix.shape[1])

    @cached_property
    def inverse_information(self) -> PSD:
        """Σ = (I_y(Hθ))⁻¹, what the bounds use; cov w for Gaussian noise."""
        return self.noise.inverse_information(self.readings)

    @cached_property
    def covariance(self) -> PSD:
        """cov w, what linear estimates have."""
        return self.noise.covariance(self.readings)

    def simulate(
        self, theta: ArrayLike, rng: np.random.Generator, trials: int | None = None
    ) -> Array:
        """Simulated readings y = Hθ + w, shape (m,) or (trials, m). For experiments."""
        vector = as_array(theta, "theta", ndim=1)
        if len(vector) != self.parameters:
            raise InvalidInput(f"theta must have length {self.parameters}; received {len(vector)}.")
        return self.matrix @ vector + self.noise.sample(self.readings, rng, trials)

    def __repr__(self) -> str:
        given = self._given_noise
        noise = f"{len(given)} laws" if isinstance(given, Sequence) else repr(given)
        return f"LinearModel({self.readings} readings, {self.parameters} parameters, noise={noise})"
