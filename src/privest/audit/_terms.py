"""The terms of an audit: what is audited, against which level, where and how often; its finding."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, as_array, as_confidence, as_count
from privest.errors import InvalidInput
from privest.linalg import PSD
from privest.mechanism import Channel, Componentwise, Mechanism
from privest.mechanism.running import Runnable
from privest.noise import Quadrature
from privest.privacy import PrivacyLevel, StreamLevel, as_level

# A plain mechanism: f(y (m,), rng, n) gives n releases (n, q).
Sampler = Callable[[Array, np.random.Generator, int], Array]
Audited = Mechanism | Channel | Sampler | Runnable
Stated = PrivacyLevel | StreamLevel | ArrayLike
# How the draws of a mechanism compare with its density.
Draws = Literal["not broken", "contradicts", "not examined", "audited itself"]
CLOSED_FORM = "closed form supremum"
EXAMINED = "where it was examined"  # what a verdict is about, if not every y
# Eigenvalues of a matrix with unit diagonal below this part of the largest are zero.
ZERO = 1e-12
LIMIT = 1 + 1e-6  # of the margin: a calibrated mechanism has 1, and more is rounding
AGREE = 1e-6  # two ways to the same information that agree to this part are in agreement
# What no certificate examines.
NOT_EXAMINED = (
    "low binary digits of draws", "later calls, and other numbers of draws at once",
    "other states of the process", "the time of calls",
)  # fmt: skip


def as_audited(given: Audited) -> Mechanism | Sampler:
    """A mechanism, or a plain sampler; one channel is a mechanism for one measurement."""
    if isinstance(given, Channel):
        return Componentwise(given, measurements=1)
    if isinstance(given, Runnable):
        return given.as_mechanism()
    if not isinstance(given, Mechanism) and not callable(given):
        raise InvalidInput(
            "an audit takes a Mechanism, a Channel or a sampler f(y, rng, n); received "
            f"{type(given).__name__}."
        )
    return given


def one_vector(y: ArrayLike, audited: Mechanism | Sampler) -> Array:
    given = np.atleast_1d(as_array(y, "y", ndim=(0, 1)))
    if isinstance(audited, Mechanism) and given.size != audited.measurements:
        raise InvalidInput(
            f"the mechanism is for {audited.measurements} measurements; received shape "
            f"{given.shape}."
        )
    return given


def stated_level(given: Stated) -> PrivacyLevel:
    """A level in any form; of a stream S̄ of all its steps."""
    if isinstance(given, StreamLevel) and given.steps is None:
        raise InvalidInput("the level has no last step: audit so many of them, level.first(20).")
    return PrivacyLevel(given.cumulative()) if isinstance(given, StreamLevel) else as_level(given)


def as_domain(given: ArrayLike | None, measurements: int) -> Array | None:
    """(low, high) for all measurements, or one row each: (m, 2)."""
    if given is None:
        return None
    ends = as_array(given, "domain", ndim=(1, 2))
    if ends.shape not in ((2,), (measurements, 2)) or not (ends[..., 0] < ends[..., 1]).all():
        raise InvalidInput(
            "domain is (low, high) with low < high for all measurements, or such a row for each "
            f"of {measurements}; received shape {ends.shape}."
        )
    return np.broadcast_to(ends, (measurements, 2))


def has_density(mechanism: Mechanism | Channel) -> bool:
    """False for channels that were given as a sampler only."""
    channels = mechanism.channels if isinstance(mechanism, Componentwise) else (mechanism,)
    return all(getattr(channel, "has_density", True) for channel in channels)


def as_sampler(given: Mechanism | Sampler) -> Sampler:
    """A plain function (y, rng, n) → (n, q), with its output checked."""

    def draw(y: Array, rng: np.random.Generator, n: int) -> Array:
        z = given.simulate(y, rng, trials=n) if isinstance(given, Mechanism) else given(y, rng, n)
        z = np.asarray(z, dtype=np.float64)
        z = z[:, None] if z.ndim == 1 else z
        if z.ndim != 2 or len(z) != n:
            raise InvalidInput(
                f"the sampler must return n = {n} releases, an array (n,) or (n, q); it returned "
                f"shape {z.shape}."
            )
        return z

    return draw


def generator_of(rng: np.random.Generator | int) -> np.random.Generator:
    """A numpy Generator: as given, or a new one with this seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    return np.random.default_rng(as_count(rng, "rng", least=0))


