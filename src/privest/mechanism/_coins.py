"""Randomised response: one random bit instead of a yes or no."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array, ArrayLike, as_count, as_positive
from privest.lattice import Coin, flips_for
from privest.mechanism.rows import real_numbers
from privest.mechanism.source import Source, as_protected, as_source
from privest.privacy.exposures import coin_chance


class RandomisedResponse:
    """A yes or no (1 or 0) that is flipped with probability q ≥ 1/(1 + e^ε). Warner 1965.

        E[unit·z + zero] = y ,   variance 1/s ,   s = `level` ≤ 4 sinh²(ε/2)

    A value that is neither 0 nor 1 counts as the nearer of both (½ as 1): nothing is rejected.
    Pure ε: for any two values and every outcome, probabilities differ by a factor of at most e^ε,
    exactly (lattice/PROOF.md §9). Every ε-private release of a bit can be made from this one.

    >>> coin = RandomisedResponse(1.0)
    >>> coin.chance([0.0, 1.0]).round(6).tolist(), round(coin.guess, 3)
    ([0.268941, 0.731059], 0.731)
    >>> sorted(set(coin.release([0.0, 1.0] * 50).tolist()))
    [0.0, 1.0]
    """

    def __init__(self, epsilon: float) -> None:
        self.epsilon = as_positive(epsilon, "epsilon")
        self.coin = Coin(flips_for(self.epsilon))

    @property
    def level(self) -> float:
        """s: 1/s is the variance of unit·z + zero."""
        return float(self.coin.level)

    @property
    def unit(self) -> float:
        """unit·z + zero is unbiased for y."""
        return self.coin.unit

    @property
    def zero(self) -> float:
        """unit·z + zero is unbiased for y."""
        return self.coin.zero

    @property
    def guess(self) -> float:
        """The largest probability of a right guess, with even odds before: e^ε/(1 + e^ε)."""
        return coin_chance(self.epsilon)

    def chance(self, y: ArrayLike) -> Array:
        """P(z = 1 | y), the nearest doubles."""
        given = np.asarray(y, dtype=np.float64)
        chances = [float(self.coin.chance(value)) for value in given.ravel().tolist()]
        return np.array(chances).reshape(given.shape)

    def simulate(self, y: ArrayLike, rng: np.random.Generator | Source, at: int = 0) -> Array:
        """Bits of values (…,), simulated; `at`: the number of values released before."""
        return self._tossed(y, as_source(rng), at)

    def release(self, y: ArrayLike, source: Source | None = None, at: int = 0) -> Array:
        """Bits of values (…,), 0 or 1, from the entropy of the operating system.

        No value is rejected; NaN is missing and stays NaN.
        """
        return self._tossed(y, as_protected(source), at)

    def _tossed(self, y: ArrayLike, source: Source, at: int) -> Array:
        given = real_numbers(y)
        sizes = (1,) * given.size  # every value by itself, in whatever blocks they come
        bits = source.add_noise(
            given.ravel, shape=(given.size,), at=as_count(at, "at", least=0), sizes=sizes,
            law=self.coin, fingerprint=self.fingerprint,
        )  # fmt: skip
        return bits.reshape(given.shape)

    @property
    def fingerprint(self) -> str:
        """A digest of all that makes a bit from a value."""
        coin = self.coin
        return f"RandomisedResponse {coin.flips} {coin.low!r} {coin.high!r}"

    def __repr__(self) -> str:
        return f"RandomisedResponse({self.epsilon:g})"
