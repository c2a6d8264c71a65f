"""CSV files: what is read, and one clear message for each kind of bad file."""

import csv
import gzip
import lzma
import os
import re
import traceback

import numpy as np
import pytest

from privest.data.source import open_source
from privest.errors import InvalidInput

pytest.importorskip("pyarrow")


def write(tmp_path, content, name="people.csv"):
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path, columns, text=(), size=65_536):
    """All blocks put together."""
    blocks = list(open_source(path).blocks(columns, text=text, size=size))
    return {name: np.concatenate([block[name] for block in blocks]) for name in columns}


@pytest.mark.parametrize(
    "content",
    [
        "a,b\n1,x\n2.5,y\n",
        b"\xef\xbb\xbfa,b\r\n1,x\r\n2.5,y",  # a byte-order mark, CRLF, no line end at the end
        'a,b\n\n"1","x"\n\n\n2.5,y\n\n',  # blank lines
        '"a","b"\n 1 , x \n\t2.5,y\n',  # spaces around
        '\n\na,b,c\n1,x,"a\nb, ""c"""\n+2.50,y,\n',  # quoted line end, comma, quotes
        "a,b\r1,x\r2.5,y\r",
        "a,b\n1e0,x\n.25E1,y\n",
    ],
)
def test_the_same_table_in_many_dresses(tmp_path, content):
    found = read(write(tmp_path, content), ["b", "a"], text=["b"])
    assert found["a"].dtype == np.float64
    assert found["a"].tolist() == [1.0, 2.5]
    assert found["b"].tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("name", "pack"), [("t.CSV.GZ", gzip), ("t.csv.xz", lzma), ("T.Csv", None)]
)
def test_packed_files(tmp_path, name, pack):
    content = b"a,b\n1,x\n2,y\n"
    path = write(tmp_path, content if pack is None else pack.compress(content), name)
    assert read(path, ["a"])["a"].tolist() == [1.0, 2.0]
    if pack is not None:
        whole = pack.compress(os.urandom(4000).hex().encode())
        for damaged in (whole[: len(whole) // 2], b"not packed at all\n1\n"):
            with pytest.raises(InvalidInput, match="is damaged, or not what its name says"):
                read(write(tmp_path, damaged, name), ["a"])


def test_missing_values_and_booleans(tmp_path):
    path = write(tmp_path, 'a,b\n,""\nNA,NA\n NaN , . \nnan,N/A\n.,null\n7,None\n')
    found = read(path, ["a", "b"], text=["b"])
    assert np.isnan(found["a"]).tolist() == [True] * 5 + [False]
    assert found["b"].tolist() == [None] * 6
    path = write(tmp_path, "a,b\nTrue,\nfalse,\nTRUE,\n\nNA,\n0,\n")
    np.testing.assert_array_equal(read(path, ["a"])["a"], [1, 0, 1, np.nan, 0])


def test_blank_lines_of_one_column_are_missing_values(tmp_path):
    found = read(write(tmp_path, "\n\r\na\n1\n\n2\n"), ["a"])["a"]
    np.testing.assert_array_equal(found, [1, np.nan, 2])
    with pytest.raises(InvalidInput, match="column 'a', row 4: not a number"):
        read(write(tmp_path, "\n\na\n1\n\n2\nx\n"), ["a"])


def test_every_number_reads_as_python_reads_it(tmp_path):
    """An independent route: float() of the same text, bit for bit."""
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**63, 20_000, dtype=np.uint64).view(np.float64)
    texts = [repr(float(x)) for x in bits[np.isfinite(bits)]]
    texts += [f"{x:.17f}" for x in rng.standard_normal(2000)] + [
        "-0.0",
        "5e-324",
        "123456789012345678901",
    ]
    expected = np.array([float(text) for text in texts])
    for dress in ("{}", " {}", "+{}"):  # the last two take the other way through `parse`
        cells = [dress.format(text) if text[0] != "-" else text for text in texts]
        found = read(write(tmp_path, "\n".join(["a", *cells])), ["a"])["a"]
        np.testing.assert_array_equal(found.view(np.int64), expected.view(np.int64))


FILL = "x" * 900  # with which 4,000 rows are several of the blocks that Arrow parses


@pytest.mark.parametrize("size", [700, 1000, 65_536])
def test_blocks_of_any_size_and_many_batches(tmp_path, size):
    """A file of many parsed blocks: every row once, in order, never more than `size` a block."""
    rows = 4000
    path = write(tmp_path, "a,b,f\n" + "".join(f"{k},c{k % 3},{FILL}\n" for k in range(rows)))
    source = open_source(path)
    for _ in range(2):  # from the start again
        blocks = list(source.blocks(["a", "b"], text=["b"], size=size))
        assert max(len(block["a"]) for block in blocks) <= size
        assert len(blocks) > 3
        np.testing.assert_array_equal(np.concatenate([b["a"] for b in blocks]), np.arange(rows))
        assert np.concatenate([b["b"] for b in blocks]).tolist() == [
            f"c{k % 3}" for k in range(rows)
        ]
    small = open_source(write(tmp_path, "a\n" + "1\n" * 20, "small.csv"))
    assert [len(block["a"]) for block in small.blocks(["a"], size=7)] == [7, 7, 6]


def test_rows_in_messages_are_counted_over_the_blocks(tmp_path):
    lines = [f"{k},{FILL}" for k in range(4000)]
    for wrong, message in (
        ("secret,x", r"people.csv, column 'a', row 3001: not a number"),
        ("secret", r"row 3001 \(counted from 1 after the header.*1 fields where the header has 2"),
        ("1,secret,3", "3 fields where the header has 2"),
    ):
        changed = [*lines[:3000], wrong, *lines[3000:]]
        path = write(tmp_path, "\n\n".join(["", "a,b", *changed]))  # blank lines are not rows
        with pytest.raises(InvalidInput, match=message) as refused:
            read(path, ["a"])
        shown = "".join(traceback.format_exception(refused.value))  # what Arrow said is not there
        assert "secret" not in shown
        assert "Arrow" not in shown
    path = write(tmp_path, ("a,b\n" + "\n".join(lines)).encode() + b"\n1,caf\xe9\n")
    with pytest.raises(InvalidInput, match="column 'b', row 4001: not UTF-8 text; save the file"):
        read(path, ["b"], text=["b"])
    assert len(read(path, ["a"])["a"]) == 4001  # not asked for: not looked at


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty: a table has"),
        ("\n \n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        ("a;b\n1,5;2\n", "column 'a', row 1: not a number; it has points or commas"),
        ("a;b\n2024-03-01;2\n", "column 'a', row 1: a date or a time, not a number; give the year"),
        ("b,c\n1,2\n", "has no column 'a'; its first line names 2 columns.$"),
        (" A,c\n1,2\n", "has no column 'a'. Did you mean 'A'. There are 'A', 'c'.$"),
        ("A,52\n1,2\n", "has no column 'a'; its first line names 2 columns.$"),
        ("52,1.7\n53,1.8\n", "no column 'a': its first line holds numbers, add one"),
        ("a,b,a\n1,2,3\n", "more than one column called 'a'"),
        ('a,b\n"1,5",2\n', "column 'a', row 1: not a number; it has points or commas"),
        ("a,b\n1,5,2\n", "3 fields where the header has 2.*have commas between them"),
        ('a,b\n"1,234,567.5",2\n', "row 1: not a number; it has commas between thousands"),
        ("a,b\n1 000,2\n", "row 1: not a number"),
        ("a,b\n1_000,2\n", "row 1: not a number"),
        ("a,b\n0x10,2\n", "row 1: not a number"),
        ("a,b\n1,2\nwhy,2\n", "row 2: not a number; correct it, state .* a public list"),
        (b"a,b\n1\x00,2\n", "not a number|not those of a CSV file"),
        (b"a\xe9,b\n1,2\n", "the header is not UTF-8 text; save the file as UTF-8"),
        (b"a,b\n\xe9,2\n", "column 'a', row 1: not UTF-8"),
        ("a,b\n1,2\n".encode("utf-16")[:-1], "is not utf-16 text: state the `encoding`"),
        ('a,b\n1,2\n"3,4\n5,6\n', "a quote is not closed"),
    ],
)  # fmt: skip
def test_bad_files_have_one_message(tmp_path, content, message):
    with pytest.raises(InvalidInput, match=message) as refused:
        read(write(tmp_path, content), ["a"])
    shown = str(refused.value)
    assert shown.startswith(("people.csv", str(tmp_path)))
    cells = ("yes", r"\b52", "53", "1,5", "000", "0x10", r"\\xe9", "03-01")
    assert not any(re.search(cell, shown) for cell in cells)


