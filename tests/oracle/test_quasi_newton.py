"""The quasi-Newton estimate from bits against its formulas, written out, and general solvers."""

import numpy as np
import pytest
import scipy

from privest.estimator.likelihood import BinaryLikelihood
from privest.noise import Cauchy, Gaussian, Laplace
from privest.paper._quasi_newton import QuasiNewton

RNG = np.random.default_rng(11)


def bits(law=None, variance=0.5, threshold=0.2):
    law = Gaussian(cov=0.8) if law is None else law
    return BinaryLikelihood(variance, law=law, threshold=threshold)


def test_steps_are_the_recursion_written_out():
    """θ̂ + a P h (F − z) f/(F(1 − F)), a = 1/(1 + i hᵀPh), P − a i P h hᵀP: scalars and matrices."""
    method = QuasiNewton(bits(), np.array([0.3, -0.1, 0.2]), radius=50.0, spread=2.0)
    z, H = RNG.integers(0, 2, (2, 6)).astype(float), RNG.normal(size=(6, 3))
    sd = np.sqrt(1.3)
    for t in range(2):
        theta, P = method.centre.copy(), 4.0 * np.eye(3)
        for k in range(6):
            x = (0.2 - H[k] @ theta) / sd
            F, f = scipy.stats.norm.cdf(x), scipy.stats.norm.pdf(x) / sd
            i = f**2 / (F * (1 - F))
            a = 1 / (1 + i * H[k] @ P @ H[k])
            theta = theta + a * P @ H[k] * (F - z[t, k]) * f / (F * (1 - F))
            P = P - a * i * np.outer(P @ H[k], P @ H[k])
        np.testing.assert_allclose(method.follow(z[t : t + 1], H)[0, -1], theta, rtol=1e-12)


def test_trials_go_side_by_side():
    """A batch, with rows of its own for each trial or not, is the trials one by one."""
    method = QuasiNewton(bits(), np.zeros(2), radius=1.5, spread=10.0)
    z, H = RNG.integers(0, 2, (5, 8)).astype(float), RNG.normal(size=(5, 8, 2))
    together = method.follow(z, H)
    for t in range(5):
        np.testing.assert_allclose(together[t], method.follow(z[t : t + 1], H[t])[0], rtol=1e-12)
    np.testing.assert_allclose(
        method.follow(z, H[0]), method.follow(z, np.broadcast_to(H[0], H.shape)), rtol=1e-12
    )


def test_the_projection_is_the_nearest_point_of_the_ball():
    """Against a general constrained solver; those inside are not touched."""
    method = QuasiNewton(bits(), np.array([0.5, 0.0, -0.5]), radius=1.2, spread=10.0)
    root = RNG.normal(size=(20, 3, 3))
    information = root @ root.transpose(0, 2, 1) + 1e-3 * np.eye(3)
    points = method.centre + 3.0 * RNG.normal(size=(20, 3))
    points[0] = method.centre + 0.1
    found = method.projected(points, information)
    assert (found[0] == points[0]).all()
    distance = np.linalg.norm(found - method.centre, axis=1)
    assert (distance <= 1.2 * (1 + 1e-11)).all()
    for x, p, J in zip(found, points, information):
        solved = scipy.optimize.minimize(
            lambda v: (v - p) @ J @ (v - p),  # noqa: B023
            method.centre,
            jac=lambda v: 2 * J @ (v - p),  # noqa: B023
            constraints={"type": "ineq", "fun": lambda v: 1.44 - ((v - method.centre) ** 2).sum()},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert (x - p) @ J @ (x - p) <= solved.fun * (1 + 1e-6) + 1e-12
        # SLSQP stops at a value: the point is known to about its root
        np.testing.assert_allclose(x, solved.x, atol=2e-3)


@pytest.mark.parametrize("law", [Gaussian(cov=0.8), Laplace(0.7), Cauchy(0.5)])
def test_information_of_a_bit(law):
    """i(η) = p'²/(p(1 − p)), p by quadrature over w and p' by differences of it."""
    method = QuasiNewton(bits(law), np.zeros(1), radius=9.0, spread=10.0)

    def below(eta):
        def term(w):
            return scipy.stats.norm.pdf(w, scale=np.sqrt(0.5)) * law.cdf(0.2 - eta - w)

        return scipy.integrate.quad(term, -8, 8, points=[0.2 - eta], epsabs=1e-13, limit=200)[0]

    for eta in (-1.0, 0.2, 2.0):
        p, h = below(eta), 1e-3
        slope = (
            8 * (below(eta + h) - below(eta - h)) - below(eta + 2 * h) + below(eta - 2 * h)
        ) / (12 * h)
        exact = slope**2 / (p * (1 - p))
        # differences: 1e-13/1e-3 and h⁴, relative to slopes of 0.1 and more
        assert float(method.information(np.array(eta))) == pytest.approx(exact, rel=1e-7)
