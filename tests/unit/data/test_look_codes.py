"""Which values seem to stand for a missing one, and which do not."""

import numpy as np
import pytest

from shared_data import RAW, needs_nhanes
from workflow_tables import look_at

RNG = np.random.default_rng(5)


def codes(values):
    (column,) = look_at({"x": values}).columns
    return [code.code for code in column.codes if code.plain]


def test_numbers_of_nines_far_beyond_the_rest():
    ages = [*RNG.integers(20, 80, 500), 999, 777]
    assert codes(ages) == ["777", "999"]
    assert codes([*RNG.normal(50, 9, 500).round(1), 99999, 77777, 88888]) == [
        "77777", "88888", "99999",
    ]  # fmt: skip


def test_below_zero_where_nothing_else_is():
    assert codes([*RNG.integers(0, 6, 300), -9, -9, -8, -99]) == ["-8", "-9", "-99"]


def test_the_answers_of_a_survey():
    """1 to 5, 7 refused, 9 not known: as in NHANES."""
    assert codes([*RNG.integers(1, 6, 300), 7, 9, 9]) == ["7", "9"]


def test_a_code_nearer_than_the_rest_is_wide_is_there_twice():
    assert codes([*RNG.integers(0, 81, 2000), *range(81), 99, 99]) == ["99"]


@pytest.mark.parametrize(
    "values",
    [
        np.tile(np.arange(1, 10), 20),
        np.tile(np.arange(0, 100), 5),
        [4, 6, 8] * 20,
        [*RNG.normal(0, 8, 400), -9.0, 7.0, 9.0],
        [-1, 0, 1] * 10,
        [9] * 10,
        [0, 1] * 10,
        [*RNG.integers(20, 80, 500), 81, 99][:501],
        [],
    ],
    ids=["one to nine", "hundred", "cylinders", "normal", "signs", "one", "yes-no", "ages", "none"],
)
def test_values_like_others_are_no_codes(values):
    assert codes(np.asarray(values, dtype=float)) == []


def test_what_machines_write():
    assert codes([*RNG.uniform(0, 10, 300), -32768, -32768]) == ["-32768"]
    assert codes([0.0] * 50 + [1.0] * 50 + [40.0] * 5) == [], "three values are a category"


def test_extremes_are_exact_over_blocks(tmp_path):
    """The highest values are kept over all blocks: rows of one code are counted in each of them."""
    path = tmp_path / "a.csv"
    rows = [f"{k % 90},{'x' * 40}\n" for k in range(60_000)]
    rows[5] = rows[59_000] = f"9999,{'x' * 40}\n"
    path.write_text("v,w\n" + "".join(rows))
    assert path.stat().st_size > 2 << 20
    found = look_at(path).columns[0].codes
    assert [(code.code, code.rows) for code in found] == [("9999", 2)]


def test_codes_are_written_as_in_the_file(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x;y\n" + "".join(f"{k},5;1\n" for k in range(40)) + "999,9;1\n")
    assert [code.code for code in look_at(path).columns[0].codes] == ["999,9"]


@needs_nhanes
def test_the_codes_of_nhanes_are_those_of_its_codebook():
    """DEMO_G, 2011-2012: refused is 7 or 77, not known 9 or 99; all of them, and nothing else."""
    found = {
        column.name: [code.code for code in column.codes]
        for column in look_at(RAW / "DEMO_G.csv.xz").columns
        if column.codes
    }
    tens = ["DMDBORN4", "DMDYRSUS", "DMDMARTL", "INDHHIN2", "INDFMIN2", "DMDHRBR4", "DMDHRMAR"]
    assert found == {name: ["77", "99"] for name in tens} | {
        "DMDEDUC2": ["7", "9"], "DMDHREDU": ["7", "9"], "DMDCITZN": ["7"], "DMDHSEDU": ["9"],
        "DMQADFC": ["9"],
    }  # fmt: skip
    assert [column for column in look_at(RAW / "BMX_G.csv.xz").columns if column.codes] == []
