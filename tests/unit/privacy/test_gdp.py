import math

import mpmath
import numpy as np
import pytest
import scipy.special
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from privest.errors import InvalidInput, NumericalFailure
from privest.privacy import gdp
from privest.privacy.gdp import (
    compose,
    delta_of,
    epsilon_of,
    log_delta_of,
    mu_of,
)

U = float(np.finfo(float).eps)
LOG_TINY = math.log(1e-300)
untimed = settings(deadline=None)  # the first call may load scipy.optimize

mus = st.floats(-8, 4).map(lambda x: 10.0**x)
epsilons = st.one_of(st.just(0.0), st.floats(-12, 4).map(lambda x: 10.0**x))
deltas = st.one_of(
    st.floats(-300, -1e-3).map(lambda x: 10.0**x),
    st.floats(-15.5, -1).map(lambda x: 1 - 10.0**x),
)


@st.composite
def pairs(draw):
    """(μ, ε) with 1e-300 ≤ δ < 1: a is drawn in (−37, 8), then ε = μ(μ/2 − a)."""
    mu = draw(mus)
    a = draw(st.floats(-37, min(8.0, mu / 2)))
    epsilon = mu * (mu / 2 - a)
    assume(epsilon >= 0)
    assume(LOG_TINY <= log_delta_of(mu, epsilon) < math.log1p(-1e-15))
    return mu, epsilon


def exact_log_delta(mu, epsilon):
    """log δ(ε) from the definition; 50 digits are left when the two terms have cancelled."""
    with mpmath.workdps(120 + max(0, -math.floor(math.log10(mu)))):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        tail = lambda x: mpmath.erfc(x / mpmath.sqrt(2)) / 2  # noqa: E731
        t = epsilon / mu
        second = mpmath.exp(epsilon) * tail(t + mu / 2)
        delta = tail(t - mu / 2) - second
        if delta > 0.5:
            return mpmath.log1p(-(tail(mu / 2 - t) + second))
        return mpmath.log(delta)


def exact_log(delta):
    with mpmath.workdps(50):
        return mpmath.log(delta)


def stated_error(mu, epsilon):
    """The bound on the error of log δ that the module states, written again."""
    t, a = epsilon / mu, mu / 2 - epsilon / mu
    hazard = math.sqrt(2 / math.pi) / float(scipy.special.erfcx(-a / math.sqrt(2)))
    return 4 * U * (abs(log_delta_of(mu, epsilon)) + (t + mu / 2) * hazard)


def slopes(mu, epsilon):
    """−∂ log δ/∂ε = e^ε Φ(b)/δ and ∂ log δ/∂μ = φ(a)/δ."""
    log_delta, a = log_delta_of(mu, epsilon), mu / 2 - epsilon / mu
    b = -mu / 2 - epsilon / mu
    in_epsilon = math.exp(epsilon + float(scipy.special.log_ndtr(b)) - log_delta)
    in_mu = math.exp(-a * a / 2 - log_delta) / math.sqrt(2 * math.pi)
    return in_epsilon, in_mu


GRID_MU = [10.0**x for x in np.arange(-8, 4.01, 0.5)]
GRID_EPSILON = [0.0, *(10.0**x for x in np.arange(-12, 4.01, 0.5))]


@pytest.mark.parametrize("mu", GRID_MU)
def test_delta_of_against_mpmath(mu):
    # The second list puts ε where δ is neither 0 nor 1, for every μ.
    around = [mu * (mu / 2 - a) for a in np.linspace(-37, min(8, mu / 2), 30)]
    for epsilon in GRID_EPSILON + [e for e in around if e >= 0]:
        exact = exact_log_delta(mu, epsilon)
        error = abs(float(log_delta_of(mu, epsilon) - exact))
        assert error <= stated_error(mu, epsilon), epsilon
        if exact >= LOG_TINY:
            with mpmath.workdps(50):
                relative = float(abs(delta_of(mu, epsilon) / mpmath.exp(exact) - 1))
            assert relative <= stated_error(mu, epsilon) + 2 * U, epsilon
            if epsilon <= 1e4:
                assert relative <= 1e-12, epsilon
        else:
            assert delta_of(mu, epsilon) <= 1.1e-300


@untimed
@given(mu=st.floats(1e-8, 1.5), t=st.floats(0, 2))
def test_delta_of_has_full_precision_where_the_terms_cancel(mu, t):
    epsilon = mu * t
    with mpmath.workdps(50):
        exact = mpmath.exp(exact_log_delta(mu, epsilon))
        assert float(abs(delta_of(mu, epsilon) / exact - 1)) <= 40 * U


@untimed
@given(mu=mus)
def test_delta_at_zero_epsilon_is_the_total_variation(mu):
    assert delta_of(mu, 0.0) == pytest.approx(math.erf(mu / math.sqrt(8)), rel=64 * U)


