"""y = Hθ + w (`sys`, `assum:w0`), also of all steps of a stream (`sys:mult`); y = F(θ) + w."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_nonnegative, frame_columns
from privest.errors import InvalidInput
from privest.linalg import PSD
from privest.model.derivative import numerical_jacobian
from privest.noise import Distribution, JointNoise, Noise, as_joint


class LinearModel:
    """y = Hθ + w: m sensitive measurements y of n parameters θ; H and the noise are public.

    matrix   H (m, n), not copied.
    noise    the distribution of w: `noise.Gaussian(cov)`, any other (i.i.d. components), a list of
             them, or a number, the variance of i.i.d. Gaussian noise.
    names    of the parameters; by default those of the columns of a data frame, else θ[0], θ[1], …
    accuracy  relative error of the columns of H: directions of θ that H shows no better count as
             not seen.

    H and the noise are public: fitted on the private measurements they leak.

    >>> from privest.noise import Gaussian
    >>> LinearModel([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], noise=Gaussian(cov=0.04))
    LinearModel(3 measurements, 2 parameters, noise=Gaussian(cov=0.04, mean=0.0))
    """

    def __init__(
        self,
        matrix: ArrayLike,
        noise: Noise,
        *,
        names: Sequence[str] | None = None,
        accuracy: float = 0.0,
    ) -> None:
        self.accuracy: float = as_nonnegative(accuracy, "accuracy of H")
        self.matrix: Array = as_array(matrix, "H")
        if self.matrix.ndim != 2:
            raise InvalidInput(
                "H must be 2-dimensional, one row a measurement and one column a parameter; "
                f"received shape {self.matrix.shape}. For one parameter use H.reshape(-1, 1)."
            )
        if self.matrix.size == 0:
            raise InvalidInput(f"H is empty (shape {self.matrix.shape}).")
        # A data frame brings the names of its columns.
        self._names = parameter_names(frame_columns(matrix) if names is None else names)
        if self._names is not None and len(self._names) != self.parameters:
            raise InvalidInput(
                f"names must be {self.parameters}, one a parameter; received {len(self._names)}."
            )
        self.noise: JointNoise = as_joint(noise)
        self._given_noise = noise
        if self.noise.size not in (None, self.measurements):
            raise InvalidInput(
                f"The noise has {self.noise.size} components but H has {self.measurements} rows."
            )

    @property
    def measurements(self) -> int:
        """m, the number of measurements."""
        return int(self.matrix.shape[0])

    @property
    def parameters(self) -> int:
        """n, the number of parameters."""
        return int(self.matrix.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        if self._names is None:
            return tuple(f"θ[{j}]" for j in range(self.parameters))
        return self._names

    @cached_property
    def square_range(self) -> tuple[float, float]:
        """The least and the largest Σ_k H_kj² of the columns that are not zero; one pass over H.

        0 or ∞ where squares leave the range of numbers.
        """
        with np.errstate(over="ignore"):
            squares = np.einsum("ij,ij->j", self.matrix, self.matrix)
        shown = squares[squares > 0]
        if len(shown) < len(squares) and self.matrix[:, squares == 0].any():
            return 0.0, float(squares.max())
        return float(shown.min(initial=np.inf)), float(squares.max())

    @cached_property
    def inverse_information(self) -> PSD:
        """Σ = (I_y(Hθ))⁻¹, what the bounds use; cov w for Gaussian noise."""
        return self.noise.inverse_information(self.measurements)

    @cached_property
    def covariance(self) -> PSD:
        """cov w, what linear estimates have."""
        return self.noise.covariance(self.measurements)

    def sample(
        self, theta: ArrayLike, rng: np.random.Generator, trials: int | None = None
    ) -> Array:
        """Simulated measurements y = Hθ + w, shape (m,) or (trials, m). For experiments."""
        vector = as_array(theta, "theta", ndim=1)
        if len(vector) != self.parameters:
            raise InvalidInput(f"theta must have length {self.parameters}; received {len(vector)}.")
        return self.matrix @ vector + self.noise.sample(self.measurements, rng, trials)

    def __repr__(self) -> str:
        given: object = self._given_noise
        noise = repr(given if isinstance(given, Distribution) else self.noise)
        if isinstance(given, int | float):
            noise = f"Gaussian(cov={given:g})"
        size = f"{self.measurements} measurements, {self.parameters} parameters"
        return f"LinearModel({size}, noise={noise})"


def parameter_names(given: Iterable[object] | None) -> tuple[str, ...] | None:
    """Names of parameters as texts that differ, or None."""
    if given is None:
        return None
    if isinstance(given, str):
        raise InvalidInput("names must be several texts, one a parameter; received one text.")
    names = tuple(str(name) for name in given)
    if len(set(names)) < len(names):
        raise InvalidInput("names of parameters must differ: results are told apart by them.")
    return names


class NonlinearModel:
    """y = F(θ) + w. At a parameter θ it acts like the linear model with H = F'(θ).

    function   F: a vector of length n to a vector of length m.
    noise, names  as for `LinearModel`.
    jacobian   F', θ to an array (m, n). Without it the derivative is numerical, refused where the
               step halving does not settle or the two sides disagree (F not smooth, or noisy); its
               error counts when the rank is decided.

    >>> from privest.noise import Gaussian
    >>> model = NonlinearModel(lambda t: [t[0] ** 2, t[0] * t[1]], noise=Gaussian(cov=1.0))
    >>> (model.at([3.0, 2.0]).matrix.round(6) + 0.0).tolist()
    [[6.0, 0.0], [2.0, 3.0]]
    """

    def __init__(
        self,
        function: Callable[[Array], ArrayLike],
        noise: Noise,
        jacobian: Callable[[Array], ArrayLike] | None = None,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        if not callable(function):
            raise InvalidInput("F must be a function of the parameter vector.")
        self.function = function
        self.jacobian = jacobian
        self.noise: JointNoise = as_joint(noise)
        self._names = parameter_names(names)

    def value(self, theta: ArrayLike) -> Array:
        """F(θ), length m."""
        point = as_array(theta, "theta", ndim=1)
        return as_array(self.function(point.copy()), "F(theta)", ndim=1)

    def at(self, theta: ArrayLike) -> LinearModel:
        """The local linear model: H = F'(θ), the same noise."""
        point = as_array(theta, "theta", ndim=1)
        value = self.value(point)
        if self.jacobian is None:
            matrix, accuracy = numerical_jacobian(self.function, point, value)
            return LinearModel(matrix, self.noise, names=self._names, accuracy=accuracy)
        matrix = as_array(self.jacobian(point.copy()), "the Jacobian of F", ndim=2)
        if matrix.shape != (len(value), len(point)):
            raise InvalidInput(
                f"The Jacobian of F must have shape {(len(value), len(point))} "
                f"(measurements, parameters); received {matrix.shape}."
            )
        return LinearModel(matrix, self.noise, names=self._names)

    def __repr__(self) -> str:
        how = "numerical" if self.jacobian is None else "given"
        return f"NonlinearModel(F, noise={self.noise!r}, Jacobian {how})"
