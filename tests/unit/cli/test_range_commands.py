"""`--range` from plan to page; and running estimates, which do not undo clipping, say so."""

import json

import pytest

from privest.workflow.spec import load_spec
from workflow_command import runner
from workflow_tables import VARIANCE, people, write

PLAN = (
    "--form", "rows",
    "--target", "ldl", "--features", "age,bmi,sex", "--category", "sex=female,male",
    "--residual-variance", VARIANCE, "--level", 2, "--delta", "1e-6", "--range", "0.2,1.5",
)  # fmt: skip


@pytest.fixture
def privest(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return runner(capsys, monkeypatch)


def told(text):
    return " ".join(text.split())


def test_a_range_from_plan_to_page(privest, tmp_path):
    data = write(people(5000, seed=1), tmp_path / "people.csv")
    done = privest("plan", data, *PLAN, "--save", "plan.toml")
    assert done.code == 0, done.err
    said = told(done.out)
    assert "residual sd away from every prediction" in said
    assert "one value replaced anywhere in the range: ε =" in said
    assert load_spec("plan.toml").privacy.range == {"ldl": (0.2, 1.5)}
    assert told(privest("plan", "plan.toml").out) == said
    assert privest("release", "plan.toml", "--output", "z.csv").code == 0
    done = privest("estimate", "z.csv")
    assert "The intervals are for the values as clipped to the range." in told(done.out)
    found = json.loads(privest("estimate", "z.csv", "--json").out)
    assert 0.1 < found["clipped"] < 0.5
    assert privest("report", "plan.toml", "z.csv", "--output", "page.html").code == 0


@pytest.mark.parametrize("bad", ["agee=1", "=1", "age=x"])
def test_expectations_that_are_none(privest, tmp_path, bad):
    data = write(people(50), tmp_path / "people.csv")
    done = privest("plan", data, *PLAN, "--set", f"public.expected.{bad}")
    assert done.code == 2, done
    twice = privest(
        "plan", data, *PLAN, "--set", "public.expected.age=1", "--set", "public.expected.age=2"
    )
    assert (twice.code, "twice" in twice.err) == (2, True)


def test_a_running_estimate_says_that_it_does_not_undo_clipping(privest, tmp_path):
    rows = "".join(f"{k},{k % 7}\n" for k in range(30))
    (tmp_path / "m.csv").write_text("x,y\n" + rows, encoding="utf-8")
    command = ("stream", "m.csv", "--level", 4, "--residual-variance", 1, "--simulate")
    assert "PrivateLinearRegression" not in told(privest(*command).err)
    assert "PrivateLinearRegression" in told(privest(*command, "--range", "0,5").err)
