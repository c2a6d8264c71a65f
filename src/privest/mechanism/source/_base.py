"""A source of privacy noise."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, get_args

import numpy as np

from privest import lattice
from privest.arrays import AnyArray, Array, as_choice, fingerprint_of
from privest.errors import InvalidInput
from privest.lattice import GRID, Coin, Exactly

# Of the noise that is added; or a coin, which takes the place of the value.
Added = Literal["gaussian", "laplace"]
Law = Added | Coin
Numbers = Array | Exactly
# What is to be shown, in units of its noise, or how to compute it once the noise is drawn.
Shown = Numbers | Callable[[], Numbers]
# The least and the largest multiple of the grid that may be shown, numbers or one an entry.
Clip = tuple[Any, Any]


class Source(ABC):
    """Noise of unit information for releases: N(0, 1), or Laplace(1).

    simulated  True: an ordinary random generator, for experiments; no protection.
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

    All noise is drawn before what is shown is computed. What the grid cannot hold, ±∞ too, is
    clipped; NaN stays NaN. No seed, no state, no noise is kept.
    """

    simulated = False
    grid = lattice.GRID

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
