"""A collection goes on where its server starts again on another processor."""

import pytest

from other_processor import elsewhere
from privest.collect import CollectionPlan
from privest.privacy import StreamLevel

ASKED = {
    "name": "steps", "features": ["age"], "range": [0.0, 10.0], "residual_variance": 4.0,
    "steps": 10, "delta": 1e-6, "levels": {"low": {"epsilon": 1.46}, "high": 2.0},
}  # fmt: skip


def test_a_plan_in_epsilon_has_one_hash():
    """The store of a collection, its devices and their ledgers are bound to the hash."""
    here = CollectionPlan.from_dict(ASKED)
    with elsewhere():
        there = CollectionPlan.from_dict(ASKED)
    assert here.levels["low"] != there.levels["low"]  # else this test could not fail
    assert here.hash == there.hash
    assert CollectionPlan.from_dict(here.to_dict()).hash == here.hash


@pytest.mark.parametrize("level", [2.0 * (1 + 1e-7), 1.0])
def test_another_level_is_another_plan(level):
    other = ASKED | {"levels": ASKED["levels"] | {"high": level}}
    assert CollectionPlan.from_dict(other).hash != CollectionPlan.from_dict(ASKED).hash


def test_a_level_of_a_stream_in_epsilon_has_one_name():
    asked = {"delta": 1e-6, "sensitivity": 1.0, "lags": [0.5]}
    here = StreamLevel.from_epsilon(1.46, **asked)
    with elsewhere():
        there = StreamLevel.from_epsilon(1.46, **asked)
    assert here.fingerprint == there.fingerprint
