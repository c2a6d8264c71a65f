"""Releases of sums through the door: what is charged, what is found again, and neighbours."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from aggregate_cases import design_of, most_of, split_of
from privest import aggregate, vault
from privest.errors import BudgetExceeded, InvalidInput
from privest.privacy import Range
from privest.vault.cost import Budget, Cost
from privest.vault.maps import law_of
from vault_replay import Ledger, replay

RNG = np.random.default_rng(44)
LINE = np.column_stack([np.ones(9), [-2.0, -1, -0.5, 0, 0, 0.3, 1, 1.5, 40]])
GROUPS = np.eye(3)[[0, 0, 0, 0, 1, 1, 1, 2, 2]]
OWNERS = np.array([0, 0, 0, 1, 1, 2, 3, 3, 4])
LIMITS = Range(-1.0, 3.0)
SOURCE = {"table": "1f", "column": "y"}
KINDS = {
    "none": (LINE, None, {"mu": 0.2}),
    "squares": (LINE, None, {"mu": 2.0}),
    "free": (GROUPS, None, {"mu": 2.0}),
    "persons": (LINE, OWNERS, {"mu": 3.0}),
    "exposure": (LINE, None, {"level": 0.2}),
}


class Planned:
    """A kind's public facts, and its release: `entries` are the numbers in the ledger."""

    def __init__(self, kind):
        H, owners, promise = KINDS[kind]
        self.design = design_of(H, owners)
        self.own = split_of(self.design, LIMITS, **promise)
        assert self.own.kind == ("squares" if kind == "exposure" else kind)

    def way(self, book):
        return aggregate.ChargedWay(book, "people", "y", "a5")

    def release(self, values, way):
        private = vault.sealed(values, source=SOURCE)
        return aggregate.release_sums(self.design, private, LIMITS, self.own, way)

    def releases(self, values, book):
        way = self.way(book)
        self.release(values, way)
        return way.entries


@pytest.fixture
def book(tmp_path):
    with vault.Book(tmp_path / "ledger.db", marks=tmp_path / "marks") as made:
        with made.writing():
            made.set_budget("people", Budget({}))
        made.advance()
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_is_charged_what_is_stated(kind, book):
    """All of it with the sums; the squares cost nothing more. The same call draws nothing again."""
    planned = Planned(kind)
    y = RNG.uniform(-2, 4, 9)
    way = planned.way(book)
    found = planned.release(y, way)
    bodies = [book.entry(seq).body for seq in way.entries]
    names = ["sums of y"] if kind == "none" else ["sums of y", "squares of y"]
    assert [body["line"] for body in bodies] == names
    charged = Cost.read(bodies[0]["cost"])
    for unit, amount in planned.own.charged.amounts.items():  # texts of 15 digits, rounded up
        assert amount <= charged.amounts[unit] <= amount * (1 + Fraction(1, 10**14))
    assert float(charged.amounts["mu2"]) ** 0.5 <= (planned.own.mu or planned.own.stated) + 1e-12
    assert all(set(body["cost"].values()) == {"0"} for body in bodies[1:])
    for seq, integers in zip(way.entries, found.integers, strict=True):
        assert tuple(book.numbers(seq)) == integers
    head = book.check()
    again = planned.release(y, planned.way(book))
    assert again.integers == found.integers
    assert book.check() == head
    np.testing.assert_array_equal(again.estimate, found.estimate)
    np.testing.assert_array_equal(again.variance, found.variance)


def released_in(book):
    return [entry for entry in book.entries() if entry.body["kind"] == "release"]


class Killed(Exception):
    """The process ends here."""


class KilledWay(aggregate.ChargedWay):
    """A run that is killed after its sums."""

    def leave(self, values, asked):
        if self.entries:
            raise Killed
        return super().leave(values, asked)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "none"])
def test_a_killed_run_is_finished_with_the_same_sums(kind, book):
    planned, y = Planned(kind), RNG.uniform(-2, 4, 9)
    with pytest.raises(Killed):
        planned.release(y, KilledWay(book, "people", "y", "a5"))
    (sums,) = released_in(book)
    found = planned.release(y, planned.way(book))
    assert tuple(book.numbers(sums.seq)) == found.integers[0]
    assert len(released_in(book)) == 2


