"""Parsers of all that comes from outside: bytes, texts, JSON, TOML, NumPy archives, fields.

Each returns plain values, or raises one error that says what is wrong and where. Sizes are checked
before memory is taken. Most memory: 500 times the size of a document, twice that of an archive.
"""

from __future__ import annotations

import datetime
import io
import json
import math
import os
import re
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

from privest.arrays import AnyArray, Array, Flags, as_array, as_choice
from privest.errors import InvalidInput, PrivestError

__all__ = [
    "DOCUMENT", "HELD_WHOLE", "MOST_COLUMNS", "as_text", "chosen", "counted", "optional",
    "parse_json", "parse_toml", "ranged", "read_arrays", "read_bytes", "read_count",
    "read_document", "read_fields", "read_flag", "read_flags", "read_number", "read_numbers",
    "read_positive", "read_text", "require_parameters", "state_array", "state_count", "state_flag",
    "state_number", "text_lines",
]  # fmt: skip

# How much is read of anything, and what an honest file needs of that.
DOCUMENT = 1 << 21  # bytes of a plan, header or model: 100 states are 0.6 MB, 10⁴ names 0.2 MB
ARCHIVE = 1 << 31  # bytes of a level or checkpoint: a dense level of 16,000 measurements
HELD_WHOLE = 1 << 28  # bytes of text held whole (a matrix, one release): 10⁷ numbers; tables that
# are read in blocks and streams have no limit
LONGEST_LINE = 1 << 25  # bytes of a line of text: 10⁶ columns
MOST_COLUMNS = 1 << 20  # of a table
DEEPEST = 32  # lists within lists: ours have 5
# What numpy writes; anything else is not ours.
NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<|]?(?:b1|[iu][1248]|f8|U\d{1,6}))', "
    rb"'fortran_order': (True|False), 'shape': \(((?:\d{1,18}, ?)*(?:\d{1,18})?)\), \} *\n",
    re.DOTALL,
)
Failure = type[PrivestError]


def read_bytes(
    path: str | os.PathLike[str],
    most: int,
    begins: bytes = b"",
    *,
    what: str = "such a file",
    error: Failure = InvalidInput,
) -> bytes:
    """All of a file, or of a device or pipe that ends, if it has no more than `most` bytes.

    `begins`: its first bytes; nothing else is read of a file that begins otherwise, which is then
    not `what`.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(len(begins))
            if start != begins:
                raise error(f"{path} is not {what}: it does not begin as such files do.")
            if os.fstat(file.fileno()).st_size > most:
                raise _too_large(path, most, error)
            rest = _up_to(file, most - len(start))
    except PrivestError:
        raise
    except OSError as failed:
        raise error(f"cannot read {path}: {failed.strerror}.") from None
    except ValueError:
        raise error("the name of a file cannot have a zero byte.") from None
    if rest is None:
        raise _too_large(path, most, error)
    return start + rest


def _up_to(file: BinaryIO, most: int) -> bytes | None:
    """The rest of a file; None if it is longer. Never asks for `most` at once."""
    parts, left = [], most
    while part := file.read(1 << 20):
        left -= len(part)
        if left < 0:
            return None
        parts.append(part)
    return b"".join(parts)


def _too_large(path: object, most: int, error: Failure) -> PrivestError:
    return error(f"{path} has more than {size_text(most)}, the most that is read of such a file.")


def as_text(data: bytes, where: str) -> str:
    """UTF-8, with or without a mark at its start, without zero bytes."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"{where} is not UTF-8 text.") from None
    if "\0" in text:
        raise InvalidInput(f"{where} is not a text: it has zero bytes.")
    return text


def read_document(path: str | os.PathLike[str], name: str | None = None) -> str:
    """The text of a small file: a plan, a header, a model. `name`: in messages, else the path."""
    return as_text(read_bytes(path, DOCUMENT), str(path) if name is None else name)


