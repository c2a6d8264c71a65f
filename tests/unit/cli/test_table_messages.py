"""Tables as people have them: what is read, and the message where it is not."""

import numpy as np
import pytest

from privest.data import Format
from privest.data.source import open_source
from privest.errors import InvalidInput
from privest.ledger import Ledger
from workflow_command import runner

PLAN = ("--form", "rows", "--target", "pay", "--level", 1)


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return runner(capsys, monkeypatch)


def said(done):
    return " ".join((done.out + done.err).split())


def table(pay, age=("31", "42", "53", "60"), *, name="t.csv"):
    rows = [f'"{one}","{two}"\n' for one, two in zip(age, pay, strict=True)]
    with open(name, "w", encoding="utf-8") as file:
        file.writelines(["age,pay\n", *rows])


THOUSANDS = ("139,750", "98,100", "1,002,300.5", "77,777")


def release(run, *options):
    done = run("plan", "t.csv", *PLAN, "--features", "age", *options, "--save", "p.toml")
    assert done.code == 0, done.err
    return run("release", "p.toml", "--output", "z.csv", "--simulate")


def test_thousands_are_a_stated_format(run):
    table(THOUSANDS)
    done = release(run)
    assert done.code == 2
    assert "commas between thousands: state `thousands`" in said(done)
    assert "decimal" not in said(done)
    assert not any(text in said(done) for text in THOUSANDS)
    run("plan", "t.csv", *PLAN, "--features", "age", "--format", "thousands=,", "--save", "q.toml")
    assert run("release", "q.toml", "--output", "z.csv", "--simulate").code == 0
    source = open_source("t.csv", Format(thousands=","))
    pay = np.concatenate([block["pay"] for block in source.blocks(["pay"])])
    assert pay.tolist() == [139750.0, 98100.0, 1002300.5, 77777.0]


@pytest.mark.parametrize(
    ("mark", "decimal", "text", "value"),
    [
        (",", None, "1,139,750.25", 1139750.25), ("point", ",", "139.750,5", 139750.5),
        ("'", None, "139'750", 139750.0), ("space", ",", "139 750,5", 139750.5),
        ("space", None, "139\u202f750", 139750.0), (",", None, "-1,000", -1000.0),
        (",", None, "0.5", 0.5), (",", None, "1e3", 1000.0), (",", None, "1000", 1000.0),
        (",", None, "1,5", None), (",", None, "1,0000", None), (",", None, "1000,000", None),
        ("point", ",", "1.5", None), ("none", ",", "139,750", 139.75),
    ],
)  # fmt: skip
def test_marks_stand_between_all_thousands_or_none(run, mark, decimal, text, value):
    """The same rule for text files, single texts and workbooks."""
    reading = Format(thousands=mark, decimal=decimal)
    table(["7", text, "8", "9"])
    pd = pytest.importorskip("pandas")
    pd.DataFrame({"pay": ["7", text, "8", "9"]}).to_excel("t.xlsx", index=False)
    assert reading.as_number(text) == pytest.approx(np.nan if value is None else value, nan_ok=True)
    for name in ("t.csv", "t.xlsx"):
        source = open_source(name, reading)
        if value is None:
            with pytest.raises(InvalidInput, match=r"column 'pay', row 2: not a number"):
                list(source.blocks(["pay"]))
        else:
            assert np.concatenate([b["pay"] for b in source.blocks(["pay"])])[1] == value


def test_the_same_mark_cannot_be_both():
    for given in ({"thousands": "."}, {"thousands": ",", "decimal": ","}):
        with pytest.raises(InvalidInput, match="same mark"):
            Format(**given)
    with pytest.raises(InvalidInput, match="one of comma, point, apostrophe, space, none"):
        Format(thousands="_")


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (["1.5", "<0.5", "2", "3"], "not a number; correct it, state it in"),
        (["1,5", "2,5", "3,5", "4,5"], "--format decimal=…"),
    ],
)
def test_a_private_column_that_is_no_number_is_refused_before_anything_is_charged(run, cells, told):
    """By the release: a plan does not read it."""
    table(cells)
    done = run("plan", "t.csv", *PLAN, "--features", "age", "--save", "p.toml")
    assert done.code == 0, done.err
    done = run("release", "p.toml", "--output", "z.csv", "--ledger", "book.db")
    assert done.code == 2
    assert told in said(done)
    assert "<0.5" not in said(done)
    with Ledger("book.db") as ledger:
        assert not [one for one in ledger.history() if one.cost is not None]


def test_a_plan_does_not_read_the_private_column(run):
    """The same plan, to the byte, whatever the column holds."""
    plans = []
    for cells in (
        ["1", "2", "3", "4"],
        ["x", "", "<1", "2024-01-01"],
        ["inf", "nan", "-", "9e999"],
    ):
        table(cells)
        done = run("plan", "t.csv", *PLAN, "--features", "age", "--json")
        assert done.code == 0, done.err
        plans.append(done.out)
    assert len(set(plans)) == 1


@pytest.mark.parametrize("power", ["exper^2", "exper**2", "(exper)^3", "educ + exper ^ 2"])
def test_a_power_of_one_column_is_not_silently_the_column(run, power):
    table(["1", "2", "3", "4"])
    done = run("plan", "t.csv", "--form", "rows", "--formula", f"pay ~ {power}", "--level", 1)
    assert done.code == 2
    assert "I(x**2)" in said(done)


def test_a_simulation_spends_nothing_twice(run):
    table(["1", "2", "3", "4"])
    assert release(run).code == 0
    done = run("release", "p.toml", "--output", "z.csv", "--simulate")
    assert "z.csv exists: choose another name." in said(done)
    assert "privacy again" not in said(done)


def test_small_numbers_and_kinds_in_words(run):
    table(["1", "2", "3", "4"], age=("31", "42", "", "60"))
    done = run("plan", "t.csv", *PLAN, "--features", "age", "--missing", "drop")
    assert "Left out for missing values: 1 row." in said(done)
    assert "1 rows" not in said(done)
    table(["1"], age=["31"])
    done = run("plan", "t.csv", *PLAN, "--features", "age")
    assert "1 row cannot determine 2 coefficients" in said(done)


def test_another_sheet_is_named(run):
    pd = pytest.importorskip("pandas")
    with pd.ExcelWriter("t.xlsx") as book:
        pd.DataFrame({"note": ["see the next sheet"]}).to_excel(
            book, sheet_name="Read me", index=False
        )
        pd.DataFrame({"age": [1, 2, 4], "pay": [3, 4, 6]}).to_excel(
            book, sheet_name="Pay", index=False
        )
    done = run("plan", "t.xlsx", *PLAN, "--features", "age")
    assert done.code == 2
    assert "first sheet was read; there are also 'Pay': state the `sheet`" in said(done)
    assert run("plan", "t.xlsx", *PLAN, "--features", "age", "--format", "sheet=Pay").code == 0
