"""Score and information by numbers, against closed forms; verdicts where there is none."""

import math

import numpy as np
import pytest
import scipy

from privest import noise
from privest.errors import InvalidInput
from privest.mechanism import Additive, Channel, ProbabilisticQuantiser
from privest.mechanism.numerics import information_by_numbers, score_by_differences
from toy_channels import (
    InverseGaussian,
    Rounded,
    Shift,
    Sign,
    StillJump,
    TriangularDither,
    TwinUniform,
    UniformDither,
)

SMOOTH = [
    noise.Gaussian(0.3),
    noise.Laplace(0.5),
    noise.Cauchy(2.0),
    noise.StudentT(3.0),
    noise.CosSquared(1.5),
    noise.Bump(2.0),
]


def agrees(found, expected, relative):
    """Within the stated error, and that error is small."""
    assert abs(found.value - expected) <= found.error + 1e-13 * expected
    assert found.error <= relative * expected


@pytest.mark.parametrize("u", [0.0, 1.7, -1000.0])
@pytest.mark.parametrize("law", SMOOTH, ids=lambda law: type(law).__name__)
def test_shifts_of_a_law_have_its_information(law, u):
    agrees(information_by_numbers(Shift(law), u), law.fisher_information, 1e-8)
    agrees(information_by_numbers(Additive(law), u), law.fisher_information, 1e-8)


@pytest.mark.parametrize(
    "law",
    [law for law in SMOOTH if math.inf in law.support],
    ids=lambda law: type(law).__name__,
)
def test_nothing_need_be_declared(law):
    agrees(information_by_numbers(Shift(law, False), 0.3), law.fisher_information, 1e-8)


@pytest.mark.parametrize("law", [noise.Uniform(), noise.Staircase(1.0)])
@pytest.mark.parametrize("declared", [True, False])
def test_jumps_that_move_are_infinite(law, declared):
    assert information_by_numbers(Shift(law, declared), 0.4).value == math.inf


def test_a_cut_tail_is_a_jump_however_low():
    # The normal law cut at 8 deviations: the density at the edge is 5e-15.
    law = noise.from_logpdf(lambda x: -(x**2) / 2, support=(-8.0, 8.0), normalise=True)
    assert information_by_numbers(Shift(law), 0.0).value == math.inf


@pytest.mark.parametrize("u", [1.0, -30.0, 1e-3])
def test_a_scaled_uniform_is_infinite(u):
    assert information_by_numbers(TwinUniform(), u).value == math.inf


def test_a_jump_that_stays_is_finite():
    w = 1 / (1 + math.exp(-0.4))
    agrees(information_by_numbers(StillJump(), 0.4), w * (1 - w), 1e-10)


def test_a_jump_in_the_input_is_infinite_there_and_only_there():
    assert information_by_numbers(Rounded(), 0.5).value == math.inf
    assert information_by_numbers(Rounded(), 0.2).value == 0


@pytest.mark.parametrize("t", [0.5, 0.3, 1e-3])
def test_uniform_dither_off_the_grid(t):
    agrees(information_by_numbers(UniformDither(), 2 + t), 1 / (t * (1 - t)), 1e-9)


@pytest.mark.parametrize("step", [1.0, 0.3])
@pytest.mark.parametrize("k", [0, 5, -3])
def test_uniform_dither_on_the_grid_is_infinite(step, k):
    assert information_by_numbers(UniformDither(step), k * step).value == math.inf


@pytest.mark.parametrize("s", [0.0, 0.3, -0.3, 0.499])
def test_triangular_dither(s):
    expected = 4 + 4 * s**2 / (0.75 - s**2)
    agrees(information_by_numbers(TriangularDither(), 3 + s), expected, 1e-8)


@pytest.mark.parametrize("u", [0.5, -0.5, 1.5, 7.5])
def test_triangular_dither_counts_outcomes_that_vanish(u):
    # The sum that skips them is 4. From one side only: two outcomes vanish, never both together.
    agrees(information_by_numbers(TriangularDither(), u), 6.0, 1e-5)
    agrees(information_by_numbers(TriangularDither(0.5), u / 2), 24.0, 1e-5)


@pytest.mark.parametrize("u", [0.0, 1.3, -4.0])
def test_sign(u):
    p = scipy.special.ndtr(u)
    expected = math.exp(-(u**2)) / (2 * math.pi * p * (1 - p))
    agrees(information_by_numbers(Sign(), u), expected, 1e-9)


@pytest.mark.parametrize("sigma", [0.8, 1.0, 2.0])
def test_the_larger_limit_at_an_edge(sigma):
    # Inside dominates for σ < 1.281; there 0.999 of the edge still shows far less (a grid fails).
    channel = InverseGaussian(sigma)
    agrees(information_by_numbers(channel, channel.edge), channel.supremum, 1e-4)
    agrees(information_by_numbers(channel, -channel.edge), channel.supremum, 1e-4)
    if sigma == 0.8:
        assert information_by_numbers(channel, 0.999 * channel.edge).value < 0.3 * channel.supremum


