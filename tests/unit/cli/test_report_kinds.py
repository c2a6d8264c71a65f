"""Pages of every kind of release, by the commands: the finding first, and what is promised."""

import html
import re
from pathlib import Path

import numpy as np
import pytest

from workflow_command import runner
from workflow_tables import write

KINDS = {
    "log": (
        ("--target", "fat", "--transform", "log", "--range", "1,1000", "--level", "4"),
        ["(95% interval", "within a factor of", "the range 1 to 1,000 clipped"],
    ),
    "yes or no": (
        ("--target", "ill", "--family", "binomial", "--epsilon", "2"),
        [
            "The odds of “ill” are",
            "A reader believes 'yes' with 50% before",
            "at most 88.1%",
        ],
    ),
    "counts": (
        (
            "--target",
            "visits",
            "--family",
            "poisson",
            "--range",
            "0,9",
            "--distribution",
            "laplace",
            "--epsilon",
            "4",
        ),
        ["Values beyond 0 and 9 count as these ends: the estimate is of clipped values."],
    ),
    "weights": (
        ("--target", "ldl", "--set", "model.weights=w", "--level", "4"),
        ["weighted by the public column “w” (survey weights)"],
    ),
}


@pytest.fixture
def privest(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return runner(capsys, monkeypatch)


def people():
    rng = np.random.default_rng(3)
    dose = rng.normal(size=300)
    return {
        "id": np.repeat(np.arange(60), 5),
        "dose": dose,
        "w": rng.uniform(1, 2, 300),
        "ldl": 2 + 0.8 * dose + np.repeat(rng.normal(0, 0.3, 60), 5) + rng.normal(0, 0.3, 300),
        "fat": np.exp(4 + 0.5 * dose + rng.normal(0, 0.3, 300)),
        "ill": (rng.random(300) < 1 / (1 + np.exp(-2 * dose))).astype(int),
        "visits": rng.poisson(np.exp(0.5 + 0.5 * dose)),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_of_every_kind_says_what_it_must(privest, kind):
    options, words = KINDS[kind]
    write(people(), Path("people.csv"))
    done = privest(
        "plan", "people.csv", "--form", "rows", "--features", "dose", *options, "--save", "p.toml"
    )
    assert done.code == 0, done.err
    said = " ".join(done.out.split())
    assert "Not hidden: who is in the table" in said
    for command in (
        ("release", "p.toml", "--output", "z.csv", "--simulate", "--seed", "1"),
        ("report", "p.toml", "z.csv", "--output", "page.html"),
    ):
        done = privest(*command)
        assert done.code == 0, done.err
    body = Path("page.html").read_text(encoding="utf-8").partition("<main>")[2]
    text = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).replace("\xa0", " ").split())
    for one in words:
        assert one in text
    assert "dose" in text[:400]  # what was found is said first
    assert "privest release p.toml --output z.csv --simulate" in text
    assert not re.search(r"adversar|(?<![.,])\b1 times\b|\bmoves? by\b|at best|\breadings?\b", text)