def size_text(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB"


def require_letters(text: str, where: str) -> None:
    """Refuse a text that cannot be written again: JSON and file names may hold half a letter."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{where} has a text with half a letter (a surrogate).") from None


class _Lines(io.RawIOBase):
    """Bytes on their way to a text, as they come; refuses what can be no text table."""

    def __init__(self, file: BinaryIO, most: int | None, zeros: bool) -> None:
        self.file, self.left, self.since, self.zeros = file, most, 0, zeros

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - whatever holds bytes
        part = self.file.read1(len(buffer)) if hasattr(self.file, "read1") else self.file.read(1)
        buffer[: len(part)] = part
        if not self.zeros and b"\0" in part:
            raise InvalidInput("not a text file: it has zero bytes.")
        end = max(part.rfind(b"\n"), part.rfind(b"\r"))
        self.since = self.since + len(part) if end < 0 else len(part) - end - 1
        if self.since > LONGEST_LINE:
            raise InvalidInput(f"a line has more than {size_text(LONGEST_LINE)}.")
        if self.left is not None:
            self.left -= len(part)
            if self.left < 0:
                raise InvalidInput("it is larger than what is read at once.")
        return len(part)


@contextmanager
def text_lines(
    file: BinaryIO, most: int | None = None, encoding: str = "utf-8"
) -> Iterator[Iterator[str]]:
    """The lines of a text, each as soon as it is there; the file itself stays open.

    A byte-order mark is left out. `most`: bytes, where the caller keeps them all.
    """
    wide = encoding.startswith(("utf-16", "utf-32"))  # whose letters have zero bytes
    raw = io.BufferedReader(_Lines(file, most, wide))
    codec = "utf-8-sig" if encoding == "utf-8" else encoding
    yield _decoded(io.TextIOWrapper(raw, encoding=codec, newline=""), encoding)


def _decoded(lines: io.TextIOWrapper, encoding: str) -> Iterator[str]:
    line = 0
    try:
        for line, text in enumerate(lines, start=1):  # noqa: B007 - the last that was read
            yield text
    except UnicodeError:
        raise InvalidInput(
            f"not a text file: it is not {encoding.upper()} after line {line}."
        ) from None


class _Refused(Exception):
    """A document or an array that its parser would take."""


def read_arrays(
    path: str | os.PathLike[str], what: str, *, error: Failure = InvalidInput
) -> dict[str, AnyArray]:
    """The arrays of a file that numpy's `savez` wrote: numbers, flags and texts, not packed.

    Sizes in the directory, in the header of each array and of the file must agree before any
    memory is taken.
    """
    data = read_bytes(path, ARCHIVE, b"PK\x03\x04", what=what, error=error)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if any(one.compress_type != zipfile.ZIP_STORED for one in members):
                raise _Refused("its parts are packed: privest writes them as they are")
            if sum(one.file_size for one in members) > len(data):
                raise _Refused("its parts are larger than it is")
            names = [one.filename.removesuffix(".npy") for one in members]
            if len(set(names)) < len(names):
                raise _Refused("two of its parts have one name")
            return {name: _array(archive.read(one)) for name, one in zip(names, members)}
    except _Refused as refused:
        raise error(f"{path} is not {what}: {refused}.") from None
    except MemoryError:  # of an honest file that is larger than the machine
        raise
    except Exception as failed:  # whatever a damaged archive makes its reader raise
        raise error(f"{path} is not {what}, or it is damaged ({type(failed).__name__}).") from None


def _array(data: bytes) -> AnyArray:
    header = NPY.match(data)
    if header is None:
        raise _Refused("a part is not an array of numbers, flags or texts as numpy writes it")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(size) for size in re.findall(rb"\d+", header[3]))
    count = math.prod(shape)
    if len(shape) > DEEPEST or count * dtype.itemsize != len(data) - header.end():
        raise _Refused("the shape of an array is not that of its numbers")
    flat = np.frombuffer(data, dtype, count, header.end())
    return flat.reshape(shape, order="F" if header[2] == b"True" else "C").copy()


# --- fields ---------------------------------------------------------------------------------------

MOST_PARAMETERS = 10_000  # a square matrix of that side takes 0.8 GB
LONGEST_TEXT = 10_000  # letters of a name or a message
LARGEST_COUNT = 2**62  # a whole number that a machine can count to
LARGEST_STATE = 1e150  # of a number in a saved state: sums of its squares are finite

Field = Callable[[object, str], Any]  # checks a value; the text names it in the error


@contextmanager
def about(what: str) -> Iterator[None]:
    """Errors that are raised inside begin with `what`."""
    try:
        yield
    except InvalidInput as error:
        raise type(error)(f"{what}: {error}") from None


def read_fields(
    record: object, schema: Mapping[str, Field], where: str, *, others: bool = False
) -> dict[str, Any]:
    """The fields of a record, each as its reader gives it; all must be there.

    `others`: fields that the schema does not know are left out instead of refused.

    >>> read_fields({"rows": 3, "of": "age"}, {"rows": counted(least=1), "of": read_text}, "it")
    {'rows': 3, 'of': 'age'}
    """
    if not isinstance(record, Mapping):
        raise InvalidInput(f"{where} must be names with values.")
    absent = [name for name in schema if name not in record]
    if absent:
        raise InvalidInput(f"{where} needs {sorted(schema)}; {absent[0]!r} is not there.")
    if not others and set(record) - set(schema):
        raise InvalidInput(f"{where} is of another version: it has fields not known here.")
    return {name: reader(record[name], name) for name, reader in schema.items()}


def optional(reader: Field) -> Field:
    """The value that the reader takes, or nothing (None)."""
    return lambda given, name: None if given is None else reader(given, name)


def counted(least: int = 0, most: int = LARGEST_COUNT - 1) -> Callable[[object, str], int]:
    """A whole number in a range."""

    def read(given: object, name: str) -> int:
        """A whole number of this range."""
        if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= most:
            top = f" and ≤ {most}" if most < LARGEST_COUNT - 1 else ""
            raise InvalidInput(f"{name} must be a whole number ≥ {least}{top}.")
        return given

    return read


def ranged(low: float = -math.inf) -> Callable[[object, str], float]:
    """A finite number above another."""

    def read(given: object, name: str) -> float:
        """A finite number of this range; true and false are none."""
        good = isinstance(given, int | float) and not isinstance(given, bool)
        try:
            found = float(given) if good else math.nan  # type: ignore[arg-type]
        except OverflowError:
            found = math.inf
        if not low < found < math.inf:
            above = f" > {low:g}" if math.isfinite(low) else ""
            raise InvalidInput(f"{name} must be a finite number{above}.")
        return found

    return read


def chosen(*words: str) -> Field:
    """One of these words."""
    return lambda given, name: as_choice(given, words, name)


read_count: Callable[[object, str], int] = counted()
read_number: Callable[[object, str], float] = ranged()
read_positive: Callable[[object, str], float] = ranged(low=0.0)


def read_flag(given: object, name: str) -> bool:
    """True or False."""
    if not isinstance(given, bool):
        raise InvalidInput(f"{name} must be true or false.")
    return given


def read_text(given: object, name: str) -> str:
    """A text of at most LONGEST_TEXT letters, all of them whole."""
    if not isinstance(given, str):
        raise InvalidInput(f"{name} must be a text.")
    if len(given) > LONGEST_TEXT:
        raise InvalidInput(f"{name} must be a text of at most {LONGEST_TEXT} letters.")
    require_letters(given, name)
    return given


def read_flags(given: object, count: int, name: str) -> Flags:
    """True and False, `count` of them."""
    flags = list(given) if isinstance(given, list | tuple) else []
    if len(flags) != count or not all(isinstance(flag, bool) for flag in flags):
        raise InvalidInput(f"{name} must be {count} times true or false.")
    return np.array(flags, dtype=bool)


def read_numbers(given: object, name: str, ndim: int | tuple[int, ...] | None = None) -> Array:
    """Floats from nested lists; None becomes NaN. Refuses NaN, infinities and anything else."""
    try:
        raw: AnyArray = np.array(_filled(given, DEEPEST), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"{name} must be numbers, in rows of one length.") from None
    as_array(np.where(np.isnan(raw), 0.0, raw), name, ndim=ndim)
    return raw


def _filled(given: object, depth: int) -> object:
    if isinstance(given, list | tuple):
        if not depth:
            raise TypeError
        return [_filled(part, depth - 1) for part in given]
    if given is None:
        return math.nan
    if isinstance(given, bool) or not isinstance(given, int | float) or math.isnan(given):
        raise TypeError
    return given


def require_parameters(count: int, where: str) -> None:
    """Refuse more parameters than a matrix of all pairs of them can hold."""
    if count > MOST_PARAMETERS:
        raise InvalidInput(
            f"{where}: {count} parameters; at most {MOST_PARAMETERS} are read from a file, because "
            "matrices of all pairs of them are needed."
        )


def state_array(
    state: Mapping[str, AnyArray], name: str, shape: tuple[int | None, ...], kind: str = "f",
    *, squares: bool = True,
) -> AnyArray:  # fmt: skip
    """An array of a saved state, copied: of this shape (None: any size) and kind, and finite.

    `kind`: "f" numbers whose squares are finite too (unless `squares` is False), "b" flags, "i" and
    "u" whole numbers ≥ 0.
    """
    found = state.get(name)
    if not isinstance(found, np.ndarray | np.generic):
        raise InvalidInput(f"the state needs an array {name!r}.")
    good = found.ndim == len(shape) and found.dtype.kind == kind
    if not good or any(wanted not in (None, size) for wanted, size in zip(shape, found.shape)):
        raise InvalidInput(
            f"the state {name!r} must have shape {shape} and type {kind!r}; received "
            f"{found.shape} and {found.dtype.kind!r}."
        )
    # A NaN fails every comparison.
    largest = LARGEST_STATE if squares else np.inf
    if kind != "b" and not (np.abs(found) < largest).all():
        raise InvalidInput(f"the state {name!r} must be finite, and its squares too.")
    if kind == "i" and (found < 0).any():
        raise InvalidInput(f"the state {name!r} must be ≥ 0.")
    return np.array(found)


def state_count(state: Mapping[str, AnyArray], name: str) -> int:
    """A whole number ≥ 0 of a saved state."""
    return read_count(int(state_array(state, name, (), "i")), name)


def state_number(state: Mapping[str, AnyArray], name: str) -> float:
    """A finite number of a saved state."""
    return float(state_array(state, name, ()))


def state_flag(state: Mapping[str, AnyArray], name: str) -> bool:
    """A flag of a saved state."""
    return bool(state_array(state, name, (), "b"))


# --- JSON and TOML as plain values: shallow, of few items, every name once ------------------------


MOST_ITEMS = 1 << 25  # of a document: 500 bytes of memory a byte of text, at worst
NUMBERS: frozenset[type] = frozenset({float, int, bool, type(None)})
NUMBERS_AND_TEXTS = NUMBERS | {str}
# tomllib keeps every beginning of a dotted key: 50 kB of a.a.a… become 2.7 GB.
_PART = r"""(?:[\w-]++|"[^"\n]*"|'[^'\n]*')"""
DOTTED = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{DEEPEST}}}")


