"""Filter, smoother, predictions, bounds, online and fits against one dense Gaussian.

Random systems of any rank, with inputs, correlated noise, diffuse starts, changing matrices, gaps,
missing parts, levels that look back and dense ones; public calls only, by `golden.dynamics`. The
Gaussian (`dense_gaussian`) has no recursion. Units are √(P_ii P_jj), or 1e-2 of the
largest deviation of any state: `test_dynamics_precision` looks at systems of very unequal sizes.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import privest as pv
from dense_gaussian import STEP, Dense, gradient, law, log_likelihood, rows_shown, slope
from golden.dynamics import (
    autoregression,
    call_bound,
    call_filter,
    call_filter_nonlinear,
    call_fit,
    call_information_blocks,
    call_nonlinear_system,
    call_online,
    call_parameter_bound,
    call_predict,
    call_reading_information,
    call_restored,
    call_saved,
    call_smooth,
    call_total_level,
    make_release,
    make_system,
)

AHEAD = 3
TOLERANCE = 1e-10
FLOOR = 1e-2  # a root of a singular Q is known to √eps: variances to 1e-14 of the largest
DETERMINED = 1e6  # condition of what shows a diffuse start; above 1e12 it is not shown
FORMS = ("number", "diagonal", "endless", "stream", "lags", "stream lags", "dense")


def psd(rng, size, rank=None):
    half = rng.standard_normal((size, size if rank is None else rank))
    return half @ half.T


def random_system(rng, steps, *, n, m, p=0, q=0, varying=False, radius=0.95):
    """Plain arrays. Noise of any rank, and of the start."""
    axis = (steps + AHEAD,) if varying else ()
    A = rng.standard_normal((*axis, n, n))
    A *= radius / np.maximum(np.abs(np.linalg.eigvals(A)).max(-1), 0.1)[..., None, None]
    half = rng.standard_normal((*axis, n + m, int(rng.integers(0, n + m + 1))))
    noise = half @ half.swapaxes(-1, -2)
    made = {
        "A": A, "C": rng.standard_normal((*axis, m, n)), "Q": noise[..., :n, :n],
        "R": noise[..., n:, n:], "mean0": rng.standard_normal(n),
        "cov0": psd(rng, n, int(rng.integers(0, n + 1))),
    }  # fmt: skip
    if p:
        made["B"] = rng.standard_normal((*axis, n, p))
        made["D"] = rng.standard_normal((*axis, m, p))
    if q:
        made["diffuse"] = rng.standard_normal((n, q))
    return made


def random_level(rng, form, steps, m):
    """The level, and the matrix S̄ (K m, K m) that all its releases together amount to."""
    S = np.stack([psd(rng, m) + 0.05 * np.eye(m) for _ in range(steps)])
    weights = [0.4 * rng.standard_normal((m, m)) for _ in range(int(rng.integers(1, 3)))]
    if form == "dense":
        whole = psd(rng, steps * m)
        return pv.StreamLevel.from_cumulative(whole, [m] * steps), whole
    if form == "number":
        return 0.8, 0.8 * np.eye(steps * m)
    if form in ("endless", "lags"):
        S = np.broadcast_to(S[0], S.shape)
    if form == "diagonal":
        S = S * np.eye(m)
    lags = weights if form.endswith("lags") else []
    look = np.eye(steps * m)  # Y → y_k + Σ W_j y_{k−j}
    for j, weight in enumerate(lags, start=1):
        look += np.kron(np.eye(steps, k=-j), weight)
    whole = look.T @ block_diagonal(S) @ look
    if form == "endless":
        return pv.StreamLevel.constant(S[0]), whole
    if form == "lags":
        return pv.StreamLevel.constant(S[0], lags=lags), whole
    return (pv.StreamLevel(S, lags=lags) if lags else pv.StreamLevel(S)), whole


def block_diagonal(blocks):
    count, m = blocks.shape[:2]
    whole = np.zeros((count, m, count, m))
    whole[np.arange(count), :, np.arange(count)] = blocks
    return whole.reshape(count * m, count * m)


def rows_of(level, steps, m):
    """A (K m, K m), z = A Y + e: the only thing that is asked of the level."""
    if isinstance(level, float):
        level = pv.StreamLevel.constant(level * np.eye(m))
    return (level.first(steps) if level.steps is None else level).rows.dense()


@dataclass
class Setting:
    """One random case, and the dense Gaussian of the same numbers."""

    system: dict
    level: object
    z: np.ndarray
    inputs: np.ndarray | None
    later: np.ndarray | None
    rows: np.ndarray
    shown: np.ndarray

    @property
    def steps(self):
        return len(self.z)

    def dense(self, z=None):
        values = (self.z if z is None else z)[self.shown]
        inputs = None if self.inputs is None else np.vstack([self.inputs, self.later])
        steps = self.steps + AHEAD
        return Dense(self.system, self.rows, self.shown, values, inputs, steps)

    @property
    def given(self):
        return make_system(self.system)

    @property
    def release(self):
        return make_release(self.level, self.z)


def setting(seed, form, *, gaps=False, parts=False, least=1, **options):
    rng = np.random.default_rng(seed)
    steps, n, m = int(rng.integers(least, 10)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
    p = int(rng.integers(1, 3)) if options.pop("inputs", False) else 0
    q = int(rng.integers(1, n + 1)) if options.pop("diffuse", False) else 0
    radius = rng.choice([0.5, 0.95, 1.1])
    system = random_system(rng, steps, n=n, m=m, p=p, q=q, radius=radius, **options)
    level, whole = random_level(rng, form, steps, m)
    rows = rows_of(level, steps, m)
    assert np.abs(rows.T @ rows - whole).max() < 1e-10 * np.abs(whole).max()
    z = 2 * rng.standard_normal((steps, m))
    if gaps:
        z[rng.random(steps) < 0.3] = np.nan
    if parts:
        z[rng.random((steps, m)) < 0.2] = np.nan
    A, shown = rows_shown(rows, np.isnan(z))
    inputs = rng.standard_normal((steps, p)) if p else None
    later = rng.standard_normal((AHEAD, p)) if p else None
    return Setting(system, level, z, inputs, later, A, shown)


FEATURES = st.fixed_dictionaries(
    {name: st.booleans() for name in ("varying", "inputs", "gaps", "parts", "diffuse")}
)
SEEDS = st.integers(0, 10**6)


def require(found, mean, P, size, tolerance, place):
    """Mean and covariance of one state, in its own units."""
    unit = np.maximum(np.sqrt(np.maximum(P.diagonal(), 0.0)), FLOOR * size)
    off = np.abs(found[0] - mean) / np.maximum(unit, FLOOR * np.abs(mean).max())
    assert off.max() <= tolerance, (place, "mean", off.max())
    off = np.abs(found[1] - P) / np.outer(unit, unit)
    assert off.max() <= tolerance, (place, "covariance", off.max())


@settings(max_examples=150, deadline=None)
@given(SEEDS, st.sampled_from(FORMS), FEATURES)
def test_filter_smoother_predictions_and_likelihood(seed, form, features):
    case = setting(seed, form, **features)
    dense, K = case.dense(), case.steps
    condition = dense.condition(K)
    assume(condition < DETERMINED)
    size = dense.size
    found = call_filter(case.given, case.level, case.release, case.inputs)
    smoothed, ahead = call_smooth(found), call_predict(found, AHEAD, case.later)
    mean, P = dense.states_after(K)
    tolerance = TOLERANCE * condition
    for k in range(K):
        own = smoothed.value[k], smoothed.covariance[k]
        require(own, mean[k], P[k], size, tolerance, ("smoothed", k))
    for h in range(AHEAD):
        own = ahead.value[h], ahead.covariance[h]
        require(own, mean[K + h], P[K + h], size, tolerance, ("ahead", h))
    for k in range(K):
        for own, last in (
            ((found.predicted.value[k], found.predicted.covariance[k]), k),
            ((found.filtered.value[k], found.filtered.covariance[k]), k + 1),
        ):
            here = dense.condition(last)
            if here < DETERMINED:
                one, P = dense.states_after(last)
                require(own, one[k], P[k], size, TOLERANCE * here, (last, k))
            elif np.isinf(here):  # fewer numbers than δ has
                assert np.isinf(own[1]).any(), (last, k)
    height = dense.log_likelihood
    assert abs(found.log_likelihood - height) <= tolerance * (1 + abs(height))
    assert np.array_equal(np.isnan(found.innovations), ~case.shown) or dense.q
    if not dense.q:
        off = np.abs(found.innovations[case.shown] - dense.innovations)
        assert off.max(initial=0.0) <= TOLERANCE * (1 + np.abs(dense.innovations).max(initial=0))


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from(FORMS), FEATURES)
def test_bounds(seed, form, features):
    """The same covariances, asked for without any release."""
    case = setting(seed, form, **features)
    dense, K = case.dense(), case.steps
    condition = dense.condition(K)
    assume(condition < DETERMINED)
    size = dense.size
    missing = ~case.shown if (~case.shown).any() else None
    bound = call_bound(case.given, case.level, K, missing)
    _, P = dense.states_after(K)
    for k in range(K):
        zero = np.zeros(dense.n)
        own = zero, bound.smoothed[k]
        require(own, zero, P[k], size, TOLERANCE * condition, ("smoothed", k))
        for part, last in ((bound.predicted, k), (bound.filtered, k + 1)):
            here = dense.condition(last)
            if here < DETERMINED:
                only = dense.states_after(last)[1][k]
                require((zero, part[k]), zero, only, size, TOLERANCE * here, (last, k))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("states")


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.sampled_from(FORMS[:-1]), FEATURES, st.integers(0, 4), st.booleans())
def test_online_in_pieces(folder, seed, form, features, lag, saved):
    """Blocks of random lengths, a fixed lag, and a state that is saved and taken up again."""
    case = setting(seed, form, least=3, **features)
    dense, K = case.dense(), case.steps
    rng, path = np.random.default_rng(seed), folder / "kalman"
    size = dense.size
    system, level = case.given, case.level
    kalman, start = call_online(system, level, lag), 0
    while start < K:
        if saved:
            call_saved(kalman, path)
            kalman = call_restored(path)
        stop = min(K, start + int(rng.integers(1, 4)))
        own = None if case.inputs is None else case.inputs[start:stop]
        kalman.update(make_release(level, case.z[start:stop], start=start), inputs=own)
        start = stop
        here = dense.condition(stop)
        if here >= DETERMINED:
            continue
        mean, P = dense.states_after(stop)
        now = kalman.value, kalman.covariance
        require(now, mean[stop - 1], P[stop - 1], size, TOLERANCE * here, stop)
        window = kalman.smoothed
        assert len(window.value) == min(stop, lag + 1)
        for j, k in enumerate(range(stop - len(window.value), stop)):
            one = window.value[j], window.covariance[j]
            require(one, mean[k], P[k], size, TOLERANCE * here, ("lag", stop, k))
    here = dense.condition(K)
    assume(here < DETERMINED)
    ahead = kalman.forecast(AHEAD, inputs=case.later)
    for h in range(AHEAD):
        one = ahead.value[h], ahead.covariance[h]
        require(one, mean[K + h], P[K + h], size, TOLERANCE * here, ("ahead", h))
    height = dense.log_likelihood
    assert abs(kalman.log_likelihood - height) <= TOLERANCE * here * (1 + abs(height))


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.booleans())
def test_information_of_the_measurements(seed, varying):
    """J_Y = V⁻¹; its blocks; total levels."""
    case = setting(seed, "number", varying=varying)
    K, m = case.z.shape
    found = case.dense().law
    V = (found.y_map @ found.covariance @ found.y_map.T)[: K * m, : K * m]
    unit = np.sqrt(V.diagonal())
    assume(unit.all() and np.linalg.cond(V / np.outer(unit, unit)) < 1e4)
    J = np.linalg.inv(V)
    allowed = 1e-9 * np.abs(np.linalg.inv(V)).max()
    assert np.abs(call_reading_information(case.given, K) - J).max() < allowed
    own = J.reshape(K, m, K, m)[np.arange(K), :, np.arange(K)]
    assert np.abs(call_information_blocks(case.given, K) - own).max() < allowed
    S = 1.5 * np.linalg.eigvalsh(np.linalg.inv(V)).max()
    level = call_total_level(case.given, S, K)
    rows = rows_of(level, K, m)
    assert np.abs(rows.T @ rows + J - S * np.eye(K * m)).max() < 1e-8 * S


def contrasts(V, X):
    """V⁻¹ without the directions X."""
    inverse = np.linalg.inv(V)
    return inverse - inverse @ X @ np.linalg.solve(X.T @ inverse @ X, X.T @ inverse)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from(FORMS), FEATURES)
def test_many_series(seed, form, features):
    case = setting(seed, form, **features)
    first = case.dense()
    condition = first.condition(case.steps)
    assume(condition < DETERMINED)
    z = np.stack([case.z, 1.5 * case.z + 0.3, -case.z])
    found = call_filter(case.given, case.level, make_release(case.level, z), case.inputs)
    smoothed = call_smooth(found)
    for i, own in enumerate(z):
        dense = case.dense(own)
        mean, P = dense.states_after(case.steps)
        size = dense.size
        for k in range(case.steps):
            one = smoothed.value[i, k], smoothed.covariance[k]
            require(one, mean[k], P[k], size, TOLERANCE * condition, (i, k))
        height = dense.log_likelihood
        off = abs(found.log_likelihood[i] - height)
        assert off <= TOLERANCE * condition * (1 + abs(height))


@pytest.mark.parametrize("method", ["extended", "unscented"])
@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, form=st.sampled_from(["number", "diagonal", "endless", "stream"]),
       parts=st.booleans(), inputs=st.booleans())  # fmt: skip
def test_nonlinear_filters_of_linear_systems(method, seed, form, parts, inputs):
    """f and h are linear: nothing is approximated. Their Jacobians are differences: 1e-7."""
    case = setting(seed, form, gaps=True, parts=parts, inputs=inputs)
    dense, K, own = case.dense(), case.steps, case.system
    p = 0 if case.inputs is None else case.inputs.shape[1]
    B, D = own.get("B"), own.get("D")

    def moved(x, u=None):
        return own["A"] @ x + (B @ u if p else 0.0)

    def read(x, u=None):
        return own["C"] @ x + (D @ u if p else 0.0)

    covariances = {name: own[name] for name in ("Q", "R", "mean0", "cov0")}
    system = call_nonlinear_system(moved, read, covariances, p)
    found = call_filter_nonlinear(system, case.level, case.release, method, case.inputs)
    smoothed, ahead = call_smooth(found), call_predict(found, AHEAD, case.later)
    mean, P = dense.states_after(K)
    size = 1e-7 * max(1.0, dense.size, np.abs(mean).max()) ** 2
    assert np.abs(smoothed.value - mean[:K]).max() < size
    assert np.abs(smoothed.covariance - P[:K]).max() < size
    assert np.abs(ahead.value - mean[K:]).max() < size
    assert np.abs(ahead.covariance - P[K:]).max() < size


def test_the_gradient_of_the_oracle():
    """Complex steps against differences of the other form, which shares only the maps."""
    case = setting(3, "stream", gaps=True, inputs=True, least=6)
    values = case.z[case.shown]
    found = gradient(case.system, case.rows, values, case.inputs)
    assert abs(log_likelihood(case.system, case.rows, values, case.inputs)
               - case.dense().log_likelihood) < 1e-10  # fmt: skip
    rng = np.random.default_rng(0)
    for name, own in found.items():
        direction = rng.standard_normal(own.shape)
        if name in ("Q", "R", "cov0"):
            direction = direction @ direction.T
        along = slope(case.system, name, direction, case.rows, values, case.inputs)
        assert abs((own * direction).sum() - along) < 1e-10 * (1 + abs(along))
        ends = []
        for h in (1e-5, -1e-5):
            moved = case.system | {name: case.system[name] + h * direction}
            ends.append(log_likelihood(moved, case.rows, values, case.inputs))
        assert abs((ends[0] - ends[1]) / 2e-5 - along) < 1e-6 * (1 + abs(along)), name


# Fits: families written once more in complex numbers.


def autoregressive(theta):
    phi, q, mean = theta
    return {"A": np.array([[phi]]), "C": np.ones((1, 1)), "Q": np.array([[q]]),
            "R": np.zeros((1, 1)), "mean0": np.zeros(1), "cov0": np.array([[q / (1 - phi**2)]]),
            "B": np.zeros((1, 1)), "D": np.array([[mean]])}  # fmt: skip


def local_level(theta):
    q, r = theta
    one = np.ones((1, 1))
    return {"A": one, "C": one, "Q": q * one, "R": r * one, "mean0": np.zeros(1),
            "cov0": 0.0 * one, "diffuse": one}  # fmt: skip


def local_trend(theta):
    q_level, q_slope, r = theta
    return {"A": np.array([[1.0, 1.0], [0.0, 1.0]]), "C": np.array([[1.0, 0.0]]),
            "Q": np.array([[q_level, 0.0], [0.0, q_slope]]), "R": np.array([[r]]),
            "mean0": np.zeros(2), "cov0": np.zeros((2, 2)), "diffuse": np.eye(2)}  # fmt: skip


def regression(theta):
    phi, q, first, second = theta
    return autoregressive((phi, q, 0.0)) | {"B": np.zeros((1, 2)), "D": np.array([[first, second]])}


def driven(theta):
    phi, q, gain = theta
    return autoregressive((phi, q, 0.0)) | {
        "B": np.array([[gain]]), "D": np.zeros((1, 1)), "cov0": np.zeros((1, 1)),
        "diffuse": np.ones((1, 1)),
    }  # fmt: skip


FAMILIES = {
    "ar1": (autoregressive, None),
    "level": (local_level, None),
    "trend": (local_trend, None),
    "regression1": (regression, 2),
    "arx1": (driven, 1),
}
LOOK_BACK = 0.6  # z_k = √s (y_k + .6 y_{k−1}) + e_k


@pytest.mark.parametrize("lags", [(), (LOOK_BACK,)], ids=["at once", "lags"])
@pytest.mark.parametrize("family", FAMILIES)
def test_fits_are_at_the_maximum_of_the_dense_likelihood(family, lags):
    """ℓ̂ is ℓ of the dense Gaussian at θ̂, its slope is nothing there, and −∇²ℓ gives the errors.

    The slope by complex steps, the curvature by differences of it. A fit is within 1e-4 standard
    errors of the maximum, so that 2(ℓmax − ℓ̂) is below 1e-8.
    """
    made, columns = FAMILIES[family]
    rng = np.random.default_rng(12)
    steps, s = 90, 2.0
    inputs = rng.standard_normal((steps, columns)) if columns else None
    y = autoregression(rng, steps, 0.7, 0.5, mean=1.0)
    if family in ("level", "trend"):
        y = np.cumsum(y + (0.0 if family == "level" else np.cumsum(0.3 * y)))
    if columns:
        y = y - 1.0 + inputs @ [1.0, -0.5][:columns]
    y = y + 0.7 * rng.standard_normal(steps)
    level = pv.StreamLevel.constant(s, lags=list(lags))
    rows, shown = np.sqrt(s) * np.eye(steps), np.ones(steps, dtype=bool)
    shown[[4, 5, 30]] = False
    for back, weight in enumerate(lags, start=1):
        rows += np.sqrt(s) * weight * np.eye(steps, k=-back)
    rows[:, ~shown] = 0.0  # what is missing is left out of later releases, too
    z = np.where(shown, rows @ y + rng.standard_normal(steps), np.nan)
    found = call_fit(family, level, make_release(level, z[:, None]), inputs)
    assert found.converged
    known = inputs if columns else np.ones((steps, 1)) if family == "ar1" else None
    rows = rows[shown]

    def height(theta):
        return log_likelihood(made(theta), rows, z[shown], known)

    def slopes(theta):
        moves = 1j * STEP * np.eye(len(theta))
        return np.array([height(theta + move).imag for move in moves]) / STEP

    theta = np.asarray(found.value)
    value = float(np.real(height(theta)))
    assert abs(found.log_likelihood - value) <= 1e-8 * max(1.0, abs(value) / 100)
    free = ~np.asarray(found.at_limit)
    size = 1e-5 * np.maximum(np.abs(theta), 1e-3)
    H = np.stack([(slopes(theta + d) - slopes(theta - d)) / (2 * d.sum()) for d in np.diag(size)])
    H = (-(H + H.T) / 2)[np.ix_(free, free)]
    own = np.linalg.solve(H, slopes(theta)[free])  # a Newton step
    error = np.sqrt(np.linalg.inv(H).diagonal())
    assert (np.abs(own) <= 1e-4 * error).all()
    said = np.sqrt(np.diagonal(found.covariance))[free]
    there = np.isfinite(said)
    assert there.any()
    assert np.abs(said[there] / error[there] - 1).max() < 1e-3


THETA = {"ar1": [0.8, 0.36, 1.0], "level": [0.3, 0.5], "trend": [0.2, 0.02, 0.5],
         "regression1": [0.7, 0.5, 1.0, -0.5], "arx1": [0.7, 0.5, 0.8]}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_parameter_bounds_are_the_inverse_of_the_dense_information(family):
    """I_ij = ½tr(M ∂_iV M ∂_jV) + ∂_iμᵀM∂_jμ, M = V⁻¹ (of contrasts); slopes by complex steps.

    Where θ moves the response X to x_0 = δ, δ = 0 is one more parameter: the trace has V⁻¹.
    """
    made, columns = FAMILIES[family]
    steps, s, theta = 40, 0.7, np.array(THETA[family])
    rng = np.random.default_rng(3)
    inputs = rng.standard_normal((steps, columns)) if columns else None
    known = inputs if columns else np.ones((steps, 1)) if family == "ar1" else None
    missing = rng.random(steps) < 0.2
    rows = np.sqrt(s) * np.eye(steps)[~missing]

    def parts(at):
        found = law(made(at), steps, known)
        V = rows @ found.y_map @ found.covariance @ found.y_map.T @ rows.T + np.eye(len(rows))
        return V, rows @ found.y, rows @ found.y_delta

    V, _, X = parts(theta)
    M = contrasts(V, X)
    moved = [parts(theta + 1j * STEP * own) for own in np.eye(len(theta))]
    slopes = [(V.imag / STEP, mean.imag / STEP) for V, mean, _ in moved]
    W = np.linalg.inv(V) if any(X.imag.any() for _, _, X in moved) else M
    information = np.array(
        [[0.5 * np.trace(W @ A @ W @ B) + a @ M @ b for B, b in slopes] for A, a in slopes]
    )
    found = call_parameter_bound(family, theta, s, steps, inputs=inputs, missing=missing)
    expected = np.linalg.inv(information)
    unit = np.sqrt(expected.diagonal())
    assert np.abs((found.covariance - expected) / np.outer(unit, unit)).max() < 1e-8