def test_a_finished_run_takes_the_noise_of_the_entry(book):
    """Another machine may have drawn with a σ whose last digit is another one."""
    planned, y = Planned("squares"), np.linspace(-1, 3, 9)
    exact = planned.own.law.sigma[0]
    planned.own.law.__dict__["sigma"] = (exact + 2**20,)  # noise of another plan
    first = planned.release(y, planned.way(book))
    planned.own.law.__dict__["sigma"] = (exact,)
    again = planned.release(y, planned.way(book))
    np.testing.assert_array_equal(again.sums, first.sums)
    np.testing.assert_array_equal(again.variance, first.variance)


def test_what_is_refused(book, tmp_path):
    planned, y = Planned("squares"), np.zeros(9)
    with pytest.raises(InvalidInput, match="sealed"):
        aggregate.release_sums(planned.design, [y], LIMITS, planned.own, planned.way(book))
    with pytest.raises(TypeError, match="no contents"):
        planned.release(y, aggregate.SimulatedWay(RNG))
    with book.writing():
        book.set_budget("people", Budget({"mu2": Fraction(39, 10)}), change=True)
    book.advance()
    with pytest.raises(BudgetExceeded):
        planned.release(y, planned.way(book))
    assert not released_in(book)


# --- neighbours: `vault_replay`, with what the planner makes --------------------------------------


@pytest.fixture(scope="module")
def ledger():
    made = Ledger()
    yield made
    made.close()


@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_cannot_be_told_apart_but_by_what_was_charged(kind, ledger):
    """Both ends, beyond them, and between: the same bytes but for the integers."""
    planned = Planned(kind)
    ends = [-1.0, 3.0, 1.0, -np.inf, np.inf, 0.3]
    largest = 0.0
    for k, (one, other) in enumerate(itertools.combinations(ends, 2)):
        base = RNG.uniform(-1, 3, 9)
        rows = [k % 9] if kind != "persons" else np.flatnonzero(OWNERS[k % 9] == OWNERS)
        pair = (base.copy(), base.copy())
        pair[0][rows], pair[1][rows] = one, other
        largest = max(largest, float(replay(ledger, planned.releases, pair, k)))
    # Sums alone have 70% of an exposure's μ² and 85% of that of ε.
    assert 0.69 < largest <= 1


def test_squares_are_drawn_with_the_least_noise_of_nine_bits(book):
    """What squares have of a promise is used up to the rounding of σ, 2⁻⁷ of its square."""
    for kind in ("squares", "free", "persons", "exposure"):
        planned = Planned(kind)
        way = aggregate.ChargedWay(book, "people", kind, "a5")
        planned.release(np.linspace(-1, 3, 9), way)
        law = law_of(book.entry(way.entries[1]).body["law"])
        sigma = max(law.sigma)
        bits = sigma.bit_length()
        assert sigma % 2 ** max(bits - 10, 0) == 0  # at most 2⁹ is a tenth bit
        body = book.entry(way.entries[1]).body
        pair, charged = Cost.read(body["pair"]), planned.own.charged
        used = max(
            float((pair.amounts[unit] - _sums(planned)[unit]) / reserve)
            for unit, reserve in planned.own.reserve.amounts.items()
        )
        assert used > 1 - 2.0**-6, (kind, used)
        assert all(pair.amounts[unit] <= charged.amounts[unit] for unit in pair.amounts)


def _sums(planned):
    reserve = planned.own.reserve.amounts
    return {unit: amount - reserve[unit] for unit, amount in planned.own.charged.amounts.items()}


def test_information_of_persons_is_no_trivial_bound():
    """A step of each value of a person: 4r²t²/σ², which is 8 (n = 1: 16) times the reserved μ²/R².

    The bound by any change at all is N²/8 times larger: a ledger of levels would be empty at once.
    """
    for n in (1, 2):
        design = design_of(LINE[:, :n], OWNERS)
        own = aggregate.split("persons", n, LIMITS, mu=3.0, most=most_of(design))
        reserve = own.reserve.amounts
        times = float(reserve["information"] / reserve["mu2"]) * LIMITS.width**2
        assert (8 if n > 1 else 16) * 0.999 < times < (8 if n > 1 else 16) * 1.001
