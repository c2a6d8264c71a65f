"""Tables: files and frames read in blocks, the features of a model, and data to try things on."""

from privest.data.boxcox import BoxCox
from privest.data.diabetes import load_diabetes
from privest.data.features import Features
from privest.data.nhanes import CYCLES, load_nhanes
from privest.data.rows import Block, read_rows
from privest.data.source import Source, open_source
from privest.data.table import Table
from privest.data.writer import write_table

__all__ = [
    "CYCLES",
    "Block",
    "BoxCox",
    "Features",
    "Source",
    "Table",
    "load_diabetes",
    "load_nhanes",
    "open_source",
    "read_rows",
    "write_table",
]
