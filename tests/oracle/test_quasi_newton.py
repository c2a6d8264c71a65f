"""The quasi-Newton estimate from bits against its formulas, written out, and general solvers."""

import numpy as np
import pytest
import scipy

from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator.likelihood import BinaryLikelihood, GaussianLikelihood
from privest.noise import Cauchy, GaussianLaw, Laplace
from privest.paper import QuasiNewton

RNG = np.random.default_rng(11)


def bits(law=None, variance=0.5, threshold=0.2):
    law = GaussianLaw(variance=0.8) if law is None else law
    return BinaryLikelihood(variance, law=law, threshold=threshold)


def test_steps_are_the_recursion_written_out():
    """θ̂ + a P h (F − z) f/(F(1 − F)), a = 1/(1 + i hᵀPh), P − a i P h hᵀP: scalars and matrices."""
    method = QuasiNewton(bits(), 3, radius=50.0, spread=2.0, centre=[0.3, -0.1, 0.2])
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
        np.testing.assert_allclose(method.follow(z[t], H)[-1], theta, rtol=1e-12)


def test_trials_go_side_by_side():
    """A batch, with rows of its own for each trial or not, is the trials one by one."""
    method = QuasiNewton(bits(), 2, radius=1.5)
    z, H = RNG.integers(0, 2, (5, 8)).astype(float), RNG.normal(size=(5, 8, 2))
    together = method.follow(z, H)
    for t in range(5):
        np.testing.assert_allclose(together[t], method.follow(z[t], H[t]), rtol=1e-12)
    np.testing.assert_allclose(
        method.follow(z, H[0]), method.follow(z, np.broadcast_to(H[0], H.shape)), rtol=1e-12
    )


def test_covariance_and_information_stay_inverse():
    method = QuasiNewton(bits(), 3, radius=2.0, spread=5.0)
    H, z = RNG.normal(size=(300, 3)), RNG.integers(0, 2, (4, 300)).astype(float)
    state = method.start(4)
    for k in range(300):
        state = method.step(state, z[:, k], H[k])
    for P, J in zip(state.covariance, state.information):
        np.testing.assert_allclose(P @ J, np.eye(3), atol=300 * 2e-16 * np.linalg.cond(J))
        np.testing.assert_allclose(P, P.T, rtol=300 * 2e-16 * np.linalg.cond(J))
        assert np.linalg.eigvalsh(P)[0] > 0


def test_the_projection_is_the_nearest_point_of_the_ball():
    """Against a general constrained solver; those inside are not touched."""
    method = QuasiNewton(bits(), 3, radius=1.2, centre=[0.5, 0.0, -0.5])
    root = RNG.normal(size=(20, 3, 3))
    information = root @ root.transpose(0, 2, 1) + 1e-3 * np.eye(3)
    points = method.centre + 3.0 * RNG.normal(size=(20, 3))
    points[0] = method.centre + 0.1
    found = method._inside(points, information)
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


@pytest.mark.parametrize("law", [GaussianLaw(variance=0.8), Laplace(0.7), Cauchy(0.5)])
def test_information_of_a_bit(law):
    """i(η) = p'²/(p(1 − p)), p by quadrature over w and p' by differences of it."""
    method = QuasiNewton(bits(law), 1, radius=9.0)

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
        assert float(method.information(eta)) == pytest.approx(exact, rel=1e-7)


def test_limit_is_the_inverse_of_the_summed_information():
    method = QuasiNewton(bits(), 2, radius=9.0)
    H, theta = RNG.normal(size=(40, 2)), np.array([0.4, -0.3])
    total = sum(float(method.information(h @ theta)) * np.outer(h, h) for h in H)
    np.testing.assert_allclose(method.limit(theta, H), np.linalg.inv(total), rtol=1e-12)
    with pytest.raises(NotIdentifiable):
        method.limit(theta, np.ones((5, 2)))


def test_bad_input_is_named():
    with pytest.raises(InvalidInput, match="must be a BinaryLikelihood"):
        QuasiNewton(GaussianLikelihood(1.0, noise=1.0), 2, radius=1.0)
    with pytest.raises(InvalidInput, match="one variance for all readings; received 3"):
        QuasiNewton(bits(variance=[1.0, 2.0, 3.0]), 2, radius=1.0)
    with pytest.raises(InvalidInput, match="radius must be > 0"):
        QuasiNewton(bits(), 2, radius=0.0)
    with pytest.raises(InvalidInput, match="centre must have length 2; received 3"):
        QuasiNewton(bits(), 2, radius=1.0, centre=[0.0, 0.0, 0.0])
    with pytest.raises(InvalidInput, match="whole number"):
        QuasiNewton(bits(), 0, radius=1.0)
    method = QuasiNewton(bits(), 2, radius=1.0)
    with pytest.raises(InvalidInput, match="must hold bits"):
        method.follow([0.5], [[1.0, 1.0]])
    with pytest.raises(InvalidInput, match=r"shape \(2, 2\) or \(1, 2, 2\); received \(3, 2\)"):
        method.follow([0.0, 1.0], np.ones((3, 2)))
    with pytest.raises(InvalidInput, match="at least 1"):
        method.start(0)
    with pytest.raises(InvalidInput, match="must have 2 columns"):
        method.limit([1.0], np.ones((3, 2)))
