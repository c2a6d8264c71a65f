"""Tables: files and frames read in blocks, the features of a model, and data to try things on."""

from privest.data._cells import Texts, is_number
from privest.data._cells import number as number
from privest.data._cells import numbers as numbers
from privest.data._dates import is_date as is_date
from privest.data._features import Design, Features, category_place
from privest.data._formula import read_formula
from privest.data._frames import PandasSource as PandasSource
from privest.data._look import TableLook, look
from privest.data._look_columns import ColumnLook
from privest.data._names import MOST, joined, meant, require_no_formula
from privest.data._names import absent_columns as absent_columns
from privest.data._persons import Persons
from privest.data._reading_options import Reading
from privest.data._reading_options import Reading as Format
from privest.data._reading_options import as_reading as as_format
from privest.data._release_lines import OWN as OWN
from privest.data._release_lines import as_values as as_values
from privest.data._release_lines import check_lines
from privest.data._release_lines import facts_of as facts_of
from privest.data._release_lines import linked as linked
from privest.data._release_lines import step_records as step_records
from privest.data._release_lines import steps_only as steps_only
from privest.data._rows import Block, read_rows
from privest.data._rows import gaps_of as gaps_of
from privest.data._source import EMBEDDED, Source, Stamp, open_source, stamp_of
from privest.data._source import Columns as Columns
from privest.data._table import Table, load_diabetes
from privest.data._text_table import csv_records as csv_records
from privest.data._text_table import csv_rows as csv_rows
from privest.data._text_table import json_records as json_records
from privest.data._text_table import open_lines
from privest.data._text_table import require_width as require_width
from privest.data._writer import table_writer, write_table

__all__ = [
    "EMBEDDED", "MOST", "Block", "ColumnLook", "Design", "Features", "Format", "Persons",
    "Reading", "Source", "Stamp", "Table", "TableLook", "Texts", "as_format", "category_place",
    "check_lines", "is_number", "joined", "load_diabetes", "look", "meant", "open_lines",
    "open_source", "read_formula", "read_rows", "require_no_formula", "stamp_of", "table_writer",
    "write_table",
]  # fmt: skip
