"""A first look at a table: how it is written and what is in it, also where it is messy."""

import gzip
import tracemalloc
from datetime import timedelta
from decimal import Decimal

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pytest

from privest.data import Format
from privest.data.source import open_source
from privest.errors import InvalidInput
from workflow_tables import look_at


@pytest.fixture
def written(tmp_path):
    def write(content, name="people.csv", encoding="utf-8"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return path

    return write


def kinds(found):
    return [column.kind for column in found.columns]


def test_semicolons_decimal_commas_and_a_mark_at_the_start(written):
    found = look_at(
        written("\ufeffage;bmi;sex;day\n50;1,5;m;2024-01-02\n61;2,25;f;3.5.2023\n;;;\n")
    )
    assert found.rows == 3
    assert found.format == Format(separator=";", decimal=",")
    assert kinds(found) == ["number", "number", "text", "date"]
    assert [column.missing for column in found.columns] == [1, 1, 1, 1]
    assert found.columns[2].different == ("f", "m")
    assert found.notes == ()


def test_what_was_found_reads_the_same_table(written):
    path = written("bmi;x\n1,5;1\n2,25;2\n")
    assert open_source(path, look_at(path).format).read(["bmi"])["bmi"].tolist() == [1.5, 2.25]


def test_what_is_stated_is_not_found_again(written):
    path = written("a;b\n1,5;x\n2,5;y\n")
    assert look_at(path, Format(decimal=".")).columns[0].kind == "text"
    assert look_at(path, Format(encoding="utf-8", decimal=",")).columns[0].kind == "number"
    with pytest.raises(InvalidInput, match="have commas between them"):
        look_at(path, Format(separator=","))


@pytest.mark.parametrize(
    ("cells", "mark"),
    [
        (["1,5", "2"], ","),
        (["0,125", "0,250"], ","),
        (["1,234", "5,678"], None),  # thousands, perhaps: it is said
        (["1.5", "2"], None),
        (["a, b", "c"], None),
        (["1,5", "two"], ","),
        (["1,5", "2,5", "3", "4,5", "REFUSED"], ","),
    ],
)
def test_the_decimal_comma_needs_clear_evidence(written, cells, mark):
    found = look_at(written("x;y\n" + "".join(f"{cell};1\n" for cell in cells)))
    assert found.format.decimal == mark
    assert any("decimal commas" in note for note in found.notes) == (cells[0] == "1,234")


def test_points_and_commas_in_one_file_are_not_decided(written):
    found = look_at(written("x;y\n1,5;1.5\n2,5;2.5\n"))
    assert found.format.decimal is None
    assert any("decimal commas" in note for note in found.notes)


def test_quoted_decimal_commas_between_commas(written):
    path = written('x,y\n"1,5",2\n"2,5",3\n')
    found = look_at(path)
    assert found.format.decimal == ","
    assert found.columns[0].kind == "number"
    assert open_source(path, found.format).read(["x"])["x"].tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    ("encoding", "found"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", None),  # by its mark
        ("latin-1", "cp1252"),
        ("cp1252", "cp1252"),
    ],
)
def test_alphabets(written, encoding, found):
    text = "name,value\n" + "Zoë,1\n" * 3000 + "Müller,2\n"
    seen = look_at(written(text, encoding=encoding))
    assert seen.format.encoding == found
    assert seen.columns[0].different == ("Müller", "Zoë")
    assert any("not UTF-8" in note for note in seen.notes) == (found == "cp1252")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16-le"])
def test_an_encoding_that_is_not_found_is_to_be_stated(written, encoding):
    path = written("name,value\nZo\u0081,1\n", encoding=encoding)
    with pytest.raises(InvalidInput, match="state the `encoding`"):
        look_at(path)
    assert look_at(path, {"encoding": encoding}).columns[0].different == ("Zo\u0081",)


def test_an_alphabet_may_show_only_at_the_end(written):
    seen = look_at(written(b"name,value\n" + b"Ann,1\n" * 200_000 + b"Zo\xeb,2\n"))
    assert (seen.format.encoding, seen.rows) == ("cp1252", 200_001)


