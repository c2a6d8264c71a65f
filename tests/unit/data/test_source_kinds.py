"""Files as they are: separators, decimal commas, alphabets, codes, workbooks, dates, names."""

import datetime
import gzip
import threading
import unicodedata
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pytest

from privest.data import Format
from privest.data.features import Features
from privest.data.rows import read_rows
from privest.data.source import open_source
from privest.errors import InvalidInput

ROWS = [["Größe, cm", "sex", "ldl"], [181.5, "männlich", 3.25], [None, "weiblich", 77777.0]]
WANTED = {"Größe, cm": [181.5, np.nan], "ldl": [3.25, np.nan], "sex": ["männlich", "weiblich"]}


def as_text(separator, decimal):
    def cell(value):
        text = "" if value is None else str(value)
        text = text.replace(".", decimal) if isinstance(value, float) else text
        return f'"{text}"' if separator in text else text

    return "".join(separator.join(map(cell, row)) + "\r\n" for row in ROWS)


def sheet(path, rows, title="data", more=()):
    book = openpyxl.Workbook()
    for name in more:
        book.create_sheet(name)
    book.active.title = title
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def require_wanted(source, wanted=WANTED):
    found = next(source.blocks(list(wanted), text=["sex"]))
    for name, values in wanted.items():
        if name == "sex":
            assert found[name].tolist() == values
        else:
            np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252", "latin-1"]
)
@pytest.mark.parametrize(
    ("separator", "decimal"), [(",", "."), (";", ","), ("\t", ","), ("|", "."), (";", ".")]
)
def test_text_files_as_they_are(tmp_path, separator, decimal, encoding):
    path = tmp_path / "people.csv"
    path.write_bytes(as_text(separator, decimal).encode(encoding))
    stated = encoding if encoding in ("cp1252", "latin-1") else None
    found = Format(decimal=decimal, encoding=stated, missing_codes=("77777",))
    require_wanted(open_source(path, found))
    require_wanted(open_source(path, {**found.to_dict(), "separator": separator}))


def test_names_of_files_tell_their_kind(tmp_path):
    for name in ("people.tsv", "people.txt", "PEOPLE.TXT.GZ"):
        data = as_text("\t", ".").encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith("GZ") else data)
        require_wanted(open_source(path, Format(missing_codes=("77777",))))
    one = tmp_path / "one.tsv"
    one.write_text("a,b;c\n1\n2\n")  # a single column, whatever its name holds
    assert open_source(one).columns == ("a,b;c",)


def test_a_comma_is_taken_where_it_fits(tmp_path):
    path = tmp_path / "a.csv"
    for text, columns in [
        ("a;b,c\n1;2,3\n", ("a;b", "c")),
        ("a, mg;b;c\n1,5;2;3\n", ("a, mg", "b", "c")),
        ("a;b\n", ("a", "b")),
        ("a\n1\n", ("a",)),
        ("a|b\n1|2\n", ("a", "b")),
    ]:
        path.write_text(text)
        assert open_source(path).columns == columns


def test_long_files_in_another_alphabet_are_read_in_pieces(tmp_path):
    rows = 200_000
    x = np.arange(rows) / 4
    path = tmp_path / "long.csv"
    frame = pd.DataFrame({"größe": x, "wort": "ä"})
    frame.to_csv(path, index=False, encoding="utf-16", sep=";", decimal=",")
    found = open_source(path, Format(decimal=","))
    for _ in range(2):
        np.testing.assert_array_equal(found.read(["größe"])["größe"], x)


def test_codes_of_every_column_and_of_one(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b,c\n77777,999,x\n7,77777.0,REFUSED\nREFUSED,5,999\n")
    found = open_source(path, Format(missing_codes=("77777", "b=999", "REFUSED")))
    block = next(found.blocks(["a", "b", "c"], text=["c"]))
    np.testing.assert_array_equal(block["a"], [np.nan, 7, np.nan])
    np.testing.assert_array_equal(block["b"], [np.nan, np.nan, 5])
    assert block["c"].tolist() == ["x", None, "999"]


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame])
def test_codes_in_frames_leave_the_frame_as_it_is(kind):
    table = {"a": np.array([1.0, 9.0]), "b": np.array(["x", "9.0"])}
    given = kind(table)
    found = next(open_source(given, Format(missing_codes=("9",))).blocks(["a", "b"], text=["b"]))
    np.testing.assert_array_equal(found["a"], [1, np.nan])
    assert found["b"].tolist() == ["x", None]
    np.testing.assert_array_equal(given["a"], [1.0, 9.0])