@dataclass(frozen=True, eq=False)
class Look:
    """Draws per place, confidence of all places together, and the places.

    places (k, m): measurement vectors; none: the usual ones of a method (`at`).
    domain (m, 2): where measurements lie.
    """

    places: Array
    samples: int
    confidence: float
    generator: np.random.Generator | None
    domain: Array | None = None

    @classmethod
    def checked(
        cls, places: ArrayLike | None, samples: int, confidence: float,
        rng: np.random.Generator | int | None,
    ) -> Look:  # fmt: skip
        named = np.zeros((0, 0)) if places is None else as_array(places, "search", ndim=(1, 2))
        generator = None if rng is None else generator_of(rng)
        count = as_count(samples, "samples", least=4)
        return cls(np.atleast_2d(named), count, as_confidence(confidence), generator)

    def at(self, usual: Callable[[], Array]) -> Look:
        return self if self.places.size else replace(self, places=usual())

    @property
    def rng(self) -> np.random.Generator:
        """The generator, or an error that asks for one."""
        if self.generator is None:
            raise InvalidInput("this needs random numbers: give rng=, a number or a generator.")
        return self.generator

    @property
    def any_rng(self) -> np.random.Generator:
        """The generator, or a fixed one."""
        return np.random.default_rng(13) if self.generator is None else self.generator

    def in_domain(self, count: int) -> Array:
        assert self.domain is not None
        low, high = self.domain.T
        return np.asarray(low + (high - low) * self.any_rng.random((count, len(self.domain))))

    @property
    def each(self) -> float:
        """The confidence at one place (Bonferroni)."""
        return 1 - (1 - self.confidence) / len(self.places)


class Span(NamedTuple):
    low: float
    high: float

    def within(self, u: Array) -> Flags:
        return np.asarray((u >= self.low) & (u <= self.high))


@dataclass(frozen=True)
class Found:
    """The largest information of a channel that a search found, at which input, and its error.

    constant        the channel is a shift (p(z + c|u + c) = p(z|u)): one input stands for all.
    disagrees_at    an input at which the channel's own formula for I(u) is wrong, or None.
    span            the inputs that were searched; None: all of them, by the form of the channel.
    unresolved      the share of them on which the density was too rough for the screen.
    """

    best: Quadrature
    at: float
    constant: bool
    evaluations: int
    disagrees_at: float | None = None
    span: Span | None = None
    resolution: float = 0.0
    unresolved: float = 0.0


@dataclass(frozen=True, eq=False)
class Finding:
    """The finding of one method, before a verdict; most fields as in `Certificate`.

    least       a lower bound of the margin: above 1 the level is violated.
    refuted     a statement of the mechanism about itself is wrong.
    unsure      the numbers are too uncertain for "holds".
    undecided   one more reason if there is no verdict.
    """

    margin: float
    error: float
    least: float
    claimed: float
    worst_y: Array | None
    method: str
    reasons: tuple[str, ...]
    confidence: float | None = None
    refuted: bool = False
    unsure: bool = False
    undecided: tuple[str, ...] = ()
    where: str = ""
    resolution: float = 0.0
    sampler: Draws = "not examined"


# --- one matrix in units of another ---------------------------------------------------------------


def inverse_root(S: Array) -> tuple[Array, Array]:
    """W with WWᵀ a generalised inverse of S on its range, WᵀSW = I, and unit columns h with Sh = 0.

    In units in which the diagonal of S is one. A measurement with S_ii = 0 is a hidden column.
    """
    size = np.sqrt(np.diagonal(S))
    seen, dark = np.flatnonzero(size > 0), np.flatnonzero(size == 0)
    every = np.eye(len(S))
    if seen.size == 0:
        return every[:, seen], every
    unit = size[seen, None]
    values, vectors = np.linalg.eigh(S[np.ix_(seen, seen)] / unit / unit.T)
    kept = values > ZERO * values[-1]
    hidden = every[:, seen] @ (vectors[:, ~kept] / unit)
    hidden /= np.linalg.norm(hidden, axis=0)
    root = every[:, seen] @ (vectors[:, kept] / np.sqrt(values[kept]) / unit)
    return root, np.concatenate([hidden, every[:, dark]], axis=1)


def relative(S: PSD, given: ArrayLike) -> float:
    """λ_max(S^-½ I S^-½); inf where I reveals a direction h that S hides.

    hᵀIh is compared with |h|ᵀ|I||h|, the size of what cancels in it.
    """
    information = np.asarray(given)
    if not np.isfinite(information).all():
        return math.inf
    root, hidden = inverse_root(S.dense())
    shown = (hidden * (information @ hidden)).sum(axis=0)
    size = (np.abs(hidden) * (np.abs(information) @ np.abs(hidden))).sum(axis=0)
    if (shown > ZERO * size).any():
        return math.inf
    return float(np.linalg.eigvalsh(root.T @ information @ root)[-1]) if root.size else 0.0
