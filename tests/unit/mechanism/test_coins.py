"""Bits leave through the one door: kept, written ahead, drawn first, no seed, no refusal."""

import inspect
import math

import numpy as np
import pytest
import scipy.stats

from flipped_bits import FlippedBits
from privest import lattice
from privest.errors import InvalidInput
from privest.ledger import Budget, Ledger, cost_of
from privest.mechanism.source import Generated, Kept, Protected, seeded

Y = np.array([0.0, 1.0, 1.0, 0.0, 1.0] * 8)
MADE = FlippedBits(1.0)


def test_there_is_no_seed_and_none_is_taken():
    assert not {"seed", "rng"} & set(inspect.signature(MADE.release).parameters)
    for seed in (3, np.random.default_rng(3), seeded(3), Generated(np.random.default_rng(3))):
        with pytest.raises(InvalidInput, match="simulat"):
            MADE.release(Y, seed)
    with pytest.raises(InvalidInput, match="real releases"):
        MADE.simulate(Y, Protected())


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e308, 0.3, -7.0, 5e-324])
def test_no_value_is_refused(value):
    bits = MADE.release(np.full(20, value))
    assert set(bits.tolist()) <= {0.0, 1.0}


def test_missing_stays_missing():
    y = np.where(np.arange(40) % 7 == 0, np.nan, Y)
    for bits in (MADE.release(y), MADE.simulate(y, np.random.default_rng(1))):
        assert np.array_equal(np.isnan(bits), np.isnan(y))


def test_words_are_drawn_before_a_reading_is_touched(monkeypatch):
    events, draw, toss = [], lattice.os_words, lattice.tossed

    class Watched(Protected):
        def add_noise(self, shown, **how):
            return super().add_noise(lambda: events.append("reading") or shown(), **how)

    monkeypatch.setattr(lattice, "os_words", lambda n: events.append("words") or draw(n))
    monkeypatch.setattr(lattice, "tossed", lambda *a: events.append("tossed") or toss(*a))
    MADE.release(Y, Watched())
    assert events == ["words", "reading", "tossed"]


def test_every_release_is_fresh_and_of_the_right_law():
    """20 000 coins at 5 readings, real and simulated: Pearson's test, false alarm 1e-6."""
    y = np.linspace(-2.0, 5.0, 5)
    chance = np.array([float(MADE.coin.chance(value)) for value in y])
    fresh = [MADE.release(np.repeat(y, 4000)) for _ in range(2)]
    assert (fresh[0] != fresh[1]).any()
    trial = MADE.simulate(np.repeat(y, 4000), np.random.default_rng(5))
    of_seed = MADE.simulate(np.repeat(y, 4000), seeded(9, "t"))
    for bits in (*fresh, trial, of_seed):
        gap = bits.reshape(5, -1).mean(axis=1) - chance
        statistic = (gap**2 / (chance * (1 - chance) / 4000)).sum()
        assert scipy.stats.chi2.sf(statistic, 5) > 1e-6


def test_a_seed_gives_the_same_bits_in_whatever_blocks():
    first, source = MADE.simulate(Y, seeded(4)), seeded(4)
    parts = [MADE.simulate(Y[:13], source), MADE.simulate(Y[13:], source, at=13)]
    assert np.array_equal(first, np.concatenate(parts))
    assert (MADE.simulate(Y, seeded(5)) != first).any()


def test_a_release_that_is_kept_comes_back(tmp_path):
    """`Kept` holds whole releases: the source is asked as a mechanism of one release asks."""

    def release(y, path):
        return Kept(path).add_noise(lambda: y, shape=y.shape, law=MADE.coin, fingerprint="f")

    first = release(Y, tmp_path / "kept")
    assert np.array_equal(release(Y, tmp_path / "kept"), first)
    assert np.array_equal(release(1.0 - Y, tmp_path / "kept"), first)  # never refused
    other = FlippedBits(2.0)
    with pytest.raises(InvalidInput, match="another level, distribution or range"):
        Kept(tmp_path / "kept").add_noise(lambda: Y, shape=Y.shape, law=other.coin, fingerprint="f")


def test_bits_are_in_the_ledger_before_they_leave(tmp_path):
    with Ledger(tmp_path / "ledger.db") as ledger:
        move = float(MADE.coin.width)
        ledger.account("ill", budget=Budget(epsilon=1.0, delta=0.0, sensitivity=move))
        cost = cost_of(math.nextafter(MADE.level, math.inf), law=MADE.coin)
        source = ledger.account("ill").source(cost, start=0)
        bits = MADE.release(Y, source)
        written = ledger.written(ledger.history("ill")[-1])
        assert np.array_equal(written.integers * 2.0**-10, bits)
        again = ledger.account("ill").source(cost, start=0)
        assert np.array_equal(MADE.release(1.0 - Y, again), bits)
        assert again.resent
        assert float(ledger.account("ill").spent.epsilon) <= 1.0
        ledger.verify()


def test_pure_epsilon_holds_for_every_pair_and_outcome():
    """Ratios of exact probabilities, at the ends and between them; tight at the ends."""
    places = [MADE.coin.chance(y) for y in (-3.0, 0.0, 0.1, 0.7, 1.0, 6.0)]
    ratios = [
        max(p / r, r / p, (1 - p) / (1 - r), (1 - r) / (1 - p)) for p in places for r in places
    ]
    assert math.log(max(ratios)) == pytest.approx(1.0, abs=1e-15)
    assert lattice.flips_for(1.0) == MADE.coin.flips