def test_a_mistyped_column_of_a_code_is_refused():
    with pytest.raises(InvalidInput, match=r"no column 'bim'. Did you mean 'bmi'"):
        open_source({"bmi": [1.0]}, Format(missing_codes=("bim=9",)))


def test_dropped_rows_count_codes():
    table = {"a": [1.0, 2.0, 99.0], "y": [1.0, 2.0, 3.0]}
    source = open_source(table, Format(missing_codes=("99",)))
    (block,) = read_rows(source, Features(("a",)), ["y"], missing="drop")
    assert (len(block), block.dropped) == (2, 1)


# --- workbooks ------------------------------------------------------------------------------------


def test_a_workbook(tmp_path):
    path = sheet(tmp_path / "p.xlsx", [[], *ROWS, [None, None, None]], more=["Notes"])
    for stated in (
        Format(missing_codes=("77777",)),
        Format(sheet="data", missing_codes=[77777]),
    ):
        require_wanted(open_source(path, stated))
    with pytest.raises(InvalidInput, match=r"no sheet 'dta'. There are: 'data', "):
        open_source(path, Format(sheet="dta"))


def test_cells_of_a_workbook(tmp_path):
    rows = [["n", "t"], ["1,5", 1.0], [True, 2.5], [" 3 ", "x "], [None, None], [2, "NA"]]
    path = sheet(tmp_path / "p.xlsx", rows)
    block = next(open_source(path, Format(decimal=",")).blocks(["n", "t"], text=["t"]))
    np.testing.assert_array_equal(block["n"], [1.5, 1, 3, 2])  # the blank row does not count
    assert block["t"].tolist() == ["1", "2.5", "x", None]
    with pytest.raises(InvalidInput, match="column 'n', row 1: not a number"):
        list(open_source(path).blocks(["n"]))


def test_formulas_have_the_value_stored_with_them(tmp_path):
    path = sheet(tmp_path / "p.xlsx", [["a", "b"], [2, "=A2*2"]])
    with zipfile.ZipFile(path) as book:
        parts = {name: book.read(name) for name in book.namelist()}
    name = "xl/worksheets/sheet1.xml"
    parts[name] = parts[name].replace(b"<f>A2*2</f><v />", b"<f>A2*2</f><v>4</v>")
    parts[name] = parts[name].replace(b"<f>A2*2</f><v></v>", b"<f>A2*2</f><v>4</v>")
    with zipfile.ZipFile(path, "w") as book:
        for part, data in parts.items():
            book.writestr(part, data)
    assert open_source(path).read(["b"])["b"].tolist() == [4.0]


def test_a_workbook_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("privest.data.xlsx.ROWS", 7)
    path = sheet(tmp_path / "p.xlsx", [["a"], *([k] for k in range(40))])
    source = open_source(path)
    for _ in range(2):
        assert source.read(["a"])["a"].tolist() == list(range(40))
    assert [len(b["a"]) for b in source.blocks(["a"], size=5)] == [5, 2] * 5 + [5]


def test_a_sheet_has_a_size(tmp_path, monkeypatch):
    path = sheet(tmp_path / "p.xlsx", [["a"], ["1"] * 9000])
    monkeypatch.setattr("privest.data.xlsx.LARGEST", 1 << 17)
    with pytest.raises(InvalidInput, match=r"save the table as .csv or .parquet"):
        open_source(path)


@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"a,b\n1,2\n"])
def test_what_is_no_workbook(tmp_path, content):
    path = tmp_path / "p.xlsx"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"p.xlsx is damaged, or not an .xlsx workbook"):
        open_source(path)


def test_openpyxl_says_nothing_of_a_cell_in_any_thread(tmp_path):
    """Its warnings hold what is in a cell. One thread is done while another still reads."""
    path = sheet(tmp_path / "a.xlsx", [["y"], [918273645.5]])
    book = openpyxl.load_workbook(path)
    book.active["A2"].number_format = "yyyy-mm-dd"  # no date is so late
    book.save(path)
    source = open_source(path)
    rows = openpyxl.load_workbook(path, read_only=True).active.iter_rows(2, values_only=True)
    begun, both, alone = (threading.Event() for _ in range(3))

    def first():
        source._asked(lambda: (begun.set(), both.wait(9)))
        alone.set()

    def second():
        begun.wait(9)
        return source._asked(lambda: (both.set(), alone.wait(9), next(rows)))

    with warnings.catch_warnings(record=True) as heard, ThreadPoolExecutor(2) as pool:
        warnings.simplefilter("always")
        pool.submit(first)
        assert pool.submit(second).result() == (None, True, ("#VALUE!",))
    assert heard == []


