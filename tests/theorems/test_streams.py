"""`thm:PPF_recur`, `coro:PPCR_recur`, `thm:opt`: streams, all steps from one factorisation."""

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import privest as pv
from privest.linalg import loewner
from privest.paper import reference
from strategies import psd_matrix, relative_error
from stream_oracle import rls_path


class Stream:
    """A random stream: sizes m_k, S_k of any rank, U_k = W_k S_k reaching back, H, Σ_k."""

    def __init__(self, seed, steps, sizes, reach, n, singular):
        rng = self.rng = np.random.default_rng(seed)
        self.sizes = [int(m) for m in (sizes if np.ndim(sizes) else [sizes] * steps)]
        starts = np.cumsum([0, *self.sizes])
        self.S, self.U, self.Sigma = [], [], []
        for k, m in enumerate(self.sizes):
            rank = int(rng.integers(0, m + 1)) if singular else m
            S = psd_matrix(rng, m, rank) if rank else np.zeros((m, m))
            W = 0.4 * rng.standard_normal((starts[k], m))
            W[: starts[max(k - reach, 0)]] = 0
            self.S.append(S)
            self.U.append(W @ S)
            self.Sigma.append(psd_matrix(rng, m))
        self.M = int(starts[-1])
        self.starts = starts
        self.H = rng.standard_normal((self.M, n))

    @property
    def level(self):
        return pv.StreamLevel(self.S, self.U)

    @property
    def cov(self):
        cov = np.zeros((self.M, self.M))
        for a, b, sigma in zip(self.starts, self.starts[1:], self.Sigma):
            cov[a:b, a:b] = sigma
        return cov

    def model(self, cov=None):
        return pv.LinearModel(self.H, noise=pv.noise.Gaussian(cov=self.cov if cov is None else cov))

    @property
    def steps(self):
        rows = [self.H[a:b] for a, b in zip(self.starts, self.starts[1:])]
        parts = zip(rows, self.Sigma, self.S, self.U)
        return [reference.Step(*part) for part in parts]

    def cumulative(self, count):
        """S̄_k by the recursion `eq:barS`."""
        total = np.zeros((0, 0))
        for S, U in zip(self.S[:count], self.U[:count]):
            corner = total + U @ np.linalg.pinv(S) @ U.T
            total = np.block([[corner, U], [U.T, S]])
        return total


@st.composite
def streams(draw, most=24):
    steps = draw(st.integers(2, most))
    kind = draw(st.sampled_from(["scalar", "vector", "changing"]))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    sizes = {"scalar": 1, "vector": 2, "changing": rng.integers(1, 4, steps)}[kind]
    reach = draw(st.sampled_from([0, 1, 3, steps]))
    return Stream(seed, steps, sizes, reach, draw(st.integers(1, 3)), draw(st.booleans()))


