"""Information from samples: intervals that cover, domains that are respected, no nonsense."""

import math

import numpy as np
import pytest
import scipy

from privest import noise
from privest.audit import certify, fisher_information
from privest.audit._samples import _seen_unit as seen_unit
from privest.audit._samples import information_from_samples
from privest.errors import InvalidInput

LAWS = {
    "gaussian": noise.Gaussian(),
    "laplace": noise.Laplace(),
    "cauchy": noise.Cauchy(),
    "cos2": noise.CosSquared(),
    "bump": noise.Bump(2.0),
    "logistic": noise.Logistic(),
}


def sampler_of(law):
    """y + noise; bounded noise by a table of its distribution function (speed)."""
    low, high = law.support
    if not math.isfinite(high):
        return lambda y, rng, n: y[0] + law.sample(n, rng)
    x = np.linspace(low, high, 100_001)[1:-1]
    total = np.cumsum(np.exp(law.logpdf(x)))
    return lambda y, rng, n: y[0] + np.interp(rng.random(n), total / total[-1], x)


def covered(law, samples, repetitions, confidence):
    truth, draw = law.fisher_information, sampler_of(law)
    inside = below = 0
    for seed in range(repetitions):
        found = information_from_samples(
            draw, np.array([0.2]), samples=samples, rng=np.random.default_rng(seed),
            confidence=confidence,
        )  # fmt: skip
        inside += abs(found.matrix[0, 0] - truth) <= found.error[0, 0]
        below += found.lower[0] <= truth
    return inside, below


def least_successes(repetitions, confidence):
    """Fewer than this has probability below 1e-4 for an interval that keeps its promise."""
    return int(scipy.stats.binom.ppf(1e-4, repetitions, confidence))


@pytest.mark.parametrize("name", ["cos2", "laplace"])
def test_intervals_cover_where_the_score_has_no_bound_or_jumps(name):
    inside, below = covered(LAWS[name], 20_000, 20, 0.95)
    assert min(inside, below) >= least_successes(20, 0.95)


@pytest.mark.slow
@pytest.mark.parametrize("samples", [2_000, 20_000, 200_000])
@pytest.mark.parametrize("name", sorted(LAWS))
def test_intervals_cover_at_their_confidence(name, samples):
    repetitions = 200 if samples < 100_000 else 40
    inside, below = covered(LAWS[name], samples, repetitions, 0.95)
    assert inside >= least_successes(repetitions, 0.95)
    assert below >= least_successes(repetitions, 0.95)


def test_lower_bounds_are_corrected_for_all_steps_and_directions():
    # The same draws at three confidences: top = mean + t·s/√B, so differences of cos(h√lower) are
    # in the ratio of differences of Student quantiles, at 1 − (1 − c)/(steps · directions), for 2
    # directions and 2 or 3 steps.
    confidences = (0.95, 0.97, 0.99)
    found = [
        information_from_samples(
            lambda y, rng, n: y + rng.standard_normal((n, 2)), np.zeros(2), samples=20_000,
            rng=np.random.default_rng(1), confidence=confidence,
        )
        for confidence in confidences
    ]  # fmt: skip
    assert all((one.reach == found[0].reach).all() for one in found)
    tops = np.array([np.cos(one.reach * np.sqrt(one.lower)) for one in found])
    ratio = (tops[1] - tops[0]) / (tops[2] - tops[0])

    def expected(parts):
        t = scipy.stats.t.ppf(1 - (1 - np.array(confidences)) / parts, 31)
        return (t[1] - t[0]) / (t[2] - t[0])

    assert np.abs(ratio - expected(6)).max() < 1e-6 or np.abs(ratio - expected(4)).max() < 1e-6
    assert min(abs(expected(4) - expected(3)), abs(expected(6) - expected(3))) > 1e-4
    assert (np.diff(tops, axis=0) > 0).all()


def asked(low, high, kind):
    """A coin of chance y on [low, high] that refuses, or answers NaN, elsewhere."""
    calls = []

    def sampler(y, rng, n):
        calls.append(float(y[0]))
        if not low <= y[0] <= high:
            if kind == "raises":
                raise ValueError("chance out of range")
            return np.full((n, 1), np.nan)
        return (rng.random((n, 1)) < y[0]).astype(float)

    return sampler, calls


