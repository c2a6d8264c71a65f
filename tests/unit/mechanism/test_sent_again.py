"""A release that is sent again is the one of before: its gaps, its level, its law and its range."""

import numpy as np
import pytest

import privest as pv
from privest.errors import InvalidInput
from privest.ledger import Budget, Cost, Ledger, cost_of
from privest.mechanism import Additive, Componentwise, GaussianMechanism
from privest.mechanism.source import Kept, Protected, seeded
from privest.noise import Gaussian, Laplace

FULL, GAP = [1.0, 1.0, 1.0], [1.0, np.nan, 1.0]


def sensor(y, source):
    law = Gaussian(1.0)
    return pv.network.Sensor(np.ones((3, 1)), [law] * 3, 1e4).release(y, source).values


def series(y, source):
    return pv.StreamMechanism(1e4).release(np.reshape(y, (1, -1, 1)), source).values.ravel()


DOORS = {
    "gaussian": GaussianMechanism(1e4, 3).release,
    "laplace": Componentwise(Additive(Laplace(0.01)), np.eye(3)).release,
    "sensor": sensor,
    "series": series,
}


@pytest.fixture(params=["kept", "ledger"])
def source(request, tmp_path):
    if request.param == "kept":
        yield lambda: Kept(tmp_path / "release")
        return
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.account("t", budget=Budget(level=1e6))
        cost = Cost([1e4] * 3)
        yield lambda: ledger.account("t").source(cost, start=0)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("first", "then"), [(GAP, FULL), (FULL, GAP)])
def test_what_was_missing_stays_missing_and_what_was_shown_stays_shown(door, first, then, source):
    released = DOORS[door](first, source())
    assert np.array_equal(np.isnan(released), np.isnan(first))
    again = source()
    assert np.array_equal(DOORS[door](then, again), released, equal_nan=True)
    assert again.resent


def test_the_flags_of_a_series_are_those_of_its_values(tmp_path):
    for y in (GAP, FULL):
        found = pv.StreamMechanism(1.0).release(
            np.reshape(y, (1, -1, 1)), Kept(tmp_path / "release")
        )
        assert found.missing.ravel().tolist() == [False, True, False]
        again = type(found).from_dict(found.to_dict())
        assert again.missing.ravel().tolist() == [False, True, False]


def test_protected_noise_leaves_gaps_and_nothing_infinite_is_one():
    shown = np.array([np.nan, np.inf, -np.inf, 0.0])
    assert np.isnan(Protected().add_noise(shown)).tolist() == [True, False, False, False]
    tied = GaussianMechanism([[4.0, 2.0], [2.0, 2.0]], 2)
    assert np.isfinite(tied.release([np.inf, -np.inf])).all()


OTHERS = [
    GaussianMechanism(1e4, 3),
    GaussianMechanism(1.0, 3, range=(-1.0, 1.0)),
    Componentwise(Additive(Laplace(1.0)), np.eye(3)),
    Componentwise(Additive(pv.noise.Gaussian(1.0)), np.eye(3)),
]


@pytest.mark.parametrize("other", OTHERS)
def test_a_release_of_another_level_law_or_range_is_not_relabelled(other, source):
    mine = GaussianMechanism(1.0, 3)
    released = mine.release(FULL, source())
    with pytest.raises(InvalidInput, match=r"another level, dist|other public facts"):
        other.release(FULL, source())
    assert np.array_equal(mine.release(FULL, source()), released)


def test_a_sensor_stamps_no_other_level_on_a_kept_release(tmp_path):
    law = [Gaussian(1.0)] * 3
    one, two = (pv.network.Sensor(np.ones((3, 1)), law, s) for s in (1.0, 1e4))
    one.release(FULL, Kept(tmp_path / "r"))
    with pytest.raises(InvalidInput, match="another level"):
        two.release(FULL, Kept(tmp_path / "r"))


def test_kept_is_as_real_as_the_source_it_has_now(tmp_path):
    kept = Kept(tmp_path / "r")
    assert (kept.simulated, kept.grid) == (False, 2.0**-10)
    kept.source = seeded(1)
    assert (kept.simulated, kept.grid) == (True, 0.0)
    with pytest.raises(InvalidInput, match="simulation"):
        GaussianMechanism(1.0, 3).release(FULL, kept)
    with pytest.raises(AttributeError):
        kept.simulated = False


def test_a_ledger_of_one_index_an_entry_keeps_gaps_too(tmp_path):
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.account("t", budget=Budget(level=1e4))
        first, again = (
            GaussianMechanism(1e4, 3).release(y, ledger.account("t").source(cost_of(1e4), start=0))
            for y in (GAP, FULL)
        )
    assert np.isnan(first).tolist() == [False, True, False]
    assert np.array_equal(first, again, equal_nan=True)
