"""Parsers of all that comes from outside: bytes, texts, JSON, TOML, NumPy archives, fields.

Each returns plain values, or raises one error that says what is wrong and where. Sizes are checked
before memory is taken. Most memory: 500 times the size of a document, twice that of an archive.
"""

from privest.reading._fields import Field as Field
from privest.reading._fields import about as about
from privest.reading._fields import (
    chosen,
    counted,
    optional,
    parse_json,
    parse_toml,
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
from privest.reading._files import (
    DOCUMENT,
    HELD_WHOLE,
    MOST_COLUMNS,
    as_text,
    parse_array,
    read_arrays,
    read_bytes,
    read_document,
    text_lines,
)

__all__ = [
    "DOCUMENT", "HELD_WHOLE", "MOST_COLUMNS", "as_text", "chosen", "counted", "optional",
    "parse_array", "parse_json", "parse_toml", "ranged", "read_arrays", "read_bytes", "read_count",
    "read_document", "read_fields", "read_flag", "read_flags", "read_number", "read_numbers",
    "read_positive", "read_text", "require_parameters", "state_array", "state_count", "state_flag",
    "state_number", "text_lines",
]  # fmt: skip
