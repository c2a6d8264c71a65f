"""Noise of a measurement vector w: independent components, or jointly Gaussian."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_nonnegative
from privest.errors import InfiniteInformation, InvalidInput
from privest.linalg import PSD, Diagonal, Scalar, psd
from privest.noise._unbounded import Gaussian
from privest.noise.distribution import Distribution, infinite_because


class JointNoise(ABC):
    """The distribution of w in y = Hθ + w. `size`: the number of measurements, None for any."""

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
        """Σ = I_w⁻¹, the inverse Fisher information of a shift of w (`thm:crbound`)."""

    def expectation(self, size: int) -> Array | float:
        """E w, which estimates must take off."""
        return 0.0

    @abstractmethod
    def sample(self, size: int, rng: np.random.Generator, trials: int | None = None) -> Array:
        """Simulated w, shape (size,) or (trials, size)."""


class Independent(JointNoise):
    """Independent components: i.i.d. of any length from one distribution, or a list of them."""

    def __init__(self, laws: Distribution | Sequence[Distribution]) -> None:
        self.laws: tuple[Distribution, ...] = (
            (laws,) if isinstance(laws, Distribution) else tuple(laws)
        )
        if not self.laws or not all(isinstance(law, Distribution) for law in self.laws):
            raise InvalidInput("noise as a list needs one distribution for each measurement.")
        self.size: int | None = None if isinstance(laws, Distribution) else len(self.laws)

    @property
    def gaussian(self) -> bool:
        return all(isinstance(law, Gaussian) for law in self.laws)

    def __repr__(self) -> str:
        return repr(self.laws[0]) if self.size is None else f"[{len(self.laws)} distributions]"

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
        return float(means[0]) if self.size is None else means

    def inverse_information(self, size: int) -> PSD:
        information = [law.fisher_information for law in self.laws]
        if not np.isfinite(information).all():
            law = self.laws[int(np.argmin(np.isfinite(information)))]
            raise InfiniteInformation(
                f"The theorem does not apply to noise with {law!r}: {infinite_because(law)}. Use "
                "noise of finite Fisher information for the measurements."
            )
        return self._diagonal([1.0 / value for value in information], size)

    def _diagonal(self, values: list[float], size: int) -> PSD:
        return Scalar(values[0], size) if self.size is None else Diagonal(np.array(values))

    def sample(self, size: int, rng: np.random.Generator, trials: int | None = None) -> Array:
        shape = (size,) if trials is None else (trials, size)
        if len(self.laws) == 1:
            return self.laws[0].sample(shape, rng)
        return np.stack([law.sample(shape[:-1], rng) for law in self.laws], axis=-1)


class JointGaussian(JointNoise):
    """w ~ N(mean, cov) with a diagonal, block-diagonal or dense covariance, singular or not."""

    cov: PSD

    def __init__(self, cov: ArrayLike, mean: ArrayLike = 0.0) -> None:
        given = as_array(cov, "the noise covariance")
        self.mean: Array = as_array(mean, "the noise mean", ndim=(0, 1))
        if given.ndim:
            self.cov = psd(given, "the noise covariance")
        else:
            self.cov = Scalar(as_nonnegative(given, "the noise variance"), 1)
        self.size: int | None = self.cov.size if given.ndim else None
        if self.mean.ndim and len(self.mean) != self.size:
            raise InvalidInput(
                f"the noise mean must have length {self.size or 1}; received {len(self.mean)}."
            )

    @property
    def gaussian(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"Gaussian(size={self.size}, rank={self.cov.rank})"

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


# Noise in any form: a distribution, a joint one, a list of them, or numbers (a variance, a vector
# of variances, a covariance).
Noise = (
    Distribution
    | JointNoise
    | Sequence[Distribution]
    | float
    | Array
    | Sequence[float]
    | Sequence[Sequence[float]]
)


def as_joint(noise: Noise) -> JointNoise:
    """The noise of a vector: one distribution is i.i.d., a list independent, numbers Gaussian."""
    if isinstance(noise, JointNoise):
        return noise
    number = isinstance(noise, int | float | np.number) and not isinstance(noise, bool)
    if number or _are_numbers(noise):
        law: object = Gaussian(cov=cast("ArrayLike", noise))
        return law if isinstance(law, JointNoise) else Independent(cast("Distribution", law))
    if isinstance(noise, Distribution | list | tuple):
        return Independent(cast("Distribution | Sequence[Distribution]", noise))
    given: object = noise
    kind = type(given).__name__
    if isinstance(given, type):
        kind = f"the class {given.__name__} (call it to make a distribution)"
    raise InvalidInput(
        "noise must be a distribution, such as privest.noise.Gaussian(cov=0.04) or "
        f"privest.noise.Laplace(scale), a list of them, or a number; received {kind}."
    )


def _are_numbers(noise: object) -> bool:
    if isinstance(noise, Distribution | str | type) or not isinstance(noise, Sequence):
        return hasattr(noise, "__array__") and not isinstance(noise, type)
    with suppress(ValueError):
        raw = np.asarray(noise)
        return raw.size > 0 and raw.dtype.kind in "biuf"
    return False
