"""Sources of every kind give the same blocks; what is not a source is refused."""

import datetime
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from privest.data import load_diabetes
from privest.data.frames import Table
from privest.data.source import open_source
from privest.errors import InvalidInput, MissingDependency

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pq = pytest.importorskip("pyarrow.parquet")

X = [1.5, None, -2.0, 0.0]
N = [3, 4, None, 6]
B = [True, False, None, True]
S = ["u", None, "v w", "u"]


def as_csv(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,n,b,s\n1.5,3,true,u\n,4,false,\n-2,,,v w\n0.0,6,True,u\n")
    return path


def as_parquet(tmp_path, encoded=False, row_group_size=3):
    s = pa.array(S).dictionary_encode() if encoded else pa.array(S)
    table = pa.table({"x": pa.array(X), "n": pa.array(N), "b": pa.array(B), "s": s})
    pq.write_table(table, tmp_path / "t.Parquet", row_group_size=row_group_size)
    return tmp_path / "t.Parquet"


def as_arrow_frame(_):
    frame = pd.DataFrame({"x": X, "n": N, "b": B, "s": S})
    return frame.convert_dtypes(dtype_backend="pyarrow")


KINDS = {
    "csv": as_csv,
    "parquet": as_parquet,
    "parquet, dictionary": lambda p: as_parquet(p, encoded=True),
    "pandas objects": lambda _: pd.DataFrame({"x": X, "n": N, "b": B, "s": S}, dtype=object),
    "pandas nullable": lambda _: pd.DataFrame(
        {
            "x": pd.array(X, "Float64"),
            "n": pd.array(N, "Int64"),
            "b": pd.array(B, "boolean"),
            "s": pd.array(S, "string"),
        },
        index=[7, 7, 7, 7],
    ),
    "pandas arrow": as_arrow_frame,
    "pandas categorical": lambda _: pd.DataFrame(
        {"x": X, "n": pd.Categorical(N), "b": pd.Categorical(B), "s": pd.Categorical(S)}
    ),
    "polars": lambda _: pl.DataFrame({"x": X, "n": N, "b": B, "s": S}),
    "polars categorical": lambda _: pl.DataFrame({"x": X, "n": N, "b": B, "s": S}).cast(
        {"s": pl.Categorical, "n": pl.UInt8, "x": pl.Float32}
    ),
    "arrays": lambda _: {"x": np.array(X, float), "n": N, "b": B, "s": S},
    "pandas NA in arrays": lambda _: {
        "x": X, "n": [3, 4, pd.NA, 6], "b": B, "s": ["u", pd.NA, " v w", "u"],
    },
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_same_blocks(tmp_path, kind, size):
    source = open_source(KINDS[kind](tmp_path))
    assert source.columns == ("x", "n", "b", "s")
    assert open_source(source) is source
    for _ in range(2):
        blocks = list(source.blocks(["s", "b", "x", "n"], text=["s"], size=size))
        assert all(list(block) == ["s", "b", "x", "n"] for block in blocks)
        assert all(1 <= len(block["x"]) <= size for block in blocks)
        whole = {name: np.concatenate([b[name] for b in blocks]) for name in source.columns}
        for name in "xnb":
            assert whole[name].dtype == np.float64
        np.testing.assert_array_equal(whole["x"], [1.5, np.nan, -2.0, 0.0])
        np.testing.assert_array_equal(whole["n"], [3, 4, np.nan, 6])
        np.testing.assert_array_equal(whole["b"], [1, 0, np.nan, 1])
        assert whole["s"].dtype == object
        assert whole["s"].tolist() == ["u", None, "v w", "u"]


@pytest.mark.parametrize("kind", KINDS)
def test_text_among_numbers_is_refused_with_its_column(tmp_path, kind):
    source = open_source(KINDS[kind](tmp_path))
    with pytest.raises(
        InvalidInput, match=r"column 's'.*not (a )?number.*list of categories"
    ) as no:
        list(source.blocks(["s"]))
    assert "v w" not in str(no.value)
    assert source.name in str(no.value)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_as_texts(tmp_path, kind):
    """For categories whose names are numbers. 3 may be written 3.0: `Features` knows them equal."""
    (block,) = open_source(KINDS[kind](tmp_path)).blocks(["n"], text=["n"])
    assert [None if t is None else float(t) for t in block["n"].tolist()] == [3.0, 4.0, None, 6.0]


def test_other_column_types_of_frames():
    when = [datetime.date(2020, 1, 1)] * 2
    odd = {"d": when, "l": [[1], [2]], "ok": [2**60 + 1, 1]}
    table = pa.table(
        odd | {"e": pa.array([None, None]), "m": pa.array([1, 2]).cast(pa.decimal128(20, 1))}
    )
    for frame in (table.to_pandas(), pl.from_arrow(table)):
        source = open_source(frame)
        for name in "dl":
            with pytest.raises(InvalidInput, match=f"frame, column '{name}'.*not (a )?number"):
                list(source.blocks([name]))
        with pytest.raises(InvalidInput, match="frame, column 'l'"):
            list(source.blocks(["l"], text=["l"]))
        (block,) = source.blocks(["e", "m", "ok"])
        assert np.isnan(block["e"]).all()
        assert block["m"].tolist() == [1.0, 2.0]
        assert block["ok"].tolist() == [2.0**60, 1.0]  # rounded to a double, as in a CSV file


def test_parquet_types_and_damage(tmp_path):
    path = tmp_path / "t.parquet"
    table = pa.table({
        "d": [datetime.date(2020, 1, 1)], "l": [[1]], "e": pa.nulls(1),
        "m": pa.array([1.5], "float32"), "t": pa.array(["x"], "large_string"), "a.b": [1],
    })  # fmt: skip
    pq.write_table(table, path)
    source = open_source(path)
    for name in "dlt":
        with pytest.raises(
            InvalidInput, match=rf"t.parquet, column '{name}' holds .*, not numbers"
        ):
            list(source.blocks([name]))
    with pytest.raises(InvalidInput, match="column 'l' holds list"):
        list(source.blocks(["l"], text=["l"]))
    (block,) = source.blocks(["e", "m", "a.b", "t", "d"], text=["t", "d"])
    assert np.isnan(block["e"][0])
    assert (block["m"][0], block["a.b"][0], block["t"].tolist()[0]) == (1.5, 1.0, "x")
    whole = path.read_bytes()
    for damaged in (b"", b"PAR1", whole[:-20], b"a,b\n1,2\n"):
        path.write_bytes(damaged)
        with pytest.raises(InvalidInput, match=r"t.parquet is damaged, or not a Parquet file"):
            open_source(path)


def test_the_embedded_table_and_tables():
    source = open_source("diabetes")
    assert (source.name, source.columns) == ("diabetes", ("age", "sex", "bmi", "bp", "s5"))
    (block,) = source.blocks(["s5", "bmi"])
    table = load_diabetes()
    np.testing.assert_array_equal(block["s5"], table.response)
    np.testing.assert_array_equal(block["bmi"], table.features[:, 2])
    source = open_source(Table(np.ones(2), np.array([[3.0], [4.0]]), "y", ("a",), "mine"))
    assert (source.name, source.columns) == ("mine", ("a", "y"))
    assert next(source.blocks(["a"]))["a"].tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("-", "standard input can be read only once, and a plan reads its data more often"),
        (
            "t.json",
            r"a table can be .csv, .tsv, .txt \(these also .gz or .xz\), .parquet, .xlsx",
        ),
        ("nowhere/t.csv", r"nowhere/t.csv does not exist: name a .csv file"),
        ([1, 2], "received list"),
        (pl.LazyFrame({"a": [1]}), r"not a LazyFrame"),
        ({"a": [1], "b": [1, 2]}, r"vectors of one length; received shapes \[\(1,\), \(2,\)\]"),
        ({}, "one or more columns"),
        ({"a": [[1.0]]}, "must have one or more columns that are vectors"),
        ({"a": np.ma.array([1.0], mask=[True])}, "masked array: write NaN"),
    ],
)
def test_what_is_not_a_source(data, message):
    with pytest.raises(InvalidInput, match=message):
        open_source(data)


