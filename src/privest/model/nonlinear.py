"""The nonlinear measurement model y = F(θ) + w (remark after `thm:crbound`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array
from privest.errors import InvalidInput, NumericalFailure
from privest.model.linear import LinearModel
from privest.noise import JointNoise, ScalarLaw, as_joint

DERIVATIVE_TOLERANCE = 1e-6  # relative error at which a numerical Jacobian is refused


class NonlinearModel:
    """y = F(θ) + w. At a parameter θ it acts like the linear model with H = F'(θ).

    Symbols
        function   F: a vector of length n to a vector of length m.
        noise      as for `LinearModel`.
        jacobian   F', θ to an array (m, n). Without it the derivative is numerical: central
                   differences of rising order (scipy.differentiate), refused where the step
                   halving does not settle (F not smooth, or noisy). A derivative that is exactly
                   zero comes out as rounding: pass the Jacobian where that matters.

    >>> from privest.noise import Gaussian
    >>> model = NonlinearModel(lambda t: [t[0] ** 2, t[0] * t[1]], noise=Gaussian(cov=1.0))
    >>> model.at([3.0, 2.0]).matrix.round(6).tolist()
    [[6.0, 0.0], [2.0, 3.0]]
    """

    def __init__(
        self,
        function: Callable[[Array], ArrayLike],
        noise: ScalarLaw | JointNoise | Sequence[ScalarLaw],
        jacobian: Callable[[Array], ArrayLike] | None = None,
    ) -> None:
        if not callable(function):
            raise InvalidInput("F must be a function of the parameter vector.")
        self.function = function
        self.jacobian = jacobian
        self.noise = as_joint(noise)

    def value(self, theta: ArrayLike) -> Array:
        """F(θ), length m."""
        point = as_array(theta, "theta", ndim=1)
        return as_array(self.function(point.copy()), "F(theta)", ndim=1)

    def at(self, theta: ArrayLike) -> LinearModel:
        """The local linear model: H = F'(θ), the same noise."""
        point = as_array(theta, "theta", ndim=1)
        readings = len(self.value(point))
        if self.jacobian is not None:
            matrix = as_array(self.jacobian(point.copy()), "the Jacobian of F", ndim=2)
        else:
            matrix = self._numerical_jacobian(point, readings)
        if matrix.shape != (readings, len(point)):
            raise InvalidInput(
                f"The Jacobian of F must have shape {(readings, len(point))} "
                f"(readings, parameters); received {matrix.shape}."
            )
        return LinearModel(matrix, self.noise)

    def _numerical_jacobian(self, point: Array, readings: int) -> Array:
        def columns(points: Array) -> Array:
            # scipy asks for many points at once along the trailing axes; F takes one.
            return np.apply_along_axis(self._value_or_nan, 0, points, readings)

        # The scale on which F bends is not known: of the order of one, or of θ itself.
        for scale in (np.maximum(np.abs(point), 1.0), np.where(point == 0.0, 1.0, np.abs(point))):
            result = scipy.differentiate.jacobian(columns, point, initial_step=0.1 * scale)
            size = np.abs(result.df).max(initial=0.0)
            error = np.where(result.success, 0.0, result.error)
            if np.isfinite(result.df).all() and (error <= DERIVATIVE_TOLERANCE * size).all():
                return np.asarray(result.df)
        raise NumericalFailure(
            "The numerical derivative of F does not settle at this theta: F is not smooth "
            "there, not deterministic, or undefined nearby. Pass jacobian=..."
        )

    def _value_or_nan(self, point: Array, readings: int) -> Array:
        """F where a trial step may leave its domain: NaN there, no warning, no error."""
        with np.errstate(all="ignore"):
            try:
                return np.asarray(self.function(point.copy()), dtype=float)
            except (ValueError, ArithmeticError):
                return np.full(readings, np.nan)

    def __repr__(self) -> str:
        how = "numerical" if self.jacobian is None else "given"
        return f"NonlinearModel(F, noise={self.noise!r}, Jacobian {how})"
