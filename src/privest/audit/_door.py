"""At the door: what can be audited, against which level, how hard to look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from inspect import signature

import numpy as np

from privest.arrays import Array, ArrayLike, as_array
from privest.errors import InvalidInput
from privest.mechanism import Channel, Componentwise, Mechanism, Runnable
from privest.privacy import EndlessLevel, PrivacyLevel, StreamLevel, as_level

# A plain mechanism: f(y (m,), rng, n) gives n releases (n, q).
Sampler = Callable[[Array, np.random.Generator, int], Array]
Audited = Mechanism | Channel | Sampler | Runnable
Stated = PrivacyLevel | StreamLevel | EndlessLevel | ArrayLike


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
    """How hard to look: draws a place, how sure to be of all places together, and where.

    places (k, m): reading vectors; none: the usual ones of whoever looks (`at`).
    domain (m, 2): where readings lie. lipschitz: of a channel's information, as its input moves.
    """

    places: Array
    samples: int
    confidence: float
    generator: np.random.Generator | None
    domain: Array | None = None
    lipschitz: float | None = None

    def at(self, usual: Callable[[], Array]) -> Look:
        """The same, at the usual places where none were named."""
        return self if self.places.size else replace(self, places=usual())

    @property
    def rng(self) -> np.random.Generator:
        """The generator, or an error that asks for one."""
        if self.generator is None:
            raise InvalidInput("this needs random numbers: give rng=numpy.random.default_rng(...).")
        return self.generator

    def in_domain(self, count: int, rng: np.random.Generator) -> Array:
        """Reading vectors (count, m) anywhere in the domain."""
        assert self.domain is not None
        low, high = self.domain.T
        return np.asarray(low + (high - low) * rng.random((count, len(self.domain))))

    @property
    def any_rng(self) -> np.random.Generator:
        """The generator, or a fixed one: for draws that are only compared with their density."""
        return np.random.default_rng(13) if self.generator is None else self.generator

    @property
    def each(self) -> float:
        """The confidence at one place (Bonferroni)."""
        return 1 - (1 - self.confidence) / len(self.places)
