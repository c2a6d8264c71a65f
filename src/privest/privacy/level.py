"""The privacy level S: a release carries at most Fisher information S about y."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from privest.arrays import (
    Array,
    ArrayLike,
    as_array,
    as_count,
    as_kind,
    as_nonnegative,
    as_positive,
    fingerprint_of,
)
from privest.errors import InvalidInput
from privest.linalg import PSD, Blocks, Diagonal, Scalar, psd, psd_blocks, uncorrelated
from privest.privacy import gdp
from privest.privacy.adjacency import Adjacency, Convertible, as_adjacency

NAME = "the privacy level"


class PrivacyLevel(Convertible):
    """S ≥ 0 in I_z(y) ≤ S: no unbiased attacker estimates y better than S⁻¹.

    `PrivacyLevel(1.0)` is 1.0·I for any number of measurements, a vector is a diagonal, a matrix is
    itself, an array (K, b, b) is K blocks. A zero on the diagonal: that measurement is never
    revealed. `+` composes releases with independent noise. Refuses what is not finite, symmetric
    (up to 1e-10 of √(S_ii S_jj), then averaged) and positive semi-definite (eigenvalues below
    −1e-11 of the largest, in units where the diagonal is one).

    >>> level = PrivacyLevel(1.0) + PrivacyLevel([[1.0, 1.0], [1.0, 1.0]])
    >>> level.dense().tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    """

    def __init__(self, value: ArrayLike) -> None:
        array = as_array(value, NAME, ndim=(0, 1, 2, 3))
        self._number: float | None = None
        self._matrix: PSD | None = None
        if array.ndim == 0:
            self._number = float(psd(array, NAME, size=1).norm())
        else:
            self._matrix = psd(array, NAME)

    @classmethod
    def from_blocks(cls, blocks: Sequence[ArrayLike]) -> PrivacyLevel:
        """diag{S_1, …, S_K} from matrices of any sizes."""
        return cls.from_matrix(psd_blocks(blocks, NAME))

    @classmethod
    def from_matrix(cls, matrix: PSD) -> PrivacyLevel:
        """A level from a structured matrix that has been checked."""
        level = cls.__new__(cls)
        level._number = None
        level._matrix = matrix
        return level

    @property
    def number(self) -> float | None:
        """s of a level s·I given as a number, else None."""
        return self._number

    @property
    def size(self) -> int | None:
        """m, or None for a number, which fits any m."""
        return None if self._matrix is None else self._matrix.size

    @property
    def rank(self) -> int:
        """Number of independent combinations of measurements that may be revealed."""
        if self._matrix is not None:
            return self._matrix.rank
        if self._number == 0:
            return 0
        raise InvalidInput("A level given as a number has no rank of its own: use for_size(m).")

    def for_size(self, size: int) -> PSD:
        """S as a structured matrix for m = `size` measurements."""
        size = as_count(size, "the number of measurements", least=0)
        if self._number is not None:
            return Scalar(self._number, size)
        assert self._matrix is not None
        if self._matrix.size != size:
            raise InvalidInput(
                f"{NAME} is for {self._matrix.size} measurements; the model has {size}."
            )
        return self._matrix

    def dense(self, size: int | None = None) -> Array:
        """The m×m matrix (m² memory)."""
        known = self.size if size is None else size
        if known is None:
            raise InvalidInput(
                "A level given as a number needs the number of measurements: size=m."
            )
        return self.for_size(known).dense()

    def uncorrelated(self, covariance: PSD | ArrayLike) -> PrivacyLevel:
        """The same S, with a factor L for which LᵀΣL is diagonal, Σ the measurement covariance.

        The likelihood of clipped coordinates Lᵀy then factorises. Release and fingerprint depend on
        L.
        """
        if not isinstance(covariance, PSD):
            covariance = psd(covariance, "the covariance of the noise", size=self.size)
        return self.from_matrix(uncorrelated(self.for_size(covariance.size), covariance))

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hex digits of SHA-256 over the exact numbers, which a release carries.

        For blocks over the factor L, not S: the release depends on it. A number and a vector that
        repeats it are the same level.
        """
        matrix = self._matrix
        if isinstance(matrix, Blocks):
            return fingerprint_of("level of blocks", *matrix.lowers())
        values = np.array([self._number]) if matrix is None else matrix.diagonal()
        same = (values == values[0]).all()
        return fingerprint_of("level", values[:1] if same else values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PrivacyLevel):
            return NotImplemented
        return self.size == other.size and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __add__(self, other: PrivacyLevel) -> PrivacyLevel:
        if not isinstance(other, PrivacyLevel):
            return NotImplemented
        if self._number is not None and other._number is not None:
            return PrivacyLevel(self._number + other._number)
        size = self.size if self.size is not None else other.size
        assert size is not None
        with np.errstate(over="ignore"):
            total = self.for_size(size).plus(other.for_size(size))
            return self._in_range(total, "the sum of the levels")

    def _in_range(self, matrix: PSD, what: str) -> PrivacyLevel:
        if not math.isfinite(matrix.trace()):
            raise InvalidInput(f"{what} leaves the range of double precision.")
        return self.from_matrix(matrix)

    def __mul__(self, factor: float) -> PrivacyLevel:
        number = as_nonnegative(factor, "factor of a privacy level")
        if self._number is not None:
            return PrivacyLevel(number * self._number)
        assert self._matrix is not None
        with np.errstate(over="ignore"):
            return self._in_range(self._matrix.scaled(number), "the multiple of the level")

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> PrivacyLevel:
        return self * (1.0 / as_positive(divisor, "divisor of a privacy level"))

    def __repr__(self) -> str:
        matrix = self._matrix
        if matrix is None:
            return f"PrivacyLevel({self._number!r})"
        if isinstance(matrix, Diagonal):
            kind = "diagonal"
        elif isinstance(matrix, Blocks) and len(matrix.sizes) > 1:
            kind = f"{len(matrix.sizes)} blocks"
        else:
            kind = "dense"
        return f"PrivacyLevel({kind}, {matrix.size} measurements, rank {matrix.rank})"

    # --- differential privacy of a Gaussian release at this level -------------------------------

    def to_mu(self, *, sensitivity: float | Adjacency) -> float:
        """μ of the Gaussian release z = Sy + d, d ~ N(0, S): exactly μ-GDP."""
        difference = as_adjacency(sensitivity)
        if self._number is not None:
            return math.sqrt(self._number) * difference.length
        assert self._matrix is not None
        return difference.mu(self._matrix)

    @classmethod
    def from_mu(
        cls, mu: float, *, sensitivity: float | Adjacency, shape: PrivacyLevel | None = None
    ) -> PrivacyLevel:
        """The largest multiple of `shape` (or of I) whose real release is μ-GDP.

        With continuous noise s = (μ/c)². On the grid g = 2⁻¹⁰ every number shifts by whole steps,
        rounded up: the largest level, to ten digits and on the safe side, with g·√(Σ n_i²) ≤ μ.
        Refused where not even one step fits.
        """
        from privest.privacy._grid import largest_level

        unit = cls(1.0) if shape is None else shape
        as_kind(unit, PrivacyLevel, "shape must be a PrivacyLevel")
        return largest_level(as_nonnegative(mu, "mu"), as_adjacency(sensitivity), unit)

    @classmethod
    def from_epsilon(
        cls, epsilon: float, *, delta: float, sensitivity: float | Adjacency,
        shape: PrivacyLevel | None = None,
    ) -> PrivacyLevel:  # fmt: skip
        """The largest multiple of `shape` (or of I) whose real release is (ε, δ)-DP (`from_mu`)."""
        return cls.from_mu(gdp.mu_of(epsilon, delta), sensitivity=sensitivity, shape=shape)

    @classmethod
    def from_rho(
        cls, rho: float, *, sensitivity: float | Adjacency, shape: PrivacyLevel | None = None
    ) -> PrivacyLevel:
        """The largest multiple of `shape` (or of I) whose real release is ρ-zCDP (`from_mu`)."""
        mu = math.sqrt(2 * as_nonnegative(rho, "rho"))
        return cls.from_mu(mu, sensitivity=sensitivity, shape=shape)

    @classmethod
    def from_attacker(
        cls, distance: float | Adjacency, success: float, *, shape: PrivacyLevel | None = None
    ) -> PrivacyLevel:
        """The largest level at which an attacker seldom enough picks the right one of two values.

        The values differ by `distance` and are equally likely; the attacker is right with
        probability `success` = Φ(μ/2), ½ < success < 1. With continuous noise s = (2Φ⁻¹(p)/c)².
        """
        from privest.privacy.exposures import mu_for_chance

        return cls.from_mu(mu_for_chance(success), sensitivity=distance, shape=shape)


def as_level(given: PrivacyLevel | ArrayLike) -> PrivacyLevel:
    """A number, a vector, a matrix or a `PrivacyLevel` as a `PrivacyLevel`; None is refused."""
    if isinstance(given, PrivacyLevel):
        return given
    require_level(given)
    return PrivacyLevel(given)


def require_level(given: object) -> None:
    """Refuse None: a level is never guessed."""
    if given is None:
        raise InvalidInput(
            "level is None. State a cap on Fisher information: unbiased guesses have sd at least "
            "1/√level. PrivacyLevel.from_epsilon states it as differential privacy."
        )
