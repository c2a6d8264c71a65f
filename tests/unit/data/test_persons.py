"""Who is who: persons by their texts, letter by letter, whatever table they come from."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest

from privest.data.cells import MISSING, Texts
from privest.data.persons import Persons
from privest.data.source import open_source


def random_names(rng, count):
    """Names that are easily taken for another: prefixes, zeros, letters beyond ASCII, long ones."""
    letters = ["0", "1", "7", "a", "\0", "é", "名", "\ud800"]
    sizes = rng.choice([0, 1, 2, 6, 7, 8, 9, 15, 16, 17, 255, 256, 300], count)
    return ["".join(rng.choice(letters[: rng.integers(1, 9)], size)) for size in sizes]


def test_numbers_are_those_of_a_dictionary():
    """In blocks, from a table of each kind of names; some were met before."""
    rng = np.random.default_rng(0)
    for names in (random_names(rng, 6000), [str(k) for k in rng.integers(0, 10_000, 30_000)]):
        known, by_hand = Persons(), {}
        for at in range(0, len(names), 300):
            batch = [name for name in names[at : at + 300] if name.strip()]
            expected = [by_hand.setdefault(one.strip(), len(by_hand) + 1) for one in batch]
            assert known.numbers(Texts.encode(batch)).tolist() == expected
        assert known.count == len(by_hand)


def test_numbers_and_texts_that_look_alike_are_different_persons():
    cells = ["7", "007", "7.0", " 7 ", "７", "7", "é", "e\u0301", "7\u00a0"]
    persons = Persons()
    assert persons.numbers(Texts.encode(cells)).tolist() == [1, 2, 3, 1, 4, 1, 5, 6, 1]
    found = Persons(persons)
    assert found.numbers(Texts.encode(cells[::-1])).tolist() == [1, 6, 5, 1, 4, 1, 3, 2, 1]
    assert found.add(np.array([1, 2, 1])).tolist() == [0, 0, 1]
    assert found.add(np.array([1, 6])).tolist() == [2, 0]
    assert found.rows.tolist() == [3, 1, 0, 0, 0, 1]
    assert found.most == 3


def test_arrow_trims_what_python_trims():
    letters = [chr(k) for k in range(0x20000) if not 0xD800 <= k < 0xE000]  # no spaces beyond
    found = pc.utf8_trim_whitespace(pa.array([f"{one}a{one}" for one in letters])).to_pylist()
    assert found == [f"{one}a{one}".strip() for one in letters]


def cells_of(column, path):
    """The texts of a column of Arrow, by a Parquet file."""
    pa.parquet.write_table(pa.table({"c": column}), path)
    blocks = open_source(path).blocks(["c"], text=["c"])
    return [cell for block in blocks for cell in block["c"].tolist()]


def test_texts_of_arrow_are_those_of_python(tmp_path):
    cells = ["b", " a", "a ", None, "", " NA ", "nan", *MISSING, "a", "\u3000x\u00a0", "7", "b"]
    for column in (
        pa.array(cells),
        pa.array([], pa.string()),
        pa.array([None, None], pa.string()),
        pa.array([3, None, 12]),
        pa.array(cells, pa.large_string()),
        pa.array(cells).slice(2, 9),
        pa.array(cells).dictionary_encode(),
    ):
        expected = Texts.encode(column.to_pylist()).tolist()
        assert cells_of(column, tmp_path / "t.parquet") == expected


def test_a_dictionary_that_names_a_person_twice_has_one_person():
    twice = pa.DictionaryArray.from_arrays([0, 1, 2, 1], ["a", "b", " a"])
    frame = pd.DataFrame({"who": pd.Series(twice, dtype=pd.ArrowDtype(twice.type))})
    for column in (frame, {"who": ["a", "b", " a", "b"]}):
        (block,) = open_source(column).blocks(["who"], text=["who"])
        assert Persons().numbers(block["who"]).tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize("ending", ["csv", "parquet", "mapping"])
def test_every_kind_of_table_numbers_alike(tmp_path, ending):
    rng = np.random.default_rng(3)
    names = [one for one in random_names(rng, 400) if "\0" not in one and "\ud800" not in one]
    cells = [str(one) if len(one) else None for one in rng.choice(names, 3000)]
    table = pa.table({"who": pa.array(cells), "x": np.arange(3000.0)})
    if ending == "csv":
        pa.csv.write_csv(table, tmp_path / "t.csv")
    elif ending == "parquet":
        pa.parquet.write_table(table, tmp_path / "t.parquet", row_group_size=700)
    source = open_source({"who": cells} if ending == "mapping" else tmp_path / f"t.{ending}")
    persons, found = Persons(), []
    for block in source.blocks(["who"], text=["who"], size=512):
        held = block["who"]
        found.extend(persons.numbers(held[~held.missing]))
    by_hand = {}
    there = [one for one in cells if one is not None]
    assert found == [by_hand.setdefault(one, len(by_hand) + 1) for one in there]


def test_rows_of_a_person_are_counted_in_their_order():
    numbers = np.random.default_rng(4).integers(1, 21, 500)
    expected = [int((numbers[:k] == one).sum()) for k, one in enumerate(numbers)]
    persons = Persons()
    persons.numbers(Texts.encode([str(k) for k in range(20)]))
    assert [*persons.add(numbers[:200]), *persons.add(numbers[200:])] == expected
    assert persons.rows.tolist() == np.bincount(numbers)[1:].tolist()
