"""Releases as a whole: channels that are each sound, and a mechanism that is not."""

import math

import numpy as np
import pytest

from privest import noise
from privest.audit import certify
from privest.mechanism import Additive, Channel, Componentwise


def shared_noise(u, rng):
    both = np.repeat(rng.normal(size=(u.size + 1) // 2), 2)[: u.size]
    return u + both.reshape(u.shape)


def normal_log_density(z, u):
    return -((np.asarray(z) - u) ** 2) / 2 - math.log(2 * math.pi) / 2


class Shows(Componentwise):
    def simulate(self, y, rng, trials=None):
        z = super().simulate(y, rng, trials)
        return z * 0 + np.asarray(y)


class OneDraw(Componentwise):
    def simulate(self, y, rng, trials=None):
        z = super().simulate(y, rng, trials)
        sign = np.where(rng.random(z[..., :1].shape) < 0.5, 1, -1)
        return np.asarray(y) + np.concatenate(
            [z[..., :1] - np.asarray(y)[:1], sign * (z[..., :1] - np.asarray(y)[:1])], axis=-1
        )


UNIT = Additive(noise.Gaussian(1.0))


@pytest.mark.parametrize("measurements", [2, 3])
def test_noise_that_a_sampler_repeats_between_readings_is_seen(measurements):
    channel = Channel.from_functions(sample=shared_noise, log_density=normal_log_density, worst=1.0)
    found = certify(Componentwise(channel, measurements=measurements), 1.0, samples=20_000)
    assert not found.verdict.startswith("holds"), str(found)
    assert found.sampler == "contradicts"
    if measurements == 2:
        assert found.margin == math.inf


@pytest.mark.parametrize("kind", [Shows, OneDraw])
def test_a_simulate_of_its_own_is_run(kind):
    found = certify(kind(UNIT, measurements=2), 1.0, samples=20_000, rng=np.random.default_rng(1))
    assert not found.verdict.startswith("holds"), str(found)
    assert found.sampler == "contradicts"


def test_a_sound_simulate_of_its_own_is_not_broken():
    class Same(Componentwise):
        def simulate(self, y, rng, trials=None):
            return super().simulate(y, rng, trials)

    for kind in (Same, Componentwise):
        found = certify(kind(UNIT, measurements=3), 1.0, samples=20_000)
        assert found.verdict == "holds"  # of the density
        assert found.sampler == "not broken"
