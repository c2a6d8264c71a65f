"""`plan`, `release`, `estimate`, `report` for a yes or no, counts and pure laws, as people type."""

import numpy as np
import pandas as pd
import pytest

from workflow_command import runner


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    age = rng.uniform(20, 80, 900).round(0)
    ill = (rng.random(900) < 1 / (1 + np.exp(2 - 0.04 * age))).astype(int)
    visits = rng.poisson(np.exp(0.4 + 0.01 * age))
    ldl = (2 + 0.02 * age + 0.5 * rng.normal(size=900)).round(2)
    frame = pd.DataFrame({"age": age, "ill": ill, "visits": visits, "ldl": ldl})
    frame.to_csv("people.csv", index=False)
    return runner(capsys, monkeypatch)


def flat(done):
    return " ".join(done.out.split())


def test_yes_or_no_from_plan_to_report(run, tmp_path):
    done = run(
        "plan", "people.csv", "--form", "rows",
        "--target", "ill", "--features", "age", "--family", "binomial",
        "--epsilon", 2, "--set", "public.expected.ill=0.3", "--save", "plan.toml",
    )  # fmt: skip
    assert done.code == 0, done.err
    said = flat(done)
    for words in (
        "logarithms of odds", "a share of yes of 30%, which is stated", "probability 0.119",
        "at most 88.1% (always the likelier answer: 70%)", "ε = 2 at δ = 0, moderate", "count as",
    ):  # fmt: skip
        assert words in said, words
    done = run("release", "plan.toml", "--output", "z.csv")
    assert done.code == 0, done.err
    assert "ε = 2 (δ = 0)" in done.err
    assert set(pd.read_csv("z.csv")["z"]) == {0, 1}
    done = run("estimate", "z.csv")
    assert done.code == 0, done.err
    assert "ε = 2 (δ = 0)" in flat(done)
    assert "Change of the odds of “ill” for one unit more" in flat(done)
    assert run("verify", "z.csv", "--ledger", "privest-ledger.db").code == 0
    done = run("report", "plan.toml", "z.csv", "--output", "r.html")
    assert done.code == 0, done.err
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "88.1%" in page
    assert "ε adds up" in page
    again = run("release", "plan.toml", "--output", "z2.csv")
    assert again.code == 2
    assert "was released" in again.err


def test_few_rows_are_told_beforehand(run):
    done = run(
        "plan", "people.csv", "--form", "rows",
        "--target", "ill", "--features", "age", "--family", "binomial",
        "--epsilon", 0.5,
    )  # fmt: skip
    assert "That is few: at this ε a logistic regression needs about" in flat(done)
    assert "the errors are for 50% yes, 10% yes and 2% yes." in flat(done)


def test_counts(run):
    done = run(
        "plan", "people.csv", "--form", "rows",
        "--target", "visits", "--features", "age", "--family", "poisson",
        "--level", 0.5, "--set", "public.expected.visits=2", "--save", "p.toml",
    )  # fmt: skip
    assert "for a mean count of 2, which is stated" in flat(done)
    assert run("release", "p.toml", "--output", "p.csv").code == 0
    done = run("estimate", "p.csv")
    assert "Change of the expected number of “visits”" in flat(done)
    assert "HC3" in flat(done)


def test_counts_beyond_a_range_are_said_to_be_clipped(run):
    words = "Values beyond 0 and 2 count as these ends: the estimate is of clipped values."
    done = run(
        "plan", "people.csv", "--form", "rows",
        "--target", "visits", "--features", "age", "--family", "poisson",
        "--level", 0.5, "--set", "public.expected.visits=2", "--range", "0,2", "--save", "p.toml",
    )  # fmt: skip
    assert words in flat(done)
    assert run("release", "p.toml", "--output", "p.csv").code == 0
    assert words in flat(run("estimate", "p.csv"))


def test_logarithms_under_a_pure_law(run):
    """The range is told in the units of the file; a mean says what it assumes."""
    done = run(
        "plan", "people.csv", "--form", "rows",
        "--target", "ldl", "--features", "age", "--epsilon", 20,
        "--range", "0.001,1000", "--transform", "log", "--distribution", "laplace",
        "--save", "b.toml",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert run("release", "b.toml", "--output", "b.csv").code == 0
    assert "the range 0.001 to 1,000 clipped" in flat(run("estimate", "b.csv"))
    done = run("estimate", "b.csv", "--at", "age=50")
    assert done.code == 0, done.err
    assert "median" in flat(done)
