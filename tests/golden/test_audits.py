"""The public calls of `privest.audit` give what they gave: see `golden/audits.py`.

Verdicts, methods, scopes and outcomes of checks are the same. Margins of densities agree to 1e-6
and their errors; what is drawn, within the errors that both state (0.999, or 4 standard errors).
"""

import json

import numpy as np
import pytest

from golden import audits as golden

CASES = golden.cases()
KEPT = golden.stored()
EXACT = 1e-6  # of a margin by numbers: `AGREE` of the audit
SAME = ("verdict", "method", "sampler", "domain", "confidence")
SLOW = (
    "truncated", "bump", "shared noise", "products of signs", "sampler", "samples", "adversary",
    "at 0.56", "geometric", "privacy-weights",
)  # fmt: skip


def number(value):
    return np.array(np.nan if value is None else value, dtype=float)


def require(found, kept, tolerance, place):
    """|found − kept| ≤ tolerance where finite; the same NaN and ∞ elsewhere."""
    found, kept, tolerance = number(found), number(kept), number(tolerance)
    assert found.shape == kept.shape, place
    finite = np.isfinite(kept)
    assert np.array_equal(np.isfinite(found), finite), (place, found, kept)
    assert np.array_equal(found[~finite], kept[~finite], equal_nan=True), (place, found, kept)
    off = np.where(finite, np.abs(np.where(finite, found, 0) - np.where(finite, kept, 0)), 0)
    assert (off <= np.nan_to_num(tolerance, posinf=np.inf)).all(), (place, found, kept)


def require_certify(found, kept):
    for name in SAME:
        assert found[name] == kept[name], (name, found[name], kept[name])
    doubt = number(found["error"]) + number(kept["error"])
    size = np.abs(np.nan_to_num(number(kept["margin"]), posinf=0.0))
    require(found["margin"], kept["margin"], doubt + EXACT * size, "margin")
    require(found["claimed"], kept["claimed"], 1e-9 * size + 1e-9, "claimed")
    require(found["resolution"], kept["resolution"], 1e-9, "resolution")
    assert (found["worst_y"] is None) == (kept["worst_y"] is None)


def require_information(found, kept):
    assert found["method"] == kept["method"]
    doubt = np.nan_to_num(number(found["error"]) + number(kept["error"]))
    size = np.nan_to_num(np.abs(number(kept["matrix"])), posinf=0.0)
    require(found["matrix"], kept["matrix"], doubt + EXACT * size.max(), "matrix")
    if kept["lower"] is not None:  # with the same draws: a lower bound must not fall
        assert (number(found["lower"]) >= 0.9 * number(kept["lower"])).all()


def require_adversary(found, kept):
    assert len(found) == len(kept)
    for one, other in zip(found, kept, strict=True):
        assert (one["target"], one["attacker"]) == (other["target"], other["attacker"])
        for name in ("unbiased_floor", "level_floor", "van_trees"):
            size = np.nan_to_num(np.abs(number(other[name])), posinf=0.0)
            require(one[name], other[name], 1e-3 * size, name)
        for name in ("likelihood", "bayesian", "averaged"):
            assert (one[name] is None) == (other[name] is None)
            if one[name] is not None and np.isfinite(number(other[name]["mse"])):
                doubt = 4 * (one[name]["mse_error"] + other[name]["mse_error"])
                require(one[name]["mse"], other[name]["mse"], doubt + 1e-9, name)
                wide = number(other[name]["typical"])
                require(one[name]["typical"], wide, 0.2 * wide + 1e-9, f"typical {name}")


def require_release(found, kept):
    assert found == kept


RULES = {
    "certify": require_certify, "stream": require_certify, "information": require_information,
    "adversary": require_adversary, "release": require_release,
}  # fmt: skip


def test_every_case_is_kept():
    assert set(KEPT) == set(CASES)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * any(word in name for word in SLOW))
        for name in CASES
    ],
)
def test_golden(name):
    case = CASES[name]
    RULES[case[0]](json.loads(json.dumps(golden.records(case))), KEPT[name])
