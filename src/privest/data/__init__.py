"""Tables: files and frames read in blocks, the features of a model, and data to try things on."""

from privest.data._features import Features
from privest.data._look import TableLook, look
from privest.data._look_columns import ColumnLook
from privest.data._reading_options import Reading
from privest.data._rows import Block, read_rows
from privest.data._source import Source, open_source
from privest.data._table import Table, load_diabetes
from privest.data._writer import write_table

__all__ = [
    "Block", "ColumnLook", "Features", "Reading", "Source", "Table", "TableLook",
    "load_diabetes", "look", "open_source", "read_rows", "write_table",
]  # fmt: skip
