"""Tables: files and frames read in blocks, the features of a model, and data to try things on.

`__all__` is public. The other names are for privest's own packages.
"""

from privest.data._cells import MISSING as MISSING
from privest.data._cells import Texts as Texts
from privest.data._cells import is_date as is_date
from privest.data._cells import is_number as is_number
from privest.data._cells import number as number
from privest.data._cells import numbers as numbers
from privest.data._features import Design as Design
from privest.data._features import Features
from privest.data._features import category_list as category_list
from privest.data._features import category_place as category_place
from privest.data._format import MARKS as MARKS
from privest.data._format import Format
from privest.data._format import as_format as as_format
from privest.data._formula import Formula as Formula
from privest.data._formula import read_formula as read_formula
from privest.data._frames import PandasSource as PandasSource
from privest.data._lines import csv_records as csv_records
from privest.data._lines import csv_rows as csv_rows
from privest.data._lines import json_records as json_records
from privest.data._lines import open_lines as open_lines
from privest.data._lines import read_matrix as read_matrix
from privest.data._lines import require_width as require_width
from privest.data._look import TableLook, look
from privest.data._look_columns import ColumnLook
from privest.data._look_columns import MissingCode as MissingCode
from privest.data._names import absent_columns as absent_columns
from privest.data._names import joined as joined
from privest.data._names import meant as meant
from privest.data._names import require_no_formula as require_no_formula
from privest.data._rows import Block, read_rows
from privest.data._rows import Persons as Persons
from privest.data._rows import gaps_of as gaps_of
from privest.data._source import EMBEDDED as EMBEDDED
from privest.data._source import ENDINGS as ENDINGS
from privest.data._source import Columns as Columns
from privest.data._source import Source, open_source
from privest.data._source import Stamp as Stamp
from privest.data._source import require_ending as require_ending
from privest.data._source import stamp_of as stamp_of
from privest.data._table import Table, load_diabetes
from privest.data._writer import table_writer as table_writer
from privest.data._writer import write_table
from privest.data._xlsx import silence_openpyxl as silence_openpyxl

Reading = Format  # the older name

__all__ = [
    "Block", "ColumnLook", "Features", "Format", "Reading", "Source", "Table", "TableLook",
    "load_diabetes", "look", "open_source", "read_rows", "write_table",
]  # fmt: skip
