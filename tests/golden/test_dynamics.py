"""The public calls of `privest.dynamics` give what they gave: see `golden/dynamics.py`.

Tolerances are those of the methods. Covariances in units √(P_ii P_jj) and means in √P_ii, to 1e-10;
fits: ℓ to 1e-8, estimates to 1e-5 of their standard error, ends of intervals to 1e-4 of their
width, mixtures to 1e-2 of the width of theirs.
"""

import json

import numpy as np
import pytest

from golden import dynamics as golden

CASES = golden.cases()
KEPT = golden.stored()
EXACT = 1e-10
FITTED = 1e-4
DRAWN = 1e-2  # quantiles of two samples of some 300 effective draws; against 18,000: up to 6e-3
UNKNOWN = 1e3  # errors on the working scale above this are rounding
DIRECTIONS = 2e-5  # the gap that `best_directions` allows itself is 1e-5
QUICK = {"fit ar1-mean low level", "fit level", "fit level-noise", "fit ar2 K 3000"}  # of the fits


def is_slow(name):
    return CASES[name].call == "fit" and name not in QUICK


def numbers(tree):
    """An array of floats; "nan" and "inf" were texts."""
    return np.array(tree, dtype=float)


def require(found, kept, unit, tolerance, place):
    """|found − kept| ≤ tolerance·unit where finite; the same NaN and ∞ elsewhere."""
    found, kept = numbers(found), numbers(kept)
    assert found.shape == kept.shape, (place, found.shape, kept.shape)
    finite = np.isfinite(kept)
    assert np.array_equal(np.isfinite(found), finite), place
    assert np.array_equal(found[~finite], kept[~finite], equal_nan=True), place
    unit = np.broadcast_to(numbers(unit), kept.shape)[finite]
    off = np.abs(found[finite] - kept[finite])
    worst = float(np.max(off - tolerance * unit, initial=0.0))
    assert worst <= 0, (place, float(np.max(off / np.maximum(unit, 1e-300))), tolerance)


def size(kept):
    """The largest finite entry: a unit for what has no better one."""
    values = np.abs(numbers(kept))
    return float(np.max(values[np.isfinite(values)], initial=0.0))


def deviations(halves):
    """√P_ii (…, n) of upper triangles, and the least that is told apart: 1e-4 of the largest.

    Of the same state, or of any where it is known without error at every step. Where P_ii is
    infinite, before a diffuse start is shown, the largest of all states stands in.
    """
    n = int((np.sqrt(8 * halves.shape[-1] + 1) - 1) / 2)
    rows, columns = np.triu_indices(n)
    own = halves[..., rows == columns]
    known = np.isfinite(own)
    own = np.sqrt(np.where(known, np.maximum(own, 0.0), 0.0))
    largest = own.max(axis=tuple(range(own.ndim - 1)))
    largest = np.where(largest > 0, largest, largest.max(initial=0.0))
    own = np.where(known, np.maximum(own, 1e-4 * largest), max(1.0, own.max()))
    return own, rows, columns


def require_states(found, kept, tolerance, place):
    """A mean and a covariance, in units of the deviations."""
    halves = numbers(kept["covariance"]["steps"])
    unit, rows, columns = deviations(halves)
    require(
        found["covariance"]["steps"], halves, unit[..., rows] * unit[..., columns], tolerance,
        [*place, "covariance"],
    )  # fmt: skip
    norm = numbers(kept["covariance"]["norm"])
    require(found["covariance"]["norm"], norm, norm, tolerance, [*place, "norm of covariances"])
    if "mean" in kept:
        mean = numbers(kept["mean"]["steps"])
        finite = np.where(np.isfinite(mean), np.abs(mean), 0.0)
        require(
            found["mean"]["steps"], mean, np.maximum(unit, 1e-2 * finite), tolerance,
            [*place, "mean"],
        )  # fmt: skip
        norm = numbers(kept["mean"]["norm"])
        require(found["mean"]["norm"], norm, norm + unit.max(), tolerance, [*place, "norm"])


def require_diagnosis(found, kept, tolerance, place):
    assert found["lags"] == kept["lags"], place
    require(found["autocorrelations"], kept["autocorrelations"], 1.0, tolerance, place)
    for one, other in zip(found["statistics"], kept["statistics"], strict=True):
        assert [one[0], one[1], one[3]] == [other[0], other[1], other[3]], place
        require(one[2], other[2], 1 + abs(other[2]), 10 * tolerance, [*place, one[0]])
        require(one[4], other[4], 1.0, 10 * tolerance, [*place, one[0], "p"])


