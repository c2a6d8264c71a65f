"""The public calls of `privest.estimator` give what they gave: see `golden/estimators.py`.

Tolerances are those of the methods, in units of the largest entry of each array: closed forms
1e-9; maxima 1e-6 (they are found to 1e-7 standard errors, clipped ones to 1e-6), their heights
1e-9.
"""

import json

import numpy as np
import pytest

from golden import estimators as golden

CASES = golden.cases()
KEPT = golden.stored()
EXACT, FITTED, HEIGHT = 1e-9, 1e-6, 1e-9


def tolerance_of(case, place):
    if "log_likelihood" in place:
        return HEIGHT
    if case[0] in ("likelihood", "clipped") or "range" in place[0]:
        return FITTED
    if case[1] in ("levels", "families") or "unknown levels" in place[0]:
        return FITTED
    return EXACT


def require(found, kept, case, place):
    if isinstance(kept, dict):
        assert list(found) == list(kept), place
        for name, one in kept.items():
            require(found[name], one, case, [*place, name])
    elif isinstance(kept, list) and kept and any(isinstance(one, list | None) for one in kept):
        try:
            np.array(kept, dtype=float)
        except (TypeError, ValueError):  # arrays of different shapes
            assert len(found) == len(kept), place
            for number, (one, other) in enumerate(zip(found, kept, strict=True)):
                require(one, other, case, [*place, str(number)])
            return
        require_numbers(found, kept, tolerance_of(case, place), place)
    elif isinstance(kept, str) or kept is None or isinstance(kept, bool):
        assert found == kept, place
    else:
        require_numbers(found, kept, tolerance_of(case, place), place)


def require_numbers(found, kept, tolerance, place):
    """|found − kept| ≤ tolerance·max|kept| where finite; the same NaN and ∞ elsewhere."""
    found, kept = np.array(found, dtype=float), np.array(kept, dtype=float)
    assert found.shape == kept.shape, place
    finite = np.isfinite(kept)
    assert np.array_equal(found[~finite], kept[~finite], equal_nan=True), place
    unit = float(np.abs(kept[finite]).max(initial=0.0))
    off = float(np.abs(found[finite] - kept[finite]).max(initial=0.0))
    assert off <= tolerance * max(unit, 1e-12), (place, off / max(unit, 1e-12), tolerance)


def test_every_case_is_kept():
    assert set(KEPT) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_golden(name):
    case = CASES[name]
    require(json.loads(json.dumps(golden.records(case))), KEPT[name], case, [name])
