"""The Box-Cox transform, its exponent from reference data that are public."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from privest.arrays import Array, as_array, as_number
from privest.errors import InvalidInput

FEWEST = 3


@dataclass(frozen=True)
class BoxCox:
    """u = (x^λ − 1)/λ, ln x for λ = 0; for x > 0.

    The exponent is a public input of everything that follows: fitted on private readings it leaks.
    `fit` takes it from a reference set only (scipy's maximum likelihood of a normal law). For
    λ < 0 the results have the upper limit −1/λ.

    >>> BoxCox(0.5)([1.0, 4.0]).tolist()
    [0.0, 2.0]
    >>> BoxCox(-0.2).inverse(BoxCox(-0.2)([21.0, 1562.0])).round(9).tolist()
    [21.0, 1562.0]
    """

    exponent: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponent", as_number(self.exponent, "exponent"))

    @classmethod
    def fit(cls, reference: ArrayLike) -> BoxCox:
        """The exponent with which the reference looks most like a sample of a normal law."""
        x = _positive(reference, "the reference")
        if x.ndim != 1 or len(x) < FEWEST or (x == x[0]).all():
            raise InvalidInput(
                f"a Box-Cox fit needs a vector of {FEWEST} or more values that are not all equal; "
                f"received shape {x.shape}."
            )
        return cls(float(scipy.stats.boxcox_normmax(x, method="mle")))

    def __call__(self, x: ArrayLike) -> Array:
        return np.asarray(scipy.special.boxcox(_positive(x, "the values"), self.exponent))

    def inverse(self, u: ArrayLike) -> Array:
        """x with (x^λ − 1)/λ = u."""
        given = as_array(u, "the transformed values")
        if not (1.0 + self.exponent * given > 0).all():
            raise InvalidInput(
                f"with exponent {self.exponent:g} transformed values u satisfy 1 + λu > 0; "
                "some of these do not."
            )
        return np.asarray(scipy.special.inv_boxcox(given, self.exponent))


def _positive(x: ArrayLike, name: str) -> Array:
    values = as_array(x, name)
    if not (values > 0).all():
        raise InvalidInput(f"{name} must be > 0 for a Box-Cox transform.")
    return values
