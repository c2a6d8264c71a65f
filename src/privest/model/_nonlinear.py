"""The nonlinear measurement model y = F(θ) + w (remark after `thm:crbound`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from privest.arrays import Array, ArrayLike, as_array
from privest.errors import InvalidInput
from privest.model._linear import LinearModel, parameter_names
from privest.model.derivative import numerical_jacobian
from privest.noise import Noise, as_joint


class NonlinearModel:
    """y = F(θ) + w. At a parameter θ it acts like the linear model with H = F'(θ).

    Symbols
        function   F: a vector of length n to a vector of length m.
        noise      as for `LinearModel`.
        names      of the parameters, as for `LinearModel`.
        jacobian   F', θ to an array (m, n). Without it the derivative is numerical: central
                   differences of rising order (scipy.differentiate), refused where the step
                   halving does not settle or the two sides disagree (F not smooth, or noisy).
                   Columns below their own error are zero, and the error of the others counts
                   when the rank is decided.

    >>> from privest.noise import Gaussian
    >>> model = NonlinearModel(lambda t: [t[0] ** 2, t[0] * t[1]], noise=Gaussian(cov=1.0))
    >>> model.at([3.0, 2.0]).matrix.round(6).tolist()
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
        self.noise = as_joint(noise)
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
                f"(readings, parameters); received {matrix.shape}."
            )
        return LinearModel(matrix, self.noise, names=self._names)

    def __repr__(self) -> str:
        how = "numerical" if self.jacobian is None else "given"
        return f"NonlinearModel(F, noise={self.noise!r}, Jacobian {how})"
