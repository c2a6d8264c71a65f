"""A token for private values on their way to the door: it shows nothing but their number.

It guards against accident (a print, a log, a pickle, an array operation), not against code that
wants in: what an auditor relies on is that `opened` is named in one line of `door`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privest.errors import InvalidInput


class Private:
    """Values that leave through `leave` only; `source` says, publicly, whose."""

    __slots__ = ("__values", "source")

    def __init__(self, values: NDArray[np.float64], source: dict[str, Any]) -> None:
        self.__values = values
        self.source = source

    def __len__(self) -> int:
        return len(self.__values)

    def __repr__(self) -> str:
        return "Private()"

    def __format__(self, _: str) -> str:
        return "Private()"

    def _refused(self, *_: object) -> NoReturn:
        raise TypeError("private values have no contents here: they leave through `leave` only.")

    __array__ = __iter__ = __getitem__ = __contains__ = __copy__ = __deepcopy__ = _refused
    __reduce_ex__ = __getstate__ = __lt__ = __le__ = __gt__ = __ge__ = __float__ = _refused


def sealed(values: ArrayLike, *, source: Mapping[str, Any]) -> Private:
    """A token of one row of numbers; ±∞ is clipped later, NaN is refused.

    source  public facts that name them: stamp of the table, column, transform. Two releases that
            belong together must have the same.
    """
    numbers = np.array(values, dtype=np.float64)
    if numbers.ndim != 1:
        raise InvalidInput(f"private values are one row of numbers; received {numbers.ndim} axes.")
    if np.isnan(numbers).any():
        raise InvalidInput("private values cannot be NaN: which are missing is public, leave out.")
    numbers.setflags(write=False)
    return Private(numbers, dict(source))


def opened(private: Private) -> NDArray[np.float64]:
    """The values. Called in one line of `door`, and nowhere else."""
    if type(private) is not Private:
        raise InvalidInput("only private values leave: seal them first.")
    values: NDArray[np.float64] = private._Private__values  # type: ignore[attr-defined]
    return values
