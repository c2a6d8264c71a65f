"""Against dp_accounting (Google): the Gaussian mechanism of sensitivity 1 and σ = 1/μ."""

import math
import warnings

import numpy as np
import pytest
import scipy.special

from privest.privacy.gdp import compose, delta_of, epsilon_of, log_delta_of, mu_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the peer's own imports may warn; not ours to fix
    import dp_accounting
    from dp_accounting.pld import privacy_loss_distribution, privacy_loss_mechanism
    from dp_accounting.rdp import RdpAccountant

U = float(np.finfo(float).eps)
MUS = [1e-3, 1e-2, 0.1, 0.5, 1.0, 2.0, 5.0]
DELTAS = [1e-12, 1e-8, 1e-5, 1e-3, 0.1]


def tails(mu, epsilon):
    """log Φ(a), log(e^ε Φ(b)) and ratio/(1 − ratio): how the peer's difference magnifies."""
    first = float(scipy.special.log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(scipy.special.log_ndtr(-mu / 2 - epsilon / mu))
    return first, second, math.exp(second - log_delta_of(mu, epsilon))


def peer_log_error(mu, epsilon):
    """The rounding of the peer's log δ = x + log1p(−e^{y−x}), to a factor: its x and y carry
    their own rounding and that of their argument t, at slope about t + μ/2 + 1."""
    x, y, magnification = tails(mu, epsilon)
    reach = epsilon / mu + mu / 2
    return 4 * U * (1 + magnification) * (abs(x) + abs(y) + epsilon + reach * (reach + 1))


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("t", [0.0, 0.1, 1.0, 3.0, 6.0])
def test_delta_against_the_analytic_privacy_loss(mu, t):
    # The peer documents Φ(a) − e^ε Φ(b), subtracted as it stands: exact up to that rounding.
    epsilon = mu * t
    peer = privacy_loss_mechanism.GaussianPrivacyLoss(1 / mu).get_delta_for_epsilon(epsilon)
    assert abs(delta_of(mu, epsilon) - peer) <= peer_log_error(mu, epsilon) * peer + U * peer


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_against_get_epsilon_gaussian(mu, delta):
    # The peer stops within tol = 1e-12 of a root of its own log δ.
    ours, peer = epsilon_of(mu, delta), dp_accounting.get_epsilon_gaussian(1 / mu, delta)
    if ours == 0 or peer == 0:
        assert ours == peer
        return
    slope = tails(mu, ours)[2]  # −∂ log δ/∂ε
    assert abs(ours - peer) <= 1e-12 + peer_log_error(mu, ours) / slope


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0, 20.0])
@pytest.mark.parametrize("delta", DELTAS)
def test_mu_against_get_sigma_gaussian(epsilon, delta):
    mu, sigma = mu_of(epsilon, delta), dp_accounting.get_sigma_gaussian(epsilon, delta)
    a = mu / 2 - epsilon / mu
    slope = math.exp(-a * a / 2) / math.sqrt(2 * math.pi) / delta  # ∂ log δ/∂μ
    in_sigma = peer_log_error(mu, epsilon) / slope / mu**2
    assert abs(1 / mu - sigma) <= 1e-12 + 8 * U * sigma + in_sigma


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
def test_delta_lies_within_the_discretised_privacy_loss(mu):
    # The peer's promise: pessimistic is never below, optimistic never above, and losses move by
    # at most one interval. It may add the mass e^-50 it cut off, and it rounds sums of masses.
    interval, cut = 1e-3, 2 * math.exp(-50) + 1e-13
    upper, lower = (
        privacy_loss_distribution.from_gaussian_mechanism(
            1 / mu,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=interval,
            use_connect_dots=False,
        )
        for pessimistic in (True, False)
    )
    for epsilon in np.linspace(2 * interval, mu * (mu / 2 + 4), 12):
        ours = delta_of(mu, epsilon)
        high, low = (float(d.get_delta_for_epsilon(epsilon)) for d in (upper, lower))
        assert low - cut <= ours <= high + cut
        assert high <= delta_of(mu, epsilon - interval) + cut
        assert low >= delta_of(mu, epsilon + interval) - cut


@pytest.mark.parametrize("parts", [(0.5, 0.5, 0.5, 0.5), (0.3, 0.4, 1.2)])
def test_composition_against_convolved_privacy_losses(parts):
    interval = 1e-3
    together = None
    for mu in parts:
        part = privacy_loss_distribution.from_gaussian_mechanism(
            1 / mu, value_discretization_interval=interval, use_connect_dots=False
        )
        together = part if together is None else together.compose(part)
    mu = compose(*parts)
    slack = 1e-12  # tails cut in the convolutions, and the rounding of an FFT of masses ≤ 1
    for epsilon in np.linspace(0.1, 5, 8):
        peer = float(together.get_delta_for_epsilon(epsilon))
        assert delta_of(mu, epsilon) - slack <= peer
        assert peer <= delta_of(mu, epsilon - len(parts) * interval) + slack


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("delta", DELTAS)
def test_zcdp_is_a_valid_upper_bound(mu, delta):
    # ρ = μ²/2 is the Gaussian mechanism's own Rényi curve, and the generic conversion from it
    # can only lose.
    def renyi(event):
        return RdpAccountant().compose(event).get_epsilon(delta)

    zcdp = renyi(dp_accounting.ZCDpEvent(rho=mu**2 / 2))
    gaussian = renyi(dp_accounting.GaussianDpEvent(noise_multiplier=1 / mu))
    assert zcdp == pytest.approx(gaussian, rel=1e-12)
    assert epsilon_of(mu, delta) <= zcdp
