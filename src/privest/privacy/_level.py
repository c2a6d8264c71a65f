"""The privacy level S: whatever is released may carry at most Fisher information S about y."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from privest.arrays import (
    EPS,
    Array,
    ArrayLike,
    Index,
    as_array,
    as_count,
    as_nonnegative,
    as_positive,
    fingerprint_of,
)
from privest.errors import InvalidInput, NotAPrivacyLevel
from privest.linalg import PSD, Blocks, Diagonal, Scalar, psd, psd_blocks, uncorrelated
from privest.privacy import gdp
from privest.privacy._adjacency import Convertible, Move, as_move

NAME = "the privacy level"


class PrivacyLevel(Convertible):
    """S ≥ 0 in I_z(y) ≤ S: no unbiased adversary learns y better than S⁻¹.

    `PrivacyLevel(1.0)` is 1.0·I for any number of readings, a vector is a diagonal, a matrix is
    itself, an array (K, b, b) is K blocks; `from_blocks` takes blocks of different sizes. A zero
    on the diagonal means: that reading is never revealed. Each keeps its structure: a number on a
    million readings stays a number.

    Refuses what is not finite, symmetric (up to 1e-10 of √(S_ii S_jj), then averaged) and positive
    semi-definite (eigenvalues below −1e-11 of the largest, in units where the diagonal is one),
    naming the eigenvalue.

    >>> PrivacyLevel([1.0, 0.0, 2.0]).rank
    2
    >>> level = PrivacyLevel(1.0) + PrivacyLevel([[1.0, 1.0], [1.0, 1.0]])
    >>> level.dense().tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    >>> PrivacyLevel([[1.0, 2.0], [2.0, 1.0]])
    Traceback (most recent call last):
    ...
    privest.errors.NotAPrivacyLevel: the privacy level must be positive semi-definite; it has
    eigenvalue -1, beyond rounding ...
    """

    def __init__(self, value: ArrayLike) -> None:
        array = as_array(value, NAME, ndim=(0, 1, 2, 3), error=NotAPrivacyLevel)
        self._number: float | None = None
        self._matrix: PSD | None = None
        if array.ndim == 0:
            self._number = float(psd(array, NAME, size=1, error=NotAPrivacyLevel).norm())
        else:
            self._matrix = psd(array, NAME, error=NotAPrivacyLevel)

    @classmethod
    def from_blocks(cls, blocks: Sequence[ArrayLike]) -> PrivacyLevel:
        """diag{S_1, …, S_K} from matrices of any sizes: groups of readings kept apart."""
        return cls.from_matrix(psd_blocks(blocks, NAME, error=NotAPrivacyLevel))

    @classmethod
    def from_matrix(cls, matrix: PSD) -> PrivacyLevel:
        """A level from a structured matrix that has been checked."""
        level = cls.__new__(cls)
        level._number, level._matrix = None, matrix
        return level

    # --- what it is -------------------------------------------------------------------------

    @property
    def number(self) -> float | None:
        """s of a level given as a number, s·I; None for the others."""
        return self._number

    @property
    def size(self) -> int | None:
        """m, or None for a number, which fits any m."""
        return None if self._matrix is None else self._matrix.size

    @property
    def rank(self) -> int:
        """How many independent combinations of readings may be revealed at all."""
        if self._matrix is not None:
            return self._matrix.rank
        if self._number == 0:
            return 0
        raise InvalidInput("A level given as a number has no rank of its own: use for_size(m).")

    def for_size(self, size: int) -> PSD:
        """S as a structured matrix for m = `size` readings."""
        size = as_count(size, "the number of readings", least=0)
        if self._number is not None:
            return Scalar(self._number, size)
        assert self._matrix is not None
        if self._matrix.size != size:
            raise NotAPrivacyLevel(
                f"{NAME} is for {self._matrix.size} readings; the model has {size}."
            )
        return self._matrix

    def dense(self, size: int | None = None) -> Array:
        """The m×m matrix (m² memory)."""
        known = self.size if size is None else size
        if known is None:
            raise InvalidInput("A level given as a number needs the number of readings: size=m.")
        return self.for_size(known).dense()

    def restrict(self, readings: ArrayLike) -> PrivacyLevel:
        """The level of some of the readings: increasing indices, or a boolean mask."""
        index = self._indices(readings)
        limit = math.inf if self.size is None else self.size
        if not len(index) or (np.diff(index) <= 0).any() or index[0] < 0 or index[-1] >= limit:
            raise InvalidInput(
                "readings must be increasing indices of the level, or a boolean mask of its size, "
                "and at least one of them."
            )
        return self if self._matrix is None else self.from_matrix(self._matrix.restrict(index))

    def _indices(self, readings: ArrayLike) -> Index:
        """As whole numbers; none where they are something else."""
        try:
            given = np.asarray(readings)
        except ValueError:  # rows of different lengths
            given = np.zeros(0)
        if given.dtype == bool and given.ndim == 1 and self.size in (None, given.size):
            given = np.flatnonzero(given)
        whole = given.ndim == 1 and given.dtype.kind in "iu"
        return given.astype(np.intp) if whole else np.zeros(0, dtype=np.intp)

    def uncorrelated(self, covariance: PSD | ArrayLike) -> PrivacyLevel:
        """The same S, with a factor L for which LᵀΣL is diagonal: Σ, the covariance of the noise.

        For releases whose coordinates Lᵀy are clipped: maximum likelihood takes them one by one.
        What is released depends on L, and so does the fingerprint: both sides take this level.
        """
        if not isinstance(covariance, PSD):
            covariance = psd(covariance, "the covariance of the noise", size=self.size)
        return self.from_matrix(uncorrelated(self.for_size(covariance.size), covariance))

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hex digits of SHA-256 over the exact numbers: what a release says of its level.

        Of a level of blocks it is the factor L, not S: what is released depends on L, which
        machines may choose differently. A number and a vector that repeats it are the same level.
        """
        matrix = self._matrix
        if isinstance(matrix, Blocks):
            return fingerprint_of("level of blocks", *matrix.lowers())
        values = np.array([self._number]) if matrix is None else matrix.diagonal()
        same = (values == values[0]).all()
        return fingerprint_of("level", values[:1] if same else values)

    def __add__(self, other: PrivacyLevel) -> PrivacyLevel:
        """Information adds when two releases use independent noise."""
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
            raise NotAPrivacyLevel(f"{what} leaves the range of double precision.")
        return self.from_matrix(matrix)

    def __mul__(self, factor: float) -> PrivacyLevel:
        """A level `factor` ≥ 0 times as permissive."""
        number = as_nonnegative(factor, "factor of a privacy level", error=NotAPrivacyLevel)
        if self._number is not None:
            return PrivacyLevel(number * self._number)
        assert self._matrix is not None
        with np.errstate(over="ignore"):
            return self._in_range(self._matrix.scaled(number), "the multiple of the level")

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> PrivacyLevel:
        """A level `divisor` > 0 times as strict."""
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
        return f"PrivacyLevel({kind}, {matrix.size} readings, rank {matrix.rank})"

    # --- differential privacy of a Gaussian release at this level (docs/theory.md 5) --------------

    def to_mu(self, *, move: float | Move) -> float:
        """μ of the Gaussian release z = Sy + d, d ~ N(0, S): exactly μ-GDP for this move."""
        difference = as_move(move)
        if self._number is not None:
            return math.sqrt(self._number) * difference.length
        assert self._matrix is not None
        return difference.mu(self._matrix)

    @classmethod
    def from_mu(
        cls, mu: float, *, move: float | Move, shape: PrivacyLevel | None = None
    ) -> PrivacyLevel:
        """The largest multiple of `shape` whose Gaussian release is μ-GDP for this move.

        Without a shape: s·I with s = (μ/c)². Rounded down by a few units in the last place, so
        that converting back never exceeds the promise.
        """
        strength = as_nonnegative(mu, "mu")
        unit = cls(1.0) if shape is None else shape
        if not isinstance(unit, PrivacyLevel):
            raise InvalidInput(f"shape must be a PrivacyLevel; received {type(unit).__name__}.")
        reach = unit.to_mu(move=move)
        if reach == 0:
            raise InvalidInput("the shape does not see this move at all: any multiple would do.")
        ratio = strength / reach
        factor = ratio * ratio * (1 - 64 * EPS)
        if not np.isfinite(factor) or (factor == 0 and strength > 0):
            raise InvalidInput(
                f"the level of this promise leaves the range of numbers: μ = {strength:.3g} for a "
                f"move that shows {reach:.3g} at the level asked about. State the readings, and "
                "with them the move, in another unit."
            )
        return unit * factor

    @classmethod
    def from_epsilon(
        cls, epsilon: float, *, delta: float, move: float | Move, shape: PrivacyLevel | None = None
    ) -> PrivacyLevel:
        """The largest multiple of `shape` (or s·I) whose Gaussian release is (ε, δ)-DP.

        Of continuous noise; `privacy.level_on_grid` is the level that real releases keep.
        """
        return cls.from_mu(gdp.mu_of(epsilon, delta), move=move, shape=shape)

    @classmethod
    def from_rho(
        cls, rho: float, *, move: float | Move, shape: PrivacyLevel | None = None
    ) -> PrivacyLevel:
        """The largest multiple of `shape` (or s·I) whose Gaussian release is ρ-zCDP."""
        return cls.from_mu(gdp.mu_of_rho(rho), move=move, shape=shape)


def as_level(given: PrivacyLevel | ArrayLike) -> PrivacyLevel:
    """Every door that takes a level takes a number, a vector, a matrix or a `PrivacyLevel`.

    None is refused: a level is never guessed.
    """
    if isinstance(given, PrivacyLevel):
        return given
    require_level(given)
    return PrivacyLevel(given)


def require_level(given: object) -> None:
    """Refuse None: a level is never guessed."""
    if given is None:
        raise NotAPrivacyLevel(
            "level is None. State a cap on Fisher information: unbiased guesses have sd at least "
            "1/√level. PrivacyLevel.from_epsilon states it as differential privacy."
        )
