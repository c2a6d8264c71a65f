"""A release that is held in memory: what the commands do to tables, without their files.

Noise leaves by `LeavingRows`, as for `privest release --simulate`; what reads the table afterwards
(`estimate_table`, as for `privest estimate`) sees the columns that would have been written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np

from privest.arrays import AnyArray, Array
from privest.data import Features, open_source, read_rows
from privest.data._rows import Block
from privest.mechanism.source import as_source
from privest.workflow import TableRelease, Terms
from privest.workflow._releasing import described, leaving_of


@dataclass(frozen=True, kw_only=True)
class HeldRelease(TableRelease):
    """A simulated release whose table is in memory, column by column."""

    held: Mapping[str, AnyArray] = field(default_factory=dict, compare=False, repr=False)

    def _read(self) -> Iterator[Block]:
        """The table as it would have been written."""
        design = Features(self._features, {}, "intercept" in self.names)
        private = tuple(column.name for column in self.columns)
        yield from read_rows(open_source(dict(self.held)), design, private, beside=self._beside)


def held_release(terms: Terms, data: Mapping[str, Array], rng: np.random.Generator) -> HeldRelease:
    """The release of a table under these terms, with simulated noise."""
    source = as_source(rng)
    leaving = leaving_of(terms, source, dict(data))
    form = described(terms, Path("held.csv"), source, "")
    parts = list(leaving.blocks())
    table = [np.concatenate(column) for column in zip(*parts)]
    known = {one.name: getattr(form, one.name) for one in fields(form)}
    made = HeldRelease(**known, held=dict(zip(form.table_columns, table, strict=True)))
    return replace(made, rows=len(table[0]), dropped=leaving.dropped, persons=leaving.persons)
