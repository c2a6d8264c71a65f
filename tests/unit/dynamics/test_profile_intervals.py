"""Profile intervals and flat directions on likelihoods whose answers are known in closed form."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import scipy

from privest.dynamics._fit import flat_directions
from privest.dynamics._intervals import (
    HigherMaximum,
    Profile,
    _notes,
    profile,
    profile_intervals,
    wald_intervals,
)
from privest.dynamics._maximum import Maximum, curvature, maximise

THRESHOLD = float(scipy.special.chdtri(1, 0.05))
N = 12
MEAN, VARIANCE = 0.7, 2.0  # of the sample: they are sufficient
FREE = [-np.inf, np.inf]
ALL = np.ones(3, dtype=bool)


def sample(t):
    """ℓ of N normal numbers in (μ, log σ²)."""
    mu, log = t
    off = N * (VARIANCE + (MEAN - mu) ** 2) * math.exp(-log)
    slope = [N * (MEAN - mu) * math.exp(-log), off / 2 - N / 2]
    return -N / 2 * log - off / 2, np.array(slope)


def peak_at(t, value, information, limits):
    return Maximum(t, value, information, limits, np.zeros(len(t), dtype=bool), True)


PEAK = peak_at(
    np.array([MEAN, math.log(VARIANCE)]), sample([MEAN, math.log(VARIANCE)])[0],
    np.diag([N / VARIANCE, N / 2]), np.array([FREE, [-30.0, 30.0]]),
)  # fmt: skip
PLAIN = SimpleNamespace(
    names=("μ", "σ²"),
    natural=lambda t: np.array([t[0], np.exp(t[1])]),
    natural_slopes=lambda t: np.diag([1.0, np.exp(t[1])]),
)


WHOLE = SimpleNamespace(
    names=("a", "b"), natural=np.asarray, natural_slopes=lambda t: np.eye(len(t))
)


def ratios(t):
    """μ/σ and the 97.7 % point μ + 2σ: both depend on both coordinates."""
    return np.array([t[0] * np.exp(-t[1] / 2), t[0] + 2 * np.exp(t[1] / 2)])


RATIOS = SimpleNamespace(
    natural=ratios,
    natural_slopes=lambda t: np.array(
        [[np.exp(-t[1] / 2), -ratios(t)[0] / 2], [1.0, np.exp(t[1] / 2)]]
    ),
)


def profile_end(function, scale, peak, j, side, threshold):
    """One end by itself."""
    return Profile(function, scale, peak, j, threshold).end(side)


def both_ends(scale, j, function=sample, peak=PEAK):
    return [profile_end(function, scale, peak, j, side, THRESHOLD) for side in (-1, 1)]


def test_mean_and_variance_of_a_normal_sample():
    # 2(ℓ̂ − ℓ_p) = n log(1 + (ȳ − μ)²/σ̂²), and n(log σ²/σ̂² + σ̂²/σ² − 1).
    half = math.sqrt(VARIANCE * math.expm1(THRESHOLD / N))
    low, high = both_ends(PLAIN, 0)
    # The last Newton step leaves the square of MET, 1e-8, and CLIMBED adds as much.
    assert (low.value, high.value) == pytest.approx((MEAN - half, MEAN + half), abs=1e-7)
    low, high = both_ends(PLAIN, 1)

    def off(v):
        return N * (math.log(v / VARIANCE) + VARIANCE / v - 1) - THRESHOLD

    known = (scipy.optimize.brentq(off, 0.01, VARIANCE), scipy.optimize.brentq(off, VARIANCE, 100))
    assert (low.value, high.value) == pytest.approx(known, rel=1e-7)
    assert not low.is_open
    assert not high.is_open


@pytest.mark.parametrize("j", [0, 1])
def test_functions_of_several_coordinates_against_a_constrained_search(j):
    def inside(t):
        return sample(t)[0] - PEAK.value + THRESHOLD / 2

    for side, end in zip((-1, 1), both_ends(RATIOS, j)):
        peer = scipy.optimize.minimize(
            lambda t, side=side: -side * ratios(t)[j], PEAK.t + 0.01, method="SLSQP",
            constraints={"type": "ineq", "fun": inside},
            options={"ftol": 1e-13, "maxiter": 500},
        )  # fmt: skip
        # SLSQP stops where the constraint holds to some 1e-7.
        assert end.value == pytest.approx(float(ratios(peer.x)[j]), abs=1e-6)


def test_few_evaluations():
    count = 0

    def counted(t):
        nonlocal count
        count += 1
        return sample(t)

    for j in (0, 1):
        both_ends(PLAIN, j, counted)
    assert count < 50


def bent(p):
    """ℓ whose coordinates are scaled, correlated, bent: u_i near (u_{i−1} + sin u_{i−1})/3."""
    sizes = np.geomspace(0.1, 30.0, p)

    def function(t):
        u = np.asarray(t) * sizes
        off = u[1:] - (u[:-1] + np.sin(u[:-1])) / 3
        slope = np.zeros(p)
        slope[1:] -= 4 * off
        slope[:-1] += 4 * off * (1 + np.cos(u[:-1])) / 3
        slope[0] -= u[0]
        return -2 * float(off @ off) - u[0] ** 2 / 2, slope * sizes

    return function


@pytest.mark.parametrize("p", [3, 12])
def test_no_more_evaluations_an_end_with_many_parameters(p):
    count, function = 0, bent(p)

    def counted(t):
        nonlocal count
        count += 1
        return function(t)

    peak = peak_at(np.zeros(p), 0.0, curvature(function, np.zeros(p), FREE * np.ones((p, 1))),
                np.array([FREE] * p))  # fmt: skip
    for j in range(p):
        for side in (-1, 1):
            profile_end(counted, WHOLE, peak, j, side, THRESHOLD)
    assert count <= 40 * 2 * p


def test_an_end_that_takes_too_long_is_walds_and_told():
    found = profile(sample, PLAIN, PEAK, THRESHOLD, most=1)
    assert found.rough.any()
    assert (found.ends[:, 0] < PLAIN.natural(PEAK.t)).all()
    wald = wald_intervals(PLAIN, PEAK, 0.95)
    farther = np.where(found.rough, [-1, 1] * (found.ends - wald.ends), 0.0)
    assert (farther >= -1e-9).all()
    assert "took too long" in _notes(found, ("μ", "σ²"))[-1]


def test_an_end_that_is_never_met_is_the_limit():
    # No event in time T: ℓ = −λT, so that λ = 0 is likeliest and only the upper end is met:
    # 2λT = χ².
    def none_seen(t):
        return -math.exp(t[0]), np.array([-math.exp(t[0])])

    scale = SimpleNamespace(natural=np.exp, natural_slopes=lambda t: np.exp(t)[:, None])
    peak = peak_at(
        np.array([-25.0]), none_seen([-25.0])[0], np.array([[1e-11]]), np.array([[-25, 9]])
    )
    low, high = both_ends(scale, 0, none_seen, peak)
    assert (low.value, low.is_open) == (0.0, True)
    assert not high.is_open
    assert high.value == pytest.approx(THRESHOLD / 2, rel=1e-7)


def test_a_probability_up_to_one():
    # n of n: ℓ = n log p, p = (1 + tanh t)/2: the lower end is e^{−χ²/2n}, the upper is open at 1.
    def all_seen(t):
        p = (1 + math.tanh(t[0])) / 2
        return 5 * math.log(p), np.array([5 / p * (1 - math.tanh(t[0]) ** 2) / 2])

    scale = SimpleNamespace(
        natural=lambda t: (1 + np.tanh(t)) / 2,
        natural_slopes=lambda t: ((1 - np.tanh(t) ** 2) / 2)[:, None],
    )
    peak = peak_at(
        np.array([12.0]), all_seen([12.0])[0], np.array([[1e-9]]), np.array([[-12.0, 12]])
    )
    low, high = both_ends(scale, 0, all_seen, peak)
    assert (high.value, high.is_open) == (1.0, True)
    assert low.value == pytest.approx(math.exp(-THRESHOLD / 10), rel=1e-7)


def two_peaks(t):
    """A low peak at −2 and one higher by 1 at 3, of unit width; a second coordinate beside."""
    parts = np.array([-((t[0] + 2) ** 2) / 2, 1 - (t[0] - 3) ** 2 / 2])
    height = np.logaddexp(*parts)
    share = np.exp(parts - height)
    own = share @ np.array([-(t[0] + 2), -(t[0] - 3)])
    return float(height - t[1] ** 2), np.array([own, -2 * t[1]])


def test_a_higher_peak_is_told_and_the_fit_taken_up_from_there():
    limits = np.array([[-9.0, 9.0], FREE])
    top = maximise(two_peaks, [np.array([-2.0, 0.3])], limits, 1)
    assert top.value < 0.1
    # The end is searched for below the valley between the peaks.
    deep = 2 * (top.value - two_peaks([0.4, 0.0])[0]) + 1
    with pytest.raises(HigherMaximum):
        profile_end(two_peaks, WHOLE, top, 0, 1, deep)
    confidence = float(scipy.special.chdtr(1, deep))
    found = profile_intervals(two_peaks, WHOLE, top, confidence, 1)
    assert found.estimate[0] == pytest.approx(3.0, abs=1e-4)
    assert "higher" in found.notes[0]


def test_what_means_nothing_at_a_limit_has_no_interval():
    # ℓ = −(q(2 + φ) − 0.1)²: where q → 0, φ is in nothing.
    def vanishing(t):
        phi, q = math.tanh(t[0]), math.exp(t[1])
        own = q * (2 + phi)
        slope = np.array([q * (1 - phi**2), own])
        return -((own - 0.1) ** 2), -2 * (own - 0.1) * slope

    scale = SimpleNamespace(
        names=("φ", "q"),
        natural=lambda t: np.array([np.tanh(t[0]), np.exp(t[1])]),
        natural_slopes=lambda t: np.diag([1 - np.tanh(t[0]) ** 2, np.exp(t[1])]),
    )
    limits = np.array([[-6.0, 6.0], [-20.0, 9.0]])
    top = maximise(vanishing, [np.array([0.0, -1.0])], limits, 1)
    found = profile_intervals(vanishing, scale, top, 0.95, 1)
    assert found.open_ends.tolist() == [[True, True], [True, False]]
    assert found.ends[0].tolist() == [-1.0, 1.0]
    assert found.low[1] == 0.0
    assert found.notes[0] == "φ has no interval: q = 0 is not excluded, and φ means nothing there."
    assert "φ" in found.words()[0]
    assert "(-1, 1)" in found.words()[0]


def test_wald_is_the_curvature_in_working_scale():
    spread = math.sqrt(2 / N)  # of log σ²
    found = wald_intervals(PLAIN, PEAK, 0.95)
    q = scipy.special.ndtri(0.975)
    assert found.ends[1] == pytest.approx(VARIANCE * np.exp([-q * spread, q * spread]), rel=1e-6)
    assert "σ²" in found.notes[0]  # .41 is more than .2
    assert "μ" not in found.notes[0]  # a mean is no logarithm


def test_flat_directions_are_named():
    labels = ("atanh φ", "log q", "log r")
    sum_only = np.outer([0, 1, 1], [0, 1, 1]) * 50.0 + np.diag([30.0, 0.0, 0.0])
    (one,) = flat_directions(sum_only, labels, ALL)
    assert one.words in (
        "log q − log r is not determined by these releases",
        "log r − log q is not determined by these releases",
    )
    assert math.isinf(one.standard_error)
    assert one.to_dict()["standard_error"] == "Infinity"
    # Units do not decide what is null: the same in other ones.
    unit = np.array([1.0, 1e-4, 1e3])
    assert len(flat_directions(sum_only * np.outer(unit, unit), labels, ALL)) == 1
    weak = sum_only + np.outer([0, 1, -1], [0, 1, -1]) / 4 / 2.5**2 * 2
    (one,) = flat_directions(weak, labels, ALL)
    assert one.standard_error == pytest.approx(2.5, rel=1e-9)
    assert "hardly determined" in one.words
    assert flat_directions(np.eye(3) * 4, labels, ALL) == ()


def test_units_of_a_mean_decide_nothing():
    information = np.diag([1e-6, 40.0])
    assert flat_directions(information, ("mean", "log q"), np.array([False, True])) == ()
    assert len(flat_directions(information, ("log r", "log q"), ALL[:2])) == 1


def test_a_parameter_without_any_information_is_named_alone():
    (one,) = flat_directions(np.diag([0.0, 40.0]), ("atanh φ", "log q"), ALL[:2])
    assert one.words == "atanh φ is not determined by these releases"
