"""Randomised response of yes or no (1 or 0) as tables release it: rows of a `Coin`."""

from privest.lattice import Coin, flips_for
from privest.mechanism import RowMechanism


class FlippedBits:
    """unit·z + zero is unbiased for y, with variance 1/level."""

    def __init__(self, epsilon):
        self.coin = Coin(flips_for(epsilon))
        self.level, self.unit, self.zero = float(self.coin.level), self.coin.unit, self.coin.zero

    def simulate(self, y, rng, at=0):
        rows = RowMechanism(self.coin)
        rows.steps = at
        return rows.simulate(y, 1.0, rng)

    def release(self, y, source=None):
        return RowMechanism(self.coin).release(y, 1.0, source)
