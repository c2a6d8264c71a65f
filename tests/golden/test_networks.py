"""The public calls of `privest.network` and `mechanism.OutputPerturbation` give what they gave.

Closed formulas to 1e-10 of their largest entry. Rounds stop by a certificate: estimates to 1e-10
where the number of rounds is the same, which is asked; certified errors are differences of numbers
of size one, so 1e-12 of these. Roots: Newton steps end below 1e-6 standard
errors and are of second order, so 1e-8 of the largest entry. Moments by quadrature: 1e-9. The
bandwidth of least loss is found to 1e-3 in ln h, and the loss is flat there: 1e-4.
"""

import json

import numpy as np
import pytest

from golden import networks as golden

CASES = golden.cases()
KEPT = golden.stored()
TOLERANCE = {"network": 1e-10, "pipeline": 1e-8}
BEST = 1e-4
CERTIFIED = 1e-12


def require(found, kept, tolerance, place):
    """The same tree; numbers to `tolerance` of the largest entry of their array."""
    if isinstance(kept, dict):
        assert list(found) == list(kept), place
        for name, own in kept.items():
            require(found[name], own, tolerance, [*place, name])
    elif isinstance(kept, bool | str | int) or kept is None or place[-1] == "names":
        assert found == kept, (place, found, kept)
    elif isinstance(kept, list) and kept and uneven(kept):
        for i, (one, other) in enumerate(zip(found, kept, strict=True)):
            require(one, other, tolerance, [*place, i])
    else:
        a, b = np.array(found, float), np.array(kept, float)
        assert a.shape == b.shape, place
        assert np.array_equal(np.isfinite(a), np.isfinite(b)), place
        known = np.isfinite(b)
        unit = np.abs(b[known]).max(initial=0.0)
        off = np.abs(a[known] - b[known]).max(initial=0.0)
        rounding = CERTIFIED if place[-1] == "certified" else 1e-12 * tolerance
        assert off <= max(tolerance * unit, rounding), (place, off, unit)


def uneven(rows):
    return isinstance(rows[0], list) and len({np.shape(row) for row in rows}) > 1


def test_every_case_is_kept():
    assert set(KEPT) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_golden(name):
    found = json.loads(json.dumps(golden.records(CASES[name])))
    tolerance = BEST if "best" in name else TOLERANCE[CASES[name].file]
    require(found, KEPT[name], tolerance, [name])
