"""What a cell means: one rule in Python and in Arrow, for blocks and for lines."""

import math

import numpy as np
import pytest

from privest.data.cells import MISSING, is_number, number
from privest.data.source import open_source
from privest.streaming import Choices, Columns, Privacy, Rows, StreamPlan, promised, read_series

GAPS = ["", " ", ".", "NA", "na", "Na", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "none"]
NUMBERS = [
    "1",
    "-1.5",
    "+2",
    " 3 ",
    "1.",
    ".5",
    "1e3",
    "-1E-3",
    "5e-324",
    "true",
    "FALSE",
    "Yes",
    "no",
]
WORDS = ["x", "1_000", "1 000", "1;5", "0x10", "--1", "1e", "١", "n a", "-"]


def by_block(tmp_path, cell):
    (tmp_path / "t.csv").write_text(f'a,b\n"{cell}",1\n', encoding="utf-8")
    return open_source(tmp_path / "t.csv").read(["a"])["a"][0]


def by_row(tmp_path, cell):
    promise = promised(Privacy(level="1"), None)
    plan = StreamPlan("-", promise, Columns(target="a"), ["b"], Choices(simulate=True))
    return next(iter(Rows(iter(["a,b\n", f'"{cell}",1\n']), plan))).value


def by_step(tmp_path, cell):
    return read_series(iter(["a,b\n", f'"{cell}",1\n']), ["a"])[0][0, 0]


@pytest.mark.parametrize("read", [by_block, by_row, by_step])
def test_every_reader_knows_the_same_cells(tmp_path, read):
    pytest.importorskip("pyarrow")
    for cell in GAPS:
        assert math.isnan(read(tmp_path, cell)), cell
    for cell in NUMBERS:
        assert read(tmp_path, cell) == number(cell), cell
    for cell in WORDS:
        with pytest.raises(ValueError, match="not a number") as refused:
            read(tmp_path, cell)
        assert len(cell) < 2 or repr(cell) not in str(refused.value)


def test_numbers_and_gaps():
    assert {cell.strip() for cell in GAPS} <= set(MISSING)
    assert [number(cell) for cell in ("true", "False", True, 2, 0.5)] == [1, 0, 1, 2, 0.5]
    assert np.isnan([number(None), number("none")]).all()
    assert (number(10**400), number(-(10**400))) == (math.inf, -math.inf)
    assert not any(is_number(word) for word in WORDS)
    for bad in ([], {}, object()):
        with pytest.raises(ValueError, match=r"^$"):
            number(bad)