@given(streams())
def test_level_is_the_recursive_constraint(s):
    level = s.level
    for count in (1, len(s.sizes) // 2, len(s.sizes)):
        if count:
            expected = s.cumulative(count)
            scale = max(np.abs(expected).max(), 1e-12)
            assert np.abs(level.cumulative(count) - expected).max() < 1e-9 * scale


@given(streams())
def test_information_equals_the_literal_algorithm_and_the_dense_formula(s):
    bound = pv.bound(s.model(), s.level)
    literal = list(reference.recursive_information(s.steps))
    scale = max(np.abs(literal[-1].PI).max(), 1e-12)
    for k, step in enumerate(literal):
        assert np.abs(bound.information[k] - step.PI).max() < 1e-9 * scale
    for count in (1, len(s.sizes)):
        size = s.starts[count]
        S, Sigma, H = s.cumulative(count), s.cov[:size, :size], s.H[:size]
        dense = H.T @ S @ np.linalg.inv(np.eye(size) + Sigma @ S) @ H
        assert np.abs(bound.information[count - 1] - dense).max() < 1e-8 * scale


@given(streams())
def test_bounds_and_estimates_equal_the_literal_algorithms(s):
    bound = pv.bound(s.model(), s.level)
    if bound.first is None:
        with pytest.raises(pv.errors.NotIdentifiable, match="not yet identifiable"):
            _ = bound[-1]
        assert np.isinf(bound.standard_error).all()
        return
    # The literal recursion starts from an explicit inverse: give it a well-conditioned start.
    smallest = [np.linalg.eigvalsh(p)[0] for p in bound.information]
    whole = np.linalg.eigvalsh(bound.information[-1])[-1]
    good = [k for k in range(bound.first, len(smallest)) if smallest[k] > 1e-4 * whole]
    if not good:
        return
    k0 = good[0] + 1
    information = list(reference.recursive_information(s.steps))
    expected = list(reference.recursive_bound(information, k0))
    for k, matrix in enumerate(expected, start=k0 - 1):
        assert relative_error(bound[k].covariance, matrix) < 1e-8
    # The same data through both: z_k = ℓ_k z̃_k.
    y, e = s.rng.standard_normal(s.M), s.rng.standard_normal(s.M)
    level = s.level
    white = level.rows.times(y[:, None])[:, 0] + e
    shown, released = level.rows.dense(), []
    for a, b, S, U in zip(s.starts, s.starts[1:], s.S, s.U):
        own = shown[a:b, a:b].T  # ℓ_k, so that d_k = ℓ_k e_k
        z = U.T @ y[:a] + S @ y[a:b] + own @ e[a:b]
        assert np.abs(own @ white[a:b] - z).max() < 1e-9 * (1 + np.abs(z).max())
        released.append(z)
    literal = list(reference.private_rls(s.steps, information, expected, released, k0))
    estimates = rls_path(s.model(), level, white)
    for k, theta in enumerate(literal, start=k0 - 1):
        found = estimates[k - bound.first]
        assert np.abs(found - theta).max() < 1e-7 * (1 + np.abs(theta).max())


@pytest.mark.parametrize(("m", "reach", "singular"), [(1, 200, False), (1, 5, True), (2, 3, True)])
def test_two_hundred_steps_equal_the_literal_algorithms(m, reach, singular):
    """K = 200: PI_k, Σ_PPCR,k and θ̂_k to 1e-9 of their size, rank-deficient and vector S_k too."""
    steps = 200
    s = Stream(10 * m + reach, steps, m, reach, 3, singular)
    level = s.level
    y, e = s.rng.standard_normal(s.M), s.rng.standard_normal(s.M)
    white = level.rows.times(y[:, None])[:, 0] + e
    own = [level.rows.dense()[a:b, a:b].T for a, b in zip(s.starts, s.starts[1:])]
    released = [lower @ white[a:b] for lower, a, b in zip(own, s.starts, s.starts[1:])]
    estimates, bound = rls_path(s.model(), level, white), pv.bound(s.model(), level)
    literal = list(reference.recursive_information(s.steps))
    k0 = bound.first + 8  # a well-conditioned start for the literal recursion
    expected = list(reference.recursive_bound(literal, k0))
    thetas = list(reference.private_rls(s.steps, literal, expected, released, k0))
    for k, step in enumerate(literal):
        assert np.abs(bound.information[k] - step.PI).max() < 1e-9 * np.abs(literal[-1].PI).max()
    for k, matrix, theta in zip(range(k0 - 1, steps), expected, thetas):
        assert relative_error(bound[k].covariance, matrix) < 1e-9
        found = estimates[k - bound.first]
        assert np.abs(found - theta).max() < 1e-9 * (1 + np.abs(theta).max())
    assert len(expected) == len(thetas) == steps - k0 + 1


def test_a_hundred_thousand_banded_steps():
    """Against V x = A H by sparse LU, refined twice with residuals in extended precision:
    another factorisation, in other software, good to 1e-15. The promise is 1e-6."""
    rng = np.random.default_rng(20)
    steps, n, variance = 10**5, 3, 0.5
    S, weights = rng.uniform(0.2, 2, steps), [0.6, -0.4, 0.3]
    S[rng.random(steps) < 0.1] = 0.0
    H, z = rng.standard_normal((steps, n)), rng.standard_normal(steps)
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=variance))
    level = pv.StreamLevel(S, lags=weights)
    bound, rls = pv.bound(model, level), pv.PrivateRLS(level, n, pv.noise.Gaussian(cov=variance))

    A = scipy.sparse.diags(
        [w * np.sqrt(S[lag:]) for lag, w in enumerate([1.0, *weights])], [0, -1, -2, -3]
    )
    A_H = A @ H
    V = (variance * A @ A.T + scipy.sparse.identity(steps)).tocsc()
    for k in (50, 20_000, steps - 1):
        size, seen = k + 1, rls.steps
        part = pv.Release(seen, size - seen, z[seen:size], None, level.fingerprint, True)
        rls.update(part, H[seen:size])
        V_k = V[:size, :size].astype(np.longdouble).tocoo()
        solve = scipy.sparse.linalg.splu(V[:size, :size]).solve
        right = np.column_stack([A_H[:size], z[:size]])
        x = solve(right).astype(np.longdouble)
        for _ in range(2):
            product = np.zeros_like(x)
            np.add.at(product, V_k.row, V_k.data[:, None] * x[V_k.col])
            x += solve((right - product).astype(float))
        gram = (right[:, :n].T.astype(np.longdouble) @ x).astype(float)
        assert relative_error(bound[k].covariance, np.linalg.inv(gram[:, :n])) < 1e-12
        theta = np.linalg.solve(gram[:, :n], gram[:, n])
        assert np.abs(rls.value - theta).max() < 1e-12 * (1 + np.abs(theta).max())