def parse_json(text: str, where: str = "the input", *, any_number: bool = False) -> Any:  # noqa: ANN401 - whatever JSON holds
    """JSON as its standard has it: no NaN, no infinity, no name twice, no half letters.

    `any_number`: NaN, Infinity and integers of any length too, for measurements.

    >>> parse_json('{"a": 1, "a": 2}', "z.json")
    Traceback (most recent call last):
    privest.errors.InvalidInput: z.json is not JSON: the name 'a' is there twice.
    """
    try:
        found = (_ANY_NUMBER if any_number else _JSON).decode(text)
    except _Refused as refused:
        raise InvalidInput(f"{where} is not JSON: {refused}.") from None
    except (ValueError, RecursionError):  # ValueError: also a number of more than 4300 digits
        raise InvalidInput(f"{where} is not JSON.") from None
    # Without such an escape every letter of a decoded text is whole.
    _require_plain(found, where, NUMBERS if "\\u" in text else NUMBERS_AND_TEXTS)
    return found


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """A TOML document as plain values."""
    if DOTTED.search(text):
        raise _too_deep(where)
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error).split("\n", 1)[0][:200]
        raise InvalidInput(f"{where} is not TOML: {said}.") from None
    except RecursionError:
        raise _too_deep(where) from None
    except (ValueError, OverflowError):  # more than 4300 digits; a date that does not exist
        raise InvalidInput(f"{where} is not TOML: a number or a date has no meaning.") from None
    _require_plain(found, where)
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Refused(f"the name {twice[:60]!r} is there twice")
    return found


