"""Tables: files and frames read in blocks, the features of a model, and data to try things on."""

from privest.data._cells import Texts, is_number
from privest.data._features import Design, Features, category_place
from privest.data._formula import read_formula
from privest.data._look import TableLook, look
from privest.data._look_columns import ColumnLook
from privest.data._names import MOST, joined, meant, require_no_formula
from privest.data._persons import Persons
from privest.data._reading_options import Reading
from privest.data._reading_options import Reading as Format
from privest.data._reading_options import as_reading as as_format
from privest.data._release_lines import check_lines
from privest.data._rows import Block, read_rows
from privest.data._source import EMBEDDED, Source, Stamp, open_source, stamp_of
from privest.data._table import Table, load_diabetes
from privest.data._text_table import open_lines
from privest.data._writer import table_writer, write_table

__all__ = [
    "EMBEDDED", "MOST", "Block", "ColumnLook", "Design", "Features", "Format", "Persons",
    "Reading", "Source", "Stamp", "Table", "TableLook", "Texts", "as_format", "category_place",
    "check_lines", "is_number", "joined", "load_diabetes", "look", "meant", "open_lines",
    "open_source", "read_formula", "read_rows", "require_no_formula", "stamp_of", "table_writer",
    "write_table",
]  # fmt: skip