@given(streams())
def test_forms_agree(s):
    """The same level in the form of its structure and as a dense matrix; and noise that couples
    the steps goes through the dense form."""
    level = s.level
    dense = pv.StreamLevel._of(
        pv.linalg.DenseRows(level.rows.dense(), max(level.sizes)), level.sizes
    )
    for cov in (s.cov, psd_matrix(s.rng, s.M)):
        one, two = pv.bound(s.model(cov), level), pv.bound(s.model(cov), dense)
        scale = max(np.abs(two.information).max(), 1e-12)
        assert np.abs(one.information - two.information).max() < 1e-10 * scale
        assert one.first == two.first


@given(streams())
def test_information_and_bounds_are_monotone_in_time(s):
    bound = pv.bound(s.model(), s.level)
    for earlier, later in zip(bound.information, bound.information[1:]):
        assert loewner(earlier, later, rtol=1e-9)


def test_forms_are_chosen_from_the_structure():
    rng = np.random.default_rng(0)
    S = rng.uniform(0.2, 2, 40)
    assert pv.StreamLevel(S).form == "independent"
    lower = np.tril(rng.standard_normal((40, 40)), -1)
    assert pv.StreamLevel(S, lower).form == "dense"
    band = np.tril(np.triu(lower, -3), -1)
    assert (pv.StreamLevel(S, band).form, pv.StreamLevel(S, band).reach) == ("banded", 3)
    assert pv.StreamLevel(S, np.zeros((40, 40))).form == "independent"
    lags = pv.StreamLevel(S, lags=[0.5, 0.25])
    assert (lags.form, lags.reach) == ("banded", 2)
    assert np.allclose(pv.StreamLevel.constant(0.5, steps=7).cumulative(), 0.5 * np.eye(7))
    assert pv.StreamLevel.constant(np.eye(2), steps=3).measurements == 6


def test_lag_weights_are_what_they_say():
    """Step k shows y_k + Σ W_j y_{k−j} at level S_k."""
    rng = np.random.default_rng(1)
    S = np.stack([psd_matrix(rng, 2) for _ in range(9)])
    weights = [0.5, rng.standard_normal((2, 2))]
    level = pv.StreamLevel(S, lags=weights)
    total = np.zeros((18, 18))
    for k in range(9):
        shown = np.zeros((2, 18))
        shown[:, 2 * k : 2 * k + 2] = np.eye(2)
        for j, weight in enumerate(weights, start=1):
            if k >= j:
                shown[:, 2 * (k - j) : 2 * (k - j) + 2] = weight * np.eye(2) if j == 1 else weight
        total += shown.T @ S[k] @ shown
    assert np.allclose(level.cumulative(), total)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.booleans(), st.booleans())
