"""Protected noise is fresh within a release too: every number has words of its own, used once.

Words of 64 bits are distinct among 2e5 but for 1e-9; what is compared below is as rare.
"""

import os

import numpy as np
import pytest

from privest import lattice
from privest.mechanism import Additive, Componentwise, GaussianMechanism, StreamMechanism
from privest.mechanism.source import Protected
from privest.noise import Laplace

COUNT, G = 100_000, 2.0**-10
INTEGERS = {"gaussian": lattice.gaussian_integers, "laplace": lattice.laplace_integers}
LAWS = pytest.mark.parametrize("law", INTEGERS)


@pytest.fixture
def drawn(monkeypatch):
    """The blocks of words that the operating system gave, in order."""
    blocks, urandom = [], os.urandom

    def recorded(size):
        blocks.append(np.frombuffer(urandom(size), dtype=np.uint64))
        return blocks[-1].tobytes()

    monkeypatch.setattr(os, "urandom", recorded)
    return blocks


def repeats(numbers, length):
    """Whether some `length` numbers in a row come again, wherever: windows by a random key."""
    keys = np.random.default_rng(9).integers(1, 2**63, length, dtype=np.uint64) * 2 + 1
    whole = np.asarray(numbers, dtype=np.int64).view(np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(whole, length) @ keys  # modulo 2^64
    return np.unique(windows).size < windows.size


def test_repeats_are_seen():
    numbers = np.random.default_rng(2).integers(-1000, 1000, 5000)
    assert not repeats(numbers, 8)
    assert repeats(np.resize(numbers[:4096], 5000), 8)
    assert repeats(np.concatenate([numbers, numbers[3000:3008]]), 8)


@LAWS
def test_every_number_has_words_of_its_own(law, drawn, monkeypatch):
    """X is made of its words, of the law asked for; those of W are others; no word comes twice."""
    handed, rounded = [], lattice.rounded

    def watched(u, words, *rest):
        handed.append(words)
        return rounded(u, words, *rest)

    monkeypatch.setattr(lattice, "rounded", watched)
    released = Protected().add_noise(np.zeros(COUNT), law=law)
    words = np.concatenate(drawn)
    assert np.unique(words).size == words.size == 2 * COUNT
    assert np.unique(handed[0]).size == handed[0].size == COUNT
    others = words[~np.isin(words, handed[0])]
    assert others.size == COUNT
    # 0 is on the grid: it is rounded to 0 whatever W is.
    assert np.array_equal(released / G, INTEGERS[law](COUNT, lambda n: others[:n]))


DOORS = {
    "source": lambda y: Protected().add_noise(y),
    "source, Laplace": lambda y: Protected().add_noise(y, law="laplace"),
    "mechanism": lambda y: GaussianMechanism(1.0, y.size).release(y),
    "mechanism, rows": lambda y: GaussianMechanism(1.0, 8).release(y.reshape(-1, 8)).ravel(),
    "stream": lambda y: StreamMechanism(1.0).release(y).values,
    "additive Laplace": lambda y: Componentwise(
        Additive(Laplace(1.0)), measurements=y.size
    ).release(y),
}  # fmt: skip
EVERY = pytest.mark.parametrize("name", DOORS)


@EVERY
def test_noise_does_not_repeat(name):
    """|X| is the same twice with probability below 1e-3; 8 in a row never, 2e8 pairs."""
    parts = [DOORS[name](np.zeros(10_000)) for _ in range(2)]
    assert not repeats(np.abs(np.concatenate(parts)) / G, 8)


@EVERY
def test_rounding_does_not_repeat(name, monkeypatch):
    """Half a step is rounded up or down: 80 bits in a row never come again, nor their opposites."""
    for law in INTEGERS:
        monkeypatch.setattr(lattice, f"{law}_integers", lambda n: np.zeros(n, dtype=np.int64))
    up = np.concatenate([DOORS[name](np.full(10_000, G / 2)) for _ in range(2)]) / G
    assert set(up.tolist()) == {0.0, 1.0}
    assert not repeats(up, 80)
    assert not repeats(up[1:] == up[:-1], 80)


def test_all_noise_is_drawn_before_what_is_shown_is_computed(drawn):
    """The words of W and of X; none afterwards."""
    seen = []

    def shown():
        seen.append(sum(block.size for block in drawn))
        return np.linspace(0.0, 1.0, 50)

    Protected().add_noise(shown, shape=(50,))
    assert seen == [100]
    assert sum(block.size for block in drawn) == 100
