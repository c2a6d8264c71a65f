"""Dishonest mechanisms: each is found, or its certificate lists what was not examined.

Each states the density of N(u, 1) at level 1, and draws something else.
"""

import math

import numpy as np
import pytest

from privest.audit import certify
from privest.mechanism import Channel, Componentwise


class Stated(Channel):
    """N(u, 1), honestly drawn unless `spoil` changes that."""

    def __init__(self, spoil=lambda u, z, calls, rng: z):
        self.spoil, self.calls = spoil, 0

    def sample(self, u, rng):
        self.calls += 1
        u = np.asarray(u, dtype=float)
        return np.asarray(self.spoil(u, u + rng.standard_normal(u.shape), self.calls, rng))

    def log_density(self, z, u):
        return -0.5 * (np.asarray(z) - u) ** 2 - 0.5 * math.log(2 * math.pi)

    @property
    def worst(self):
        return 1.0


def low_bits(u, z, count):
    """The reading's own high digits, in the last `count` binary digits of every draw."""
    mask = np.uint64(2**count - 1)
    kept = np.ascontiguousarray(z).view(np.uint64) & ~mask
    told = (
        np.ascontiguousarray(np.broadcast_to(u, z.shape)).view(np.uint64) >> np.uint64(30)
    ) & mask
    return (kept | told).view(np.float64)


def where(condition, instead):
    return lambda u, z, calls, rng: instead(u, z) if condition(u, z, calls) else z


def itself(u, z):
    return u + 0 * z


FOUND = {
    "noise 20 % narrower": lambda u, z, c, r: u + (z - u) * 0.8,
    "noise rounded to halves": lambda u, z, c, r: u + np.round(2 * (z - u)) / 2,
    "the reading in 1 of 1000 draws": lambda u, z, c, r: np.where(r.random(z.shape) < 1e-3, u, z),
}
NAMED = {
    "the 1000th call": (
        where(lambda u, z, c: c == 1000, itself), "later calls, and other numbers of draws at once",
    ),
    "low bits": (lambda u, z, c, r: low_bits(u, z, 20), "low binary digits of draws"),
    "the reading as time": (lambda u, z, c, r: z, "the time of calls"),
    "less noise in one state of the global generator": (
        where(lambda u, z, c: np.random.get_state()[1][0] == 777, itself),  # noqa: NPY002
        "other states of the process",
    ),
}  # fmt: skip


def looked(spoil):
    return certify(Stated(spoil), 1.0, samples=20_000, rng=np.random.default_rng(1))


def test_the_honest_one_holds():
    found = looked(lambda u, z, c, r: z)
    assert found.verdict == "holds on the examined domain"
    for part in found.not_examined:
        assert part in str(found)


@pytest.mark.parametrize("name", FOUND)
def test_found(name):
    found = looked(FOUND[name])
    assert not found, str(found)
    assert not found.verdict.startswith("holds")


@pytest.mark.parametrize("name", NAMED)
def test_named_as_not_examined(name):
    spoil, words = NAMED[name]
    found = looked(spoil)
    assert words in found.not_examined
    assert words in str(found).split("Not examined:")[1]


class Tied(Componentwise):
    """Three outputs; `tie` makes their noise dependent."""

    def simulate(self, y, rng, trials=None):
        z = super().simulate(y, rng, trials=trials)
        noise = z - y
        product = np.sign(noise[..., 0] * noise[..., 1])
        noise[..., 2] = np.abs(noise[..., 2]) * product  # each pair is independent
        return y + noise


def test_three_outputs_that_are_independent_in_pairs():
    found = certify(
        Tied(Stated(), measurements=3), 1.0, samples=20_000, rng=np.random.default_rng(1)
    )
    assert not found.verdict.startswith("holds")
    assert found.sampler == "contradicts"
    honest = certify(
        Componentwise(Stated(), measurements=3), 1.0, samples=20_000, rng=np.random.default_rng(1)
    )
    assert honest.verdict == "holds on the examined domain"


def test_a_release_says_how_many_calls():
    def release(y):
        return (
            np.round(np.asarray(y) * 1024) / 1024
            + np.round(np.random.default_rng().standard_normal(np.shape(y)) * 1024) / 1024
        )

    found = certify(release, 2.0, method="release", samples=1000)
    (fresh,) = (check for check in found.checks if check.claim == "noise is fresh")
    assert "8 calls" in fresh.found
    assert "the time of calls" in str(found).split("Not examined:")[1]
    told = certify(
        lambda y: low_bits(np.asarray(y), release(y) + 1e-3, 20), 2.0, method="release",
        samples=1000,
    )  # fmt: skip
    assert told.verdict == "violated"
    failed = [check.claim for check in told.checks if check.outcome == "failed"]
    assert "one grid for all measurements" in failed
