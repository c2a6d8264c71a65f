"""Protected noise: exact, discrete, from the entropy of the operating system. It has no seed.

    z̃ = g(⌊u/g + W⌋ + X) ,   g = 2⁻¹⁰ ,   X discrete Gaussian or Laplace, W uniform

or, where the law is a coin, one bit of every reading, which is wrong with probability q.
I_z(u) ≤ 1 for every entry and every u, E z̃ = u, var z̃ ≤ 1 + 3g²/4 (Gaussian): lattice/PROOF.md has
the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from privest import lattice
from privest.arrays import AnyArray, Array
from privest.errors import InvalidInput, MissingDependency
from privest.mechanism.source._base import (
    Clip,
    Law,
    Shown,
    Source,
    in_doubles,
    law_fact,
    numbers,
    shape_of,
)


class Protected(Source):
    """The noise of real releases: tables of `privest.lattice`, inverted with system entropy.

    All noise is drawn before what is shown is computed. Nothing is refused because of a value:
    what the grid cannot hold, ±∞ too, is clipped; NaN is missing, and stays NaN.
    Nothing is kept: no seed, no state, no noise.
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
        """A bit of every reading, NaN where it is missing."""
        bits = lattice.tossed(coin, y, words).astype(np.float64)
        bits[np.isnan(y)] = np.nan
        return bits

    def _integers(self, count: int, law: Law) -> AnyArray:
        """X, (count,)."""
        draw = lattice.gaussian_integers if law == "gaussian" else lattice.laplace_integers
        return draw(count)


class OpenDPNoise(Protected):
    """The same law from the sampler of OpenDP (extra `opendp`): a second source, not a fallback.

    About 100 times slower. Rounding and coins are ours in both.
    """

    def __init__(self) -> None:
        try:
            from opendp import prelude
        except ImportError:
            raise MissingDependency(
                "OpenDP is not installed. Install it with: pip install 'privest[opendp]'"
            ) from None
        prelude.enable_features("contrib")
        self._opendp = prelude

    def _integers(self, count: int, law: Law) -> AnyArray:
        # The scales are doubles: their rounding, 1e-16, is far below the slack of the constants.
        dp, space = self._opendp, self._opendp.vector_domain(self._opendp.atom_domain(T=int))
        if law == "gaussian":
            sampler = dp.m.make_gaussian(
                space, dp.l2_distance(T=float), scale=math.sqrt(lattice.GAUSSIAN.variance)
            )
        else:
            scale = -1.0 / math.log(lattice.LAPLACE.ratio)
            sampler = dp.m.make_laplace(space, dp.l1_distance(T=int), scale=scale)
        return np.asarray(sampler([0] * count), dtype=np.int64)


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
