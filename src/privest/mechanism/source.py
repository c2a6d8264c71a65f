"""Where release noise comes from: the one door. No other module on a release path draws numbers.

A source is handed what would be shown without privacy, Lᵀy in units of its noise, and returns it
with independent N(0, 1) noise on every entry. Whoever releases (a mechanism, a stream, a sensor, a
table) computes what to show, and goes through `add_noise`.

The sources of this version are simulations: they protect nothing against somebody who knows how
they were made, and everything released through them says `simulated`.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import logging
import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from privest.arrays import Array
from privest.errors import InvalidInput
from privest.files import OWNER_ONLY, atomic_file
from privest.noise._law import as_generator
from privest.reading import (
    counted,
    read_arrays,
    read_bytes,
    read_fields,
    read_text,
    state_array,
    state_flag,
)

# Below this size doubles lie at most 2⁻¹⁰ apart, in units of the noise. Farther apart, the low
# digits of the sum would be those of the reading, not of the noise.
LARGEST = 2.0**43
KEY_BYTES = 32
KEPT = "privest kept release 1"


class Source(ABC):
    """Unit Gaussian noise for releases.

    simulated  True: an ordinary random generator, for experiments; no protection.
    """

    simulated: bool

    def add_noise(self, shown: Array, *, at: int = 0, sizes: Sequence[int] | None = None) -> Array:
        """shown + e, e ~ N(0, I), a new array.

        All of it is one release, or, given `sizes`, as many steps of a stream one after another,
        the first of them step `at`, each a release of its own.
        Raises InvalidInput where the noise would be lost in rounding: there the sum is the reading.
        """
        require_room(shown)
        return shown + self._noise(shown, at, sizes)

    @abstractmethod
    def _noise(self, shown: Array, at: int, sizes: Sequence[int] | None) -> Array:
        """e of the shape of `shown`."""

    @property
    def kind(self) -> str:
        """Which sources can take up this one's state."""
        return type(self).__name__

    def state(self) -> dict[str, Any]:
        """What the next draw depends on (JSON and arrays); as sensitive as the readings."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - nothing to take up
        """Take up a state again: the same draws follow."""


class Generated(Source):
    """Noise of a simulation generator, in the order in which it is asked for."""

    simulated = True

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = as_generator(rng)

    def _noise(self, shown: Array, at: int, sizes: Sequence[int] | None) -> Array:
        return self.rng.standard_normal(shown.shape)

    @property
    def kind(self) -> str:
        return type(self.rng.bit_generator).__name__

    def state(self) -> dict[str, Any]:
        return dict(self.rng.bit_generator.state)

    def restore(self, state: Mapping[str, Any]) -> None:
        _require_like(state, self.rng.bit_generator.state)
        self.rng.bit_generator.state = state


class Seeded(Source):
    """Simulated noise that is a function of a seed and of what is released, and of nothing else.

        e = √(−2 ln u) cos 2πv ,   u, v = SHAKE-256(seed, facts, place, the exact numbers shown)

    The same noise on two different releases gives the readings away: y + e/√s and y + e/√s' are two
    equations with two unknowns, and y' + e − (y + e) is the difference of two data sets. Here any
    other reading, level (it scales what is shown), place or fact means other noise; the same
    release again is the same numbers, and shows nothing new. The steps of a stream are bound one
    by one: in whatever blocks they come, the noise is the same. Nothing is remembered: two sensors
    that share a source, a reading and a level need different facts, hence sources of their own.
    """

    simulated = True

    def __init__(self, seed: int, *facts: object) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise InvalidInput("a seed is a whole number ≥ 0.")
        self._key = hashlib.sha256(json.dumps([int(seed), *facts]).encode()).digest()

    def _noise(self, shown: Array, at: int, sizes: Sequence[int] | None) -> Array:
        exact = _exact(shown)
        if sizes is None:
            drawn = self._bits(f"{at} {shown.shape}", exact)
        else:
            ends = list(itertools.accumulate(sizes, initial=0))
            drawn = b"".join(
                self._bits(f"{at + k} {(size,)}", exact[8 * ends[k] : 8 * ends[k + 1]])
                for k, size in enumerate(sizes)
            )
        u, v = (np.frombuffer(drawn, dtype="<u8").reshape(-1, 2).T + 0.5) * 2.0**-64
        noise: Array = np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v)
        return noise.reshape(shown.shape)

    def _bits(self, place: str, numbers: bytes) -> bytes:
        """Two words of 64 bits for every number shown."""
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
    """Refuse a state of a generator that has not the form of its own."""
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


class Kept(Source):
    """One release that is on disk before anybody sees it, and is used again when asked for again.

    A run that failed after its messages were sent, and draws new noise when it is repeated, shows
    every reading twice. Here the first run writes what it releases to `path`, for its owner alone
    to read, before it returns it; every later run of the same readings at the same level gets
    these numbers, shows nothing new, and says so (logging, "privest").

    The noise of the first run is that of `source` (fresh if None). `facts` (texts and numbers, such
    as level=4.0) are public, written down, and compared one by one, so that an error can name them.

    Other readings are refused. They are told apart by a tag, HMAC-SHA256 of the numbers to be shown
    and of the release under a random key of its own, which is in the file `path`.key and nowhere
    else: a plain hash would let whoever sees the file try out what the readings may have been, and
    there are not many possible ages or switches. Keep the key where the readings are. To release
    other readings, or the same ones again, is a choice: another path, and all releases count.
    """

    def __init__(
        self, path: str | os.PathLike[str], source: Source | None = None, **facts: str | float
    ) -> None:
        self.path = Path(path)
        self.source = seeded(None) if source is None else source
        self.facts = json.dumps(facts, sort_keys=True)
        self.reused = False  # whether the last release was one of before
        self.simulated = self.source.simulated

    @property
    def key_path(self) -> Path:
        """The key, which never goes where the release goes."""
        return self.path.with_name(f"{self.path.name}.key")

    def add_noise(self, shown: Array, *, at: int = 0, sizes: Sequence[int] | None = None) -> Array:
        """The release of before, else a new one that is now on disk."""
        require_room(shown)
        if sizes is not None:
            raise InvalidInput("one whole release is kept; a stream is kept by a Checkpoint.")
        self.reused = self.path.exists()
        if not self.reused:
            try:
                return self._new(shown, at)
            except FileExistsError:  # another process was quicker
                self.reused = True
        released = self._read(shown)
        logging.getLogger("privest").warning(
            "privest: the release in %s is used again: nothing new is shown.", self.path
        )
        return released

    def _noise(self, shown: Array, at: int, sizes: Sequence[int] | None) -> Array:
        return self.source._noise(shown, at, sizes)

    def _new(self, shown: Array, at: int) -> Array:
        """A new release, on disk. `once`: of several processes one writes, the others are refused.

        Raises FileExistsError where one has written since this one looked.
        """
        with atomic_file(self.path, permissions=OWNER_ONLY, once=True) as file:
            if self.path.exists():
                raise FileExistsError
            if not self.key_path.exists():
                with atomic_file(self.key_path, permissions=OWNER_ONLY) as key:
                    key.write(secrets.token_bytes(KEY_BYTES))
            released = self.source.add_noise(shown, at=at)
            tag = np.frombuffer(self._tag(shown, released, self.simulated), dtype=np.uint8)
            texts = {"format": np.array(KEPT), "facts": np.array(self.facts)}
            np.savez(
                file, allow_pickle=False, values=released, tag=tag,
                simulated=np.array(self.simulated), **texts,
            )  # fmt: skip
        return released

    def _read(self, shown: Array) -> Array:
        arrays = read_arrays(self.path, "a kept release")
        if set(arrays) != {"format", "facts", "values", "tag", "simulated"}:
            raise InvalidInput(f"{self.path} is not a kept release.")
        if str(arrays["format"]) != KEPT or arrays["values"].dtype != np.float64:
            raise InvalidInput(f"{self.path} is not a kept release.")
        simulated, stated = state_flag(arrays, "simulated"), state_array(arrays, "tag", (32,), "u")
        then, values = str(arrays["facts"]), arrays["values"]
        spent = "To release these too is to show more: choose another file, and count both."
        if then != self.facts:
            raise InvalidInput(
                f"the release in {self.path} was made with {then}; now it is {self.facts}. {spent}"
            )
        if values.shape != shown.shape:
            raise InvalidInput(
                f"the release in {self.path} has shape {values.shape}; the readings now make one "
                f"of shape {shown.shape}. {spent}"
            )
        tag = self._tag(shown, values, simulated)
        if not hmac.compare_digest(tag, stated.tobytes()):
            raise InvalidInput(
                f"the release in {self.path} was made of other readings or at another level, or "
                f"the file was changed. {spent}"
            )
        self.simulated = simulated
        return np.asarray(values)

    def _tag(self, shown: Array, released: Array, simulated: bool) -> bytes:
        if not self.key_path.is_file():
            raise InvalidInput(
                f"the key {self.key_path} is gone: whether the release in {self.path} is of these "
                "readings cannot be told without it."
            )
        key = read_bytes(self.key_path, KEY_BYTES)
        if len(key) < KEY_BYTES:
            raise InvalidInput(f"{self.key_path} is not a key of privest: it is too short.")
        head = json.dumps([KEPT, self.facts, shown.shape, simulated]).encode()
        return hmac.digest(key, head + _exact(shown) + _exact(released), "sha256")


def seeded(
    seed: int | np.random.Generator | np.random.RandomState | None, *facts: object
) -> Source:
    """A simulated source for a trial: fresh for None, else bound to the release (`Seeded`).

    `facts` (texts and numbers) tell apart releases that would show the same numbers: the name of a
    column, the number of an agent. A generator of numpy gives a seed: copies of it (scikit-learn
    clones them) would else put the same noise on other readings.
    """
    if seed is None:
        return Generated(np.random.default_rng())
    if isinstance(seed, np.random.RandomState):
        seed = np.random.Generator(seed._bit_generator)
    if isinstance(seed, np.random.Generator):
        seed = int(seed.integers(2**63))
    return Seeded(seed, *facts)


def _exact(numbers: Array) -> bytes:
    """The numbers to the last bit; −0 is 0."""
    return np.add(numbers, 0.0, dtype="<f8", order="C").tobytes()


def as_source(given: Source | np.random.Generator) -> Source:
    """A source as it is; a numpy generator as a simulation."""
    return given if isinstance(given, Source) else Generated(given)


def require_room(shown: Array, width: Array | float = 1.0) -> None:
    """Refuse numbers beside which noise of this width is lost in the rounding of doubles.

    It cannot say which of the two is out of place, nor show the number: either may be.
    """
    if not isinstance(width, float) or width != 1.0:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            shown = np.where(shown == 0.0, 0.0, shown / width)
    # One number is looked at by itself: single readings come by the thousand.
    largest = abs(shown.item()) if shown.size == 1 else np.abs(shown).max(initial=0.0)
    if not largest < LARGEST:  # NaN too
        raise InvalidInput(
            "a reading is so large beside its noise that the noise would be lost in rounding, and "
            f"the reading shown as it is: doubles have room for {LARGEST:.0e} deviations of the "
            "noise. Either the reading is too large for this level (state the readings in units "
            "in which they are smaller, or take an offset off), or the level is too large."
        )