@untimed
@given(epsilon=epsilons)
def test_nothing_released_is_perfectly_private(epsilon):
    assert delta_of(0.0, epsilon) == 0.0
    assert log_delta_of(0.0, epsilon) == -math.inf
    assert epsilon_of(0.0, 1e-6) == 0.0


@pytest.mark.parametrize(
    ("mu", "epsilon", "delta"),
    [
        (1e4, 1e4, 1.0),
        (1e4, 0.0, 1.0),
        (1e-8, 1e4, 0.0),
        (1e-8, 0.0, 1e-8 / math.sqrt(2 * math.pi)),
        (1e308, 1e308, 1.0),
        (1e308, 0.0, 1.0),
        (1e-308, 1e308, 0.0),
        (5e-324, 1e308, 0.0),
        (1e-300, 1e-150, 0.0),
        (1e-300, 0.0, 1e-300 / math.sqrt(2 * math.pi)),
    ],
)
def test_extremes_without_overflow_or_warning(mu, epsilon, delta):
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        assert delta_of(mu, epsilon) == pytest.approx(delta, rel=1e-13, abs=0)
        assert log_delta_of(mu, epsilon) <= 0


def test_log_delta_goes_on_where_delta_underflows():
    # Mills ratio to second order: δ = φ(t) μ/t² (1 + O(μt) + O(1/t²)), here with t = 1e6.
    mu, t = 1e-8, 1e6
    expected = -t * t / 2 + mu * t / 2 - math.log(math.sqrt(2 * math.pi)) + math.log(mu / t**2)
    assert delta_of(mu, mu * t) == 0.0
    assert log_delta_of(mu, mu * t) == pytest.approx(expected, rel=8 * U)


@untimed
@given(mu=mus, epsilon=epsilons, factor=st.floats(1, 10))
def test_delta_falls_with_epsilon_and_grows_with_mu(mu, epsilon, factor):
    # Neighbouring floats may swap by the error of both ends.
    def slack(m, e):
        return 2 * stated_error(m, e) if log_delta_of(m, e) > LOG_TINY else 0.0

    here = log_delta_of(mu, epsilon)
    later = log_delta_of(mu, factor * epsilon)
    more = log_delta_of(factor * mu, epsilon)
    assume(here > LOG_TINY)
    assert later <= here + slack(mu, epsilon)
    assert more >= here - slack(mu, epsilon) - slack(factor * mu, epsilon)


@untimed
@given(pair=pairs())
def test_epsilon_of_inverts_delta_of(pair):
    mu, epsilon = pair
    slope, _ = slopes(mu, epsilon)
    # error of δ, rounding of δ, and the safety margin, carried to ε; then the rounding of ε.
    tolerance = (3 * stated_error(mu, epsilon) + 2 * U) / slope + 16 * U * epsilon
    assert abs(epsilon_of(mu, delta_of(mu, epsilon)) - epsilon) <= tolerance


@untimed
@given(pair=pairs())
def test_mu_of_inverts_delta_of(pair):
    mu, epsilon = pair
    _, slope = slopes(mu, epsilon)
    tolerance = (3 * stated_error(mu, epsilon) + 2 * U) / slope + 16 * U * mu
    assert abs(mu_of(epsilon, delta_of(mu, epsilon)) - mu) <= tolerance


@untimed
@given(mu=mus, delta=deltas)
@example(mu=1.0, delta=1e-300)
@example(mu=1e4, delta=1e-300)
@example(mu=1e-8, delta=1e-300)
@example(mu=1.0, delta=delta_of(1.0, 0.0))
@example(mu=1.0, delta=delta_of(1.0, 0.0) * (1 - 1e-15))
@example(mu=1.0, delta=delta_of(1.0, 1e-14))
def test_epsilon_of_is_safe_and_tight(mu, delta):
    epsilon = epsilon_of(mu, delta)
    assert delta_of(mu, epsilon) <= delta
    assert exact_log_delta(mu, epsilon) <= exact_log(delta)  # holds exactly, not only in floats
    if epsilon > 0:  # nor is much given away: at most the margin, at the next float
        slope, _ = slopes(mu, epsilon)
        margin = 2 * stated_error(mu, epsilon) + 16 * U * epsilon * slope
        assert exact_log_delta(mu, epsilon) >= exact_log(delta) - margin


