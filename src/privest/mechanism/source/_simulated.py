"""Simulated noise, for experiments: it protects nothing against an attacker who knows its seed."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from privest.arrays import Array, as_generator
from privest.errors import InvalidInput
from privest.lattice import Coin
from privest.mechanism.inputs import require_room
from privest.mechanism.source._base import (
    Clip,
    Law,
    Shown,
    Source,
    exact_bytes,
    in_doubles,
    law_fact,
)
from privest.reading import counted, read_fields, read_text


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
        self.rng = as_generator(rng)

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
