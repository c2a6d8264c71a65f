"""The terms of an audit: what is audited, against which level, with how many draws; its finding."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Literal

import numpy as np

from privest.arrays import Array, ArrayLike, as_array
from privest.audit._search import Found
from privest.errors import InvalidInput
from privest.linalg import PSD
from privest.mechanism import Channel, Componentwise, Mechanism, Runnable
from privest.privacy import EndlessLevel, PrivacyLevel, StreamLevel, as_level

# A plain mechanism: f(y (m,), rng, n) gives n releases (n, q).
Sampler = Callable[[Array, np.random.Generator, int], Array]
Audited = Mechanism | Channel | Sampler | Runnable
Stated = PrivacyLevel | StreamLevel | EndlessLevel | ArrayLike
# How the draws of a mechanism compare with its density.
Draws = Literal["agrees", "contradicts", "not examined", "audited itself"]
CLOSED_FORM = "closed form supremum"
EXAMINED = "where it was examined"  # what a verdict is about, if not every y
PAIRS = "dependence between two outputs"
MORE = "dependence among three or more outputs (products of signs)"
# Eigenvalues of a matrix with unit diagonal below this part of the largest are zero.
ZERO = 1e-12


def as_audited(given: Audited, verb: str, steps: int | None = None) -> Mechanism | Sampler:
    """A mechanism, or a plain sampler; one channel is a mechanism for one reading.

    `steps`: how much of what a user runs is audited, where that is not fixed.
    """
    counted = isinstance(given, Runnable) and bool(signature(given.as_mechanism).parameters)
    if steps is not None and not counted:
        raise InvalidInput(
            f"steps= is for streams and tables: a {type(given).__name__} always releases all "
            "its readings. Leave it out."
        )
    if isinstance(given, Channel):
        return Componentwise(given, readings=1)
    if isinstance(given, Runnable):
        return given.as_mechanism() if steps is None else given.as_mechanism(steps)
    if not isinstance(given, Mechanism) and not callable(given):
        raise InvalidInput(
            f"{verb} a Mechanism, a Channel or a sampler f(y, rng, n); received "
            f"{type(given).__name__}."
        )
    return given


def one_vector(y: ArrayLike, audited: Mechanism | Sampler) -> Array:
    """The readings y (m,) of the mechanism."""
    given = np.atleast_1d(as_array(y, "y", ndim=(0, 1)))
    if isinstance(audited, Mechanism) and given.size != audited.readings:
        raise InvalidInput(
            f"the mechanism is for {audited.readings} readings; received shape {given.shape}."
        )
    return given


def stated_level(given: Stated, steps: int | None) -> PrivacyLevel:
    """A level in any form; that of a stream is S̄ of its first steps."""
    if isinstance(given, EndlessLevel):
        if steps is None:
            raise InvalidInput("the level has no last step: say how many to audit, steps=20.")
        given = given.first(steps)
    if isinstance(given, StreamLevel):
        return PrivacyLevel(given.cumulative(steps))
    return as_level(given)


def as_domain(given: ArrayLike | None, readings: int) -> Array | None:
    """(low, high) for all readings, or one row each: (m, 2)."""
    if given is None:
        return None
    ends = as_array(given, "domain", ndim=(1, 2))
    if ends.shape not in ((2,), (readings, 2)) or not (ends[..., 0] < ends[..., 1]).all():
        raise InvalidInput(
            f"domain is (low, high) with low < high for all readings, or such a row for each of "
            f"{readings}; received shape {ends.shape}."
        )
    return np.broadcast_to(ends, (readings, 2))


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

    def at(self, usual: Callable[[], Array]) -> Look:
        """The same, at the usual places where none were named."""
        return self if self.places.size else replace(self, places=usual())

    @property
    def rng(self) -> np.random.Generator:
        """The generator, or an error that asks for one."""
        if self.generator is None:
            raise InvalidInput("this needs random numbers: give rng=numpy.random.default_rng(...).")
        return self.generator

    @property
    def any_rng(self) -> np.random.Generator:
        """The generator, or a fixed one: for draws that are only compared with their density."""
        return np.random.default_rng(13) if self.generator is None else self.generator

    def in_domain(self, count: int) -> Array:
        """Measurement vectors (count, m) anywhere in the domain."""
        assert self.domain is not None
        low, high = self.domain.T
        return np.asarray(low + (high - low) * self.any_rng.random((count, len(self.domain))))

    @property
    def each(self) -> float:
        """The confidence at one place (Bonferroni)."""
        return 1 - (1 - self.confidence) / len(self.places)


@dataclass(frozen=True, eq=False)
class Finding:
    """What one method found about I_z(y) ≤ S, before a verdict; most fields as in `Certificate`.

    least       a lower bound of the margin: above 1 the level is violated.
    method      how, where the mechanism's own supremum does not settle it.
    refuted     something that the mechanism says of itself is wrong.
    unsure      the numbers are too uncertain for "holds".
    undecided   one more reason if there is no verdict.
    searched    what was found of each channel.
    looked      points of `_calls.ASPECTS` that this method has examined.
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
    searched: dict[Channel, Found] = field(default_factory=dict)
    looked: dict[str, bool] = field(default_factory=dict)
    examined: tuple[str, ...] = ()
    power: float = math.nan


# --- one matrix in units of another ---------------------------------------------------------------


def inverse_root(S: Array) -> tuple[Array, Array]:
    """W with WWᵀ a generalised inverse of S on its range, and what S hides (unit columns).

    In units in which the diagonal of S is one: readings with very different levels do not hide each
    other. WᵀSW = I; the hidden columns h have Sh = 0, a reading with S_ii = 0 is one of them.
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


def relative(S: PSD, information: Array) -> float:
    """λ_max(S^-½ I S^-½); inf where I shows a direction h that S hides.

    hᵀIh is compared with |h|ᵀ|I||h|, the size of what cancels in it: a hidden reading is judged by
    its own information, not next to that of the others.
    """
    if not np.isfinite(information).all():
        return math.inf
    root, hidden = inverse_root(S.dense())
    shown = (hidden * (information @ hidden)).sum(axis=0)
    size = (np.abs(hidden) * (np.abs(information) @ np.abs(hidden))).sum(axis=0)
    if (shown > ZERO * size).any():
        return math.inf
    return float(np.linalg.eigvalsh(root.T @ information @ root)[-1]) if root.size else 0.0