def _no_constant(word: str) -> float:
    raise _Refused(f"{word} is no number of JSON")


_JSON = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)
_ANY_NUMBER = json.JSONDecoder(object_pairs_hook=_once, parse_int=float)


def _require_plain(document: object, where: str, flat: frozenset[type] = NUMBERS) -> None:
    """Refuse what is nested deep, has too many items, or texts that cannot be written again.

    Level by level, not recursively. `flat`: the types that need no look by themselves.
    """
    level, items = [document], 0
    for _ in range(DEEPEST + 1):
        inside: list[Any] = []
        for part in level:
            if isinstance(part, str):
                require_letters(part, where)
            elif isinstance(part, list | dict):
                items += len(part)
                every = part if isinstance(part, list) else [*part.keys(), *part.values()]
                if not flat.issuperset(map(type, every)):
                    inside += every
            elif not isinstance(part, float | int | None | datetime.date | datetime.time):
                raise InvalidInput(f"{where} holds {type(part).__name__}, not texts and numbers.")
        if items > MOST_ITEMS:
            raise InvalidInput(f"{where} has more than {MOST_ITEMS} items.")
        if not inside:
            return
        level = inside
    raise _too_deep(where)


def _too_deep(where: str) -> InvalidInput:
    return InvalidInput(f"{where} is nested more than {DEEPEST} deep.")