def test_any_target_has_one_sequential_realisation(seed, steps, singular, banded):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, steps)
    M = int(sizes.sum())
    rank = int(rng.integers(0, M + 1)) if singular else M
    target = psd_matrix(rng, M, rank) if rank else np.zeros((M, M))
    if banded:
        factor = np.tril(np.triu(rng.standard_normal((M, M)), -2))
        factor[:, rng.random(M) < 0.4] = 0
        target = factor @ factor.T
    level = pv.StreamLevel.from_cumulative(target, sizes)
    scale = max(np.abs(target).max(), 1e-12)
    assert np.abs(level.cumulative() - target).max() < 1e-9 * scale
    # block lower-triangular: no step looks ahead
    ends = np.cumsum(sizes)
    rows = level.rows.dense()
    for end, m in zip(ends, sizes):
        assert not rows[end - m : end, end:].any()
    # and the interim levels never exceed what the target leaves room for
    for count in range(1, steps):
        size = ends[count - 1]
        assert loewner(level.cumulative(count), target[:size, :size], rtol=1e-8)


def test_the_sum_is_released_at_the_last_step_only():
    level = pv.StreamLevel.from_cumulative(np.ones((5, 5)))
    for count in range(1, 5):
        assert np.abs(level.cumulative(count)).max() == 0
    assert np.allclose(level.cumulative(5), np.ones((5, 5)))


def test_first_identifiable_step_is_found_by_rank():
    """Five readings that all see the same direction do not make two parameters."""
    H = np.array([[1.0, 1.0]] * 5 + [[1.0, 2.0]] + [[0.0, 1.0]])
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=1.0))
    bound = pv.bound(model, pv.StreamLevel(np.ones(7)))
    assert bound.first == 5
    assert bound.identifiable.tolist() == [False] * 5 + [True] * 2
    with pytest.raises(pv.errors.NotIdentifiable, match="not yet identifiable") as caught:
        _ = bound[3]
    assert np.abs(caught.value.hidden_directions[:, 0]) == pytest.approx([0.5**0.5] * 2)
    hidden = pv.bound(model, pv.StreamLevel([1, 1, 1, 1, 1, 0, 1.0]))
    assert hidden.first == 6
    never = pv.bound(model, pv.StreamLevel([1, 1, 1, 1, 1, 0, 0.0]))
    assert never.first is None
    assert "never" in repr(never)


def test_without_privacy_the_estimates_are_recursive_least_squares():
    rng = np.random.default_rng(3)
    H, theta = rng.standard_normal((60, 3)), np.array([1.0, -2.0, 0.5])
    y = H @ theta + 0.3 * rng.standard_normal(60)
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=0.09))
    level = pv.StreamLevel(np.full(60, 1e14))
    estimates = rls_path(model, level, 1e7 * y)
    for k in (5, 20, 59):
        ordinary = np.linalg.lstsq(H[: k + 1], y[: k + 1])[0]
        assert np.abs(estimates[k - 60] - ordinary).max() < 1e-8


@pytest.mark.parametrize("reach", [0, 2, 30])
def test_covariance_of_the_estimates_is_the_bound_at_every_step(reach):
    """`thm:opt` by Monte Carlo: Wishart likelihood ratio at three steps, false alarm 1e-6 each."""
    s = Stream(4, 30, 1, reach, 3, singular=False)
    model, level, theta = s.model(), s.level, np.array([0.6, -0.7, 0.3])
    trials = 20_000
    y = model.sample(theta, s.rng, trials=trials)
    white = level.rows.times(y.T) + s.rng.standard_normal((30, trials))
    rows = level.rows
    right = np.concatenate([rows.times(model.matrix), white], axis=1)
    whitened = rows.whiten(model.covariance, right)
    bound = pv.bound(model, level)
    for k in (bound.first, 10, 29):
        G, Z = whitened[: k + 1, :3], whitened[: k + 1, 3:]
        errors = np.linalg.solve(bound.information[k], G.T @ Z).T - theta
        half = np.linalg.cholesky(bound[k].covariance)
        values = np.linalg.eigvalsh(np.cov(np.linalg.solve(half, errors.T), bias=True))
        statistic = trials * (values.sum() - np.log(values).sum() - 3)
        assert statistic < scipy.stats.chi2.isf(1e-6, 6)
    one = rls_path(model, level, white[:, 0])[-1]
    assert np.allclose(one, np.linalg.solve(bound.information[29], G.T @ Z[:, 0]))