def test_a_header_alone_has_no_blocks(tmp_path):
    for content in ("a,b", "a,b\n", "a,b\n\n\r\n"):
        assert list(open_source(write(tmp_path, content)).blocks(["a"])) == []


def test_thousands_of_columns(tmp_path):
    """A row of 300 kB: the parsed pieces grow with it."""
    names = [f"a_rather_long_name_of_column_{k:05}" for k in range(8000)]
    values = np.random.default_rng(0).standard_normal((5, 8000))
    content = "\n".join([",".join(names), *(",".join(map(repr, row)) for row in values.tolist())])
    found = read(write(tmp_path, content), names)
    np.testing.assert_array_equal(np.stack([found[name] for name in names], axis=1), values)


def test_quotes_across_blocks(tmp_path):
    """Against Python's csv reader; a limit for a quote left open."""
    rng = np.random.default_rng(4)
    letters = ["x", ",", "\n", "\r\n", '"', "ü", " "]
    table = [["n", "t"]] + [
        [str(k), "w" + "".join(rng.choice(letters, rng.integers(0, 4000))) + "w"]
        for k in range(1000)
    ]
    path = tmp_path / "people.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(table)
    assert path.stat().st_size > 2 << 20
    found = read(path, ["n", "t"], text=["t"])
    assert found["n"].tolist() == list(range(1000))
    assert found["t"].tolist() == [row[1] for row in table[1:]]
    for count in (1, 500_000, 5_000_000):
        path = write(tmp_path, 'a,b\n1,x\n2,"' + "secret" * count + "\n3,y\n")
        with pytest.raises(InvalidInput, match="a quote is not closed") as refused:
            read(path, ["a"])
        assert "secret" not in "".join(traceback.format_exception(refused.value))


