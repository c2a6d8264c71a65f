"""The one layer that everything from outside passes: bytes, texts, documents, archives, fields.

Whoever wrote a file, what comes out of here is a plain value that has the form asked for, or one
error that says what is wrong and where; sizes are looked at before memory is asked for, and a field
is checked when it is read, not when it is used. What a value means is the caller's affair.

Most memory: READ_WHOLE times the size of a document, twice that of an archive.
"""

from privest.reading._archives import parse_array, read_arrays
from privest.reading._documents import parse_json, parse_toml
from privest.reading._fields import (
    chosen,
    counted,
    optional,
    ranged,
    read_count,
    read_fields,
    read_flag,
    read_flags,
    read_number,
    read_numbers,
    read_positive,
    read_text,
    require_parameters,
    state_array,
    state_count,
    state_flag,
    state_number,
)
from privest.reading._files import as_text, read_bytes, read_document, text_lines
from privest.reading._limits import HELD_WHOLE, MOST_COLUMNS

__all__ = [
    "HELD_WHOLE",
    "MOST_COLUMNS",
    "as_text",
    "chosen",
    "counted",
    "optional",
    "parse_array",
    "parse_json",
    "parse_toml",
    "ranged",
    "read_arrays",
    "read_bytes",
    "read_count",
    "read_document",
    "read_fields",
    "read_flag",
    "read_flags",
    "read_number",
    "read_numbers",
    "read_positive",
    "read_text",
    "require_parameters",
    "state_array",
    "state_count",
    "state_flag",
    "state_number",
    "text_lines",
]  # fmt: skip
