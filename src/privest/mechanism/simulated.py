"""Simulations of releases: plain arrays, a generator with a seed, no protection, no way out.

The same maps and distributions as at the door, so that planners see its errors; nothing here is
signed: `seal` takes numbers of entries, and a simulation has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from privest.errors import InvalidInput
from privest.vault.maps import (
    DiscreteLaplace,
    Law,
    Map,
    Range,
    RoundedNormal,
    on_grid,
    released,
    whole_numbers,
)
from privest.vault.noise import Integers


@dataclass(frozen=True)
class Simulated:
    """Integers as `leave` would give them, of values that are not private."""

    integers: tuple[int, ...] | Integers


def simulate(
    values: ArrayLike,
    rng: np.random.Generator,
    *,
    map: Map,
    law: Law,
    range: Range,
    centre: Any = None,  # noqa: ANN401 - whole numbers, as an array or a list
) -> Simulated:
    """What a release of these values could look like; private values are refused."""
    plain = np.asarray(values)
    if plain.dtype.kind not in "biuf" or plain.ndim != 1:
        raise InvalidInput("a simulation takes one row of numbers, and nothing that is private.")
    map.require(range, law)
    words = rng.integers(2**64, size=(map.words, len(plain)), dtype=np.uint64)
    centres = None if centre is None else whole_numbers(centre, "centres", 1)
    k = on_grid(plain.astype(float), range, words[0], finer=map.finer, centre=centres)
    shown = map.shown(k, range, words[-1])
    integers = released(law, shown, _noise(law, map.facts.numbers, rng))
    return Simulated(tuple(integers) if isinstance(integers, list) else integers)


def _noise(law: Law, count: int, rng: np.random.Generator) -> Any:  # noqa: ANN401 - as the law's
    """Noise of nearly the law: doubles, rounded."""
    if isinstance(law, RoundedNormal):
        scale = np.array([float(sigma) for sigma in law.sigma])
        rounded = np.rint(scale * rng.standard_normal(count))
    elif isinstance(law, DiscreteLaplace):
        rounded = np.rint(rng.laplace(scale=law.scale, size=count))
    else:
        return rng.integers(2**64, size=count, dtype=np.uint64)
    return np.array([int(noise) for noise in rounded], dtype=object)
