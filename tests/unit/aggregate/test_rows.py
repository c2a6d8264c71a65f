"""Rows that are read many times: the same from memory and from a file, in any blocks."""

import numpy as np
import pytest

from aggregate_cases import Recorded, design_of, split_of, weights_of
from privest import aggregate
from privest.privacy import Range

RNG = np.random.default_rng(29)
H = np.column_stack([np.ones(500), RNG.standard_normal((500, 2))])


@pytest.mark.parametrize("in_memory", [0, 1, 300, 900, 10**6])
def test_a_file_reads_as_memory_does(in_memory):
    rows = aggregate.FeatureRows(3, np.array_split(H, 7), in_memory=in_memory)
    assert rows.count == 500
    for _ in range(2):
        np.testing.assert_array_equal(np.concatenate(list(rows)), H)
    assert 40 <= sum(map(len, rows.some(50))) <= 60


def test_passes_at_the_same_time_and_rows_added_later():
    rows = aggregate.FeatureRows(3, np.array_split(H, 7), in_memory=0)
    both = [np.concatenate(side) for side in zip(*((a, b) for a, b in zip(rows, rows)))]
    for side in both:
        np.testing.assert_array_equal(side, H)
    next(iter(rows))  # a pass that is left
    rows.add(H[:5])
    np.testing.assert_array_equal(np.concatenate(list(rows)), np.concatenate([H, H[:5]]))


@pytest.mark.parametrize("owners", [None, np.arange(500) // 3])
def test_a_release_is_the_same_from_a_file(owners):
    limits, y = Range(-3.0, 4.0), H @ [0.3, 0.5, -0.2] + 0.4 * RNG.standard_normal(500)
    found = []
    for how in ({}, {"in_memory": 100}, {"blocks": 9}, {"blocks": 9, "in_memory": 0}):
        design = design_of(H, owners, **how)
        own = split_of(design, limits, mu=2.0)
        assert own.kind == ("squares" if owners is None else "persons")
        values = np.array_split(y, how.get("blocks", 1))
        released = aggregate.release_sums(design, values, limits, own, Recorded())
        found.append((weights_of(design)[1], released.sums, released.squares, released.variance))
    for one in found[1:]:
        for got, wanted in zip(one, found[0]):
            np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)
