"""Who is who: persons by their texts, letter by letter, whatever table they come from."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest

from privest.data import _known_names as known_module
from privest.data import open_source
from privest.data._arrow import texts
from privest.data._cells import MISSING, Spelled, Texts
from privest.data._known_names import KnownNames
from privest.data._persons import Persons, ranks


def random_names(rng, count):
    """Names that are easily taken for another: prefixes, zeros, letters beyond ASCII, long ones."""
    letters = ["0", "1", "7", "a", "\0", "é", "名", "\ud800"]
    sizes = rng.choice([0, 1, 2, 6, 7, 8, 9, 15, 16, 17, 255, 256, 300], count)
    return ["".join(rng.choice(letters[: rng.integers(1, 9)], size)) for size in sizes]


def in_batches(names, rng, size=300):
    """Numbers of different names at a time, some of which were met before."""
    known, by_hand = KnownNames(), {}
    for at in range(0, len(names), size):
        batch = list(dict.fromkeys(names[at : at + size]))
        which = rng.permutation(len(batch))
        found = known.numbers(Spelled.of(batch), which)
        expected = [by_hand.setdefault(batch[k], len(by_hand) + 1) for k in which]
        np.testing.assert_array_equal(found, expected)
    assert known.count == len(by_hand)


def test_numbers_are_those_of_a_dictionary():
    rng = np.random.default_rng(0)
    in_batches(random_names(rng, 6000), rng)
    in_batches([str(k) for k in rng.integers(0, 10_000, 30_000)], rng, 3000)


def test_names_with_one_hash_are_still_different(monkeypatch):
    monkeypatch.setattr(known_module, "_FACTORS", np.zeros_like(known_module._FACTORS))
    rng = np.random.default_rng(1)
    in_batches(random_names(rng, 600), rng, 60)


def test_numbers_and_texts_that_look_alike_are_different_persons():
    cells = ["7", "007", "7.0", " 7 ", "７", "7", "é", "e\u0301", "7\u00a0"]
    persons = Persons()
    assert persons.numbers(Texts.encode(cells)).tolist() == [1, 2, 3, 1, 4, 1, 5, 6, 1]
    found = Persons(persons)
    assert found.numbers(texts(pa.array(cells), "who")).tolist() == [1, 2, 3, 1, 4, 1, 5, 6, 1]
    assert found.add(np.array([1, 2, 1])).tolist() == [0, 0, 1]
    assert found.add(np.array([1, 6])).tolist() == [2, 0]
    assert found.rows.tolist() == [3, 1, 0, 0, 0, 1]
    assert found.most == 3


def test_arrow_trims_what_python_trims():
    letters = [chr(k) for k in range(sys.maxunicode + 1) if not 0xD800 <= k < 0xE000]
    found = pc.utf8_trim_whitespace(pa.array([f"{one}a{one}" for one in letters])).to_pylist()
    assert found == [f"{one}a{one}".strip() for one in letters]


def both_ways(column):
    """The cells of a column by Arrow, and by Python."""
    return texts(column, "c").array().tolist(), Texts.encode(column.to_pylist()).array().tolist()


def test_texts_of_arrow_are_those_of_python():
    cells = ["b", " a", "a ", None, "", " NA ", "nan", *MISSING, "a", "\u3000x\u00a0", "7", "b"]
    found, expected = both_ways(pa.array(cells))
    assert found == expected
    assert texts(pa.array(cells), "c").missing.tolist() == [one is None for one in expected]
    for column in (
        pa.array([], pa.string()),
        pa.array([None, None], pa.string()),
        pa.array([3, None, 12]),
        pa.array(cells, pa.large_string()),
        pa.array(cells).slice(2, 9),
    ):
        found, expected = both_ways(column)
        assert found == expected


def test_a_dictionary_that_names_a_person_twice_has_one_person():
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1]), pa.array(["a", "b", "a"]))
    assert Persons().numbers(texts(twice, "who")).tolist() == [1, 2, 1, 2]


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
    for block in source.coded_blocks(["who"], text=["who"], size=512):
        held = block["who"]
        found.extend(persons.numbers(held[~held.missing]))
    by_hand = {}
    there = [one for one in cells if one is not None]
    assert found == [by_hand.setdefault(one, len(by_hand) + 1) for one in there]


def test_ranks_count_equal_ones_before():
    labels = np.random.default_rng(4).integers(0, 20, 500)
    expected = [int((labels[:k] == one).sum()) for k, one in enumerate(labels)]
    assert ranks(labels).tolist() == expected