def test_an_empty_sheet_and_a_part_too_large(tmp_path, monkeypatch):
    with pytest.raises(InvalidInput, match="is empty: a table has a row of column names"):
        open_source(sheet(tmp_path / "e.xlsx", []))
    monkeypatch.setattr("privest.data.xlsx.HELD_WHOLE", 100)
    with pytest.raises(InvalidInput, match=r"save the table as .csv or .parquet"):
        open_source(tmp_path / "e.xlsx")
    with pytest.raises(InvalidInput, match=r"Save it as .csv or .xlsx."):
        open_source(tmp_path / "old.xls")


# --- dates, names, categories ---------------------------------------------------------------------

DAYS = [datetime.date(2024, 3, 1), datetime.date(2024, 3, 2)]


def dated(tmp_path):
    frame = pd.DataFrame({"day": pd.to_datetime(DAYS)})
    frame.to_parquet(tmp_path / "d.parquet")
    pl.DataFrame({"day": DAYS}).write_csv(tmp_path / "d.csv")
    return {
        "csv": tmp_path / "d.csv",
        "parquet": tmp_path / "d.parquet",
        "xlsx": sheet(tmp_path / "d.xlsx", [["day"], *([day] for day in DAYS)]),
        "pandas": frame,
        "objects": pd.DataFrame({"day": pd.Series(DAYS, dtype=object)}),
        "polars": pl.DataFrame({"day": DAYS}),
        "numpy": {"day": np.array(DAYS, dtype="datetime64[D]")},
    }


@pytest.mark.parametrize("kind", ["csv", "parquet", "xlsx", "pandas", "objects", "polars", "numpy"])
def test_dates_are_refused_with_a_hint(tmp_path, kind):
    source = open_source(dated(tmp_path)[kind])
    with pytest.raises(InvalidInput, match="give the year, or the days since a public day") as said:
        list(source.blocks(["day"]))
    assert "2024" not in str(said.value)


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame])
def test_names_and_categories_as_people_see_them(kind):
    apart = unicodedata.normalize("NFD", "größe")
    source = open_source(
        kind({apart: [1.0, 2.0], "wo": [unicodedata.normalize("NFD", "Köln"), "x"]})
    )
    features = Features(("größe", "wo"), {"wo": ("x", "Köln")})
    (block,) = read_rows(source, features)
    assert block.H.tolist() == [[1, 1, 1], [1, 2, 0]]
    twice = open_source({"größe": [1.0], apart: [2.0]})
    with pytest.raises(InvalidInput, match="more than one column called 'größe': rename"):
        twice.read(["größe"])


@pytest.mark.parametrize(
    ("asked", "there"),
    [("body mass", "Body_Mass"), ("grosse", "Größe"), ("Alter", "alter "), ("sexe", "sex")],
)
def test_did_you_mean(asked, there):
    with pytest.raises(InvalidInput, match=f"Did you mean '{there}'"):
        open_source({there: [1.0], "w": [2.0]}).read([asked])


@pytest.mark.parametrize("first", ["Maier;1,5;ldl", "Maier;2024-03-01;ldl", "Maier;3.5;ldl"])
def test_a_first_line_that_may_be_a_person_is_not_shown(tmp_path, first):
    path = tmp_path / "p.csv"
    path.write_text(f"{first}\n{first}\n")
    sheet(tmp_path / "p.xlsx", [first.split(";")] * 2)
    for file in (path, tmp_path / "p.xlsx"):
        with pytest.raises(InvalidInput, match="'ldl2'; its first line names 3 columns") as said:
            open_source(file).read(["ldl2"])
        assert "Maier" not in str(said.value)


def test_a_category_but_for_its_capitals():
    source = open_source({"sex": ["Female", "male"]})
    with pytest.raises(InvalidInput, match="capital letters are not those of 'female'"):
        list(read_rows(source, Features(("sex",), {"sex": ("female", "male")})))
    with pytest.raises(InvalidInput, match="not in the public list of 2") as said:
        list(read_rows(source, Features(("sex",), {"sex": ("man", "woman")})))
    assert "emale" not in str(said.value)
    with pytest.raises(InvalidInput, match=r"given for .* Did you mean 'sex'"):
        Features(("sex",), {"sx": ("a", "b")})


def test_an_open_source_is_read_as_it_was_opened():
    source = open_source({"a": [1.0]})
    assert open_source(source) is source
    with pytest.raises(InvalidInput, match="is open already"):
        open_source(source, Format(missing_codes=("9",)))
