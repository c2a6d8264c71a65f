"""One random bit instead of a reading: randomised response, and one bit of a number in a range."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array, ArrayLike, as_count, as_positive
from privest.lattice import Coin, flips_for
from privest.mechanism._missing import real_numbers
from privest.mechanism.source import Source, as_protected, as_source
from privest.privacy.attacker import coin_chance


class OneBit:
    """A bit z that is 1 with probability q + (1 − 2q)t, t = (y − low)/(high − low), for one number.

        q ≥ 1/(1 + e^ε) ,   E[unit·z + zero] = y ,   I_z(y) = 1/((y − low)(high − y) + 1/s) ≤ s

    with s = `level` ≤ 4 sinh²(ε/2)/(high − low)², for every y in the range; beyond it a reading
    counts as its end. Pure ε: for any two readings, and every outcome, probabilities differ by a
    factor of at most e^ε, exactly: q is a fraction, and whether z is 1 is decided in fractions
    (lattice/PROOF.md §9). Who sees r numbers of a person so released has r·ε.

    >>> one = OneBit(1.0, 0.0, 10.0)
    >>> round(one.unit, 4), round(one.zero, 4), round(one.level, 6)
    (21.6395, -5.8198, 0.010862)
    >>> sorted(set(one.release([3.0, 8.0, 2.0] * 50).tolist()))
    [0.0, 1.0]
    """

    nearest = False

    def __init__(self, epsilon: float, low: float, high: float) -> None:
        self.epsilon = as_positive(epsilon, "epsilon")
        self.coin = Coin(flips_for(self.epsilon), float(low), float(high), self.nearest)

    @property
    def level(self) -> float:
        """s: the most Fisher information about a reading; 1/s is the variance of z at both ends."""
        return float(self.coin.level)

    @property
    def unit(self) -> float:
        """unit·z + zero is a reading with its noise."""
        return self.coin.unit

    @property
    def zero(self) -> float:
        """unit·z + zero is a reading with its noise."""
        return self.coin.zero

    @property
    def guess(self) -> float:
        """How often a guess between the two ends is right: e^ε/(1 + e^ε)."""
        return coin_chance(self.epsilon)

    def chance(self, y: ArrayLike) -> Array:
        """P(z = 1 | y), the nearest doubles."""
        given = np.asarray(y, dtype=np.float64)
        chances = [float(self.coin.chance(value)) for value in given.ravel().tolist()]
        return np.array(chances).reshape(given.shape)

    def simulate(self, y: ArrayLike, rng: np.random.Generator | Source, at: int = 0) -> Array:
        """Bits of readings (…,), with simulated coins; `at`: how many came before them."""
        return self._tossed(y, as_source(rng), at)

    def release(self, y: ArrayLike, source: Source | None = None, at: int = 0) -> Array:
        """Bits of readings (…,), 0 or 1; the coins are the operating system's, drawn beforehand.

        No value is refused; NaN is missing, and NaN comes back.
        """
        return self._tossed(y, as_protected(source), at)

    def _tossed(self, y: ArrayLike, source: Source, at: int) -> Array:
        given = real_numbers(y)
        sizes = (1,) * given.size  # every reading by itself, in whatever blocks they come
        bits = source.add_noise(
            given.ravel, shape=(given.size,), at=as_count(at, "at", least=0), sizes=sizes,
            law=self.coin, fingerprint=self.fingerprint,
        )  # fmt: skip
        return bits.reshape(given.shape)

    @property
    def fingerprint(self) -> str:
        """Of all that makes a bit from a reading."""
        coin = self.coin
        return f"{type(self).__name__} {coin.flips} {coin.low!r} {coin.high!r}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.epsilon:g}, {self.coin.low:g}, {self.coin.high:g})"


class RandomisedResponse(OneBit):
    """A yes or no (1 or 0) that is told wrongly with probability q ≥ 1/(1 + e^ε).

    What is neither 0 nor 1 counts as the nearer of both (½ as 1): nothing is refused. Every
    ε-private release of a bit can be made from this one (Blackwell: its trade-off curve is the best
    that ε allows). Warner 1965.

    >>> coin = RandomisedResponse(1.0)
    >>> coin.chance([0.0, 1.0]).round(6).tolist(), round(coin.guess, 3)
    ([0.268941, 0.731059], 0.731)
    """

    nearest = True

    def __init__(self, epsilon: float) -> None:
        super().__init__(epsilon, 0.0, 1.0)