@pytest.mark.parametrize("kind", ["raises", "nan"])
@pytest.mark.parametrize("y", [0.3, 0.97])
def test_a_sampler_with_a_domain_is_not_called_far_outside(kind, y):
    sampler, calls = asked(0.0, 1.0, kind)
    found = fisher_information(sampler, [y], samples=50_000, rng=np.random.default_rng(3))
    truth = 1 / (y * (1 - y))
    assert abs(found.matrix[0, 0] - truth) <= found.error[0, 0]
    assert "does not answer further than" in str(found)
    # One widening by 16 beyond what was answered, no more.
    assert max(abs(v - y) for v in calls) <= 16
    # What counts stays inside: y ± reach.
    assert found.reach[0] <= min(y, 1 - y)


def test_a_sampler_without_a_domain_is_called_no_further_than_needed():
    calls = []

    def sampler(y, rng, n):
        calls.append(float(y[0]))
        return y + rng.standard_normal((n, 1))

    fisher_information(sampler, [0.3], samples=2_000, rng=np.random.default_rng(3))
    assert max(np.abs(calls)) < 20  # before: 1e12


def test_the_edge_of_a_domain_is_named():
    sampler, _ = asked(0.0, 1.0, "raises")
    with pytest.raises(InvalidInput, match="edge of its domain"):
        fisher_information(sampler, [0.0], samples=2_000, rng=np.random.default_rng(3))
    sampler, _ = asked(0.0, 1.0, "nan")
    with pytest.raises(InvalidInput, match="edge of its domain"):
        seen_unit(sampler, np.zeros(1), np.ones(1), np.random.default_rng(1), 0.8)
    with pytest.raises(InvalidInput, match="NaN at y"):
        fisher_information(sampler, [2.0], samples=2_000, rng=np.random.default_rng(3))


@pytest.mark.parametrize("power", [1, 3, 9])
@pytest.mark.parametrize("samples", [5_000, 20_000, 200_000])
def test_noise_times_the_reading_at_zero(power, samples):
    # z = 0 exactly at y = 0 and nowhere else: infinite; some of what spreads from it rounds back.
    found = certify(
        lambda y, rng, n: y * rng.standard_normal((n, 1)) ** power, 1.0,
        samples=samples, rng=np.random.default_rng(0),
    )  # fmt: skip
    assert found.verdict == "violated"
    assert found.margin == math.inf


def test_a_margin_is_never_below_what_was_shown():
    # Var z = y² + 1e-6: no information at 0 and a lot beside it; the estimate alone is noise.
    def sampler(y, rng, n):
        return y * rng.standard_normal((n, 1)) + 1e-3 * rng.standard_normal((n, 1))

    for seed in range(4):
        found = certify(sampler, 1.0, samples=5_000, rng=np.random.default_rng(seed))
        assert found.margin >= 0
        assert "information -" not in str(found)


def test_where_the_release_stands_still_at_y_alone_there_is_no_estimate():
    # At y = 0 the release is 0; beside it noise of size 1 that does not depend on how far.
    def sampler(y, rng, n):
        z = rng.standard_normal((n, 1))
        return z if y[0] else np.round(z * 1e-9, 3)

    found = information_from_samples(
        sampler, np.zeros(1), samples=5_000, rng=np.random.default_rng(0)
    )
    assert np.isinf(found.matrix[0, 0]) or np.isnan(found.matrix[0, 0])
    assert not abs(found.matrix[0, 0]) < 1e300


@pytest.mark.parametrize("confidence", [2, 0.0, 1.0, -0.1])
def test_a_confidence_lies_between_zero_and_one(confidence):
    rng = np.random.default_rng(1)
    for audit in (
        lambda: certify(sampler_of(LAWS["laplace"]), 1.0, rng=rng, confidence=confidence),
        lambda: fisher_information(
            sampler_of(LAWS["laplace"]), [0.0], rng=rng, confidence=confidence
        ),
    ):
        with pytest.raises(InvalidInput, match="confidence must lie between 0 and 1"):
            audit()


@pytest.mark.parametrize("samples", [-1, 0, 1, 2.5])
def test_samples_are_counted(samples):
    rng = np.random.default_rng(1)
    with pytest.raises(InvalidInput, match="samples must be a whole number"):
        certify(sampler_of(LAWS["laplace"]), 1.0, rng=rng, samples=samples)
    with pytest.raises(InvalidInput, match="samples must be a whole number"):
        fisher_information(sampler_of(LAWS["laplace"]), [0.0], rng=rng, samples=samples)