def test_names_with_line_ends_twice_or_none(written):
    found = look_at(written('"age\n(years)",a,a,,<b>\n1,2,3,,x\n2,3,4,,y\n'))
    assert [column.name for column in found.columns] == ["age\n(years)", "a", "a", "", "<b>"]
    problems = [column.problem for column in found.columns]
    assert problems[0] is None
    assert problems[4] is None
    assert "same name" in problems[1]
    assert "same name" in problems[2]
    assert "no name" in problems[3]


def test_a_separator_at_the_end_of_every_line_makes_a_column_without_name(written):
    found = look_at(written("x;y;\n1;2;\n3;4;\n"))
    assert [column.problem is None for column in found.columns] == [True, True, False]


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        ("", "a.csv", "is empty"),
        ("1,2\n3,4\n", "a.csv", "must name the columns"),
        ("x;y\n1;2;\n", "a.csv", "add one to the first line"),
        ("Report\n\na,b\n1,2\n", "a.csv", "Lines above the column names must be deleted"),
        ("a,a\n1,2\n", "a.csv", "each needs a name of its own"),
        (b"PK\x03\x04rest", "a.csv", "binary data"),
        (b"PAR1rest", "a.txt", "binary data"),
        (b"\x1f\x8brest", "a.csv", "binary data"),
        (b"\x00\x01\x02rest", "a.csv", "binary data"),
        (b"not packed", "a.csv.gz", "damaged"),
        (b"not a book", "a.xlsx", "not an .xlsx workbook"),
        (b"not a table", "a.parquet", "not a Parquet file"),
        ("x", "a.doc", "a table can be .csv"),
        ("x", "a.xls", "Save it as .csv"),
    ],
)
def test_what_is_no_table_gets_a_sentence(written, content, name, said):
    with pytest.raises(InvalidInput, match=said):
        look_at(written(content, name))


def test_a_table_without_rows_is_said_to_be_one(written):
    found = look_at(written("x,y\n"))
    assert found.rows == 0
    assert "no rows" in found.notes[0]


def test_one_column_and_names_that_are_numbers_are_mentioned(written):
    assert "Only one column" in look_at(written("x\n1\n")).notes[0]
    assert "1 of the 2 names" in look_at(written("ann,35\nbob,36\n")).notes[0]


def test_yes_and_no(written):
    found = look_at(written("flag,given,word\ntrue,1,yes\nFALSE,0,no\n,1.0,yes\n"))
    assert kinds(found) == ["yes-no", "yes-no", "yes-no"]
    assert found.columns[1].different == ("0", "1")


def test_a_few_words_among_numbers_are_perhaps_missing_values(written):
    lines = [f"{k},{k % 7}\n" for k in range(50)]
    found = look_at(written("x,y\n" + "".join(lines) + "REFUSED,1\nREFUSED,2\n<0.5,3\n"))
    column = found.columns[0]
    assert column.kind == "number"
    assert [(code.code, code.rows, code.plain, code.word) for code in column.codes] == [
        ("REFUSED", 2, True, True), ("<0.5", 1, False, True),
    ]  # fmt: skip


def test_mostly_words_are_a_text_and_unknown_may_be_a_category(written):
    found = look_at(written("g\n" + "a\nb\nunknown\n1\n" * 5))
    column = found.columns[0]
    assert column.kind == "text"
    assert column.different == ("1", "a", "b", "unknown")
    assert column.codes == ()


def test_many_different_texts_make_no_list(written):
    found = look_at(written("id\n" + "".join(f"p{k}\n" for k in range(200))))
    assert found.columns[0].different is None
    assert found.columns[0].kind == "text"


def test_many_dates_are_dates_until_one_is_not(written):
    days = [str(day)[:10] for day in np.arange("2020-01-01", "2020-06-01", dtype="M8[D]")]
    assert kinds(look_at(written("day\n" + "\n".join(days)))) == ["date"]
    assert kinds(look_at(written("day\n" + "\n".join([*days, "soon"])))) == ["text"]
    assert kinds(look_at(written("day\n" + "\n".join(["soon", *days])))) == ["text"]


def test_codes_that_are_given_are_missing(written):
    path = written("x,y\n1,a\n2,b\n999,?\n")
    found = look_at(path, Format(missing_codes=("x=999", "?")))
    assert [column.missing for column in found.columns] == [1, 1]
    assert found.columns[0].codes == ()
    assert found.format.missing_codes == ("x=999", "?")


