"""Tables come back as they were written, or nothing is written."""

import csv
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from privest.data.source import open_source
from privest.data.writer import write_table
from privest.errors import InvalidInput, MissingDependency

pytest.importorskip("pyarrow")
ENDINGS = [".csv", ".parquet"]


def doubles(count=30_000):
    """All kinds of doubles: any bit pattern, whole ones, the edges."""
    rng = np.random.default_rng(2)
    bits = rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    edges = [0.0, -0.0, 5e-324, -5e-324, 1.7976931348623157e308, 2.0**53 + 2, 1e22, 1e23, 0.1]
    return np.concatenate([bits[np.isfinite(bits)], edges, rng.integers(-99, 99, 5000)])


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_double_comes_back_bit_for_bit(tmp_path, ending):
    x = doubles()
    whole = np.rint(x[: len(x)] % 1000)  # all whole: written as integers
    whole[-7:] = [2.0**62, -(2.0**63), 2.0**53, -1.0, 0.0, 3.0, 1e15]
    zeros = np.where(np.arange(len(x)) % 2, 0.0, -0.0)
    cuts = [0, 1, 900, 20_000, len(x)]
    blocks = ([c[i:j] for c in (x, whole, zeros)] for i, j in itertools.pairwise(cuts))
    path = tmp_path / f"t{ending}"
    assert write_table(path, ["x", "whole", "zeros"], blocks) == len(x)
    found = list(open_source(path).blocks(["x", "whole", "zeros"]))
    for name, column in (("x", x), ("whole", whole), ("zeros", zeros)):
        back = np.concatenate([block[name] for block in found])
        np.testing.assert_array_equal(back.view(np.int64), column.view(np.int64))
    if ending == ".csv":  # an independent reader
        with path.open(newline="") as file:
            back = np.array([float(row["x"]) for row in csv.DictReader(file)])
        np.testing.assert_array_equal(back.view(np.int64), x.view(np.int64))


@pytest.mark.parametrize("ending", ENDINGS)
def test_other_columns(tmp_path, ending):
    path = tmp_path / f"t{ending}"
    single = np.array([0.1, np.nan, np.inf], dtype=np.float32)
    texts = np.array(['a "b", c\nd', None, "ü;"], dtype=object)
    columns = [single, np.array([1, 2, 3]), [True, False, True], texts, np.array(["p", "q", "r"])]
    names = ["single, precision", "n", "b", "t", 'quoted "name"']
    assert write_table(path, names, [columns]) == 3
    (block,) = open_source(path).blocks(names, text=[names[3], names[4]])
    np.testing.assert_array_equal(block[names[0]], single.astype(float))
    assert block["n"].tolist() == [1, 2, 3]
    assert block["b"].tolist() == [1, 0, 1]
    assert block["t"].tolist() == texts.tolist()
    assert block[names[4]].tolist() == ["p", "q", "r"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_no_blocks_and_empty_blocks(tmp_path, ending):
    path = tmp_path / f"t{ending}"
    assert write_table(path, ["a", "b"], []) == 0
    assert open_source(path).columns == ("a", "b")
    assert list(open_source(path).blocks(["a"])) == []
    blocks = [[[], np.ones(0)], [np.ones(2), np.ones(2)], [np.ones(0), np.ones(0)]]
    assert write_table(path, ["a", "b"], blocks) == 2


def test_row_groups_gather_short_blocks(tmp_path, monkeypatch):
    pq = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("privest.data.writer.ROW_GROUP", 100)
    write_table(tmp_path / "t.parquet", ["a"], ([np.ones(30)] for _ in range(9)))
    groups = pq.ParquetFile(tmp_path / "t.parquet").metadata
    assert [groups.row_group(k).num_rows for k in range(groups.num_row_groups)] == [120, 120, 30]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("error", [InvalidInput, KeyboardInterrupt, OSError, GeneratorExit])
@pytest.mark.parametrize("after", [0, 1, 40])
def test_nothing_is_left_behind(tmp_path, ending, error, after):
    def blocks():
        for _ in range(after):
            yield [np.random.default_rng(0).standard_normal(3000)]
        raise error("stop")

    path = tmp_path / f"t{ending}"
    with pytest.raises(error, match="stop"):
        write_table(path, ["a"], blocks())
    assert list(tmp_path.iterdir()) == []
    path.write_text("older")
    with pytest.raises(error, match="stop"):
        write_table(path, ["a"], blocks())
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "older"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("ending", ENDINGS)
def test_ctrl_c_in_another_process(tmp_path, ending):
    code = f"""
        import numpy as np
        from privest.data.writer import write_table
        def blocks():
            yield [np.random.default_rng(0).standard_normal(100_000)]
            print("under way", flush=True)
            while True:
                yield [np.ones(10_000) * 0.1]
        write_table({str(tmp_path / ("t" + ending))!r}, ["a"], blocks())
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdout.readline()
        assert [p.suffix for p in tmp_path.iterdir()] == [".part"]
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) != 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "names", "blocks", "message"),
    [
        ("t.xpt", ["a"], [], r"t.xpt: a table is written as .csv or .parquet"),
        ("folder.csv", ["a"], [], "is a folder: name a file in it"),
        ("/dev/null/t.csv", ["a"], [], "cannot be written"),
        ("t.csv", [], [], "different column names"),
        ("t.csv", "ab", [], "a list of different column names"),
        ("t.csv", ["a", "a"], [], "different column names"),
        ("t.csv", ["a", " b"], [], "begins or ends with spaces, which a CSV file loses"),
        ("t.csv", ["a", "=1+2"], [], "'=1\\+2' begins as a formula"),
        ("t.csv", ["a", "-2+cmd|' /C calc'!A0"], [], "begins as a formula"),
        ("t.csv", ["a", "+A1"], [], "begins as a formula"),
        ("t.csv", ["a", "-2+3"], [], "begins as a formula"),
        ("t.csv", [""], [], "a column name is empty"),
        ("t.csv", ["a", "b"], [[[1.0]]], r"2 vectors of one length"),
        ("t.csv", ["a", "b"], [[[1.0], [1.0, 2.0]]], "vectors of one length"),
        ("t.csv", ["a"], [[[[1.0]]]], "vectors of one length"),
        ("t.csv", ["a"], [[[1.0]], [["x"]]], r"type \['string'\]; the first had \['double'\]"),
        ("t.csv", ["a"], [[[1]], [[0.5]]], r"type \['double'\]; the first had \['int64'\]"),
        ("t.csv", ["a"], [[[1j]]], "numbers up to double precision, or texts"),
        ("t.csv", ["a"], [[np.array([object()])]], "must hold texts, or None"),
    ],
)
def test_refusals_write_nothing(tmp_path, name, names, blocks, message):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidInput, match=message):
        write_table(tmp_path / name, names, blocks)
    assert [p.name for p in tmp_path.iterdir()] == ["folder.csv"]


@pytest.mark.skipif(sys.platform == "win32", reason="links, permissions")
def test_links_are_followed_and_the_umask_holds(tmp_path):
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_text("older")
    link.symlink_to(real)
    before = os.umask(0o027)
    try:
        write_table(link, ["a"], [[[1.5]]])
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert real.read_text() == "a\n1.5\n"
    assert real.stat().st_mode & 0o777 == 0o640


def test_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependency, match="need pyarrow: install the extra 'data'"):
        write_table(tmp_path / "t.csv", ["a"], [[[1.0]]])
    assert list(tmp_path.iterdir()) == []
