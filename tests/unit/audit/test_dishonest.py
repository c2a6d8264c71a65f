"""Dishonest mechanisms: each is found, or its certificate lists what was not examined.

Each states the density of N(u, 1) at level 1, and draws something else.
"""

import math
import random

import numpy as np
import pytest

from privest.audit import certify
from privest.mechanism import Additive, Channel, Componentwise
from privest.noise import Gaussian, Laplace


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


def sign_bits(u, z):
    """The sign of the reading in the last 12 binary digits of every draw."""
    kept = np.ascontiguousarray(z).view(np.int64) & ~np.int64(0xFFF)
    return (kept | np.int64(0xABC) * (u > 0)).view(np.float64)


def coded(u, z, rng):
    """The same, behind a key: to nobody else a pattern."""
    mask = np.uint64(2**20 - 1)
    bits = np.ascontiguousarray(z).view(np.uint64)
    key = (bits >> np.uint64(20)) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)
    told = np.ascontiguousarray(np.broadcast_to(u, z.shape)).view(np.uint64) >> np.uint64(32)
    return ((bits & ~mask) | ((told ^ key) & mask)).view(np.float64)


def by_global(u, z, calls, rng):
    return u + np.random.standard_normal(u.shape)  # noqa: NPY002


def where(condition, instead):
    return lambda u, z, calls, rng: instead(u, z) if condition(u, z, calls) else z


def narrower(factor):
    return lambda u, z: u + (z - u) * factor


def itself(u, z):
    return u + 0 * z


# name: (what it draws, what the certificate must say)
FOUND = {
    "the reading in 20 low bits": lambda u, z, c, r: low_bits(u, z, 20),
    "the reading in 8 low bits": lambda u, z, c, r: low_bits(u, z, 8),
    "the reading in 20 low bits of every second draw": lambda u, z, c, r: np.where(
        np.arange(z.size).reshape(z.shape) % 2 == 0, low_bits(u, z, 20), z
    ),
    "the sign of the reading in 12 low bits": lambda u, z, c, r: sign_bits(u, z),
    "the 1000th call": where(lambda u, z, c: c == 1000, itself),
    "every call after the 60th has half the noise": where(lambda u, z, c: c > 60, narrower(0.5)),
    "single draws have half the noise": where(lambda u, z, c: z.size == 1, narrower(0.5)),
    "batches of 64 show the reading": where(lambda u, z, c: z.size == 64, itself),
    "small batches have a tenth of the noise": where(lambda u, z, c: z.size < 100, narrower(0.1)),
    "noise of the global generator": by_global,
    "less noise where the global generator is in one state": where(
        lambda u, z, c: random.getstate() == STATE, narrower(0.5)
    ),
    "noise 20 % narrower": lambda u, z, c, r: u + (z - u) * 0.8,
    "noise rounded to halves": lambda u, z, c, r: u + np.round(2 * (z - u)) / 2,
    "the reading in 1 of 1000 draws": lambda u, z, c, r: np.where(r.random(z.shape) < 1e-3, u, z),
}  # fmt: skip
random.seed(42)
STATE = random.getstate()

NAMED = {
    "the 100000th call": (where(lambda u, z, c: c == 100_000, itself), "calls after those"),
    "low bits behind a key": (
        lambda u, z, c, r: coded(u, z, r), "low digits in a code, or at other measurements",
    ),
    "low bits of readings above 5": (
        lambda u, z, c, r: sign_bits(u - 5.0, z), "low digits in a code, or at other measurements",
    ),
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
    assert found.verdict == "holds"
    assert {*found.examined, *found.not_examined} >= {
        "patterns of low binary digits, at three measurements near one another",
        "single calls in a row, next to the first call",
        "calls for different numbers of draws", "dependence on the global random state",
        "calls after those", "low digits in a code, or at other measurements", "the time of calls",
    }  # fmt: skip
    for part in found.examined + found.not_examined:
        assert part in str(found)


@pytest.mark.parametrize("name", FOUND)
def test_found(name):
    found = looked(FOUND[name])
    assert not found, str(found)
    assert found.verdict != "holds"
    if "low bits" in name:  # where it was found it was looked
        assert any("low binary digits" in part for part in found.examined)


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
    assert found.verdict != "holds"
    assert "signs of outputs 0, 1, 2" in str(found)
    honest = certify(
        Componentwise(Stated(), measurements=3), 1.0, samples=20_000, rng=np.random.default_rng(1)
    )
    assert honest
    assert "Pairs of outputs are independent" in str(honest)


@pytest.mark.parametrize("samples", [20_000, 100_000])
def test_the_power_is_an_excess_over_the_level(samples):
    """What the certificate says it would find is found; half of that need not be."""
    honest = certify(Stated(), 1.0, samples=samples, rng=np.random.default_rng(1))
    assert 0.05 < honest.power < 0.6
    assert f"{honest.power:.1%} more than the level" in str(honest)
    factor = 1 / math.sqrt(1 + honest.power)
    over = Stated(lambda u, z, c, r: u + (z - u) * factor)
    assert not certify(over, 1.0, samples=samples, rng=np.random.default_rng(2))


def test_more_samples_find_less():
    few, many = (
        certify(Stated(), 1.0, samples=n, rng=np.random.default_rng(1)).power
        for n in (20_000, 100_000)
    )
    assert many < few / 1.5
    half = certify(Stated(), 2.0, samples=100_000, rng=np.random.default_rng(1))
    assert half.power == pytest.approx((1 + many) / 2 - 1)  # half of the level is to spare
    assert "Draws above the level would have been found" in str(half)


def test_a_few_draws_have_a_power_too():
    found = certify(Stated(), 1.0, samples=300, rng=np.random.default_rng(1))
    assert found
    assert 1 < found.power < 100
    assert f"{found.power:.1%} more than the level" in str(found)


def test_the_power_is_that_of_the_weakest_channel():
    """Other noise hides a change of its width better."""
    laws = [Additive(Gaussian(1.0)), Additive(Laplace(1.0))]
    each = [certify(one, 1.0, samples=20_000).power for one in laws]
    assert each[0] != each[1]
    found = certify(Componentwise(laws), 1.0, samples=20_000)
    assert found.power == pytest.approx(max(each))


@pytest.mark.parametrize("samples", [4, 20])
def test_draws_without_power_are_said_to_have_none(samples):
    found = certify(Stated(), 1.0, samples=samples, rng=np.random.default_rng(1))
    assert math.isnan(found.power)
    assert "power of the draws is not known" in str(found)


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
    assert "failed" in [c.outcome for c in told.checks if c.claim == "low digits tell nothing"]


def test_the_global_generators_are_left_as_they_were():
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    before = np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    looked(lambda u, z, c, r: z)
    assert np.array_equal(np.random.get_state()[1], before[0])  # noqa: NPY002
    assert random.getstate() == before[1]
