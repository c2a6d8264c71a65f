"""Tables as people have them: what is read, and the message where it is not."""

import pytest

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


def test_marks_between_thousands_are_refused(run):
    table(THOUSANDS)
    done = release(run)
    assert done.code == 2
    assert "commas between thousands: remove them" in said(done)
    assert not any(text in said(done) for text in THOUSANDS)
    done = run("plan", "t.csv", *PLAN, "--features", "age", "--format", "thousands=,")
    assert (done.code, "'thousands' is not known" in said(done)) == (2, True)


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (["1.5", "<0.5", "2", "3"], "not a number; correct it, state it in"),
        (["1,5", "2,5", "3,5", "4,5"], "state the `decimal` mark"),
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