@untimed
@given(epsilon=epsilons, delta=deltas)
@example(epsilon=0.0, delta=1e-300)
@example(epsilon=1e4, delta=1e-300)
@example(epsilon=1e4, delta=1 - 2**-53)
@example(epsilon=0.0, delta=0.5)
def test_mu_of_is_safe_and_tight(epsilon, delta):
    mu = mu_of(epsilon, delta)
    assert mu > 0
    assert delta_of(mu, epsilon) <= delta
    assert exact_log_delta(mu, epsilon) <= exact_log(delta)
    _, slope = slopes(mu, epsilon)
    margin = 2 * stated_error(mu, epsilon) + 16 * U * mu * slope
    assert exact_log_delta(mu, epsilon) >= exact_log(delta) - margin


@untimed
@given(delta=deltas)
def test_mu_of_at_zero_epsilon_is_an_inverse_error_function(delta):
    expected = 2 * math.sqrt(2) * float(scipy.special.erfinv(delta))
    # 1 − δ carries the rounding of δ: relative error u/(1 − δ) of δ, over its log slope in μ.
    _, slope = slopes(expected, 0.0)
    tolerance = (2 * stated_error(expected, 0.0) + 4 * U) / slope + 32 * U * expected
    assert abs(mu_of(0.0, delta) - expected) <= tolerance


@pytest.mark.parametrize("mu", [1e14, 1e16, 1e100, 1e150])
def test_a_very_large_mu_costs_half_its_square(mu):
    epsilon = epsilon_of(mu, 1e-6)
    assert mu * mu / 2 <= epsilon <= mu * mu / 2 * (1 + 64 * U) + 10 * mu
    assert mu_of(epsilon, 1e-6) == pytest.approx(mu, rel=64 * U)


def test_met_at_zero_epsilon_costs_nothing():
    assert epsilon_of(1.0, 0.383) == 0.0
    assert epsilon_of(1e-8, 1e-6) == 0.0
    assert epsilon_of(1.0, 0.382) > 0.0


@untimed
@given(parts=st.lists(st.floats(0, 1e3), max_size=6))
def test_compose_adds_squares(parts):
    total = math.fsum(mu * mu for mu in parts)
    assert compose(*parts) ** 2 == pytest.approx(total, rel=8 * U, abs=1e-300)


def test_compose_is_the_gaussian_release_of_both():
    # Two independent releases of the same y are one release with summed information.
    assert delta_of(compose(0.3, 0.4), 1.0) == pytest.approx(delta_of(0.5, 1.0), rel=8 * U)


def test_results_are_plain_floats():
    answers = [
        delta_of(np.float64(1), np.array(1)),
        log_delta_of(1, 1),
        epsilon_of(np.float32(1), 1e-6),
        mu_of(1, 1e-6),
        compose(1, 2),
    ]
    assert all(type(answer) is float for answer in answers)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: delta_of(-1.0, 1.0), "mu must be ≥ 0; received -1"),
        (lambda: delta_of(1.0, -1.0), "epsilon must be ≥ 0; received -1"),
        (lambda: delta_of(math.nan, 1.0), "mu must be finite; it has NaN"),
        (lambda: delta_of(1.0, math.inf), "epsilon must be finite; it has an infinity"),
        (lambda: delta_of([1.0], 1.0), "mu must be a single number"),
        (lambda: log_delta_of(-1.0, 1.0), "mu must be ≥ 0; received -1"),
        (lambda: epsilon_of(1.0, 0.0), "no finite pure epsilon"),
        (lambda: epsilon_of(1.0, 1.0), r"delta must be in \(0, 1\).*received 1.0"),
        (lambda: epsilon_of(1.0, -0.1), r"delta must be in \(0, 1\).*received -0.1"),
        (lambda: epsilon_of(1.0, 1e-310), "not below 2.2e-308.*received 1e-310"),
        (lambda: epsilon_of(1e200, 0.1), "Use a mu below 1e150"),
        (lambda: mu_of(1.0, 0.0), "no finite pure epsilon"),
        (lambda: mu_of(1.0, 1.0), r"delta must be in \(0, 1\).*received 1.0"),
        (lambda: mu_of(1.0, -0.1), r"delta must be in \(0, 1\).*received -0.1"),
        (lambda: mu_of(-1.0, 0.1), "epsilon must be ≥ 0; received -1"),
        (lambda: compose(1.0, -1.0), "mu number 2 must be ≥ 0; received -1"),
        (lambda: compose(1.7e308, 1.7e308), "larger than the largest float"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.parametrize(("call", "excess"), [(epsilon_of, 1.0), (mu_of, 1.0), (mu_of, -1.0)])
def test_a_search_that_finds_nothing_ends_with_a_sentence(call, excess, monkeypatch):
    """Were rounding to have the better of it: no search goes on for ever."""
    monkeypatch.setattr(gdp, "_log_delta", lambda mu, epsilon: (math.log(1e-6) + excess, 0.0))
    with pytest.raises(NumericalFailure, match="no ε or μ was found"):
        call(1.0, 1e-6)
