"""Designs of small problems: values, floors and gaps as they were, to the tolerance of the method.

Two answers to one problem both lie between the optimum and their own certified gap above it, so
they differ by at most the larger gap. GOLDEN=write rewrites `designs.json`.
"""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from golden.designs import problems
from privest.records import plain

HERE = Path(__file__).with_name("designs.json")
WRITE = os.environ.get("GOLDEN") == "write"
ROUNDING = 2e-9  # relative, of values by two routes
PROMISED = 1e-6  # the gap that a design stops at
COLLINEAR = 1e9 * 8 * 2**-52  # its condition number times a few roundings of H
PROBLEMS = problems()
KEPT = {} if WRITE or not HERE.exists() else json.loads(HERE.read_text())


def number(value):
    return float(value) if isinstance(value, str) else value  # "Infinity" of JSON


def close(found, kept, slack):
    if kept is None or isinstance(kept, list):
        same = [(a, b) for a, b in zip(found or [], kept or [], strict=True)]
        return all(close(a, b, slack) for a, b in same)
    a, b = number(found), number(kept)
    if not math.isfinite(b):
        return a == b or (math.isnan(a) and math.isnan(b))
    return abs(a - b) <= slack * max(1.0 if abs(b) < 1e-12 else abs(b), 1e-300)


def compared(name, found, kept):
    """Names of the entries that differ by more than their tolerance."""
    gaps = [max(number(one.get("gap", 0)), 0.0) for one in (found, kept)]
    slack = 2 * PROMISED if name.startswith("gap") else ROUNDING + sum(gaps)
    slack += COLLINEAR if name.startswith("collinear") else 0.0
    size = max(abs(number(kept.get("value", 1))), 1e-3)
    wrong = []
    for key, value in kept.items():
        own = slack / size if absolute(name) and key in ("value", "floor", "equal") else slack
        if key in ("kind", "reason"):
            good = found[key] == value
        elif key == "levels":  # unique where all readings have noise: strongly convex
            loose = 2e-3 + 30 * math.sqrt(slack)
            good = not unique(name) or all(close(found[key][k], v, loose) for k, v in value.items())
        elif key == "gap" and not name.startswith("gap"):
            good = number(found[key]) <= max(PROMISED, number(value))
        elif key == "spent" and slack_budget(name):
            good = number(found[key]) <= number(kept.get("asked", np.inf)) * (1 + ROUNDING)
        else:
            good = close(found[key], value, max(own, ROUNDING))
        wrong += [] if good else [key]
    return wrong


def absolute(name):
    """Gaps of a log det are absolute; those of a cost are not."""
    return " D " in name and not name.startswith("target")


def slack_budget(name):
    """What a budget need not spend, where other limits bind, is not determined."""
    return name.startswith(("budget", "full", "blocks", "correlated")) and ", target" not in name


def unique(name):
    return "moderate" in name or name.startswith(("spread", "equalised", "all at"))


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_design_is_what_it_was(name):
    found = json.loads(json.dumps(plain(PROBLEMS[name]())))
    if WRITE:
        KEPT[name] = found
        return
    assert compared(name, found, KEPT[name]) == []


def test_every_problem_is_kept():
    if WRITE:
        HERE.write_text(json.dumps(KEPT, indent=1) + "\n")
    assert set(KEPT) == set(PROBLEMS)
