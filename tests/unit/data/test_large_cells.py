"""Small files with large cells: refused in a sentence, before they are held in memory.

Memory is that of a process of its own: 150 MB more than Python and its libraries take, where the
cells would take twice that and more.
"""

import subprocess
import sys
import zipfile

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privest.data import inspect
from privest.data.source import open_source
from privest.errors import InvalidInput

MIB = 1 << 20
MEMORY = """
import re, sys
import numpy, openpyxl, pyarrow.parquet, privest.data
from privest.data import inspect
from privest.errors import InvalidInput
def taken(what):
    return int(re.search(what + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1])
before = taken("VmRSS")
try:
    print(inspect(sys.argv[1], public=sys.argv[2:]))
except InvalidInput as refused:
    print("refused:", refused)
print(taken("VmHWM") - before)
"""


def in_little_memory(path, *public):
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(path), *public],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *said, more = done.stdout.splitlines()
    assert int(more) < 150_000
    return said[0]


def workbook(path, rows, replaced, pieces):
    """A workbook of these rows, with `pieces` of bytes in place of `replaced` in its sheet."""
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path.with_suffix(".made"))
    with (
        zipfile.ZipFile(path.with_suffix(".made")) as made,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in made.namelist():
            data = made.read(name)
            if replaced not in data:
                new.writestr(name, data)
                continue
            before, after = data.split(replaced)
            with new.open(name, "w", force_zip64=True) as part:
                part.write(before)
                for piece in pieces:
                    part.write(piece)
                part.write(after)
    return path


def test_a_name_of_a_column_has_an_end(tmp_path):
    rows = [["HEADER", "x"], [1, 2], [3, 4]]
    book = workbook(tmp_path / "t.xlsx", rows, b"HEADER", [b"a" * 4_000_000])
    assert book.stat().st_size < 25_000
    with pytest.raises(InvalidInput, match="a cell has more than 32,767 letters"):
        inspect(book)
    for data in ({"a" * 20_000: [1.0, 2.0]}, tmp_path / "t.csv"):
        (tmp_path / "t.csv").write_text("a" * 20_000 + ",x\n1,2\n")
        with pytest.raises(InvalidInput, match="name of a column has more than 10000 letters"):
            inspect(data)


def test_a_cell_has_as_many_letters_as_in_excel(tmp_path):
    rows = [["name", "x"], ["CELL", 2]]
    for letters, refused in ((32_767, False), (32_768, True)):
        book = workbook(tmp_path / "t.xlsx", rows, b"CELL", ["é".encode() * letters])
        if refused:
            with pytest.raises(InvalidInput, match="a cell has more than 32,767 letters"):
                inspect(book, public=("name", "x"))
        else:
            assert inspect(book, public=("name", "x")).rows == 1


CELLS = {
    "one text": [b"a" * MIB] * 250,
    "one text of marks": [b"row&gt;&lt;row " * (MIB // 15)] * 250,
    "runs of a text": [b"</t></r>" + b"<r><t>aa</t></r>" * (MIB // 16) + b"<r><t>"] * 100,
    "many cells": [b"</t></is></c>" + b"<c><v>1</v></c>" * (MIB // 15) + b"<c><is><t>"] * 100,
    "a section": [b"<![CDATA[", *[b"<row r" * (MIB // 6)] * 250, b"]]>"],
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", CELLS)
def test_a_row_that_is_longer_than_memory(tmp_path, kind):
    pieces = CELLS[kind]
    if kind == "runs of a text":
        pieces = [b"</t><r><t>a", *pieces, b"</t></r><t>"]
    book = workbook(tmp_path / "t.xlsx", [["name", "x"], ["CELL", 2]], b"CELL", pieces)
    assert book.stat().st_size < 4 * MIB
    assert "a row is too long for a workbook" in in_little_memory(book, "name", "x")


def test_a_dictionary_of_texts(tmp_path, monkeypatch):
    """A small file of long texts of a letter: its footer says how much it becomes."""
    monkeypatch.setattr("privest.data.arrow.HELD_WHOLE", 16 * MIB)
    texts = [f"{i:06}" + "a" * MIB for i in range(17)]
    table = pa.table({"x": [float(i) for i in range(17)], "t": texts})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, compression="zstd", dictionary_pagesize_limit=2**31 - 1)
    assert path.stat().st_size < 100_000
    said = "'t' has more than 16 MiB of texts in a row group"
    with pytest.raises(InvalidInput, match=said):
        next(open_source(path).blocks(["x", "t"], text=["t"]))
    # The look goes on without the column.
    numbers, refused = inspect(path, public=("x", "t")).columns
    assert numbers.kind == "number"
    assert said in refused.problem
    pq.write_table(table, path, compression="zstd", row_group_size=8)
    assert next(open_source(path).blocks(["t"], text=["t"]))["t"].tolist() == texts[:8]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("stored", ["texts", "categories"])
def test_one_long_text_in_every_row(tmp_path, stored):
    """Numbers are asked of a column of texts: its type says no before a cell is decoded."""
    same = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), ["a" * 40_000])
    column = same if stored == "categories" else same.cast(pa.string())
    pq.write_table(pa.table({"x": pa.array(range(10_000)), "t": column}), tmp_path / "t.parquet")
    del same, column
    assert "rows=10000" in in_little_memory(tmp_path / "t.parquet", "x", "t")
