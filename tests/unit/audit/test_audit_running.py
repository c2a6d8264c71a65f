"""Audits of what users really run: streams, tables; and of code with too little noise."""

import numpy as np
import pytest

import privest as pv
from privest.audit import attack, certify, fisher_information
from privest.errors import InvalidInput
from privest.mechanism import RowMechanism
from privest.mechanism.running import RunningMechanism

DENSE = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, -0.5], [0.0, -0.5, 1.0]])
LAGS, SHORT = (pv.StreamLevel.constant(1.0, lags=[0.5, -0.2]).first(k) for k in (5, 2))
CUMULATIVE = pv.StreamLevel([1.0, 2.0, 0.5], 0.1 * np.tril(np.ones((3, 3)), -1))
SAMPLES = 20_000  # 2000 runs a place


def rng(seed=1):
    return np.random.default_rng(seed)


def table(rows, made=RowMechanism):
    """The rows of a table at level 4, as a release draws them."""
    draw = lambda y, rng: made().simulate(y, 2.0, rng)  # noqa: E731
    return RunningMechanism(2 * np.eye(rows), draw, "table")


RUNNING = {
    "stream with lags": (pv.StreamMechanism(LAGS), LAGS),
    "stream that ends": (pv.StreamMechanism(CUMULATIVE), CUMULATIVE),
    "stream of vectors": (
        pv.StreamMechanism(pv.StreamLevel.constant(DENSE).first(2)),
        pv.PrivacyLevel(np.kron(np.eye(2), DENSE)),
    ),
    "table": (table(3), 4.0),
}


@pytest.mark.parametrize("name", RUNNING)
def test_what_users_run_holds_and_is_tight(name):
    running, level = RUNNING[name]
    found = certify(running, level, samples=SAMPLES, rng=rng())
    assert found.verdict == "holds", str(found)
    assert found.margin == pytest.approx(1, abs=1e-9)
    assert "2000 draws at each of 4 measurement vectors" in str(found)
    assert "confidence 0.999 together" in str(found)


def test_a_claim_beyond_the_level_is_violated():
    found = certify(RUNNING["table"][0], 3.2, samples=SAMPLES, rng=rng())
    assert found.verdict == "violated"
    assert found.margin == pytest.approx(1.25)
    assert found.worst_y is None


def test_a_level_without_an_end_needs_steps():
    endless = pv.StreamLevel.constant(1.0, lags=[0.5])
    with pytest.raises(InvalidInput, match="no last step"):
        certify(pv.StreamMechanism(endless), 1.0, rng=rng())
    with pytest.raises(InvalidInput, match="no last step"):
        certify(table(2), endless, rng=rng())


# --- broken code ----------------------------------------------------------------------------------


class QuietStream(pv.StreamMechanism):
    """Half the noise."""

    def simulate(self, y, rng):
        return super().simulate(y, Half(rng))


class Half(pv.mechanism.source.Generated):
    def add_noise(self, shown, **how):
        numbers = shown() if callable(shown) else shown
        without = getattr(numbers, "high", numbers)  # of an exact sum, the double nearest to it
        return (super().add_noise(numbers, **how) + without) / 2


class QuietRows(RowMechanism):
    def simulate(self, y, weights, rng):
        return super().simulate(y, weights, Half(rng))


QUIET = {
    "stream": (QuietStream(SHORT), SHORT),
    "table": (table(2, QuietRows), 4.0),
}


@pytest.mark.processes
@pytest.mark.parametrize("name", QUIET)
def test_half_the_noise_is_exposed(name):
    running, level = QUIET[name]
    found = certify(running, level, samples=SAMPLES, rng=rng())
    assert found.verdict == "violated", str(found)
    assert found.claimed == pytest.approx(1)  # by its own word all is well
    assert found.sampler == "contradicts"
    # Half the noise is four times the information; splines of 2000 samples miss a third of it.
    assert 2 < found.margin < 5


@pytest.mark.parametrize("name", QUIET)
def test_attackers_beat_what_the_level_allows(name):
    running, level = QUIET[name]
    y = [0.3, -0.2]
    for one in attack(running, y, rng=rng(), level=level):
        # A quarter of the floor, as far as 2000 trials tell (5 standard errors).
        assert abs(one.likelihood.mse - one.level_floor / 4) < 5 * one.likelihood.mse_error
        assert "less noise" in str(one)


def test_attackers_on_sound_code_keep_to_the_floor():
    running, level = RUNNING["stream with lags"]
    for one in attack(running, np.ones(5), rng=rng(), level=level):
        assert abs(one.likelihood.mse - one.level_floor) < 5 * one.likelihood.mse_error
        assert one.notes == ()


def leaks(draw):
    return RunningMechanism(np.eye(2), draw, "leak")


def test_code_that_sometimes_shows_y():
    def draw(y, rng):
        return y + (0.0 if rng.random() < 0.05 else 1.0) * rng.standard_normal(2)

    found = certify(leaks(draw), 1.0, samples=SAMPLES, rng=rng())
    assert found.verdict == "violated"
    assert found.margin == np.inf
    assert "measurement itself" in str(found)


def test_code_without_noise():
    found = certify(leaks(lambda y, rng: y), 1.0, samples=SAMPLES, rng=rng())
    assert found.verdict == "violated"
    assert found.margin == np.inf


@pytest.mark.parametrize(
    "draw",
    [
        lambda y, rng: 1.1 * y + 0.2 + rng.standard_normal(2),
        lambda y, rng: y + rng.standard_normal(1),
        lambda y, rng: y + rng.uniform(-1, 1, 2) * np.sqrt(3),
        lambda y, rng: y + 1.3 * rng.standard_normal(2),
    ],
)
def test_noise_that_contradicts_the_claim_never_holds(draw):
    found = certify(leaks(draw), 1.0, samples=SAMPLES, rng=rng())
    assert not found.verdict.startswith("holds")
    assert found.sampler == "contradicts"


def test_more_noise_than_claimed_is_no_violation():
    def draw(y, rng):
        return y + 1.3 * rng.standard_normal(2)

    assert certify(leaks(draw), 1.0, samples=SAMPLES, rng=rng()).verdict == "undecided"


@pytest.mark.processes
def test_sound_code_is_rarely_accused():
    """At confidence 0.9 at most a tenth of sound runs fail: 40 of them, binomial tail 1e-6."""
    sound = table(2)
    verdicts = [
        certify(sound, 4.0, samples=1000, rng=rng(k), confidence=0.9).verdict for k in range(40)
    ]
    assert verdicts.count("holds") >= 25


def test_information_of_running_code():
    running, level = RUNNING["stream with lags"]
    found = fisher_information(running, np.zeros(5), samples=SAMPLES, rng=rng())
    np.testing.assert_allclose(found.matrix, level.cumulative(), atol=1e-12)


def test_results_are_plain_values():
    running, level = RUNNING["table"]
    found = certify(running, level, samples=2000, rng=rng()).to_dict()
    assert found["verdict"] == "holds"
    assert isinstance(found["reasons"], list)
    running = table(1)
    (one,) = attack(running, [0.3], rng=rng(), level=level, prior=(0.0, 1.0))
    assert one.to_dict()["likelihood"]["mse"] == one.likelihood.mse
    shown = fisher_information(running, [0.3], samples=2000, rng=rng()).to_dict()
    assert shown["matrix"] == [[pytest.approx(4.0)]]