@given(streams())
def test_later_steps_spend_earlier_readings(s):
    """μ is counted against the final cumulative level, block by block."""
    level, final = s.level, s.cumulative(len(s.sizes))
    one = np.sqrt(np.diagonal(final).max())
    assert level.to_mu(sensitivity=2.0) == pytest.approx(2 * one, rel=1e-7, abs=1e-9)
    blocks = [final[a:b, a:b] for a, b in zip(s.starts, s.starts[1:])]
    worst = max(np.linalg.eigvalsh(block)[-1] for block in blocks)
    step = pv.privacy.Adjacency.block(2.0)
    found = level.to_mu(sensitivity=step)
    if max(s.sizes) > 1:
        assert found == pytest.approx(2 * np.sqrt(max(worst, 0)), rel=1e-7, abs=1e-7)
    own = np.sqrt(max(np.diagonal(S).max() for S in s.S))
    assert level.to_mu(sensitivity=1.0) >= own * (1 - 1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pv.StreamLevel([1.0, -1.0]), "eigenvalue -1 at index 1"),
        (lambda: pv.StreamLevel([1.0, np.nan]), "NaN at index 1"),
        (lambda: pv.StreamLevel([1.0, 0.0], [[], [1.0]]), "U of step 1 does not lie in the range"),
        (
            lambda: pv.StreamLevel([np.eye(2), np.diag([1.0, 0.0])], [None, np.eye(2)]),
            "U of step 1 does not lie in the range",
        ),
        (lambda: pv.StreamLevel([1.0, 1.0], [[]]), "one entry for each of the 2 steps"),
        (lambda: pv.StreamLevel([1.0, 1.0], [[], [1.0, 2.0]]), r"shape \(1, 1\)"),
        (lambda: pv.StreamLevel([1.0, 1.0], np.ones((2, 2))), "strictly lower-triangular"),
        (lambda: pv.StreamLevel.from_cumulative([[1.0, 2.0], [2.0, 1.0]]), "eigenvalue -1"),
        (lambda: pv.StreamLevel.from_cumulative(np.eye(3), [1, 1]), "add up to 3"),
        (lambda: pv.StreamLevel([1.0, 1.0], lags=[np.eye(3)]), "a number or 1×1"),
        (
            lambda: pv.bound(
                pv.LinearModel(np.eye(3), noise=pv.noise.Gaussian()), pv.StreamLevel([1.0, 1.0])
            ),
            "3 measurements; the stream level has 2",
        ),
    ],
)
def test_bad_input_has_one_clear_error(make, message):
    with pytest.raises(pv.errors.InvalidInput, match=message):
        make()


def test_non_gaussian_noise_attains_the_formula_with_cov_w_not_the_bound():
    rng = np.random.default_rng(6)
    H, level = rng.standard_normal((30, 2)), pv.StreamLevel(np.ones(30), lags=[0.5])
    laplace = pv.LinearModel(H, noise=pv.noise.Laplace(0.5))
    same_variance = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=0.5))
    rls = pv.PrivateRLS(level, 2, pv.noise.Laplace(0.5))
    rls.update(pv.Release(0, 30, rng.standard_normal(30), None, level.fingerprint, True), H)
    same = pv.bound(same_variance, level)[29].covariance
    assert relative_error(rls.covariance, same) < 1e-12
    floor = pv.bound(laplace, level)[29].covariance
    assert np.linalg.eigvalsh(rls.covariance - floor)[0] > 0
