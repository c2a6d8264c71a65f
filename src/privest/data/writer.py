"""A table written block by block, whole or not at all."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from privest.arrays import AnyArray, ArrayLike
from privest.data.arrow import arrow
from privest.data.cells import require_no_formula
from privest.errors import InvalidInput
from privest.files import atomic_file

ROW_GROUP = 65_536

Blocks = Iterable[Sequence[ArrayLike]]


def write_table(path: str | os.PathLike[str], names: Sequence[str], blocks: Blocks) -> int:
    """Write columns to a .csv or .parquet file, whole or not at all; the number of rows.

    Every block has one vector for each name. Floats get the shortest digits that give the same
    double back.
    """
    target = Path(path)
    write = table_writer(target)
    with atomic_file(target) as file:
        return write(file, names, blocks)


def table_writer(target: Path) -> Callable[[BinaryIO, Sequence[str], Blocks], int]:
    """The function that writes a table into an open file, by the ending of its name."""
    if target.is_dir():
        raise InvalidInput(f"{target} is a folder: name a file in it.")
    form = {".csv": _write_csv, ".parquet": _write_parquet}.get(target.suffix.lower())
    if form is None:
        raise InvalidInput(f"{target.name}: a table is written as .csv or .parquet.")
    return partial(_write, form)


def _write(
    form: Callable[[BinaryIO, Any, Iterable[Any]], None],
    file: BinaryIO,
    names: Sequence[str],
    blocks: Blocks,
) -> int:
    _require_names(names, csv=form is _write_csv)
    pa, rows = arrow(), 0
    batches = (_batch(names, block) for block in blocks)
    first = next(batches, None)
    schema = pa.schema([(n, pa.float64()) for n in names]) if first is None else first.schema

    def counted() -> Iterator[Any]:
        nonlocal rows
        for batch in () if first is None else chain([first], batches):
            try:
                yield batch.cast(schema)
            except (pa.ArrowException, TypeError, ValueError):
                raise InvalidInput(
                    f"a block has columns of type {[str(t) for t in batch.schema.types]}; the "
                    f"first had {[str(t) for t in schema.types]}."
                ) from None
            rows += batch.num_rows

    form(file, schema, counted())
    return rows


def _require_names(names: Sequence[str], *, csv: bool) -> None:
    if isinstance(names, str) or not names or len(set(names)) < len(names):
        raise InvalidInput("a table needs a list of different column names.")
    if csv and any(not name or name != name.strip() for name in names):
        raise InvalidInput(
            "a column name is empty, or begins or ends with spaces, which a CSV file loses: "
            "rename the column, or write .parquet."
        )
    if csv:
        require_no_formula(names)


def _write_csv(file: BinaryIO, schema: Any, batches: Iterable[Any]) -> None:  # noqa: ANN401
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(schema.names)
    file.write(header.getvalue().encode())  # by hand: Arrow would quote every name
    options = arrow().csv.WriteOptions(include_header=False)
    with arrow().csv.CSVWriter(file, schema, write_options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_parquet(file: BinaryIO, schema: Any, batches: Iterable[Any]) -> None:  # noqa: ANN401
    """A Parquet file in row groups of about ROW_GROUP rows."""
    pa = arrow()
    from pyarrow.parquet import ParquetWriter

    # Distinct floats gain nothing from a dictionary; texts do.
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    with ParquetWriter(file, schema, use_dictionary=texts) as writer:
        waiting: list[Any] = []
        for batch in batches:
            waiting.append(batch)
            if sum(part.num_rows for part in waiting) >= ROW_GROUP:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting = []
        writer.write_table(pa.Table.from_batches(waiting, schema))


def _batch(names: Sequence[str], block: Sequence[ArrayLike]) -> Any:  # noqa: ANN401
    pa = arrow()
    columns = [_column(column) for column in block]
    shapes = {column.shape for column in columns}
    if len(columns) != len(names) or len(shapes) != 1 or any(len(s) != 1 for s in shapes):
        raise InvalidInput(f"a block must have {len(names)} vectors of one length.")
    try:
        arrays = [pa.array(one, pa.string() if one.dtype == object else None) for one in columns]
    except (pa.ArrowException, TypeError):
        raise InvalidInput("a column of objects must hold texts, or None.") from None
    return pa.RecordBatch.from_arrays(arrays, list(names))


def _column(column: ArrayLike) -> AnyArray:
    array: AnyArray = np.asarray(column)
    if array.dtype.kind in "US":
        return array.astype(str).astype(object)
    if array.dtype.kind not in "biufO" or array.dtype.itemsize > 8:
        raise InvalidInput(
            f"a table holds numbers up to double precision, or texts; received {array.dtype}."
        )
    # float32 as its own shortest digits would read back as another double.
    return array.astype(np.float64) if array.dtype.kind == "f" else array
