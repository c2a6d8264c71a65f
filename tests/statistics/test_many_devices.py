"""Devices, links and collectors that fail, by discrete events: nothing is lost or counted twice.

`python -m benchmarks.collector_simulation` does it with a million devices.
"""

import tempfile

import pytest
from benchmarks.collector_simulation import Simulation, checked, plan, run
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privest.collect import open_store

SHARE = st.floats(0.0, 0.6)


@settings(max_examples=25, deadline=None)
@example(
    devices=1,
    each=1,
    collectors=1,
    lost_requests=0.0,
    lost_answers=0.0,
    dying=0.296875,
    crashes=3,
    most=3,
    seed=0,
)  # every device dies: a store without a report
@given(
    devices=st.integers(1, 60), each=st.integers(1, 3), collectors=st.integers(1, 3),
    lost_requests=SHARE, lost_answers=SHARE, dying=st.floats(0.0, 0.3), crashes=st.integers(0, 6),
    most=st.integers(3, 40), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_each_report_counts_once(**options):
    with tempfile.TemporaryDirectory() as folder:
        found = run(folder, seconds=5.0, **options)
    assert found["lost after a 2xx"] == found["difference of the sums"] == 0
    assert found["without an end"] == 0
    assert found["replay"]
    least = found["answered"] * options["each"]
    assert least <= found["reports counted"] <= least + found["gave up"] * options["each"]


def test_a_collector_that_is_too_slow_is_busy_and_loses_nothing(tmp_path):
    found = run(tmp_path, collectors=1, devices=2000, seconds=0.1, skew=0.0, most=100)
    assert found["429"] > 100
    assert found["most waiting"] <= 100
    assert found["answered"] == found["reports counted"] == 2000


@pytest.mark.parametrize("fault", ["double", "loss"])
def test_the_test_can_fail(tmp_path, fault):
    with open_store(tmp_path / "c.db", plan(1)) as store:
        simulation = Simulation([store], devices=20, seconds=1.0)
        simulation.run()
        assert checked(simulation, store)["difference of the sums"] == 0
        if fault == "double":
            sums = store.sums()["one"]
            sums.gram[0, 1] += 65536 * 7
            store._run("UPDATE sums SET body = ?", sums.to_text())
            assert checked(simulation, store)["difference of the sums"] == 7
        else:
            store._run("DELETE FROM reports WHERE step = 0 AND z = 7")
            with pytest.raises(AssertionError):
                checked(simulation, store)