@pytest.mark.parametrize("share", [0.5, 1 - 1e-3, 1 - 1e-5, 1 - 1e-7])
def test_next_to_an_edge_no_step_crosses_it(share):
    # In g = ε/z the mixture is of N(1, σ²) and N(−1, σ²): an independent integral.
    channel, w = InverseGaussian(1.0), (1 + share) / 2

    class Plain(InverseGaussian):
        score = Shift.score  # the default, by differences

    def integrand(g):
        p, q = np.exp(-((g - 1) ** 2) / 2), np.exp(-((g + 1) ** 2) / 2)
        return (p - q) ** 2 / (w * p + (1 - w) * q) / math.sqrt(2 * math.pi)

    # The trapezoid rule is exact to rounding for what falls off like a Gaussian.
    g = np.arange(-20, 20, 1e-3)
    expected = float(integrand(g).sum() * 1e-3) / (4 * channel.edge**2)
    found = information_by_numbers(Plain(1.0), share * channel.edge)
    assert abs(found.value - expected) <= found.error + 1e-10 * expected
    assert found.error <= 1e-4 * expected


def test_scores_by_differences():
    z, u = np.array([0.0, 0.1, 1.0, -1.0, 50.0]), np.zeros(5)
    channel = Shift(noise.Laplace(0.5))
    assert np.allclose(score_by_differences(channel, z, u), [0, 2, 2, -2, 2], atol=1e-9)
    spread = np.linspace(-3, 3, 7)
    found = score_by_differences(Shift(noise.Cauchy(2.0)), spread, 0.5 * spread)
    assert np.allclose(found, -noise.Cauchy(2.0).score(0.5 * spread), rtol=1e-9, atol=1e-11)
    outside = score_by_differences(Shift(noise.CosSquared(1.0)), np.array([1.5]), np.array([0.0]))
    assert np.isnan(outside).all()


def test_a_false_score_is_not_believed():
    """The information is that of the density, whatever the channel says its score is."""
    laplace = Channel.from_functions(
        log_density=lambda z, u: -np.abs(z - u) / 0.1 - np.log(0.2),
        score=lambda z, u: 0.0 * (z + u),
        landmarks=lambda u: (u,),
        worst=1.0,
    )
    assert information_by_numbers(laplace, 0.3).value == pytest.approx(100.0, rel=1e-6)
    bit = Channel.from_functions(
        log_density=lambda z, u: np.where(z > 0.5, -np.log1p(np.exp(-u)), -np.log1p(np.exp(u))),
        score=lambda z, u: 0.0 * (z + u),
        outcomes=lambda u: [0.0, 1.0],
    )
    assert information_by_numbers(bit, 0.0).value == pytest.approx(0.25, rel=1e-6)


def test_outcomes_that_are_left_out_are_noticed():
    quarter = Channel.from_functions(
        log_density=lambda z, u: np.log(np.where(z < 1.5, 0.25, 0.5) + 0.0 * u),
        outcomes=lambda u: [0.0, 1.0],
    )
    with pytest.raises(InvalidInput, match=r"probability 0\.5 together"):
        information_by_numbers(quarter, 0.3)


@pytest.mark.parametrize("distance", [0.0, 1e-13, 1e-11, 1e-10, 1e-9, -1e-10, -1e-12])
@pytest.mark.parametrize("step", [1.0, 0.02, 1e-4])
def test_next_to_a_vanishing_outcome(distance, step):
    """6/Δ² at and next to the middle between grid points: the outcome of one side only counts."""
    channel = ProbabilisticQuantiser(step, dither="triangular")
    found = information_by_numbers(channel, (3.5 - distance) * step)
    assert found.value * step**2 == pytest.approx(6.0, rel=1e-3)


@pytest.mark.parametrize("step", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("dither", ["uniform", "triangular"])
def test_outcomes_of_a_quantiser_lie_on_its_grid_up_to_a_billionth_of_a_step(step, dither):
    channel = ProbabilisticQuantiser(step, dither=dither)
    z = step * (1 + np.array([0.0, 5e-10, 2e-9]))
    on_the_grid = np.isfinite(channel.log_density(z, 0.8 * step))
    assert on_the_grid.tolist() == [True, True, False]


@pytest.mark.parametrize("size", [1e-4, 0.5])
@pytest.mark.parametrize(("power", "expected"), [(1.5, math.inf), (2.0, 4.0)])
def test_an_outcome_that_vanishes_slower_than_quadratically_shows_everything(size, power, expected):
    """P(z = 1) = c|u|^q: its part of I(u), cq²|u|^(q − 2), has no limit at 0 for q < 2."""

    def log_density(z, u):
        mass = size * np.abs(u) ** power
        with np.errstate(divide="ignore"):
            return np.where(z == 1, np.log(mass), np.log1p(-mass))

    channel = Channel.from_functions(log_density=log_density, outcomes=[0.0, 1.0])
    found = information_by_numbers(channel, 0.0)
    assert found.value == pytest.approx(expected * size, rel=1e-3)
