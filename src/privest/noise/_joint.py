"""Noise of a whole measurement vector w: independent laws, or a Gaussian of any covariance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import cast, overload

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_nonnegative, as_number
from privest.errors import InfiniteInformation, InvalidInput
from privest.linalg import PSD, Diagonal, Scalar, psd
from privest.noise._law import ScalarLaw
from privest.noise._unbounded import GaussianLaw


class JointNoise(ABC):
    """The law of w in y = Hθ + w. `size` is the number of readings it fits, None for any."""

    size: int | None

    @property
    def gaussian(self) -> bool:
        """Whether w is jointly Gaussian."""
        return False

    @abstractmethod
    def covariance(self, size: int) -> PSD:
        """cov w."""

    @abstractmethod
    def inverse_information(self, size: int) -> PSD:
        """Σ = I_w⁻¹, the inverse Fisher information of a shift of w (`thm:crbound`).

        Equals cov w for a Gaussian, and is smaller for every other law.
        """

    def expectation(self, size: int) -> Array | float:
        """E w, which estimates must take off; 0 unless the law says otherwise."""
        return 0.0

    @abstractmethod
    def sample(self, size: int, rng: np.random.Generator, trials: int | None = None) -> Array:
        """Simulated w, shape (size,) or (trials, size)."""


class Independent(JointNoise):
    """Independent components: one law each, or one law stretched by `scales`.

    `Independent(law)` is an i.i.d. vector of any length, `Independent(law, scales=c)` has
    w_k = c_k·v_k with i.i.d. v_k (heteroscedastic), `Independent([law_1, ..., law_m])` mixes laws.
    """

    def __init__(
        self, laws: ScalarLaw | Sequence[ScalarLaw], *, scales: ArrayLike | None = None
    ) -> None:
        self.laws: tuple[ScalarLaw, ...] = (laws,) if isinstance(laws, ScalarLaw) else tuple(laws)
        if not self.laws or not all(isinstance(law, ScalarLaw) for law in self.laws):
            raise InvalidInput("Independent noise needs a scalar law, or a sequence of them.")
        self.size = None if isinstance(laws, ScalarLaw) else len(self.laws)
        self.scales = None
        if scales is not None:
            self.scales = as_array(scales, "scales of the noise", ndim=1)
            if len(self.laws) != 1:
                raise InvalidInput("Give either several laws or one law with scales, not both.")
            if not (self.scales > 0).all():
                raise InvalidInput("scales of the noise must all be > 0.")
            self.size = len(self.scales)

    @property
    def gaussian(self) -> bool:
        return all(isinstance(law, GaussianLaw) for law in self.laws)

    def __repr__(self) -> str:
        inner = repr(self.laws[0]) if len(self.laws) == 1 else f"{len(self.laws)} laws"
        return f"Independent({inner}{'' if self.scales is None else ', scales=...'})"

    def covariance(self, size: int) -> PSD:
        variances = [law.variance for law in self.laws]
        if not np.isfinite(variances).all():
            raise InvalidInput(
                "The noise has no finite variance, so cov w does not exist "
                "(bounds do not need it: they use the Fisher information)."
            )
        return self._diagonal(variances, size)

    def expectation(self, size: int) -> Array | float:
        means = np.array([law.mean for law in self.laws])
        if self.scales is not None:
            return np.asarray(means[0] * self.scales)
        return float(means[0]) if self.size is None else means

    def inverse_information(self, size: int) -> PSD:
        information = [law.fisher_information for law in self.laws]
        if not np.isfinite(information).all():
            law = self.laws[int(np.argmin(np.isfinite(information)))]
            raise InfiniteInformation(
                f"The noise density of {law!r} jumps, so its Fisher information is infinite and "
                "the theorem does not apply (it assumes a continuous density). Use a continuous "
                "law for the measurement noise."
            )
        return self._diagonal([1.0 / value for value in information], size)

    def _diagonal(self, values: list[float], size: int) -> PSD:
        if self.scales is not None:
            return Diagonal(values[0] * self.scales**2)
        if self.size is None:
            return Scalar(values[0], size)
        return Diagonal(np.array(values))

    def sample(self, size: int, rng: np.random.Generator, trials: int | None = None) -> Array:
        shape = (size,) if trials is None else (trials, size)
        if len(self.laws) == 1:
            drawn = self.laws[0].sample(shape, rng)
            return drawn if self.scales is None else drawn * self.scales
        return np.stack([law.sample(shape[:-1], rng) for law in self.laws], axis=-1)


class MultivariateGaussian(JointNoise):
    """w ~ N(mean, cov) with a diagonal, block-diagonal or dense covariance, singular or not.

    A number is the variance of every reading, however many there are.
    """

    def __init__(self, cov: ArrayLike, mean: ArrayLike = 0.0) -> None:
        given = as_array(cov, "the noise covariance")
        self.mean = as_array(mean, "the noise mean", ndim=(0, 1))
        if given.ndim:
            self.cov = psd(given, "the noise covariance")
        else:
            self.cov = Scalar(as_nonnegative(given, "the noise variance"), 1)
        self.size = self.cov.size if given.ndim else None
        if self.mean.ndim and len(self.mean) != self.size:
            raise InvalidInput(
                f"the noise mean must have length {self.size or 1}; received {len(self.mean)}."
            )

    @property
    def gaussian(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"MultivariateGaussian(size={self.size}, rank={self.cov.rank})"

    def covariance(self, size: int) -> PSD:
        return self.cov if self.size else Scalar(self.cov.norm(), size)

    def expectation(self, size: int) -> Array | float:
        return self.mean if self.mean.ndim else float(self.mean)

    def inverse_information(self, size: int) -> PSD:
        return self.covariance(size)

    def sample(self, size: int, rng: np.random.Generator, trials: int | None = None) -> Array:
        white = rng.standard_normal((size, 1 if trials is None else trials))
        coloured = self.covariance(size).times_factor(white).T + self.mean
        return coloured[0] if trials is None else coloured


@overload
def Gaussian(cov: float = ..., mean: float = ...) -> GaussianLaw: ...
@overload
def Gaussian(cov: ArrayLike, mean: ArrayLike = ...) -> GaussianLaw | MultivariateGaussian: ...
def Gaussian(cov: ArrayLike = 1.0, mean: ArrayLike = 0.0) -> GaussianLaw | MultivariateGaussian:
    """Gaussian noise of covariance `cov`: a number cov·I, a vector diag(cov), or a matrix.

    A number gives a scalar law (`GaussianLaw`: density, score, ...), used for every reading;
    a vector, a matrix or the number 0 gives a `MultivariateGaussian`, which may be singular:
    readings without noise have variance 0.

    >>> Gaussian(cov=0.04).fisher_information
    25.0
    >>> Gaussian(cov=[[2.0, 1.0], [1.0, 2.0]]).size
    2
    """
    given = as_array(cov, "the noise covariance")
    if given.ndim or given <= 0:
        return MultivariateGaussian(given, mean)
    return GaussianLaw(float(given), as_number(mean, "the noise mean"))


# What every door that takes noise takes: a law, a joint law, laws in a row, or numbers: a variance,
# a vector of variances or a covariance.
Noise = (
    ScalarLaw
    | JointNoise
    | Sequence[ScalarLaw]
    | float
    | Array
    | Sequence[float]
    | Sequence[Sequence[float]]
)


def as_joint(noise: Noise) -> JointNoise:
    """The noise of a vector: a scalar law becomes i.i.d. components, a list independent ones.

    Numbers are the variance, the variances or the covariance of Gaussian noise (`Gaussian`).
    """
    if isinstance(noise, JointNoise):
        return noise
    number = isinstance(noise, int | float | np.number) and not isinstance(noise, bool)
    if number or _are_numbers(noise):
        law = Gaussian(cov=cast("ArrayLike", noise))
        return law if isinstance(law, JointNoise) else Independent(law)
    if isinstance(noise, ScalarLaw | Sequence):
        return Independent(cast("ScalarLaw | Sequence[ScalarLaw]", noise))
    given: object = noise
    kind = type(given).__name__
    if isinstance(given, type):
        kind = f"the class {given.__name__} (call it to make a law)"
    raise InvalidInput(
        "noise must be a law of privest.noise, such as privest.noise.Gaussian(cov=0.04) or "
        f"privest.noise.Laplace(scale), or a list of laws; received {kind}."
    )


def _are_numbers(noise: object) -> bool:
    """An array, a frame or lists of numbers, and at least one of them."""
    if isinstance(noise, ScalarLaw | str | type) or not isinstance(noise, Sequence):
        return hasattr(noise, "__array__") and not isinstance(noise, type)
    with suppress(ValueError):
        raw = np.asarray(noise)
        return raw.size > 0 and raw.dtype.kind in "biuf"
    return False
