"""States from vector readings of which parts are missing: dense formulas, statsmodels, itself."""

import itertools
import json

import numpy as np
import pytest

import privest as pv
from dynamic_systems import (
    random_psd,
    random_system,
    statsmodels_of,
)
from privest import dynamics
from privest.errors import InvalidInput
from privest.stream_file import facts_of, linked, read_release, step_records

RTOL = 1e-9  # as in test_dynamics_filter: V of condition below 1e6


def random_gaps(rng, steps, m):
    """Parts and whole steps."""
    missing = rng.random((steps, m)) < 0.3
    missing[rng.random(steps) < 0.1] = True
    return missing


def independent(rng, steps, m, kind):
    S = np.stack([random_psd(rng, m, m) for _ in range(steps)])
    return {
        "mixed": lambda: pv.StreamLevel(S),
        "endless": lambda: pv.StreamLevel.constant(S[0]),
        "diagonal": lambda: pv.StreamLevel(S * np.eye(m)),
        "endless diagonal": lambda: pv.StreamLevel.constant(S[0] * np.eye(m)),
    }[kind]()


KINDS = ["mixed", "endless", "diagonal", "endless diagonal"]


def test_whole_steps_are_what_they_were():
    """Flags (K, m) of whole steps are those of steps: the same numbers, to the last bit."""
    rng = np.random.default_rng(5)
    system, level = (
        random_system(rng, steps=40, n=3, m=2),
        pv.StreamLevel.constant(random_psd(rng, 2, 2)),
    )
    missing = rng.random(40) < 0.3
    one = pv.bound(system, level, steps=40, missing=missing)
    same = pv.bound(system, level, steps=40, missing=np.stack([missing, missing], axis=1))
    for name in ("predicted", "filtered", "smoothed", "total_level"):
        assert np.array_equal(getattr(one, name), getattr(same, name))
    assert same.missing.shape == (40,)
    none = pv.bound(system, level, steps=40, missing=np.zeros((40, 2), dtype=bool))
    assert np.array_equal(none.smoothed, pv.bound(system, level, steps=40).smoothed)
    for bad in (np.zeros((40, 3), bool), np.zeros((2, 40), bool), np.zeros((40, 2)), [True]):
        with pytest.raises(InvalidInput, match="missing must be truth values"):
            pv.bound(system, level, steps=40, missing=bad)


def test_levels_that_look_back_count_the_step_as_missing():
    rng = np.random.default_rng(6)
    system = random_system(rng, steps=12, n=2, m=2)
    missing = random_gaps(rng, 12, 2)
    for level in (
        pv.StreamLevel.constant(np.eye(2), lags=[0.5]),
        pv.StreamLevel.from_cumulative(random_psd(rng, 24, 24), [2] * 12),
    ):
        part = pv.bound(system, level, steps=12, missing=missing)
        whole = pv.bound(system, level, steps=12, missing=missing.any(axis=1))
        np.testing.assert_allclose(part.filtered, whole.filtered, rtol=1e-12)  # 12 steps, 2 states


@pytest.mark.parametrize("finite", [False, True])
def test_statsmodels_with_single_cells_missing(finite):
    """At an infinite level, and at a diagonal one: R + diag(1/s) is the noise of the readings."""
    rng = np.random.default_rng(4)
    steps, n, m = 150, 4, 3
    system = random_system(rng, steps=steps, n=n, m=m, radius=0.95)
    _, y = system.sample(steps, rng)
    missing = random_gaps(rng, steps, m)
    y[missing] = np.nan
    # 1/(s·λmin(R)) = 1e-11 is the relative change of the noise by an infinite level
    own = np.full(m, 1e11 / np.linalg.eigvalsh(system.R)[0])
    if finite:
        own = np.array([0.5, 2.0, 7.0])
        y = y + rng.standard_normal(y.shape) / np.sqrt(own)
    level = pv.StreamLevel.constant(np.diag(own))
    release = pv.Release(0, steps, (np.sqrt(own) * y).ravel(), missing, level.fingerprint, True)
    found = dynamics.filter(system, release, level=level)
    smoothed = found.smoothed
    peer = statsmodels_of(system, y)
    peer["obs_cov"] = system.R + (np.diag(1 / own) if finite else 0.0)
    theirs = peer.smooth()
    jacobian = 0.5 * float((~missing * np.log(own)).sum())  # z̃ = √s y
    assert float(found.log_likelihood) + jacobian == pytest.approx(theirs.llf, rel=1e-8)
    for ours, other in (
        (found.filtered.value, theirs.filtered_state),
        (found.filtered.covariance, theirs.filtered_state_cov),
        (found.predicted.value, theirs.predicted_state[:, :-1]),
        (smoothed.value, theirs.smoothed_state),
        (smoothed.covariance, theirs.smoothed_state_cov),
    ):  # fmt: skip
        other = np.moveaxis(other, -1, 0)
        assert np.abs(ours - other).max() < 1e-7 * np.abs(other).max()
    there = ~np.isnan(found.innovations)
    assert np.array_equal(there, ~missing)


