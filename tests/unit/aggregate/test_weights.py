"""Weights of rows: norms of the doubles, the fixed point, awkward rows."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from aggregate_cases import design_of, weights_of
from privest.errors import PrivestError

RNG = np.random.default_rng(29)


def lewis(H, passes=200):
    """τ and G by the plain iteration of the note."""
    tau = np.full(len(H), H.shape[1] / len(H))
    for _ in range(passes):
        G = H.T @ (H / tau[:, None])
        tau = np.sqrt(np.einsum("ij,ij->i", H @ np.linalg.inv(G), H))
    return tau, G


def require_norms(design, persons=None):
    """‖W_i‖ ≤ unit + n as whole numbers; of a person the sum of norms. ℓ = W/unit."""
    _, L = weights_of(design)
    W, n = design.whole_weights, design.rows.n
    unit = 2**20 if persons is None else 2**30
    np.testing.assert_array_equal(W, L * unit)
    norms = [math.isqrt(sum(w * w for w in row)) for row in W.tolist()]  # rounded down
    total = norms if persons is None else np.bincount(persons, norms)
    most = 1 if persons is None else max(np.bincount(persons))
    assert max(total) <= unit + n * most
    return L


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    n=st.integers(1, 4),
    scale=st.integers(-300, 300),
)
def test_norms_are_at_most_one(data, n, scale):
    """Rows of any size beside usual ones, in units of any size."""
    usual = np.random.default_rng(data.draw(st.integers(0, 99))).standard_normal((n + 3, n))
    sizes = st.floats(-1e3, 1e3) | st.sampled_from([0.0, 1e-150, 2.7e-162, 1e-163, 1e-300, 5e-324])
    odd = data.draw(arrays(float, (3, n), elements=sizes))
    H = np.concatenate([usual, odd])
    assume(np.linalg.cond(H) < 1e6)
    H[:, 0] = np.ldexp(H[:, 0], scale // 10)
    require_norms(design_of(H))


@pytest.mark.parametrize("exponent", np.linspace(-165, -155, 21).tolist())
def test_squares_of_tiny_rows_are_not_lost(exponent):
    """Their norm by plain squares is too small there, and ℓ would be longer than 1."""
    H = np.column_stack([np.ones(50), RNG.standard_normal(50)])
    for factor in (1.0, 1.3, 2.7, 6.1):
        H[3] = [0.0, factor * 10.0**exponent]
        L = require_norms(design_of(H))
        assert np.linalg.norm(L[3]) > 0.9999  # and used like any other


@pytest.mark.parametrize("most", [1, 2, 7])
def test_norms_of_persons(most):
    owners = np.repeat(np.arange(60), RNG.integers(1, most + 1, 60))
    H = np.column_stack([np.ones(len(owners)), RNG.standard_normal((len(owners), 2))])
    L = require_norms(design_of(H, owners), owners)
    norms = np.linalg.norm(L, axis=1)
    np.testing.assert_allclose(norms, 1 / np.bincount(owners)[owners], rtol=2.0**-25)


@pytest.mark.parametrize("heavy", [False, True])
def test_the_fixed_point_of_the_note(heavy):
    H = RNG.standard_t(1.5, (80, 3)) if heavy else RNG.standard_normal((80, 3))
    design = design_of(H)
    X, L = weights_of(design)
    tau, G = lewis(H)
    np.testing.assert_allclose(np.linalg.norm(L, axis=1), 1, rtol=2.0**-19)
    # LLᵀ, b and a do not depend on the root of G that is taken.
    unit = H @ np.linalg.inv(np.linalg.cholesky(G)).T / tau[:, None]
    np.testing.assert_allclose(L @ L.T, unit @ unit.T, atol=3e-3)
    np.testing.assert_allclose(design.noise, np.diag(np.linalg.inv(G)), rtol=3e-3)
    A = np.linalg.solve(L.T @ X, L.T)
    np.testing.assert_allclose(design.sampling, (A**2).sum(axis=1), rtol=1e-9)
    np.testing.assert_allclose(A @ H, np.eye(3), atol=1e-9)  # unbiased
    q = design.shares(L)
    np.testing.assert_allclose(q, (L @ design.inverse.T) ** 2 / design.noise, rtol=1e-9)
    np.testing.assert_allclose(design.shown, q.sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(q.sum(axis=0), design.sampling / design.noise, rtol=1e-9)
    h = np.einsum("ij,jk,ik->i", H, A @ A.T, H)
    left = ((1 - 2 * np.einsum("ij,ij->i", H, A.T) + h)[:, None] * q).sum(axis=0)
    np.testing.assert_allclose(design.inflation, np.clip(design.shown / left, 1, 2), rtol=1e-9)
    assert design.peak == pytest.approx(np.linalg.norm(q, axis=1).max(), rel=1e-12)
    N = np.eye(80) - H @ A
    N = N @ N.T
    exact = np.array([(p @ np.diag(N)) ** 2 / (p @ N**2 @ p) for p in q.T])
    assert (design.freedom <= exact * (1 + 1e-9)).all()  # safe: intervals are not narrower
    assert (design.freedom >= np.maximum(1, (0.2 if heavy else 0.9) * exact)).all()


def test_a_start_from_some_rows_changes_nothing():
    """Beyond 32,768 rows the iteration starts from some of them; a rare category is missing."""
    x = RNG.standard_normal(210_000)
    for rare in (np.zeros((210_000, 0)), np.arange(210_000)[:, None] == 1):
        H = np.column_stack([np.ones(210_000), x, rare])
        _, G = lewis(H, 25)
        np.testing.assert_allclose(design_of(H).noise, np.diag(np.linalg.inv(G)), rtol=3e-3)


def test_rows_of_zero_and_leverage_one():
    """A row of 0 shows nothing; a category of one member is used like any other."""
    H = np.column_stack([np.ones(40), RNG.standard_normal(40), np.arange(40) == 7])
    H[[3, 5]] = 0.0
    design = design_of(H)
    _, L = weights_of(design)
    assert not L[[3, 5]].any()
    alone = design_of(np.delete(H, [3, 5], axis=0))
    np.testing.assert_allclose(design.noise, alone.noise, rtol=1e-9)
    np.testing.assert_allclose(design.sampling, alone.sampling, rtol=1e-9)
    assert np.isfinite(design.inflation).all()
    assert design.inflation.max() <= 2


def test_which_rows_are_means_of_groups():
    groups = np.eye(3)[RNG.integers(0, 3, 30)]
    assert design_of(groups).saturated
    assert design_of(np.ones((5, 1))).saturated
    assert design_of(groups @ RNG.standard_normal((3, 3))).saturated
    assert design_of(groups, blocks=30).saturated
    more = {
        "a row of zeros": np.concatenate([groups, np.zeros((1, 3))]),
        "another row": np.concatenate([groups, [[1.0, 1.0, 0.0]]]),
        "weights": groups * RNG.uniform(1, 2, (30, 1)),
        "the last block": np.concatenate([groups, groups * (1 + 1e-15)]),
    }
    for name, H in more.items():
        assert not design_of(H).saturated, name
        assert not design_of(H, blocks=4).saturated, name


@pytest.mark.parametrize("H", [np.ones((2, 3)), np.ones((5, 2)), np.zeros((4, 1))])
def test_rows_that_determine_nothing_are_refused(H):
    with np.errstate(all="ignore"), pytest.raises((PrivestError, np.linalg.LinAlgError)):
        design_of(H)