def require_filtered(found, kept, place):
    """All of a case of states: every entry by its kind."""
    assert list(found) == list(kept), place
    for name, own in kept.items():
        here = [*place, name]
        if isinstance(own, dict) and "covariance" in own:
            require_states(found[name], own, EXACT, here)
        elif name == "diagnosis":
            require_diagnosis(found[name], own, 100 * EXACT, here)
        elif isinstance(own, dict) and "steps" in own:  # innovations: their unit is one
            steps, norm = numbers(own["steps"]), numbers(own["norm"])
            require(found[name]["steps"], steps, np.maximum(1.0, np.abs(steps)), EXACT, here)
            require(found[name]["norm"], norm, 1 + norm, EXACT, [*here, "norm"])
        elif isinstance(own, dict):
            require_filtered(found[name], own, here)
        else:
            require(found[name], own, 1 + np.abs(np.nan_to_num(numbers(own))), EXACT, here)


def require_matrix(found, kept, tolerance, place):
    """In units √(M_ii M_jj)."""
    if kept is None:
        assert found is None, place
        return
    matrix = numbers(kept)
    root = np.sqrt(np.abs(np.diagonal(matrix, axis1=-2, axis2=-1)))
    root = np.where(np.isfinite(root), root, 1.0)
    require(found, matrix, root[..., :, None] * root[..., None, :], tolerance, place)


def require_ends(found, kept, estimate, tolerance, place):
    """Ends of intervals, in units of their width; of the one end that is finite where one is."""
    assert found.get("open_ends") == kept.get("open_ends"), place
    assert found.get("notes") == kept.get("notes"), place
    ends = numbers(kept["ends"])
    width = np.where(np.isfinite(ends), np.abs(ends - numbers(estimate)[:, None]), 0.0).sum(axis=1)
    require(found["ends"], ends, width[:, None] + 1e-8, tolerance, place)


def require_fit(found, kept, place):
    for name in ("names", "converged", "at_limit", "parameters", "observations"):
        assert found[name] == kept[name], [*place, name]
    height = kept["log_likelihood"]
    require(found["log_likelihood"], height, max(1.0, abs(height) / 100), 1e-8, [*place, "ℓ"])
    estimate, error = numbers(kept["estimate"]), numbers(kept["standard_error"])
    known = np.isfinite(error)
    unit = np.where(known, error, 10 * size(estimate[known]) + 0.1)
    require(found["estimate"], estimate, unit, 1e-5, [*place, "estimate"])
    require(found["standard_error"], error, error, FITTED, [*place, "standard error"])
    flat = np.minimum(numbers(kept["flat"]), UNKNOWN)
    require(np.minimum(numbers(found["flat"]), UNKNOWN), flat, flat, 1e-2, [*place, "flat"])
    for name in ("profile", "profile 80", "wald"):
        if name in kept:
            require_ends(found[name], kept[name], estimate, FITTED, [*place, name])
    for name in ("bound", "classical"):
        if name in kept:
            require_matrix(found[name], kept[name], FITTED, [*place, name])
    for name in ("mixture", "plug-in"):
        if name in kept:
            ends = numbers(kept[name]["interval"])
            width, near = ends[..., 1] - ends[..., 0], FITTED if name == "plug-in" else DRAWN
            require(found[name]["mean"], kept[name]["mean"], width, near, [*place, name])
            require(found[name]["error"], kept[name]["error"], width, near, [*place, name])
            require(found[name]["interval"], ends, width[..., None], near, [*place, name])
    if "signal" in kept:
        require_states(found["signal"], kept["signal"], FITTED, [*place, "signal"])
        require_diagnosis(found["diagnosis"], kept["diagnosis"], FITTED, [*place, "diagnosis"])


def require_best(found, kept, place):
    for name, tolerance in (("value", DIRECTIONS), ("floor", DIRECTIONS), ("spent", 1e-8),
                            ("price", 1e-3), ("equal", 1e-9)):  # fmt: skip
        require(found[name], kept[name], np.abs(numbers(kept[name])), tolerance, [*place, name])


def require_matrices(found, kept, place):
    """Levels and information: to 1e-8 where a covariance of parameters was inverted."""
    for name, own in kept.items():
        if isinstance(own, dict):
            require_filtered({name: found[name]}, {name: own}, place)
        elif isinstance(own, float) or own is None:
            require(found[name] or 0.0, own or 0.0, own or 1.0, 1e-8, [*place, name])
        elif name in ("bound", "classical"):
            require_matrix(found[name], own, 1e-8, [*place, name])
        else:
            require(found[name], own, size(own), EXACT, [*place, name])


RULES = {
    "states": require_filtered, "online": require_filtered, "nonlinear": require_filtered,
    "local_bound": require_filtered, "steady_state": require_filtered, "fit": require_fit,
    "regression": require_fit, "best_directions": require_best,
}  # fmt: skip


def test_every_case_is_kept():
    assert set(KEPT) == set(CASES)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * is_slow(name)) for name in CASES]
)
def test_golden(name):
    case, kept = CASES[name], KEPT[name]
    found = json.loads(json.dumps(golden.records(case)))
    if case.call == "refused":
        assert found == kept
        return
    RULES.get(case.call, require_matrices)(found, kept, [name])
