"""Releases through a ledger: spent and written ahead, sent again as they were, drawn once."""

import sqlite3

import numpy as np
import pytest

import privest as pv
from ledger_at import at
from privest.errors import BudgetExceeded, InvalidInput, LedgerError
from privest.ledger import Budget, Cost, Ledger, cost_of
from privest.mechanism import GaussianMechanism
from privest.mechanism.source import Generated, Protected

Y = np.array([0.5, -1.25, 3.0])


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.db") as opened:
        opened.account("t", budget=Budget(level=4.0))
        yield opened


def source(ledger, level=1.0, **more):
    return ledger.account("t").source(cost_of(level), **({"start": 0} | more))


class Recorded(Protected):
    """A protected source that says how often it drew."""

    def __init__(self):
        self.draws = 0

    def add_noise(self, *args, **how):
        self.draws += 1
        return super().add_noise(*args, **how)


def test_a_release_is_sent_again_and_never_drawn_again(ledger):
    noise, mechanism = Recorded(), GaussianMechanism(1.0, 3)
    first = mechanism.release(Y, source(ledger, source=noise))
    again = source(ledger, source=noise)
    assert np.array_equal(mechanism.release(Y, again), first)
    assert again.resent
    assert np.array_equal(mechanism.release(Y + 5.0, again), first)  # a corrected reading
    assert noise.draws == 1
    assert ledger.account("t").spent.level == 1
    assert (first / 2**-10 == np.rint(first / 2**-10)).all()
    ledger.verify()


def test_spent_before_it_is_drawn(ledger):
    noise = Recorded()
    with pytest.raises(BudgetExceeded):
        GaussianMechanism(5.0, 3).release(Y, source(ledger, 5.0, source=noise))
    assert noise.draws == 0
    assert len(ledger.history()) == 2


def test_other_facts_are_refused_and_another_key_counts(ledger):
    mechanism = GaussianMechanism(1.0, 3)
    first = mechanism.release(Y, source(ledger, level_fact="a"))
    for other in (source(ledger, level_fact="b"), source(ledger)):
        with pytest.raises(InvalidInput, match="other public facts"):
            mechanism.release(Y, other)
    with pytest.raises(InvalidInput, match="other public facts"):
        GaussianMechanism(1.0, 3, range=(-1.0, 1.0)).release(Y, source(ledger, level_fact="a"))
    second = mechanism.release(Y, source(ledger, key="again"))
    assert not np.array_equal(first, second)
    assert ledger.account("t").spent.level == 2


def test_ranges_that_meet_are_refused(ledger):
    GaussianMechanism(1.0, 3).release(Y, source(ledger, start=2))
    for start, count in ((0, 3), (2, 2), (3, 1), (4, 3), (0, 9)):
        with pytest.raises(InvalidInput, match="meet the release of 2 to 4"):
            GaussianMechanism(1.0, count).release(np.zeros(count), source(ledger, start=start))
    GaussianMechanism(1.0, 2).release(Y[:2], source(ledger, start=0))
    GaussianMechanism(1.0, 2).release(Y[:2], source(ledger, start=None))
    assert ledger.account("t").next_index() == 7


def test_only_real_noise(ledger):
    with pytest.raises(InvalidInput, match="simulation"):
        source(ledger, source=Generated(np.random.default_rng(0)))
    with pytest.raises(InvalidInput, match="release is the call"):
        GaussianMechanism(1.0, 3).simulate(Y, source(ledger))
    with pytest.raises(InvalidInput, match="one release at a time"):
        GaussianMechanism(1.0, 3).release(Y, source(ledger), 2)


def test_a_stream_with_lags_takes_up_where_it_was(ledger, tmp_path):
    """Every step is in the ledger; a stream that starts again gets the same numbers up to there."""
    level = pv.StreamLevel.constant(1.0, lags=[0.5, 0.25])
    y = np.arange(12.0)

    def run(stop):
        noise = ledger.account("t").source(cost_of(level), start=0, level=level.fingerprint)
        stream = pv.StreamMechanism(level)
        return [stream.release(y[k : k + 2], noise).values for k in range(0, stop, 2)]

    first, whole = run(8), run(12)
    assert np.array_equal(np.ravel(first), np.ravel(whole[:4]))
    # What is ever shown of a reading: 1 + 1/4 + 1/16, less the slack of the grid.
    spent = float(ledger.account("t").spent.level)
    assert 1.3125 * (1 - 1e-13) < spent <= 1.3125
    uncrashed = pv.StreamMechanism(level)
    uncrashed.release(y[:8])
    assert at(ledger.account("t"), 11).spent.level == at(ledger.account("t"), 0).spent.level
    ledger.verify()


def test_costs_that_change_with_the_step(tmp_path):
    level = pv.StreamLevel([1.0, 4.0, 2.0], U=[[], [2.0], [0.0, 1.0]])
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.account("s", budget=Budget(level=5.0, trace=9.0))
        noise = ledger.account("s").source(lambda a, b: cost_of(level, start=a, stop=b), start=0)
        stream = pv.StreamMechanism(level)
        for k in range(3):
            stream.release([float(k)], noise)
        diagonal = np.diagonal(level.cumulative())
        spent = [float(at(ledger.account("s"), k).spent.level) for k in range(3)]
        np.testing.assert_allclose(spent, diagonal, rtol=1e-12)
        assert (np.array(spent) >= diagonal * (1 - 1e-13)).all()
        assert float(ledger.account("s").spent.trace) == pytest.approx(np.trace(level.cumulative()))


