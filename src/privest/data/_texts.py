"""A column of texts as codes into its distinct texts: what is said of a text is said once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privest.arrays import AnyArray, Flags

# What stands for a missing value: in a text file, and in a text column of any source.
MISSING = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", ".")


@dataclass(frozen=True, eq=False)
class Texts:
    """`distinct[codes]`; the last of `distinct` is None, so that code −1 is missing.

    Built with `of`: texts are trimmed, and those in MISSING become None.
    """

    distinct: AnyArray
    codes: AnyArray

    @classmethod
    def of(cls, distinct: Sequence[object], codes: AnyArray) -> Texts:
        """From the distinct values, of any type, and codes with −1 where missing."""
        found = np.empty(len(distinct) + 1, dtype=object)
        for place, value in enumerate(distinct):
            text = None if is_missing(value) else str(value).strip()
            found[place] = None if text in MISSING else text
        return cls(found, codes)

    @classmethod
    def encode(cls, cells: Sequence[Any]) -> Texts:
        """From the cells themselves, which must be hashable. Two dictionary steps a cell."""
        place = {value: k for k, value in enumerate(dict.fromkeys(cells))}
        codes = np.fromiter(map(place.__getitem__, cells), dtype=np.intp, count=len(cells))
        return cls.of(list(place), codes)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Flags | slice) -> Texts:
        return Texts(self.distinct, self.codes[rows])

    @property
    def missing(self) -> Flags:
        return self.look_up([text is None for text in self.distinct])

    def look_up(self, values: Sequence[Any]) -> AnyArray:
        """For every cell, the value given for its distinct text."""
        found: AnyArray = np.asarray(values)[self.codes]
        return found

    def array(self) -> AnyArray:
        """The texts as an array of objects."""
        found: AnyArray = self.distinct[self.codes]
        return found


def is_missing(value: object) -> bool:
    """None, NaN, and pandas' NA and NaT (by name: pandas may not be there)."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))
