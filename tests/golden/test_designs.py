"""Designs of small problems: values, floors and gaps as they were, to the tolerance of the method.

Two answers to one problem both lie between the optimum and their own certified gap above it, so
they differ by at most the larger gap. GOLDEN=write rewrites `designs.json`.
"""

import json
import math
import os
from pathlib import Path

import pytest

from golden.designs import problems
from privest.records import plain

HERE = Path(__file__).with_name("designs.json")
WRITE = os.environ.get("GOLDEN") == "write"
ROUNDING = 2e-9  # relative, of values by two routes
PROMISED = 1e-6  # the gap that a design stops at
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
    slack = ROUNDING + max(number(found.get("gap", 0)), number(kept.get("gap", 0)), 0.0)
    if name.startswith("gap"):  # a proof at given levels: no search, or one to 1e-6
        slack = 2 * PROMISED
    if " D " in name and "value" in kept:  # gaps of a log det are absolute
        slack = max(slack / max(abs(number(kept["value"])), 1e-3), ROUNDING)
    wrong = []
    for key, value in kept.items():
        if key in ("kind", "reason"):
            wrong += [] if found[key] == value else [key]
        elif key == "levels":  # unique where all readings have noise: strongly convex
            wrong += [
                f"levels {part}"
                for part, own in value.items()
                if not close(found[key][part], own, 2e-3 + 30 * math.sqrt(slack)) and unique(name)
            ]
        elif key == "gap" and not name.startswith("gap"):
            wrong += [] if number(found[key]) <= max(PROMISED, number(value)) else [key]
        elif key in ("exponent", "power"):  # of a search to 1e-3
            wrong += [] if close(found[key], value, 2e-3) else [key]
        elif not close(found[key], value, slack):
            wrong.append(key)
    return wrong


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
