"""Blocks of rows: nothing lost, nothing silent, clear refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privest.data.features import Features
from privest.data.rows import read_rows
from privest.data.source import open_source
from privest.errors import InvalidInput

TABLE = {
    "a": [1.0, 2.0, np.nan, 4.0, 5.0, 6.0],
    "c": ["u", "v", "u", None, "v", "u"],
    "y": [10.0, 20.0, 30.0, 40.0, np.nan, 60.0],
}
FEATURES = Features(("a", "c"), {"c": ("u", "v")})


def rows(table, features=FEATURES, target="y", size=100, **options):
    source = open_source(table)
    source.size = size
    return list(read_rows(source, features, [target] if target else [], **options))


@pytest.mark.parametrize("size", [1, 2, 4, 100])
def test_dropping_keeps_the_complete_rows_and_counts(size):
    blocks = rows(TABLE, missing="drop", size=size)
    assert all(len(block) for block in blocks)
    H = np.concatenate([block.H for block in blocks])
    assert H.tolist() == [[1, 1, 0], [1, 2, 1], [1, 6, 0]]
    assert np.concatenate([block.targets[:, 0] for block in blocks]).tolist() == [10, 20, 60]
    assert np.concatenate([block.line for block in blocks]).tolist() == [1, 2, 6]
    assert sum(block.dropped for block in blocks) == 3
    without = rows(TABLE, target=None, missing="drop", size=size)  # the gap in y does not count
    assert sum(len(block) for block in without) == 4
    assert all(block.targets.shape[1] == 0 for block in without)


@given(
    gaps=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30),
    size=st.integers(1, 8),
)
def test_dropped_and_kept_make_the_table(gaps, size):
    """Against numpy on the whole table, for every pattern of gaps."""
    a = np.where([g[0] for g in gaps], np.nan, np.arange(len(gaps)) + 0.5)
    y = np.where([g[1] for g in gaps], np.nan, -np.arange(len(gaps)))
    whole = np.flatnonzero(~np.isnan(a + y))
    if not len(whole):
        with pytest.raises(InvalidInput, match=r"every value is missing|every row has"):
            rows({"a": a, "y": y}, Features(("a",)), missing="drop", size=size)
        return
    blocks = rows({"a": a, "y": y}, Features(("a",)), missing="drop", size=size)
    assert np.concatenate([b.line for b in blocks]).tolist() == (whole + 1).tolist()
    assert np.concatenate([b.H[:, 1] for b in blocks]).tolist() == a[whole].tolist()
    assert np.concatenate([b.targets[:, 0] for b in blocks]).tolist() == y[whole].tolist()
    assert sum(b.dropped for b in blocks) == len(gaps) - len(whole)
    assert all(len(b) for b in blocks)


@pytest.mark.parametrize("size", [1, 2, 100])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, r"^the table, column 'a', row 3: a value is missing.*drop. as `missing`"),
        ({"a": np.arange(6.0)}, r"column 'c', row 4: a value is missing"),
        ({"a": [np.nan] * 5 + [1.0], "c": ["u"] * 6}, r"column 'a', row 1: a value is missing"),
        ({"c": ["", "NA"] * 3}, r"column 'c', row 1: a value is missing"),
    ],
)
def test_refusing_is_the_default_and_names_the_first_gap(changes, message, size):
    with pytest.raises(InvalidInput, match=message):
        rows(TABLE | changes, size=size)


@pytest.mark.parametrize("missing", ["refuse", "drop"])
def test_columns_without_a_value_and_tables_without_rows(missing):
    for name, empty in (("a", [np.nan] * 6), ("c", [None] * 6), ("y", [np.nan] * 6)):
        with pytest.raises(
            InvalidInput, match=f"column '{name}'.* (every value|a value) is missing"
        ):
            rows({"a": [1.0] * 6, "c": ["u"] * 6, "y": [1.0] * 6} | {name: empty}, missing=missing)
    with pytest.raises(InvalidInput, match="the table has no rows, only column names"):
        rows({"a": [], "c": [], "y": []}, missing=missing)
    if missing == "drop":
        with pytest.raises(InvalidInput, match="every row has a missing value"):
            rows({"a": [1.0, np.nan], "c": ["u", "u"], "y": [np.nan, 1.0]}, missing="drop")


@pytest.mark.parametrize("missing", ["refuse", "drop"])
@pytest.mark.parametrize("size", [1, 3, 100])
def test_infinities_and_unknown_categories_have_their_row(size, missing):
    """Also behind dropped rows: the numbers are those of the table."""
    table = {"a": [1.0] * 6, "c": ["u"] * 6, "y": [1.0] * 6}
    if missing == "drop":
        table["y"] = [1.0, np.nan, np.nan, 1.0, 1.0, 1.0]
    for name, cells in (("a", [1.0] * 4 + [-np.inf, 1.0]), ("c", ["u"] * 4 + ["secret", "u"])):
        with pytest.raises(InvalidInput, match=f"^the table, column '{name}', row 5: ") as refused:
            rows(table | {name: cells}, size=size, missing=missing)
        assert "secret" not in str(refused.value)
    huge = {"a": [1.5e308] * 6, "c": ["u"] * 6, "y": [1.5e308] * 6}  # the sum overflows, no cell
    assert sum(len(block) for block in rows(huge, missing=missing, size=size)) == 6


def test_refused_before_anything_is_read():
    source = open_source(TABLE)
    for features, target, options, message in (
        (FEATURES, "a", {}, "the target 'a' is among the features: features are public"),
        (FEATURES, "y2", {}, "has no column 'y2'"),
        (Features(("b",)), "y", {}, "has no column 'b'"),
        (FEATURES, "y", {"missing": "fill"}, "must be one of refuse, drop; received 'fill'"),
        (Features(()), None, {}, "name a feature or a target"),
    ):
        with pytest.raises(InvalidInput, match=message):
            read_rows(source, features, [target] if target else [], **options)  # not yet iterated


def test_a_constant_model_and_a_text_target():
    (block,) = rows({"y": [1.0, 2.0]}, Features(()))
    assert block.H.tolist() == [[1.0], [1.0]]
    assert block.targets.tolist() == [[1.0], [2.0]]
    with pytest.raises(InvalidInput, match=r"column 'c'.*not") as refused:
        rows(TABLE, Features(("a",)), "c", missing="drop")
    assert "row 1" in str(refused.value)


def test_blocks_do_not_show_data():
    (block,) = rows({"a": [7531.0], "c": ["u"], "y": [8642.0]})
    assert "7531" not in repr(block)
    assert "8642" not in repr(block)