def test_a_folder_is_not_a_table(tmp_path):
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(InvalidInput, match=r"t.csv is not a file"):
        open_source(tmp_path / "t.csv")


def test_what_is_asked_for_is_checked_before_reading():
    source = open_source({"a": [1.0], "b": ["x"]})
    for columns, options, message in (
        (["a", "c", "d"], {}, "the table has no column 'c', 'd'. There are 'a', 'b'"),
        ([], {}, "must be a list"),
        ("a", {}, "must be a list"),
        (["a"], {"text": ["b"]}, "text part of it"),
    ):
        with pytest.raises(InvalidInput, match=message):
            source.blocks(columns, **options)  # not yet iterated
    with pytest.raises(InvalidInput, match="more than one column called 'a'"):
        open_source(pd.DataFrame([[1, 2]], columns=["a", "a"])).blocks(["a"])


@pytest.mark.parametrize(("name", "module"), [("t.csv", "pyarrow"), ("t.parquet", "pyarrow")])
def test_the_extra_is_named(tmp_path, monkeypatch, name, module):
    path = tmp_path / name
    path.write_text("a\n1\n")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependency, match=rf"need {module}: install the extra 'data'"):
        list(open_source(path).blocks(["a"]))


def test_importing_and_arrays_need_none_of_them():
    code = """
        import sys
        from privest.data.features import Features
        from privest.data.rows import read_rows
        from privest.data.source import open_source
        next(read_rows(open_source({"a": [1.0, 2.0]}), Features(("a",))))
        loaded = {"pyarrow", "pandas", "polars", "pyreadstat"} & set(sys.modules)
        assert not loaded, loaded
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_memory_does_not_grow_with_the_rows(tmp_path, ending):
    """Ten times the rows (20 and 200 MB as CSV): the peak of a fresh process stays where it was.

    As numbers the larger table has 77 MB, as text 200 MB; 25 MB is for what the allocators keep.
    """
    code = """
        import resource, sys
        from privest.data.features import Features
        from privest.data.rows import read_rows
        from privest.data.source import open_source
        from privest.data.writer import write_table
        features = Features(tuple("abcd"))
        blocks = read_rows(open_source(sys.argv[1]), features, ["e"])
        parts = ([*b.H.T, *b.targets.T] for b in blocks)
        rows = write_table(sys.argv[2], [*features.names, "z"], parts)
        print(rows, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    """
    from privest.data.writer import write_table

    rng = np.random.default_rng(1)
    peak = {}
    for rows in (200_000, 2_000_000):
        path = tmp_path / f"{rows}.{ending}"
        parts = (rng.standard_normal((5, 50_000)) for _ in range(rows // 50_000))
        assert write_table(path, ["a", "b", "c", "d", "e"], parts) == rows
        found = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), path, tmp_path / f"out.{ending}"],
            check=True, capture_output=True, text=True,
        ).stdout.split()  # fmt: skip
        assert int(found[0]) == rows
        peak[rows] = int(found[1]) / 1024
    assert peak[2_000_000] - peak[200_000] < 25, peak
