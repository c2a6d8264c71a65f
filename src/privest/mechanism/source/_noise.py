"""Sources of privacy noise: protected, from the operating system, and simulated."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, get_args

import numpy as np

from privest import lattice
from privest.arrays import AnyArray, Array, as_choice, as_generator, fingerprint_of
from privest.errors import InvalidInput
from privest.files import require_disk
from privest.lattice import GRID, Coin, Exactly
from privest.reading import counted, read_fields, read_text

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
    bound      whether the noise depends on the numbers shown, as that of a seed does.
    """

    simulated: bool
    bound: bool = False
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


def exact_bytes(shown: Numbers) -> bytes:
    """The numbers to the last bit; −0 is 0."""
    if isinstance(shown, Exactly):
        return exact_bytes(shown.high) + exact_bytes(np.asarray(shown.low))
    return np.add(shown, 0.0, dtype="<f8", order="C").tobytes()


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
        draw = lattice.gaussian_integers if law == "gaussian" else lattice.laplace_integers
        return draw(count)


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


class Simulated(Source):
    """Continuous noise: shown + e in doubles.

    Raises InvalidInput where the noise would be lost in rounding.
    """

    simulated = True

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
            return self._bits(plain, self._uniform(plain, at, sizes), law)
        require_room(plain)
        return plain + self._noise(plain, at, sizes, law)

    @staticmethod
    def _bits(y: Array, uniform: Array, coin: Coin) -> Array:
        q = float(coin.wrong)
        chance = np.where(y >= coin.middle, 1.0 - q, q)
        return np.where(np.isnan(y), np.nan, uniform < chance)

    @abstractmethod
    def _noise(self, shown: Array, at: int, sizes: Sequence[int] | None, law: Law) -> Array: ...

    @abstractmethod
    def _uniform(self, shown: Array, at: int, sizes: Sequence[int] | None) -> Array: ...


class Generated(Simulated):
    """Noise of a simulation generator, in the order in which it is asked for."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng: np.random.Generator = as_generator(rng)

    def _noise(self, shown: Array, at: int, sizes: Sequence[int] | None, law: Law) -> Array:
        draw = self.rng.standard_normal if law == "gaussian" else self.rng.laplace
        return draw(size=shown.shape)

    def _uniform(self, shown: Array, at: int, sizes: Sequence[int] | None) -> Array:
        return self.rng.random(shown.shape)

    @property
    def kind(self) -> str:
        return type(self.rng.bit_generator).__name__

    def state(self) -> dict[str, Any]:
        return dict(self.rng.bit_generator.state)

    def restore(self, state: Mapping[str, Any]) -> None:
        _require_like(state, self.rng.bit_generator.state)
        self.rng.bit_generator.state = state


class Seeded(Simulated):
    """Simulated noise that is a function of a seed and of what is released, and of nothing else.

        e = √(−2 ln u) cos 2πv ,   u, v = SHAKE-256(seed, facts, place, the exact numbers shown)

    Any other measurement, level, place or fact means other noise: the same noise on two releases
    would reveal the measurements. The steps of a stream are bound one by one, in whatever blocks
    they come.
    """

    bound = True

    def __init__(self, seed: int, *facts: object) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise InvalidInput("a seed is a whole number ≥ 0.")
        self._key = hashlib.sha256(json.dumps([int(seed), *facts]).encode()).digest()

    def _noise(self, shown: Array, at: int, sizes: Sequence[int] | None, law: Law) -> Array:
        u, v = self._uniforms(shown, at, sizes)
        noise: Array = np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v)
        if law == "laplace":
            noise = np.where(v < 0.5, np.log(u), -np.log(u))
        return noise.reshape(shown.shape)

    def _uniform(self, shown: Array, at: int, sizes: Sequence[int] | None) -> Array:
        return np.asarray(self._uniforms(shown, at, sizes)[0].reshape(shown.shape))

    def _uniforms(self, shown: Array, at: int, sizes: Sequence[int] | None) -> Array:
        exact = exact_bytes(shown)
        if sizes is None:
            drawn = self._words(f"{at} {shown.shape}", exact)
        else:
            ends = list(itertools.accumulate(sizes, initial=0))
            drawn = b"".join(
                self._words(f"{at + k} {(size,)}", exact[8 * ends[k] : 8 * ends[k + 1]])
                for k, size in enumerate(sizes)
            )
        return np.asarray((np.frombuffer(drawn, dtype="<u8").reshape(-1, 2).T + 0.5) * 2.0**-64)

    def _words(self, place: str, numbers: bytes) -> bytes:
        return hashlib.shake_256(self._key + place.encode() + numbers).digest(2 * len(numbers))

    def state(self) -> dict[str, Any]:
        return {"key": self._key.hex()}

    def restore(self, state: Mapping[str, Any]) -> None:
        key = read_fields(state, {"key": read_text}, "the state of a seed")["key"]
        if not re.fullmatch("[0-9a-f]{64}", key):
            raise InvalidInput("the key of a seed must be 64 hexadecimal digits.")
        self._key = bytes.fromhex(key)


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
    seed: int | np.random.Generator | np.random.RandomState | None, *facts: object
) -> Source:
    """A simulated source: fresh for None, else bound to the release (`Seeded`).

    `facts` (texts and numbers) tell apart releases that would show the same numbers: the name of a
    column, the number of an agent. A generator gives a seed: copies of it would repeat their noise.
    """
    if seed is None:
        return Generated(np.random.default_rng())
    if isinstance(seed, np.random.RandomState):
        seed = np.random.Generator(seed._bit_generator)
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**63))
    return Seeded(seed, *facts)


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
