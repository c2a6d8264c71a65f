"""Certificates: what holds, what is caught, what stays open."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from privest import PrivacyLevel, noise
from privest.audit import certify
from privest.errors import InvalidInput
from privest.mechanism import Additive, Channel, Componentwise, Mechanism, calibrate
from toy_channels import (
    InverseGaussian,
    LyingLaplace,
    LyingTriangular,
    Shift,
    TriangularDither,
    UniformDither,
)


class Vague(Mechanism):
    """z = y + N(0, C) that claims a supremum."""

    measurements = outputs = 2

    def __init__(self, claim):
        self.claim = claim

    def simulate(self, y, rng, trials=None):
        return self._given(y) + rng.standard_normal((trials, 2))

    def log_density(self, z, y):
        return -((np.asarray(z) - np.asarray(y)) ** 2).sum(axis=-1) / 2

    def score(self, z, y):
        return np.asarray(z) - np.asarray(y)

    def information(self, y):
        return np.eye(2)

    def worst_information(self):
        return np.diag([self.claim, self.claim])


def laplace(scale):
    return lambda y, rng, n: y + rng.laplace(scale=scale, size=(n, y.size))


@pytest.mark.parametrize("law", [noise.Gaussian(), noise.Laplace(), noise.CosSquared()])
def test_calibrated_noise_holds_and_is_tight(law):
    certificate = certify(Additive.calibrated(2.0, law=law), 2.0)
    assert certificate
    assert abs(certificate.margin - 1) < 1e-9
    assert certificate.method == "closed form supremum"
    assert not certify(Additive.calibrated(2.0, law=law), 1.999)


def test_a_miscalibrated_mechanism_is_caught():
    found = certify(LyingLaplace(), 1.0)  # scale 0.9: information 1.2346
    assert found.verdict == "violated"
    assert found.margin == pytest.approx(1 / 0.81, rel=1e-9)
    assert found.claimed == 1.0
    assert "VIOLATED" in str(found)
    assert "claims, 1, is wrong" in str(found)


def test_a_lie_is_told_even_where_the_level_is_kept():
    found = certify(LyingLaplace(), 2.0)
    assert found.verdict == "undecided"
    assert "is wrong" in str(found)


def test_a_wrong_formula_is_not_believed():
    # Its formula skips vanishing outcomes and its supremum is that of the formula: 4, not 6.
    found = certify(LyingTriangular(), 5.0)
    assert found.verdict == "violated"
    assert found.margin == pytest.approx(6 / 5, abs=1e-5)
    assert "formula for the information is wrong" in str(found)
    assert abs(abs(found.worst_y[0]) % 1 - 0.5) < 1e-9


@pytest.mark.processes
@pytest.mark.parametrize("sigma", [0.8, 2.0])
def test_the_edge_is_found_from_the_density_alone(sigma):
    channel = InverseGaussian(sigma)
    found = certify(channel, 1.0)
    # The one-sided limit at an edge that is nobody's parameter: 1e-6 next to it 5 % are missing.
    assert found.margin == pytest.approx(channel.supremum, rel=1e-4)
    assert abs(found.worst_y[0]) == pytest.approx(channel.edge, rel=1e-5)


def test_the_sum_that_skips_is_not_the_supremum():
    assert certify(TriangularDither(0.7), 1.0).margin == pytest.approx(6 / 0.49, rel=1e-6)


@pytest.mark.parametrize("channel", [UniformDither(0.3), Shift(noise.Uniform())])
def test_infinite_information_never_holds(channel):
    found = certify(channel, 1e6)
    assert found.verdict == "violated"
    assert found.margin == math.inf


def test_without_a_claim_a_search_does_not_prove():
    found = certify(TriangularDither(), 6.1)
    assert found.verdict == "undecided"
    assert found.method == "search by quadrature"
    assert math.isnan(found.claimed)
    assert certify(TriangularDither(claim=6.0), 6.1).verdict == "holds on the examined domain"


def test_inputs_named_by_the_caller_are_looked_at():
    @dataclass(frozen=True)
    class Spike(Shift):
        """Unit noise, except for inputs within 1e-7 of 0.123: a tenth of it."""

        @property
        def worst(self):
            return 1.0

        def log_density(self, z, u):
            close = np.abs(np.asarray(u) - 0.123) < 1e-7
            scale = np.where(close, 0.1, 1.0)
            d = (np.asarray(z) - np.asarray(u)) / scale
            return -np.abs(d) - np.log(2 * scale)

    assert certify(Spike(noise.Laplace()), 1.0, search=[[0.123]]).verdict == "violated"


def test_matrix_levels():
    S = PrivacyLevel([[2.0, 0.5], [0.5, 1.0]])
    mechanism = calibrate(lambda s: Additive.calibrated(s, law=noise.Laplace()), S, model=2)
    assert certify(mechanism, S).margin == pytest.approx(1, abs=1e-9)
    assert certify(mechanism, S)
    tighter = certify(mechanism, PrivacyLevel([[2.0, 0.5], [0.5, 0.9]]))
    assert tighter.verdict == "violated"
    expected = np.linalg.eigvals(np.linalg.solve([[2, 0.5], [0.5, 0.9]], [[2, 0.5], [0.5, 1]]))
    assert tighter.margin == pytest.approx(expected.real.max(), rel=1e-9)


def test_a_hidden_reading_must_not_be_shown_at_all():
    mechanism = Componentwise(Additive(noise.Laplace(1e6)), measurements=2)
    assert certify(mechanism, PrivacyLevel([1.0, 0.0])).margin == math.inf


def test_one_worst_input_each():
    both = Componentwise([TriangularDither(1.0, 6.0), TriangularDither(2.0, 1.5)])
    found = certify(both, PrivacyLevel([6.0, 1.4]))
    assert found.verdict == "violated"
    assert abs(found.worst_y[1] / 2) % 1 == pytest.approx(0.5)


def test_worst_inputs_that_no_y_reaches_together_are_not_called_a_violation():
    # Two quantisers of one reading, half a step apart: never both at their worst.
    A = np.ones((2, 1))
    shifted = Componentwise(TriangularDither(1.0, 6.0), A, [0.0, 0.5])
    assert certify(shifted, 12.0).verdict == "holds on the examined domain"
    assert certify(shifted, 11.0).verdict == "undecided"  # 6 + 4 = 10 is what one y shows
    assert certify(shifted, 9.0).verdict == "violated"


def test_other_mechanisms_are_simulated():
    rng = np.random.default_rng(1)
    assert (
        certify(Vague(1.0), 1.0, samples=20_000, rng=rng).verdict == "holds on the examined domain"
    )
    assert certify(Vague(1.0), 0.8, samples=20_000, rng=rng).verdict == "violated"
    lie = certify(Vague(0.5), 2.0, samples=20_000, rng=rng)
    assert lie.verdict == "undecided"
    assert "is wrong" in str(lie)
    assert certify(Vague(math.inf), 2.0, rng=rng).margin == math.inf


def test_a_sampler_is_refuted_or_left_open():
    # False alarm of the second: 0.001, stated by the certificate.
    rng = np.random.default_rng(2)
    caught = certify(laplace(0.7), 1.0, rng=rng)  # 2.04 of the level
    assert caught.verdict == "violated"
    assert caught.confidence == 0.999
    assert certify(laplace(1.0), 1.0, rng=rng).verdict == "undecided"
    assert certify(laplace(10.0), 1.0, rng=rng).verdict == "undecided"  # never "holds"


def test_a_sampler_is_refuted_in_the_direction_that_shows_most():
    # Each reading alone is within its level; their sum is not.
    S = np.array([[1.0, 0.0], [0.0, 1.0]])

    def sums(y, rng, n):
        return 0.9 * y.sum() + rng.standard_normal((n, 1))

    found = certify(sums, PrivacyLevel(S), samples=100_000, rng=np.random.default_rng(3))
    assert found.verdict == "violated"
    assert found.margin == pytest.approx(1.62, rel=0.05)


def test_refusals():
    rng = np.random.default_rng(1)
    with pytest.raises(InvalidInput, match="hidden directions"):
        certify(laplace(1.0), PrivacyLevel([1.0, 0.0]), rng=rng)
    with pytest.raises(InvalidInput, match="rng"):
        certify(laplace(1.0), 1.0)
    with pytest.raises(InvalidInput, match="received str"):
        certify("laplace", 1.0)


# --- found by a reviewer ------------------------------------------------------------------------


def _normal(z, u, s):
    return -0.5 * ((z - u) / s) ** 2 - np.log(s * np.sqrt(2 * np.pi))


@pytest.mark.parametrize("s", [1e2, 1e4, 1e8])
def test_a_fine_quantiser_holds(s):
    found = certify(calibrate("triangular-quantiser", s, model=1), s)
    assert found.verdict == "holds on the examined domain", str(found)


@pytest.mark.parametrize(
    "channel",
    [
        # its score is not the derivative of its density
        Channel.from_functions(
            log_density=lambda z, u: -np.abs(z - u) / 0.1 - np.log(0.2),
            score=lambda z, u: 0.0 * (z + u),
            worst=1.0,
        ),
        # the law changes at once where |u| passes 5
        Channel.from_functions(
            log_density=lambda z, u: _normal(z, u, np.where(np.abs(u) > 5, 0.1, 1.0)), worst=1.0
        ),
        Channel.from_functions(
            log_density=lambda z, u: np.log(np.where(z == (u > 1.234), 0.75, 0.25)),
            outcomes=lambda u: [0.0, 1.0],
            worst=1.0,
        ),
        Channel.from_functions(
            log_density=lambda z, u: -np.abs(z - np.where(u > 1.234, 1.0, 0.0)) - np.log(2.0),
            worst=1.0,
        ),
    ],
    ids=["false score", "law changes", "discrete jump", "jump"],
)
def test_claims_that_the_density_contradicts(channel):
    assert certify(channel, 1.0).verdict == "violated"


def test_a_law_that_changes_far_away_is_not_called_safe():
    channel = Channel.from_functions(
        log_density=lambda z, u: _normal(z, u, np.where(np.abs(u) > 50, 0.1, 1.0)), worst=1.0
    )
    assert not certify(channel, 1.0).verdict.startswith("holds")
