"""i(ρ) of a noisy rotation: the value and the error that is stated with it."""

import math

import mpmath
import pytest

from privest.mechanism import LaplaceQuantiser
from privest.mechanism import _rotation as rotation
from privest.mechanism._rotation import radial_information


def exact(rho, dimension):
    """i(ρ) = E (r A − ρ)², with Bessel functions of 30 digits."""
    with mpmath.workdps(30):
        nu = mpmath.mpf(dimension) / 2 - 1
        rho = mpmath.mpf(rho)

        def density(r):
            k = r * rho
            return r * (r / rho) ** nu * mpmath.exp(-(r**2 + rho**2) / 2) * mpmath.besseli(nu, k)

        def squared(r):
            ratio = mpmath.besseli(nu + 1, r * rho) / mpmath.besseli(nu, r * rho)
            return density(r) * (r * ratio - rho) ** 2

        centre = mpmath.sqrt(rho**2 + dimension)
        points = [max(mpmath.mpf("1e-20"), centre + k) for k in (-12, -6, -3, 0, 3, 6, 12)]
        return float(mpmath.quad(squared, sorted(set(points))))


@pytest.mark.parametrize(("rho", "dimension"), [(0.3, 2), (1.0, 3), (4.0, 2), (15.0, 5)])
def test_the_error_bounds_the_error(rho, dimension):
    value, error = radial_information(rho, dimension)
    assert abs(value - exact(rho, dimension)) <= error
    assert 1e-14 <= error < 1e-11


@pytest.mark.parametrize("nodes", [4, 6, 8])
def test_the_error_follows_a_coarse_rule(nodes, monkeypatch):
    # With few nodes the rule is off by percents, and must say so.
    monkeypatch.setattr(rotation, "NODES", nodes)
    value, error = radial_information(1.0, 3)
    off = abs(value - exact(1.0, 3))
    assert off > 1e-9
    assert off <= error


def test_a_laplace_quantiser_keeps_the_step_it_is_given():
    channel = LaplaceQuantiser.calibrated(4.0, step=0.3)
    assert (channel.step, channel.scale) == (0.3, 0.5)
    # The supremum does not depend on the step, and is the level.
    for step in (0.3, 2.0, None):
        other = LaplaceQuantiser.calibrated(4.0, step=step)
        assert other.step == (0.5 if step is None else step)
        assert float(other.information(other.step / 2)) == pytest.approx(4.0)
        assert math.isclose(other.worst, 4.0)
