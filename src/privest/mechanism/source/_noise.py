"""Sources of privacy noise: protected, from the operating system, and simulated."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, get_args

import numpy as np

from privest import lattice
from privest.arrays import AnyArray, Array, as_choice, as_count, as_generator, fingerprint_of
from privest.errors import InvalidInput
from privest.files import require_disk
from privest.lattice import GRID, Coin, Exactly
from privest.reading import counted, read_fields

# Of the noise that is added; or a coin, which takes the place of the value.
Added = Literal["gaussian", "laplace"]
Law = Added | Coin
Numbers = Array | Exactly
# What is to be shown, in units of its noise, or how to compute it once the noise is drawn.
Shown = Numbers | Callable[[], Numbers]
# The least and the largest multiple of the grid that may be shown, numbers or one an entry.
Clip = tuple[Any, Any]
# Below this size doubles lie at most 2⁻¹⁰ apart, in units of the noise. Farther apart, the low
# digits of the sum would be those of the measurement, not of the noise.
LARGEST = 2.0**43


class Source(ABC):
    """Noise of unit information for releases: N(0, 1), or Laplace(1).

    simulated  an ordinary random generator, for experiments; no protection.
    grid       what is released are multiples of it; 0 for a continuous release.
    resent     whether the last release was one of before, sent again as it was.
    """

    simulated: bool
    grid: float = 0.0
    resent: bool = False

    @abstractmethod
    def add_noise(
        self,
        shown: Shown,
        *,
        shape: tuple[int, ...] | None = None,
        at: int = 0,
        sizes: Sequence[int] | None = None,
        law: Law = "gaussian",
        clip: Clip | None = None,
        fingerprint: str | None = None,
    ) -> Array:
        """shown + e, e independent of unit information, a new array.

        shown        numbers, or a function (then `shape` is that of what it returns), which a
                     protected source calls after its noise is drawn.
        at, sizes    all is one release, or, given `sizes`, as many steps of a stream from step `at`
                     on, each a release of its own
        law          where it is a `Coin`, `shown` are the values; a bit comes back for each.
        clip         what is shown stays between these multiples of 2⁻¹⁰ before the noise is added.
        fingerprint  of the level, public; a source that keeps releases refuses others.

        NaN in what a real release is to show is missing, and NaN in what is returned. A release of
        before is returned as it was.
        """

    @property
    def kind(self) -> str:
        """The sources that can take up this one's state."""
        return type(self).__name__

    def state(self) -> dict[str, Any]:
        """The state of the next draw (JSON and arrays); as sensitive as the measurements."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - nothing to take up
        """Take up a state again."""


def numbers(shown: Shown) -> Numbers:
    return shown() if callable(shown) else shown


def shape_of(shown: Numbers) -> tuple[int, ...]:
    return np.shape(shown.high if isinstance(shown, Exactly) else shown)


def in_doubles(shown: Shown, clip: Clip | None = None) -> Array:
    """The values to be shown as nearest doubles."""
    found = numbers(shown)
    plain = found.high if isinstance(found, Exactly) else found
    if clip is None:
        return plain
    return np.clip(plain, np.multiply(clip[0], GRID), np.multiply(clip[1], GRID))


def law_fact(law: Law) -> str:
    """The distribution of a release, as a text."""
    if isinstance(law, Coin):
        return f"coin {law.flips} {law.low!r} {law.high!r} True"
    return as_choice(law, get_args(Added), "law")


def clip_fact(clip: Clip | None) -> str | None:
    """The range of a release, as a text."""
    if clip is None:
        return None
    return fingerprint_of("clip", *(np.atleast_1d(np.asarray(side, dtype=float)) for side in clip))


def as_integers(whole: Array) -> AnyArray:
    """Whole numbers as int64; in doubles where one is missing."""
    return whole.astype(np.int64) if np.isfinite(whole).all() else whole


# --- protected noise: exact, discrete, from the entropy of the operating system. It has no seed ---


class Protected(Source):
    """The noise of real releases: tables of `privest.lattice`, inverted with system entropy.

    All noise is drawn before what is shown is computed. Values beyond the grid, ±∞ too, are
    clipped; NaN stays NaN. No seed, no state, no noise is kept.
    """

    simulated = False
    grid: float = lattice.GRID

    def add_noise(
        self,
        shown: Shown,
        *,
        shape: tuple[int, ...] | None = None,
        at: int = 0,
        sizes: Sequence[int] | None = None,
        law: Law = "gaussian",
        clip: Clip | None = None,
        fingerprint: str | None = None,
    ) -> Array:
        require_disk()
        law_fact(law)
        if shape is None:
            shape = shape_of(numbers(shown))
        count = int(np.prod(shape, dtype=np.intp))
        words = lattice.os_words(count)
        if isinstance(law, lattice.Coin):
            return self._bits(in_doubles(shown), law, words)
        noise = self._integers(count, law)
        found = numbers(shown)
        exact = found if isinstance(found, lattice.Exactly) else lattice.exactly(found)
        whole = lattice.rounded(exact, words, *(() if clip is None else clip)).ravel()
        released = np.asarray((whole + noise).reshape(shape) * self.grid)
        released[np.isnan(exact.high).reshape(shape)] = np.nan
        return released

    @staticmethod
    def _bits(y: Array, coin: lattice.Coin, words: lattice.Unsigned) -> Array:
        bits = lattice.tossed(coin, y, words).astype(np.float64)
        bits[np.isnan(y)] = np.nan
        return bits

    def _integers(self, count: int, law: Law) -> AnyArray:
        draws: dict[Law, Callable[[int], AnyArray]] = {
            "gaussian": lattice.gaussian_integers,
            "laplace": lattice.laplace_integers,
        }
        return draws[law](count)


class Payer(Protocol):
    """An account that pays for releases before they leave: `ledger.Account`."""

    def source_at(self, level: Any) -> Source:  # noqa: ANN401 - a level, which is above sources
        """Noise at this level."""
        ...


def paid(account: Payer | None, level: object, source: Source | None) -> Source:
    """The source of a real release at a level: of an account, else `source`."""
    if account is None:
        return as_protected(source)
    if source is not None:
        raise InvalidInput("give a source or an account: an account has a source of its own.")
    return account.source_at(level)


def as_protected(given: Source | None) -> Source:
    """The source of a real release: protected noise for None; no seed, nothing simulated."""
    if given is None:
        return Protected()
    if not isinstance(given, Source):
        raise InvalidInput(
            "a release has no seed and takes no generator: its noise comes from the operating "
            f"system. Received {type(given).__name__}; simulate is the call for trials."
        )
    if given.simulated:
        raise InvalidInput(
            "this source is a simulation, which protects nothing: simulate is the call for it. "
            "release takes none, or a protected source."
        )
    return given


# --- simulated noise, which protects nothing against an attacker who knows its seed ---------------


def require_room(shown: Array, width: Array | float = 1.0) -> None:
    """Refuse numbers beside which noise of this width is lost in the rounding of doubles.

    The message cannot show the number: it may be private.
    """
    if not isinstance(width, float) or width != 1.0:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            shown = np.where(shown == 0.0, 0.0, shown / width)
    # One number is looked at by itself: single measurements come by the thousand.
    largest = abs(shown.item()) if shown.size == 1 else np.abs(shown).max(initial=0.0)
    if not largest < LARGEST:  # NaN too
        raise InvalidInput(
            "a measurement is so large beside its noise that the noise would be lost in rounding: "
            f"doubles have room for {LARGEST:.0e} deviations of the noise. Either the measurement "
            "is too large for this level (state measurements in units in which they are smaller, "
            "or take an offset off), or the level is too large."
        )


class Generated(Source):
    """Continuous noise of a simulation generator: shown + e in doubles.

    The noise follows from the generator, the shape and the order of the draws, and never from a
    number that was computed: its last bit differs between processors. Raises InvalidInput where the
    noise would be lost in rounding.
    """

    simulated = True

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng: np.random.Generator = as_generator(rng)

    def add_noise(
        self,
        shown: Shown,
        *,
        shape: tuple[int, ...] | None = None,
        at: int = 0,
        sizes: Sequence[int] | None = None,
        law: Law = "gaussian",
        clip: Clip | None = None,
        fingerprint: str | None = None,
    ) -> Array:
        law_fact(law)
        plain = in_doubles(shown, clip)
        if isinstance(law, Coin):
            q = float(law.wrong)
            chance = np.where(plain >= law.middle, 1.0 - q, q)
            bits = self.rng.random(plain.shape) < chance
            return np.where(np.isnan(plain), np.nan, bits)
        require_room(plain)
        draws: dict[Law, Callable[..., Array]] = {
            "gaussian": self.rng.standard_normal,
            "laplace": self.rng.laplace,
        }
        return plain + draws[law](size=plain.shape)

    @property
    def kind(self) -> str:
        return type(self.rng.bit_generator).__name__

    def state(self) -> dict[str, Any]:
        return dict(self.rng.bit_generator.state)

    def restore(self, state: Mapping[str, Any]) -> None:
        _require_like(state, self.rng.bit_generator.state)
        self.rng.bit_generator.state = state


# What numpy believes: beyond these it reads memory that is not the generator's.
PLACES = {"pos": 624, "buffer_pos": 4, "has_uint32": 1, "uinteger": 2**32 - 1}


def _require_like(state: object, own: Any, name: str = "state") -> None:  # noqa: ANN401
    """Refuse a state that has not the form of the generator's own."""
    if isinstance(own, Mapping):
        found = read_fields(state, dict.fromkeys(own, _as_given), f"the {name} of a generator")
        for key, part in own.items():
            _require_like(found[key], part, key)
    elif isinstance(own, np.ndarray):
        good = isinstance(state, np.ndarray) and (state.shape, state.dtype) == (
            own.shape,
            own.dtype,
        )
        if not good:
            raise InvalidInput(f"{name} of a generator must be {own.shape} numbers of {own.dtype}.")
    elif isinstance(own, str):
        if state != own:
            raise InvalidInput(f"{name} of a generator must be {own}.")
    else:
        counted(most=PLACES.get(name, 2**128 - 1))(state, f"{name} of a generator")


def _as_given(given: object, name: str) -> object:
    return given


def seeded(
    seed: int | np.random.Generator | np.random.RandomState | None, *facts: str | int | None
) -> Source:
    """A simulated source: fresh for None, else with the noise of a seed and these facts.

    `facts` tell releases of one seed apart: the name of a column, the number of an agent, a level
    to six digits. Each is the same on every processor. Two simulations with one seed and the same
    facts have the same noise, whatever the measurements.
    """
    if isinstance(seed, np.random.RandomState):
        seed = np.random.Generator(seed._bit_generator)
    if seed is None or isinstance(seed, np.random.Generator):
        return Generated(np.random.default_rng(seed))
    number = as_count(seed, "a seed", least=0)
    digest = hashlib.sha256(json.dumps([number, *facts]).encode()).digest()
    return Generated(np.random.default_rng(int.from_bytes(digest, "big")))


def as_source(given: Source | np.random.Generator) -> Source:
    """The source of a simulation."""
    if not isinstance(given, Source):
        return Generated(given)
    if not given.simulated:
        raise InvalidInput(
            "this source makes real releases, which spend privacy: release is the call for it. "
            "simulate takes a numpy generator or a simulated source."
        )
    return given