def test_what_the_analyst_knows_is_retired(ledger):
    mechanism = GaussianMechanism(1.0, 3)
    mechanism.release(Y, source(ledger))
    mechanism.release(Y, source(ledger, start=3, known=2))  # nothing is missing
    assert [entry.kind for entry in ledger.history()].count("retired") == 0
    with pytest.raises(LedgerError, match="retired"):
        mechanism.release(Y, source(ledger, start=6, known=9))
    first = mechanism.release(Y, source(ledger, known=9))  # what is here is sent again
    assert np.array_equal(first, mechanism.release(Y, source(ledger)))
    late = source(ledger, start=None, known=9)
    mechanism.release(Y, late)
    assert (late.entry.start, late.entry.stop) == (10, 13)
    with pytest.raises(BudgetExceeded, match="retired"):  # other lines know no more of it
        mechanism.release(Y, source(ledger, start=4, key="other"))
    ledger.verify()


def test_missing_flags_come_back(ledger):
    flags = np.array([[True, False], [False, True]])
    wrote = ledger.account("t").spend_and_write(
        Cost(1.0), 0, 2, {}, lambda: (np.array([[0, 5], [-6, 0]]), flags)
    )
    again = ledger.account("t").spend_and_write(Cost(1.0), 0, 2, {}, lambda: None)
    for found in (wrote, again):
        assert found.integers.tolist() == [[0, 5], [-6, 0]]
        assert np.array_equal(found.missing, flags)


def test_the_file_holds_no_reading_and_no_noise(tmp_path):
    reading = 12345.678901
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.account("t", budget=Budget(level=1.0))
        mechanism = GaussianMechanism(1.0, 1)
        (shown,) = mechanism.release([reading], ledger.account("t").source(cost_of(1.0), start=0))
        exported = ledger.export() + repr(ledger.history()) + repr(ledger)
    data = (tmp_path / "l.db").read_bytes() + exported.encode()
    for secret in (np.float64(reading).tobytes(), b"12345.67", str(int(reading * 1024)).encode()):
        assert secret not in data
    # Of numbers there are the released integers, and nothing else.
    tables = sqlite3.connect(tmp_path / "l.db")
    assert tables.execute("SELECT data FROM numbers").fetchall() == [
        (np.int64(round(shown * 1024)).tobytes(),)
    ]
    tables.close()


def test_a_part_of_a_step_is_sent_again_as_it_was(ledger):
    """Corrected readings, and ones that have come since: the places that were shown are the same.

    A part costs a whole step: more than it shows.
    """
    level = pv.StreamLevel.constant([[2.0, 0.0], [0.0, 1.5]])
    first = pv.StreamMechanism(level).release([[0.5, np.nan], [0.1, 0.2]], source(ledger, level))
    assert first.missing.tolist() == [[False, True], [False, False]]
    again = source(ledger, level)
    other = pv.StreamMechanism(level).release([[7.0, 8.0], [np.nan, 0.2]], again)
    assert again.resent
    assert np.array_equal(other.values, first.values, equal_nan=True)
    assert np.array_equal(other.missing, first.missing)
    assert ledger.account("t").spent.level == cost_of(level).information[0][0]  # S, of both steps
    ledger.verify()


def test_rows_of_another_mark_are_refused(tmp_path):
    """A range is sent again where all marks that both have agree; without marks, always."""
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.account("t", budget=Budget(level=1.0))
        noise = ledger.account("t").source(cost_of(1.0), start=0)
        noise.marks = {"x": "a", "y": "b"}
        first = GaussianMechanism(1.0, 1).release([3.0], noise)
        assert noise.entry.marks == noise.marks
        for marks in (None, {}, {"y": "b", "other": "c"}):
            noise.marks = marks
            again = GaussianMechanism(1.0, 1).release([3.0], noise)
            assert np.array_equal(again, first)
        noise.marks = {"x": "a", "y": "c"}
        with pytest.raises(InvalidInput, match="not those that were released"):
            GaussianMechanism(1.0, 1).release([3.0], noise)
        # marks are of one subject: two sensors may have the same times
        ledger.account("u", budget=Budget(level=1.0))
        noise = ledger.account("u").source(cost_of(1.0), start=0)
        noise.marks = {"x": "a"}
        GaussianMechanism(1.0, 1).release([3.0], noise)
        ledger.verify()


def test_marks_of_readings_in_a_ledger_of_before_are_not_used(tmp_path):
    """privest 0.1 kept HMACs of readings: such a ledger is read, and they decide nothing."""
    with Ledger(tmp_path / "l.db") as ledger:
        ledger.account("t", budget=Budget(level=1.0))
        noise = ledger.account("t").source(cost_of(1.0), start=0)
        noise.marks = {"public x": "a", "readings from step 0": "b", "first readings": "c"}
        first = GaussianMechanism(1.0, 1).release([3.0], noise)
        noise.marks = {"public x": "a"}
        assert np.array_equal(GaussianMechanism(1.0, 1).release([4.0], noise), first)
        ledger.verify()


class Infinite(Protected):
    """A source that is broken."""

    def add_noise(self, *args, **how):
        return np.array([np.inf, -np.inf, np.nan])


def test_what_a_broken_source_gives_is_missing_not_an_integer(ledger):
    found = GaussianMechanism(1.0, 3).release(Y, source(ledger, source=Infinite()))
    assert np.isnan(found).all()