def test_a_workbook_and_its_sheets(tmp_path):
    book = openpyxl.Workbook()
    book.active.title = "first"
    book.active.append(["age", "day"])
    book.active.append([50, pd.Timestamp("2024-01-02").to_pydatetime()])
    other = book.create_sheet("second")
    other.append(["x"])
    other.append([1.5])
    book.save(tmp_path / "a.xlsx")
    found = look_at(tmp_path / "a.xlsx")
    assert (found.sheets, found.format) == (("first", "second"), Format())
    assert kinds(found) == ["number", "date"]
    assert look_at(tmp_path / "a.xlsx", {"sheet": "second"}).columns[0].name == "x"


FRAME = {"x": [1.5, None, 3.0], "g": ["a", "b", None], "ok": [True, False, True]}


def test_every_kind_of_table_is_seen_alike(tmp_path):
    frame = pd.DataFrame(FRAME)
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.tsv", sep="\t", index=False)
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        frame.to_csv(file, index=False)
    every = [
        look_at(given)
        for given in (
            tmp_path / "a.parquet", tmp_path / "a.tsv", tmp_path / "a.csv.gz", frame,
            pl.DataFrame(FRAME), FRAME,
        )
    ]  # fmt: skip
    for found in every:
        assert kinds(found) == ["number", "text", "yes-no"], found.name
        assert [column.missing for column in found.columns] == [1, 1, 0]
        assert found.columns[0].different in (("1.5", "3"), ("1.5", "3.0"))
        assert found.rows == 3


def test_lists_in_a_parquet_file_are_one_column_that_cannot_be_used(tmp_path):
    frame = pd.DataFrame({"x": [1.0, 2.0], "many": [[1], [2, 3]]})
    frame.to_parquet(tmp_path / "a.parquet")
    found = look_at(tmp_path / "a.parquet")
    assert found.columns[0].problem is None
    assert "not texts" in found.columns[1].problem


@pytest.mark.parametrize("kind", ["pandas", "polars", "parquet"])
def test_what_is_seen_as_numbers_is_read_as_such(tmp_path, kind):
    """By its type, not by what its texts look like; Arrow writes durations as whole numbers."""
    frame = pl.DataFrame({
        "digits": ["1.0", "2.5"], "took": [timedelta(1), timedelta(2)], "flag": [True, False],
        "cents": [Decimal("1.5"), None], "whole": [1, 2], "raw": [b"1", b"0"],
    })  # fmt: skip
    frame.write_parquet(tmp_path / "a.parquet")
    given = {"pandas": frame.to_pandas, "polars": lambda: frame,
             "parquet": lambda: tmp_path / "a.parquet"}[kind]()  # fmt: skip
    found = {column.name: column for column in look_at(given).columns}
    for name, column in found.items():
        if column.kind in ("number", "yes-no"):
            next(open_source(given).blocks([name]))
        else:
            with pytest.raises(InvalidInput):
                next(open_source(given).blocks([name]))
    assert found["digits"].different == ("1.0", "2.5")
    assert {name for name, one in found.items() if one.kind == "number"} == {"cents", "whole"}
    assert kind != "parquet" or "duration" in found["took"].problem


def test_the_embedded_table():
    found = look_at("diabetes")
    assert found.rows == 442
    assert [column.name for column in found.columns] == ["age", "sex", "bmi", "bp", "s5"]
    assert found.to_dict()["columns"][1]["kind"] == "yes-no"


def test_long_cells_are_shortened(written):
    found = look_at(written("x,y\n" + "a" * 5000 + ",1\n"))
    assert len(found.columns[0].different[0]) == 200


def test_memory_does_not_grow_with_the_table(written):
    """Python's own memory: three times the rows, the same peak within a block."""
    line = "Ann,1.25,2024-01-02,77\n"
    peaks = []
    for rows in (400_000, 1_200_000):
        path = written("name,x,day,y\n" + line * rows, f"{rows}.csv")
        look_at(path)  # what is loaded at first
        tracemalloc.start()
        look_at(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        path.unlink()
    assert peaks[1] < 1.5 * peaks[0] < 48 << 20
