"""The page "distance to the bound" is what its command writes."""

import re

import numpy as np
import pytest
from benchmarks import leaderboard

PAGE = leaderboard.PAGE.read_text(encoding="utf-8")


def part(name):
    return re.search(rf"<!-- {name} -->(.*?)<!-- end -->", PAGE, re.DOTALL)[1].strip()


def labels(name):
    return [line.split(" | ")[0].strip("| ") for line in part(name).splitlines()[2:]]


def test_the_page_lists_every_method():
    """By two runs of each on the smallest problem. After a change: run the command again."""
    found, refused = leaderboard.board({"fig:ppcr": ({"trials": 2}, 25.0)})
    assert set(labels("level")) == {label for label, _ in found}
    assert re.findall("`(.*?)`", part("refused")) == refused
    assert leaderboard.PICTURE.exists()


def test_the_sign_mechanism_is_close_to_the_best_local_variance():
    found = leaderboard.same_epsilon(np.random.default_rng(0), runs=400)
    assert labels("local") == list(found)
    (ratio, error), *_ = found.values()
    # Two stages: the first tenth of the people is spent, 1/0.9 asymptotically.
    assert ratio == pytest.approx(1 / 0.9, abs=4 * error)
