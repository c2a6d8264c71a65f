"""The numerical parts, one by one."""

import itertools
import math

import numpy as np
import pytest
from scipy import special

from privest.noise.numerics.density import CdfTable, NumericalDensity
from privest.noise.numerics.differences import find_jumps, first_derivative, second_derivative
from privest.noise.quadrature import Cells, Chain, gauss, integrate, on_panels, refine


def exact(g):
    return lambda x: (g(x), np.zeros(x.shape))


def inward(octaves=60):
    return Chain(0.0, 1, 2.0 ** -np.arange(octaves + 1))


def outward(octaves=200):
    return Chain(0.0, 1, 2.0 ** np.arange(octaves + 1))


class TestIntegrate:
    @pytest.mark.parametrize("power", [2.0, 0.0, -0.5, -0.9, -0.95])
    def test_a_power_towards_a_point(self, power):
        found = integrate(exact(lambda x: x**power), (inward(),)).estimate
        assert abs(found.value - 1 / (1 + power)) <= found.error

    @pytest.mark.parametrize("power", [-1.0, -1.5])
    def test_a_power_that_diverges_at_a_point(self, power):
        assert integrate(exact(lambda x: x**power), (inward(),)).estimate.value == math.inf

    @pytest.mark.parametrize("power", [-1.05, -2.0, -4.0])
    def test_a_power_towards_infinity(self, power):
        found = integrate(exact(lambda x: x**power), (outward(),)).estimate
        assert abs(found.value + 1 / (1 + power)) <= found.error

    @pytest.mark.parametrize("power", [-1.0, 0.0])
    def test_a_power_that_diverges_at_infinity(self, power):
        assert integrate(exact(lambda x: x**power), (outward(),)).estimate.value == math.inf

    def test_infinities_of_both_signs_are_not_a_number(self):
        left = Chain(0.0, -1, 2.0 ** np.arange(201))
        found = integrate(exact(lambda x: x / (1 + x * x)), (left, outward())).estimate
        assert math.isnan(found.value)

    @pytest.mark.parametrize("place", [0.3, 0.5 + 1e-4, 1 - 1e-4, 0.9999999])
    def test_a_jump_wherever_it_is_in_a_panel(self, place):
        found = integrate(exact(lambda x: np.where(x < place, 1.0, 0.0)), (inward(),)).estimate
        assert abs(found.value - place) <= found.error + 1e-12
        assert found.error < 1e-10

    def test_the_error_of_the_integrand_counts(self):
        noisy = integrate(lambda x: (x, np.full(x.shape, 1e-3)), (inward(),)).estimate
        assert 1e-3 <= noisy.error < 2e-3

    def test_of_an_integrand_that_drowns_in_its_error_nothing_is_extrapolated(self):
        found = integrate(lambda x: (x, np.full(x.shape, 7.0)), (inward(20),))
        assert (found.estimate.value, found.beyond) == (0.0, (0.0,))
        # ∫ x dx is left out, so it counts as an error beside the 7 of the integrand; half of 2⁻²⁰
        # of both is beyond the last octave.
        assert found.estimate.error == pytest.approx(7.5, rel=1e-6)

    def test_cells_cover_the_range_in_order(self):
        cells = integrate(exact(np.cos), (inward(20),)).cells
        assert np.all(np.diff(cells.left) > 0)
        np.testing.assert_allclose(cells.right[:-1], cells.left[1:])
        nodes, _ = gauss(24)
        middle, half = (cells.left + cells.right) / 2, (cells.right - cells.left) / 2
        np.testing.assert_allclose(
            cells.values, np.cos(middle[:, None] + half[:, None] * nodes), rtol=1e-13
        )


class TestDifferences:
    CASES = (
        (np.exp, np.exp, np.exp, 0.7),
        (np.sin, np.cos, lambda x: -np.sin(x), 0.7),
        (np.log, lambda x: 1 / x, lambda x: -1 / x**2, 1.0),
        (np.sqrt, lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 * x**-1.5, 3.0),
    )

    @pytest.mark.parametrize(("g", "slope", "bend", "at"), CASES)
    def test_values_lie_within_their_error(self, g, slope, bend, at):
        x = at * np.linspace(1, 2, 33)
        value, error = first_derivative(g, x, 0.5 * x)
        assert np.all(np.abs(value - slope(x)) <= error)
        assert error.max() < 1e-10
        value, error = second_derivative(g, x, 0.5 * x)
        assert np.all(np.abs(value - bend(x)) <= error)
        assert error.max() < 1e-6

    @pytest.mark.parametrize("distance", [1e-1, 1e-3, 1e-5])
    def test_a_kink_within_the_step_is_not_trusted(self, distance):
        x = np.array([distance])
        value, error = first_derivative(np.abs, x, np.array([0.5]))
        assert abs(value[0] - 1) <= error[0] + 1e-9
        # Neither is a jump of the second derivative.
        value, error = second_derivative(lambda t: t * np.abs(t), x, np.array([0.5]))
        assert abs(value[0] - 2) <= 2 * error[0]