@pytest.mark.parametrize("kind", KINDS)
def test_one_at_a_time_in_pieces_as_lines_and_as_many_series(kind):
    """The same numbers, to rounding of another order: PrivateKalman, joined, JSON, series."""
    rng = np.random.default_rng(9)
    steps, n, m = 30, 3, 3
    system = random_system(rng, steps=steps, n=n, m=m, radius=0.9, inputs=2)
    inputs = rng.standard_normal((steps, 2))
    _, y = system.sample(steps, rng, inputs=inputs)
    missing = random_gaps(rng, steps, m)
    y[missing] = np.nan
    level = independent(rng, steps, m, kind)
    mechanism = pv.StreamMechanism(level)
    cuts = [0, 1, 2, 11, steps]
    parts = [mechanism.release(y[a:b]) for a, b in itertools.pairwise(cuts)]
    release = pv.Release.join(parts)
    if "diagonal" not in kind:  # a step that is mixed shows nothing without a part of it
        missing = missing.any(axis=1)
    assert np.array_equal(release.missing, missing)
    whole = dynamics.filter(system, release, level=level, inputs=inputs)
    kalman = dynamics.PrivateKalman(system, level)
    for part, (a, b) in zip(parts, itertools.pairwise(cuts)):
        found = kalman.update(part, inputs=inputs[a:b])
        np.testing.assert_allclose(found.filtered.value, whole.filtered.value[a:b], atol=1e-10)
        np.testing.assert_allclose(found.innovations, whole.innovations[a:b], atol=1e-9)
    assert kalman.log_likelihood == pytest.approx(float(whole.log_likelihood), rel=1e-10)
    np.testing.assert_allclose(kalman.covariance, whole.filtered.covariance[-1], atol=1e-11)
    limit = pv.bound(system, level, steps=steps, missing=release.missing)
    v = release.unit_variance  # real noise is a little wider than the bound has it
    np.testing.assert_allclose(whole.filtered.covariance, limit.filtered, atol=2 * (v - 1))
    if level.steps is None:
        facts = facts_of(level, simulated=False, grid=release.grid, measurements=[])
        text, _ = linked([facts, *step_records(release, m, listed=True)], "")
        again = read_release(text.splitlines(keepends=True))
        assert np.array_equal(again.values, release.values, equal_nan=True)
        assert np.array_equal(again.missing, release.missing)


def test_series_that_miss_different_parts():
    rng = np.random.default_rng(11)
    steps, m = 12, 2
    system, level = (
        random_system(rng, steps=steps, n=2, m=m),
        pv.StreamLevel.constant(np.diag([2.0, 0.5])),
    )
    y = np.stack([system.sample(steps, rng)[1] for _ in range(4)])
    for i, cell in enumerate([(3, 0), (3, 1), (3, 0), (5, slice(None))]):
        y[i][cell] = np.nan
    for release in (
        pv.StreamMechanism(level).release(y), pv.StreamMechanism(level).simulate(y, rng),
    ):  # fmt: skip
        assert np.array_equal(np.isnan(release.values), np.isnan(y))
        again = pv.Release.from_dict(json.loads(json.dumps(release.to_dict())))
        assert np.array_equal(again.missing, release.missing)
        with pytest.raises(InvalidInput, match="by_pattern"):
            dynamics.filter(system, release, level=level)
        seen = []
        for members, part in release.by_pattern():
            found = dynamics.filter(system, part, level=level)
            for row, i in enumerate(members.tolist()):
                alone = pv.Release(
                    0, steps, release.values[i].ravel(), np.isnan(y[i]), level.fingerprint,
                    release.simulated, release.grid,
                )  # fmt: skip
                one = dynamics.filter(system, alone, level=level)
                np.testing.assert_allclose(
                    found.filtered.value[row], one.filtered.value, atol=1e-12
                )
            seen.append(members.tolist())
        assert sorted(seen) == [[0, 2], [1], [3]]
    shared = pv.StreamMechanism(level).simulate(y[[0, 2]], rng)
    assert dynamics.filter(system, shared, level=level).filtered.value.shape == (2, steps, 2)
    again = pv.Release.from_dict(json.loads(json.dumps(shared.to_dict())))
    assert np.array_equal(again.missing, shared.missing)


def test_what_dropping_the_rest_cost():
    """Two sensors that take turns: each step has one reading."""
    system = dynamics.StateSpace(
        A=0.95 * np.eye(2), C=np.eye(2), Q=0.1 * np.eye(2), R=0.1, cov0=1.0
    )
    turns = np.arange(60)[:, None] % 2 == np.arange(2)
    found = pv.bound(system, 4.0, steps=60, missing=turns)
    dropped = pv.bound(system, 4.0, steps=60, missing=turns.any(axis=1))
    assert np.trace(found.filtered[-1]) < 0.3 * np.trace(dropped.filtered[-1])


@pytest.mark.slow
def test_estimates_err_by_what_is_said():
    """4000 series with the same gaps: the errors vary as the filter says, to five deviations."""
    rng = np.random.default_rng(3)
    steps, count = 8, 4000
    system, level = (
        random_system(rng, steps=steps, n=2, m=2),
        pv.StreamLevel.constant(random_psd(rng, 2, 2)),
    )
    runs = [system.sample(steps, rng) for _ in range(count)]
    states, y = (np.stack(part) for part in zip(*runs))
    y[:, random_gaps(rng, steps, 2)] = np.nan
    found = dynamics.filter(system, pv.StreamMechanism(level).simulate(y, rng), level=level)
    errors = found.filtered.value - states
    unit = np.einsum(
        "kij,skj->ski", np.linalg.inv(np.linalg.cholesky(found.filtered.covariance)), errors
    )
    sample = np.einsum("ski,skj->kij", unit, unit) / count
    assert np.abs(sample - np.eye(2)).max() < 5 * np.sqrt(2 / count)
