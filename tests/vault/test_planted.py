"""Bugs that are put into the core; record and replay finds each with 48 pairs.

A new check in the core comes with a bug here that it catches.
"""

import dataclasses
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

from privest import vault
from privest.errors import InvalidInput
from privest.vault import door, maps, noise
from privest.vault.cost import Cost
from vault_replay import Fault, Ledger, pairs

PAIRS = 48

true_on_grid = maps.on_grid
true_opened = door.opened
true_cost = maps.cost_of
true_exact_sums = maps.exact_sums
true_largest_sum = maps._largest_sum
true_body = door._body
true_seal = door.seal
true_pair = maps.Squares.pair
true_person_pair = maps.PersonSquares.pair
true_farthest = maps._farthest
true_rows = vault.Rows
true_sums = vault.Sums
true_squares = vault.Squares
true_lagged = vault.Lagged
seen = {}


def remembered(private):
    """The values, for bugs elsewhere to leak."""
    seen["values"] = true_opened(private)
    return seen["values"]


def range_at_half(self, by):
    return max(1, self.steps // 2)


def without_range(facts, law, range, by=None):
    return true_cost(facts, law, vault.Range(0, 1, range.exponent), None)


def without_clip(values, range, words, **more):
    wide = vault.Range(-(2**50), 2**50, range.exponent, range.within)
    return true_on_grid(values, wide, words, **more)


def lower_clip_only(values, range, words, **more):
    wide = vault.Range(range.low, 2**50, range.exponent, range.within)
    return true_on_grid(values, wide, words, **more)


def without_centre_clip(values, range, words, *, centre=None, **more):
    k = true_on_grid(values, range, words, **more)
    return k if centre is None else k - centre


def words_by_value(values, range, words, **more):
    noise.os_words(int((values < 0).sum()))
    return true_on_grid(values, range, words, **more)


def refusing(values, range, words, **more):
    if (values > range.high * 2.0**range.exponent).any():
        raise InvalidInput("a value is beyond the range.")
    return true_on_grid(values, range, words, **more)


def refusing_infinity(values, range, words, **more):
    return true_on_grid(values, range, words, **more) + int(values.sum()) * 0


def sums_of_64_bits(weights, k, largest):
    return [int(np.int64(total)) for total in true_exact_sums(weights, k, largest)]


def sums_scaled(weights, k, largest):
    return [2 * total for total in true_exact_sums(weights, k, largest)]


def weights_at_half(facts, law, range, by=None):
    norms = [None if norm is None else norm // 4 for norm in (facts.norm2, facts.norm1)]
    half = dataclasses.replace(facts, norm2=norms[0], norm1=norms[1])
    return true_cost(half, law, range, by)


def half_the_noise(self, count):
    return maps.rounded_normals(self.sigma[0] // 2, count)


def note_with_count(book, request):
    clipped = int(np.isinf(seen.get("values", np.zeros(1))).sum())
    return true_body(book, request) | {"note": {"clipped": clipped}}


def maximum_in_document(book, seqs, members):
    largest = float(np.clip(seen["values"], -1e3, 1e3).max())
    return true_seal(book, seqs, dict(members) | {"largest": str(largest)})


def one_row_a_person(numbers, persons):
    return true_largest_sum(numbers, None)


def norm_of_one_row(weights, persons):
    return max(maps._norms2(weights), default=0)


def free_pair(self, first, second, range, apart):
    return Cost({unit: Fraction(0) for unit in ("information", "mu2", "rho")})


def pair_without_sums(self, first, second, range, apart):
    return true_pair(self, vault.RoundedNormal((2**60,)), second, range, apart)


def pair_of_half_the_radius(self, first, second, range, apart):
    cost = true_person_pair(self, first, second, range, apart)
    sums = true_cost(self.first.facts, first, range).amounts
    amounts = {u: sums[u] + (a - sums[u]) / 16 for u, a in cost.amounts.items()}
    return Cost(amounts)


def nearer(middles, range):
    return np.maximum(1, true_farthest(middles, range) // 2)


def finer_ignored(weights, *, finer=None, persons=None):
    map = true_rows(weights, finer=finer, persons=persons)
    plain = true_rows(weights, persons=persons)
    vars(map)["facts"] = plain.facts
    return map


def stream_of_a_block(weights, present, past=0):
    map = true_lagged(weights, present, past)
    norm2 = int((map.weights.astype(object) ** 2).sum(axis=1).max())
    vars(map)["facts"] = dataclasses.replace(map.facts, norm2=norm2)
    return map


def predictions_from_values(weights, middles, first):
    shift = int(np.nan_to_num(seen["values"], posinf=9, neginf=-9).clip(-9, 9)[0])
    return true_squares(weights, np.asarray(middles) + shift, first)


def stated_by_a_row(weights, *, norm2=None, persons=None, **more):
    """Sums with the norm of one row stated for a person."""
    return true_sums(weights, norm2=norm_of_one_row(weights, None), persons=persons, **more)


# Name: case of `vault_replay` that must notice, and what is replaced by what.
BUGS = {
    "range charged at half": ("sums", [(maps.Range, "apart", range_at_half)]),
    "range of rows not charged": ("rows", [(door, "cost_of", without_range)]),
    "no clip": ("sums", [(door, "on_grid", without_clip)]),
    "lower clip only": ("rows", [(door, "on_grid", lower_clip_only)]),
    "a maximum in the document": (
        "rows", [(door, "opened", remembered), (door, "seal", maximum_in_document)],
    ),
    "weights charged at half": ("sums", [(door, "cost_of", weights_at_half)]),
    "predictions from private values": (
        "sums and squares",
        [(door, "opened", remembered), (vault, "Squares", predictions_from_values)],
    ),
    "refusal by a value": ("sums", [(door, "on_grid", refusing)]),
    "refusal of infinity": ("sums", [(door, "on_grid", refusing_infinity)]),
    "half the noise": ("sums", [(vault.RoundedNormal, "drawn", half_the_noise)]),
    "sums scaled": ("sums", [(maps, "exact_sums", sums_scaled)]),
    "a count of clipped values in the note": (
        "sums and squares", [(door, "opened", remembered), (door, "_body", note_with_count)],
    ),
    "squares settled at nothing": ("sums and squares", [(maps.Squares, "pair", free_pair)]),
    "squares without their sums": ("sums and squares", [(maps.Squares, "pair", pair_without_sums)]),
    "words drawn by value": ("rows", [(door, "on_grid", words_by_value)]),
    "sums of 64 bits": ("sums beyond 64 bits", [(maps, "exact_sums", sums_of_64_bits)]),
    "residuals bounded at half": ("sums and squares", [(maps, "_farthest", nearer)]),
    "centre without its clip": ("sums about predictions", [(door, "on_grid", without_centre_clip)]),
    "finer steps not charged": ("rows with finer steps", [(vault, "Rows", finer_ignored)]),
    "persons charged as one row": ("rows of persons", [(maps, "_largest_sum", one_row_a_person)]),
    "sums of persons charged as one row": (
        "sums of persons",
        [(maps, "_largest_norm2", norm_of_one_row), (vault, "Sums", stated_by_a_row)],
    ),
    "levels of persons charged as one row": ("levels", [(maps, "_largest_sum", one_row_a_person)]),
    "squares of persons at half the radius": (
        "sums and squares of persons", [(maps.PersonSquares, "pair", pair_of_half_the_radius)],
    ),
    "a stream charged by the block": ("stream", [(vault, "Lagged", stream_of_a_block)]),
}  # fmt: skip


@pytest.fixture(scope="module")
def ledger():
    made = Ledger()
    yield made
    made.close()


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name, ledger, monkeypatch):
    case, changes = BUGS[name]
    for target, attribute, bug in changes:
        monkeypatch.setattr(target, attribute, bug)
    with pytest.raises(Fault):
        pairs(ledger, case, PAIRS)


def test_the_cases_of_the_bugs_hold_without_them(ledger):
    for case in {case for case, _ in BUGS.values()}:
        assert pairs(ledger, case, 4) <= 1


def test_all_that_the_door_adds_is_noise(ledger):
    """A sum that is not of what is shown and the noise is noticed too."""
    bare = mock.patch.object(door, "released", lambda law, shown, drawn: list(shown))
    with bare, pytest.raises(Fault):
        pairs(ledger, "sums", PAIRS)