class TestJumps:
    def search(self, g, width=1e-12, kept=0.9):
        cuts = np.linspace(-1.03, 1.07, 40)
        return find_jumps(
            g,
            (cuts[:-1], cuts[1:]),
            width=width,
            least=lambda a, b: np.full(a.shape, 1e-9),
            kept=kept,
        )

    def test_steps(self):
        found = self.search(lambda x: np.floor(3 * x + 0.1))
        # Floor of 3x + 0.1 steps at (k − 0.1)/3.
        np.testing.assert_allclose(found, [(k - 0.1) / 3 for k in range(-2, 4)], atol=1e-11)

    def test_one_jump_on_a_slope(self):
        found = self.search(lambda x: 5 * x + np.where(x > 1 / 3, 0.5, 0.0))
        np.testing.assert_allclose(found, [1 / 3], atol=1e-11)

    @pytest.mark.parametrize(
        "g",
        [
            np.abs,
            np.sin,
            lambda x: np.abs(x - 0.2) ** 0.1,
            lambda x: np.tanh((x - 0.2) / 1e-6),
            lambda x: np.exp(-(((x - 0.2) / 1e-3) ** 2)),
            np.zeros_like,
        ],
    )
    def test_no_jump(self, g):
        assert self.search(g) == ()

    def test_infinities_do_not_confuse(self):
        assert len(self.search(lambda x: np.where(x > 0.5, -np.inf, 0.0))) == 1
        assert self.search(lambda x: np.full(x.shape, -np.inf)) == ()


class TestCdfTable:
    def table(self):
        nodes, _ = gauss(24)
        left = np.array([0.0, 0.5, 1.5])
        right = np.array([0.5, 1.5, 4.0])
        middle, half = (left + right) / 2, (right - left) / 2
        return CdfTable.from_cells(
            Cells(left, right, np.exp(-(middle[:, None] + half[:, None] * nodes)))
        )

    def test_cdf_and_quantile_are_inverse(self):
        table = self.table()
        u = np.random.default_rng(5).random((300, 200))
        x = table.quantile(u)
        assert x.shape == u.shape
        whole = -math.expm1(-4.0)
        np.testing.assert_allclose(x, -np.log1p(-u * whole), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(table.cdf(x), u, rtol=0, atol=1e-14)

    def test_ends(self):
        table = self.table()
        np.testing.assert_array_equal(table.cdf(np.array([-1.0, 0.0, 4.0, 9.0])), [0, 0, 1, 1])
        np.testing.assert_allclose(table.quantile(np.array([0.0, 1.0])), [0, 4], atol=1e-12)

    def test_cells_without_mass(self):
        table = CdfTable.from_cells(
            Cells(
                np.array([0.0, 1.0, 2.0]),
                np.array([1.0, 2.0, 3.0]),
                np.repeat([[0.5], [0.0], [0.5]], 24, axis=1),
            )
        )
        np.testing.assert_allclose(
            table.cdf(np.array([0.5, 1.0, 1.7, 2.5])), [0.25, 0.5, 0.5, 0.75]
        )
        np.testing.assert_allclose(table.quantile(np.array([0.2, 0.9])), [0.4, 2.8])


class TestNumericalDensity:
    def test_quantiles_of_a_gaussian(self):
        density = NumericalDensity(lambda x: -(x**2) / 2, normalise=True)
        u = np.array([1e-12, 1e-6, 0.01, 0.5, 0.9, 1 - 1e-9])
        x = density.quantile(u)
        np.testing.assert_allclose(x, special.ndtri(u), rtol=1e-3, atol=1e-13)
        np.testing.assert_allclose(special.ndtr(x), u, rtol=0, atol=1e-14)

    def test_log_mass(self):
        density = NumericalDensity(lambda x: 1000 - (x - 5) ** 2 / 2, normalise=True)
        assert density.log_mass == pytest.approx(1000 + 0.5 * math.log(2 * math.pi), rel=1e-14)

    def test_expectation_has_an_error(self):
        density = NumericalDensity(lambda x: -(x**2) / 2, normalise=True)
        fourth = density.expectation(exact(lambda x: x**4))
        assert abs(fourth.value - 3) <= fourth.error < 1e-11


def test_rules_are_exact_for_polynomials():
    """Gauss to degree 2n − 1, on panels of any place and width."""
    low, high = np.array([-3.0, 0.5]), np.array([0.5, 2.0])
    nodes, weights = gauss(4)
    x, half = on_panels(low, high, nodes)
    found = (x**7 @ weights * half[:, 0]).sum()
    assert np.isclose(found, (2.0**8 - 3.0**8) / 8, rtol=1e-13)


def test_panels_are_halved_where_asked_and_carry_what_they_are_given():
    kept = []

    def examine(low, high, carried, last):
        split = (low < 0.3) & (high > 0.3)  # around one point
        kept.extend(zip(low[~split], high[~split], carried[0][~split]))
        return split, (2 * carried[0],), (2 * carried[0] + 1,)

    edges = np.linspace(0.0, 1.0, 3)
    left = refine(edges[:-1], edges[1:], examine, carried=(np.array([2, 3]),), rounds=5)
    assert len(left[0]) == 2  # nobody has looked at the last halves
    assert left[1][0] - left[0][0] == 2.0**-6
    panels = sorted([*((a, b) for a, b, _ in kept), *zip(*left)])
    assert panels[0][0] == 0.0
    assert panels[-1][1] == 1.0
    assert all(a[1] == b[0] for a, b in itertools.pairwise(panels))
    for low, high, path in kept:  # the path down: 1 for a right half
        assert low == (path / 2.0 ** (int(path).bit_length() - 1) - 1)
        assert high - low == 0.5 ** (int(path).bit_length() - 1)
