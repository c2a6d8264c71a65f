"""Every wrong use of a table that the issue of real tables names: one sentence, and what to do."""

import numpy as np
import pandas as pd
import pytest

from workflow_command import runner


@pytest.fixture
def privest(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 80, 60), "same": 3.0, "w": 1.0})
    frame["sex"] = rng.choice(["f", "m"], 60)
    frame["y"], frame["ill"] = rng.normal(5, 1, 60).round(3), rng.integers(0, 2, 60)
    frame["id"], frame["one"], frame["zero"] = np.arange(60) // 3, "P1", [0.0] + [1.0] * 59
    frame.to_csv("people.csv", index=False)
    frame.head(2).to_csv("two.csv", index=False)
    return runner(capsys, monkeypatch)


PEOPLE = ("people.csv", "--target", "y", "--level", "4", "--features")
REFUSED = {
    "one person": (
        (*PEOPLE, "age", "--person", "one"), ["need the aggregate form", "with an epsilon"],
    ),
    "constant column": ((*PEOPLE, "age,same"), ["'same' is constant", "leave one"]),
    "more coefficients than rows": (
        ("two.csv", "--target", "y", "--level", "4", "--features", "age,id,ill"),
        ["2 rows cannot determine 4 coefficients", "More rows"],
    ),
    "weights of zero": (
        (*PEOPLE, "age", "--set", "model.weights=zero"), ["above 0", "Leave rows of weight 0 out"],
    ),
    "a category that is not in the list": (
        (*PEOPLE, "age,sex", "--category", "sex=f,x"),
        ["'sex'", "not in the public list"],
    ),
    "a mistyped column": ((*PEOPLE, "agee"), ["Did you mean 'age'"]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_one_sentence_and_what_to_do(privest, name):
    arguments, words = REFUSED[name]
    done = privest("plan", "--form", "rows", *arguments)
    said = " ".join(done.err.split())
    assert done.code == 2, said
    assert done.out == ""
    assert "Traceback" not in said
    for word in words:
        assert word in said
