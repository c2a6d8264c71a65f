"""i(ρ) of a noisy rotation, and the step of a Laplace quantiser."""

import math

import mpmath
import numpy as np
import pytest

from privest.mechanism import GeometricPerturbation, LaplaceQuantiser


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
def test_by_bessel_functions(rho, dimension):
    y = np.zeros(dimension)
    y[0] = rho
    found = GeometricPerturbation(dimension, variance=1.0).information(y).diagonal()[0]
    assert abs(found - exact(rho, dimension)) < 1e-13 * (1 + rho)


def test_a_laplace_quantiser_keeps_the_step_it_is_given():
    channel = LaplaceQuantiser.calibrated(4.0, step=0.3)
    assert (channel.step, channel.scale) == (0.3, 0.5)
    # The supremum does not depend on the step, and is the level.
    for step in (0.3, 2.0, None):
        other = LaplaceQuantiser.calibrated(4.0, step=step)
        assert other.step == (0.5 if step is None else step)
        assert float(other.information(other.step / 2)) == pytest.approx(4.0)
        assert math.isclose(other.worst, 4.0)
