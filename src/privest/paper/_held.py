"""Releases without files: what the commands do to a table, thousands of times.

Noise leaves as for `privest release --simulate` (`leaving_of`); what reads the table afterwards
(`estimate_table`, as for `privest estimate`) sees the columns that would have been written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from privest.arrays import Array
from privest.mechanism.source import as_source
from privest.workflow import TableRelease, Terms
from privest.workflow._held import HeldTable
from privest.workflow._releasing import described, leaving_of


def held_release(terms: Terms, data: Mapping[str, Array], rng: np.random.Generator) -> TableRelease:
    """The release of a table under these terms, with simulated noise, in memory."""
    source = as_source(rng)
    leaving = leaving_of(terms, source, dict(data))
    form = described(terms, Path("held.csv"), source, "")
    table = [np.concatenate(column) for column in zip(*leaving.blocks())]
    held = dict(zip(form.table_columns, table, strict=True))
    return replace(
        form, rows=len(table[0]), dropped=leaving.dropped, persons=leaving.persons, path=None,
        memory=HeldTable("pandas", held),
    )  # fmt: skip
