"""The Voigt profile against 80 digits: with scipy's Faddeeva function, and by the trapezoid rule.

Tolerances: w to 1e-13 (Faddeeva package), of which the slope loses |ζ|² and the curvature |ζ|⁴ up
to |ζ| = 7, in units of min(1, 1/|ζ|) and its square.
"""

import math

import mpmath
import numpy as np
import pytest

from privest.estimator.likelihood import VoigtLikelihood, _additive

LIMITS = np.array([1e-13, 1e-11, 1e-9])


def exact(x, y):
    """ln K, its slope and curvature from w' = −2ζw + 2i/√π; 80 digits bear what that loses."""
    with mpmath.workdps(80):
        zeta = mpmath.mpc(x, y)
        w = mpmath.exp(-zeta * zeta) * mpmath.erfc(-1j * zeta)
        rise = -2 * zeta * w + 2j / mpmath.sqrt(mpmath.pi)
        bend = -2 * w - 2 * zeta * rise
        slope = rise.real / w.real
        return mpmath.log(w.real), slope, bend.real / w.real - slope**2


def points():
    rng = np.random.default_rng(1)
    far = 10.0 ** rng.uniform(-3, 8, 150) * rng.choice([-1, 1], 150)
    x = np.concatenate([far, rng.uniform(-15, 15, 150)])
    y = 10.0 ** np.concatenate([rng.uniform(-10, 5, 150), rng.uniform(-10, 2, 150)])
    # nodes and the middles between them, where the other rule must take over; the end of the
    # correction; |ζ| from 5 to 1000, where w' from w loses its digits
    h = math.sqrt(math.pi / (_additive.NODES + 1))
    special = [(k * h / 4, width) for k in range(9) for width in (1e-9, 0.3, 6.0)]
    special += [(2.0, (math.pi / h) * (1 + e)) for e in (-1e-12, 0.0, 1e-12)]
    special += [(5.0 * 3**k, width) for k in range(6) for width in (1e-8, 1.0, 7.0)]
    more = np.array(special)
    return np.concatenate([x, more[:, 0]]), np.concatenate([y, more[:, 1]])


X, Y = points()


@pytest.fixture(scope="module")
def truth():
    return [exact(x, y) for x, y in zip(X, Y)]


class Namespace:
    """NumPy under another name: without `wofz`."""

    def __getattr__(self, name):
        return getattr(np, name)


@pytest.mark.parametrize("xp", [np, Namespace()], ids=["scipy", "rule"])
def test_eighty_digits(xp, truth):
    K, slope, bend = _additive.profile(X, Y, xp)
    for k, (x, y) in enumerate(zip(X, Y)):
        unit = min(1.0, 1.0 / math.hypot(x, y))
        value, first, second = truth[k]
        errors = np.array([
            abs(mpmath.log(mpmath.mpf(float(K[k]))) - value),
            abs(float(slope[k]) - first) / unit,
            abs(float(bend[k] - slope[k] ** 2) - second) / unit**2,
        ], dtype=float)  # fmt: skip
        assert (errors <= LIMITS).all(), (x, y, errors)


def test_the_correction_ends_at_its_cap():
    """Clamped instead of left out it would leave 1e-16 beside K = 5.6e-9."""
    K = _additive.profile(np.array([0.1]), np.array([1e8]))[0]
    assert K[0] == pytest.approx(1e-8 / math.sqrt(math.pi), rel=3e-15)


def test_the_curvature_of_the_likelihood_far_out():
    """For |ζ| between 5 and 1000 −ℓ'' was lost by up to 8e-4; now a relative error of 1e-13."""
    sd, scale = 0.2, 0.7
    likelihood = VoigtLikelihood(sd**2, scale=scale)
    r = np.array([[1.5, 4.0, 20.0, 60.0, 250.0]])
    terms = likelihood(r, np.zeros_like(r))
    unit = sd * math.sqrt(2.0)
    for k, residual in enumerate(r[0]):
        _, slope, bend = exact(residual / unit, scale / unit)
        assert terms.curvature[0, k] == pytest.approx(float(-bend) / unit**2, rel=1e-10)
        assert terms.slope[0, k] == pytest.approx(float(-slope) / unit, rel=1e-12)
    assert np.allclose(likelihood.value(r, 0.0 * r), terms.value, rtol=0, atol=1e-14)


def test_shapes_go_together():
    x, y = np.linspace(-3, 3, 6).reshape(2, 3), np.array([0.5, 1.0, 2.0])
    whole = _additive.profile(x, y)
    for i in range(2):
        for j in range(3):
            one = _additive.profile(x[i : i + 1, j], y[j])
            assert [float(a[0]) for a in one] == pytest.approx([a[i, j] for a in whole], rel=1e-14)