def test_quotes_that_are_letters(tmp_path):
    """Within a field that began without one: against Python's csv reader, over several blocks."""
    rng = np.random.default_rng(5)
    rows = [["n", "t"]]
    for k in range(6000):
        inside = "".join(rng.choice(list('x " y'), 300))
        quoted = '"' + inside.replace('"', '""') + ',\n"" z"'
        rows.append([str(k), f"w{inside}w" if k % 3 else quoted])
    path = write(tmp_path, "".join(",".join(row) + "\n" for row in rows))
    with path.open(newline="", encoding="utf-8") as file:
        expected = [row[1].strip() for row in csv.reader(file)][1:]
    found = read(path, ["n", "t"], text=["t"])
    assert found["n"].tolist() == list(range(6000))
    assert found["t"].tolist() == expected


def test_a_file_that_changes_or_goes(tmp_path):
    path = write(tmp_path, "a\n1\n")
    source = open_source(path)
    list(source.blocks(["a"]))
    path.write_text("a\n1\n2\n")
    with pytest.raises(InvalidInput, match=r"people.csv was changed while it was in use"):
        list(source.blocks(["a"]))
    path.unlink()
    with pytest.raises(InvalidInput, match=r"people.csv cannot be read: No such file"):
        list(source.blocks(["a"]))


def test_a_pass_may_be_left(tmp_path):
    """No thread, file or warning is left behind (pytest makes an error of a resource warning)."""
    source = open_source(write(tmp_path, "a,f\n" + f"1,{FILL}\n" * 5000))
    for _ in range(20):
        passing = source.blocks(["a"])
        next(passing)
        passing.close()
    assert sum(len(block["a"]) for block in source.blocks(["a"])) == 5000


SECRET = "5318008"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
@pytest.mark.parametrize(
    "content",
    [
        f"a,b\n1,2\n{SECRET}x,2\n",
        f"a,b\n1,2\n{SECRET},2,3\n",
        f"a,b\n1,2\n{SECRET}\n",
        f'a,b\n1,2\n"{SECRET},2\n3,4\n',
        f"a,b\n1,2\n{SECRET}.5.5,2\n",
        f"a,b\n1,2\n{SECRET}\u0000,2\n",
        f'a,b\n1,2\n"{SECRET},000",2\n',
        f"a,b\n1,2\n{'1,2' + chr(10)}{SECRET}\u00e9,2\n",
    ],
)
def test_no_message_shows_a_cell(tmp_path, content, encoding):
    """Arrow's own messages quote cells and rows. Nothing of them is in ours, nor behind them."""
    path = write(tmp_path, content.encode(encoding))
    stated = {} if encoding == "utf-8" else {"encoding": encoding}
    for more in ({}, {"decimal": ","}, {"thousands": " "}):
        shown, refused = "", None
        try:
            list(open_source(path, {**stated, **more}).blocks(["a"]))
        except InvalidInput as error:
            refused = error
            shown = "".join(traceback.format_exception(error))
        assert "5318" not in shown
        assert refused is None or (refused.__cause__ is None and "Arrow" not in shown)
        assert (refused is not None) != (more.get("decimal") == "," and ",000" in content)


def test_bytes_that_are_not_of_the_stated_encoding_are_not_shown(tmp_path):
    path = write(tmp_path, b"a,b\n1,2\n" + b"\xff" * 11 + SECRET.encode() + b",2\n" * 400_000)
    for encoding in ("utf-16", "euc_jp", "gb18030"):
        with pytest.raises(InvalidInput, match="text: state the `encoding` it was saved in") as no:
            list(open_source(path, {"encoding": encoding}).blocks(["a"]))
        assert SECRET not in "".join(traceback.format_exception(no.value))
