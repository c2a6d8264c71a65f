"""Rows of H out of columns: names, categories, the rank of one-hot columns, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privest.data.cells import Texts
from privest.data.features import Features
from privest.errors import InvalidInput


def objects(*cells):
    found = np.empty(len(cells), dtype=object)
    found[:] = cells
    return found


def test_names_and_order():
    features = Features(["g", "x", "h"], {"h": ["p", "q", "r"], "g": ["b", "a"]})
    assert features.names == ("intercept", "g=a", "x", "h=q", "h=r")
    block = {"x": np.array([5.0, 6.0]), "g": objects("a", "b"), "h": objects("r", "p"), "other": 0}
    assert features.matrix(block).tolist() == [[1, 1, 5, 0, 1], [1, 0, 6, 0, 0]]
    bare = Features(("g", "x", "h"), features.categories, intercept=False)
    assert bare.names == ("g=b", "g=a", "x", "h=q", "h=r")
    assert bare.matrix(block).tolist() == [[0, 1, 5, 0, 1], [1, 0, 6, 0, 0]]
    assert Features((), intercept=True).matrix({"y": np.zeros(3)}).tolist() == [[1.0]] * 3


@given(
    sizes=st.lists(st.integers(2, 4), min_size=1, max_size=3),
    intercept=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_categories_never_make_h_collinear_and_span_all_of_them(sizes, intercept, seed):
    """Against the full one-hot coding: the same column space, without a redundant column.

    All combinations of categories occur, so the full coding has rank 1 + Σ(k − 1).
    """
    names = [f"c{k}" for k in range(len(sizes))]
    lists = {name: tuple(f"v{j}" for j in range(size)) for name, size in zip(names, sizes)}
    grid = np.stack([g.ravel() for g in np.meshgrid(*[np.arange(s) for s in sizes])], axis=1)
    np.random.default_rng(seed).shuffle(grid)
    block = {n: objects(*(lists[n][j] for j in grid[:, k])) for k, n in enumerate(names)}
    H = Features(tuple(names), lists, intercept=intercept).matrix(block)
    full = np.hstack([grid[:, [k]] == np.arange(s) for k, s in enumerate(sizes)]).astype(float)
    rank = 1 + sum(size - 1 for size in sizes)
    assert H.shape[1] == rank == np.linalg.matrix_rank(H)
    assert np.linalg.matrix_rank(np.hstack([H, full])) == rank


@pytest.mark.parametrize(
    ("categories", "cells", "places"),
    [
        (("1", "2"), ("1", "2.0", " 1", "01", "2"), [0, 1, None, 0, 1]),
        ((1, 2), ("1", "2.0"), [0, 1]),
        (("1.0", "2.5"), ("1", "2.50"), [0, 1]),
        (("01", "1", "2"), ("01", "1", "2.0", "1.0"), [0, 1, 2, None]),  # 1.0: two would do
        (("True", "False"), ("true", "FALSE", "1"), [0, 1, None]),
        (("1", "0"), ("1", "true"), [0, None]),
        (("Male", "Female"), ("Male", "male"), [0, None]),  # letters count
        (("inf", "x"), ("inf", "x"), [0, 1]),
    ],
)
def test_matching(categories, cells, places):
    features = Features(("c",), {"c": categories}, intercept=False)
    for cell, place in zip(cells, places):
        for column in (objects(cell), Texts.encode([cell])):
            if place is None and cell.strip() == cell:
                with pytest.raises(
                    InvalidInput, match=r"'c', row 1: (missing, or not|its capital)"
                ):
                    features.matrix({"c": column})
            elif place is not None:
                assert np.argmax(features.matrix({"c": column})) == place


def test_unknown_and_missing_cells_have_a_row_and_stay_secret():
    features = Features(("x", "c"), {"c": ("a", "b")})
    good = {"x": np.ones(3), "c": objects("a", "b", "a")}
    line = np.array([11, 15, 19])
    for wrong, message in (
        ({"c": objects("a", "secret", "a")}, r"'c', row 15: .* not in the public list of 2 cat"),
        ({"c": objects("a", "a", None)}, r"column 'c', row 19: missing"),
        ({"x": np.array([1.0, 1.0, np.nan])}, r"column 'x', row 19: missing or infinite"),
        ({"x": np.array([np.inf, 1.0, 7531.0])}, r"column 'x', row 11: missing or infinite"),
    ):
        with pytest.raises(InvalidInput, match=message) as refused:
            features.matrix(good | wrong, line)
        assert "secret" not in str(refused.value)
        assert "7531" not in str(refused.value)
    with pytest.raises(InvalidInput, match="column 'x' was read as text"):
        features.matrix(good | {"x": Texts.encode(["1", "2", "3"])})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("abc",), "must be a list of names, not one text"),
        (((), {}, False), "an intercept or at least one feature"),
        ((("z",),), "cannot be called 'z'"),
        ((("a", "intercept"),), "cannot be called 'intercept'"),
        ((("a", "b", "a"),), r"the features have a name more than once: \['a'\]"),
        (
            (("a=y", "a"), {"a": ("x", "y")}),
            r"the parameters have a name more than once: \['a=y'\]",
        ),
        ((("a",), {"b": ("x", "y")}), r"categories was given for \['b'\], not a feature"),
        ((("a",), {"a": ("x",)}), "must be two or more and different; received 1, 1"),
        ((("a",), {"a": ("x", " x", "y")}), "received 3, 2 different"),
        ((("a",), {"a": "xy"}), "must be a list of names, not one text"),
        ((("a",), {"a": ("NA", "y")}), r"include \['NA'\], which means a missing value"),
        ((("a",), {"a": ("", "y")}), "means a missing value"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        Features(*arguments)
