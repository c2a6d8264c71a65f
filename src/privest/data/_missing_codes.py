"""Codes that stand for a missing value (77777, 999, REFUSED), taken out of a column."""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import AnyArray
from privest.data._cells import Texts
from privest.data._reading_options import Reading


def without_codes(column: AnyArray | Texts, reading: Reading, name: str) -> AnyArray | Texts:
    """The column with a gap wherever one of its codes stands.

    A number is compared as a number ("999", 999.0 and "0999" are one), any other code as a text.
    """
    if isinstance(column, Texts):
        codes, values = set(reading.codes(name)), set(reading.code_numbers(name).tolist())
        if not codes:
            return column
        distinct = column.distinct.copy()
        for place, text in enumerate(distinct):
            if text is not None and (text in codes or _value(text, reading) in values):
                distinct[place] = None
        return Texts(distinct, column.codes)
    values_of = reading.code_numbers(name)
    if not len(values_of):
        return column
    coded = np.isin(column, values_of)
    return np.where(coded, np.nan, column) if coded.any() else column


def _value(text: str, reading: Reading) -> float | None:
    found = reading.as_number(text)
    return None if math.isnan(found) else found
