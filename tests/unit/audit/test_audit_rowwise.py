"""Many integrals at once: smooth, kinked, jumping, narrow and far out in the exponent."""

import math

import numpy as np
import pytest

from privest.audit._averaged import row_moments

EDGES = np.array([-1.0, -0.2, 0.3, 2.0])


def moments(functions, edges=EDGES, centre=0.0):
    """∫ w and ∫ (u − c) w of several ln w at once."""

    def log_weight(rows, u):
        with np.errstate(divide="ignore"):
            return np.stack([functions[r](x) for r, x in zip(rows, u)])

    n = len(functions)
    found = row_moments(log_weight, np.tile(edges, (n, 1)), np.full(n, centre))
    return found.mass * np.exp(found.top), found.first * np.exp(found.top)


def test_rows_do_not_mix():
    mass, first = moments(
        [
            lambda u: -np.abs(u - 0.1),  # a kink inside a panel
            lambda u: np.where(u > 0.123, 0.0, -np.inf),  # a jump
            lambda u: np.log(np.maximum(u, 0.0)),  # zero on a part
            lambda u: 0 * u + 3.0,
        ]
    )
    left, right = math.exp(-1.1), math.exp(-1.9)
    # ∫ u e^{−|u−c|}: c times the mass and ∫ x e^{−|x|}, x from −1.1 to 1.9.
    tilt = -(1 - 2.1 * left) + (1 - 2.9 * right)
    kink = 2 - left - right
    assert mass == pytest.approx([kink, 2 - 0.123, 2.0, 3 * math.exp(3)], rel=1e-8)
    expected = [0.1 * kink + tilt, (4 - 0.123**2) / 2, 8 / 3, 1.5 * math.exp(3)]
    assert first == pytest.approx(expected, rel=1e-8)


def test_a_peak_between_the_first_nodes_is_found_if_an_edge_is_there():
    width = 1e-9
    steps = width * 4.0 ** np.arange(14)
    edges = np.sort(np.concatenate([EDGES, 0.7 - steps, [0.7], 0.7 + steps]))
    edges = edges[(edges >= -1) & (edges <= 2)]
    mass, first = moments([lambda u: -(((u - 0.7) / width) ** 2) / 2], edges, centre=0.7)
    assert mass[0] == pytest.approx(math.sqrt(2 * math.pi) * width, rel=1e-6)
    assert abs(first[0]) < 1e-6 * width * mass[0]


def test_units_do_not_overflow():
    # Larger and larger values are met as panels are halved: each row keeps its own unit.
    found = row_moments(
        lambda rows, u: np.where(rows[:, None] == 0, -900.0, 900.0) - 1e3 * np.abs(u - 0.05),
        np.tile(EDGES, (2, 1)),
        np.zeros(2),
    )
    total = found.top + np.log(found.mass)
    assert total == pytest.approx([-900 + math.log(2e-3), 900 + math.log(2e-3)], abs=1e-8)


def test_nothing_is_nothing():
    found = row_moments(lambda rows, u: np.full(u.shape, -np.inf), EDGES[None], np.zeros(1))
    assert found.mass[0] == found.first[0] == 0
