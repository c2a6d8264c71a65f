"""Random words: from the operating system, and from nowhere else.

Nothing is kept for later, so that a forked process cannot find words its parent uses too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from privest.errors import InvalidInput, NoEntropy

Integers: TypeAlias = NDArray[np.int64]
Unsigned: TypeAlias = NDArray[np.uint64]
Words: TypeAlias = Callable[[int], Unsigned]


def os_words(count: int) -> Unsigned:
    """`count` words of 64 bits of the operating system's generator.

    Raises NoEntropy where it has none: then nothing is released; there is no other generator.
    """
    try:
        drawn = os.urandom(8 * count)
    except (OSError, NotImplementedError) as error:
        raise NoEntropy(
            "the operating system gives no randomness (os.urandom): nothing was released, and "
            "nothing can be until it does."
        ) from error
    return np.frombuffer(drawn, dtype=np.uint64)


def drawn_words(words: Words, count: int) -> Unsigned:
    """`words(count)`, refused unless they are what tables are searched with."""
    drawn = words(count)
    if drawn.dtype != np.uint64 or drawn.shape != (count,):
        raise InvalidInput(
            f"a source of words must give {count} numbers of uint64 in one row; received "
            f"{drawn.dtype} of shape {drawn.shape}."
        )
    return drawn
