"""Tables: files and frames read in blocks, the features of a model, and data to try things on.

`__all__` is public. The other names are for privest's own packages.
"""

from privest.data.cells import MISSING as MISSING
from privest.data.cells import TRUTHS as TRUTHS
from privest.data.cells import Texts as Texts
from privest.data.cells import absent_columns as absent_columns
from privest.data.cells import is_date as is_date
from privest.data.cells import is_number as is_number
from privest.data.cells import joined as joined
from privest.data.cells import meant as meant
from privest.data.cells import number as number
from privest.data.cells import numbers as numbers
from privest.data.cells import require_no_formula as require_no_formula
from privest.data.features import Design as Design
from privest.data.features import Features
from privest.data.features import category_place as category_place
from privest.data.format import MARKS as MARKS
from privest.data.format import Format
from privest.data.format import as_format as as_format
from privest.data.formula import read_formula as read_formula
from privest.data.frames import PandasSource as PandasSource
from privest.data.frames import Table, load_diabetes
from privest.data.lines import csv_records as csv_records
from privest.data.lines import csv_rows as csv_rows
from privest.data.lines import json_records as json_records
from privest.data.lines import open_lines as open_lines
from privest.data.lines import read_matrix as read_matrix
from privest.data.lines import require_width as require_width
from privest.data.look import TableLook, look
from privest.data.look_columns import ColumnLook
from privest.data.look_columns import MissingCode as MissingCode
from privest.data.persons import Persons as Persons
from privest.data.rows import Block, read_rows
from privest.data.rows import gaps_of as gaps_of
from privest.data.source import EMBEDDED as EMBEDDED
from privest.data.source import ENDINGS as ENDINGS
from privest.data.source import Columns as Columns
from privest.data.source import Source, open_source
from privest.data.source import Stamp as Stamp
from privest.data.source import require_ending as require_ending
from privest.data.source import stamp_of as stamp_of
from privest.data.writer import table_writer as table_writer
from privest.data.writer import write_table
from privest.data.xlsx import silence_openpyxl as silence_openpyxl

__all__ = [
    "Block", "ColumnLook", "Features", "Format", "Source", "Table", "TableLook",
    "load_diabetes", "look", "open_source", "read_rows", "write_table",
]  # fmt: skip
