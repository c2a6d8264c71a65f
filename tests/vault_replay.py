"""Record and replay: neighbouring values go through the door twice, with what leaves forced equal.

The first run records what is shown and what leaves; the second has its neighbour's values, the same
words, and noise that makes the same integers of them. Everything that anybody could see must then
be the same to the last byte, and what the shown integers moved by must have been charged.
"""

import contextlib
import itertools
import os
import secrets
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np

from privest import vault
from privest.errors import PrivestError
from privest.vault import door, maps
from privest.vault.cost import Budget, Cost
from privest.vault.maps import law_of, log_odds

SOURCE = {"table": "1f", "column": "y"}
ENDS = [np.inf, -np.inf, -0.0, 0.0, 5e-324, -5e-324, 1e300, -1e300]


class Fault(AssertionError):
    """What a neighbour's release shows, or costs more than it was charged."""


@dataclass
class Record:
    """All that a run shows (`public`), and what only this harness sees."""

    public: list = field(default_factory=list)
    shown: list = field(default_factory=list)
    left: list = field(default_factory=list)
    laws: list = field(default_factory=list)  # what noise was asked for


class Ledger:
    """A ledger that is put back to its beginning, on a disk of memory where there is one."""

    def __init__(self):
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = Path(tempfile.mkdtemp(prefix="replay-", dir=memory))
        self.path = self.folder / "ledger.db"
        with vault.Book(self.path, marks=self.folder / "marks") as book:
            with book.writing():
                book.set_budget("people", Budget({}))
            book.advance()
        (self.mark,) = [p for p in (self.folder / "marks").rglob("*") if p.is_file()]
        self.files = {path: path.read_bytes() for path in (self.path, self.mark)}

    def restored(self):
        for path, data in self.files.items():
            with path.open("r+b") as file:  # the mark knows the file by its inode
                file.write(data)
                file.truncate()
        return vault.Book(self.path, marks=self.folder / "marks")

    def close(self):
        shutil.rmtree(self.folder)


def words_of(seed):
    """os.urandom with a seed, and the list of what was asked for."""
    rng = np.random.default_rng(seed)
    asked = []

    def urandom(count):
        asked.append(count)
        return rng.bytes(count)

    return urandom, asked


def run(ledger, releases, values, seed, first=None):
    """One run of `releases(values, book)`, which calls the door; `first`: the run before."""
    record = Record()
    urandom, asked = words_of(seed)
    names = iter(range(10**6))
    noise = np.random.default_rng(seed + 1)
    true_sum = door.released

    def drawn(size, count):
        record.laws.append((size, count))
        return [int(z) for z in noise.integers(-(2**40), 2**40, count)]

    def released(law, shown, drawn_noise):
        is_array = isinstance(shown, np.ndarray)
        shown = [int(number) for number in shown]
        record.shown.append(shown)
        if first is None or len(first.shown) < len(record.shown):
            left = true_sum(law, shown, drawn_noise)
        else:
            before, left = first.shown[len(record.shown) - 1], first.left[len(record.shown) - 1]
            if not isinstance(law, maps.WrongLevel):
                noise = [int(z) + a - b for z, a, b in zip(drawn_noise, before, shown, strict=True)]
                if [int(n) for n in true_sum(law, shown, noise)] != left:
                    raise Fault("what leaves is not what is shown and the noise")
        record.left.append([int(number) for number in left])
        return np.array(left, dtype=np.int64) if is_array else list(left)

    patches = [
        mock.patch.object(os, "urandom", urandom),
        mock.patch.object(secrets, "token_hex", lambda size: f"{next(names):0{2 * size}x}"),
        mock.patch.object(time, "time", return_value=1.8e9),
        mock.patch.object(maps, "rounded_normals", drawn),
        mock.patch.object(maps, "laplaces", drawn),
        mock.patch.object(door, "released", released),
    ]
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        with ledger.restored() as book:
            try:
                seqs = releases(values, book)
            except PrivestError as refused:
                record.public.append((type(refused).__name__, str(refused)))
                seqs = []
            costs = [book.entry(seq).body for seq in seqs]
            promise = {"information": "9e99", "neighbours": {"kind": "one value"}}
            if seqs:
                record.public.append(door.seal(book, seqs, {"promise": promise}))
    record.public += [tuple(asked), ledger.path.read_bytes()]
    return record, costs


def moved(first, second, bodies):
    """(Σ Δ²/σ², Σ |Δ|/t, levels that differ·ε) of what was shown, with the noise that was drawn."""
    squares = absolute = levels = Fraction(0)
    for before, after, body in zip(first.shown, second.shown, bodies, strict=True):
        law = law_of(body["law"])
        changes = [a - b for a, b in zip(before, after, strict=True)]
        if isinstance(law, vault.RoundedNormal):
            sigmas = law.sigma if len(law.sigma) > 1 else law.sigma * len(changes)
            squares += sum(Fraction(d * d, s * s) for d, s in zip(changes, sigmas))
        elif isinstance(law, vault.DiscreteLaplace):
            absolute += Fraction(sum(map(abs, changes)), law.scale)
        else:
            levels += sum(map(bool, changes)) * log_odds(law)
    return squares, absolute, levels


def asked_of(bodies):
    """The noise that the charged laws ask for, as `rounded_normals` and `laplaces` are called."""
    calls = []
    for body in bodies:
        law = law_of(body["law"])
        count = body["map"]["numbers"]
        if isinstance(law, vault.DiscreteLaplace):
            calls.append((law.scale, count))
        elif isinstance(law, vault.RoundedNormal):
            one = len(law.sigma) == 1
            calls += [(law.sigma[0], count)] if one else [(sigma, 1) for sigma in law.sigma]
    return calls


def replay(ledger, releases, pair, seed):
    """The share of what was charged that one pair of neighbours moved; Fault for anything seen."""
    try:
        first, bodies = run(ledger, releases, pair[0], seed)
        second, _ = run(ledger, releases, pair[1], seed, first)
    except (ArithmeticError, ValueError, TypeError, IndexError) as error:
        if isinstance(error, PrivestError):
            raise
        raise Fault(f"a value was refused by an error of Python's: {error!r}") from None
    for before, after in zip(first.public, second.public, strict=True):
        if before != after:
            raise Fault("something else than the integers depends on a value")
    if not bodies:  # refused, for public reasons: the same words for both
        return Fraction(0)
    if first.laws != second.laws or first.laws != asked_of(bodies):
        raise Fault("the noise that is drawn is not the noise that was charged")
    total = Cost.read(bodies[0]["cost"])
    for body in bodies[1:]:
        total = total + Cost.read(body["cost"])
    share = Fraction(0)
    units = ("mu2", "epsilon", "epsilon")
    if any("lags" in body["map"] for body in bodies):  # one value is charged at its index
        total = Cost.read(bodies[0]["cost"])
    for unit, amount in zip(units, moved(first, second, bodies), strict=True):
        if amount > total.amounts.get(unit, 0):
            raise Fault(f"more {unit} was moved than charged")
        if amount:
            share = max(share, amount / total.amounts[unit])
    return share


# --- releases of every map ------------------------------------------------------------------------


def leave(values, book, map, law, range, line="y", **more):
    private = vault.sealed(values, source=SOURCE)
    return vault.leave(
        private, map=map, law=law, range=range, book=book, subject="people", line=line,
        asked="a5", **more,
    )  # fmt: skip


def some_range(rng, widest=40, narrowest=1, exponents=(-3, 4)):
    width = int(rng.integers(narrowest, widest))
    low = int(rng.integers(-widest, widest))
    return vault.Range(low, low + width, int(rng.integers(*exponents)))


def some_values(rng, range, count):
    """Inside the range, at and beyond its ends, and the extremes of doubles."""
    step = 2.0**range.exponent
    y = rng.uniform(range.low - 2, range.high + 2, count) * step
    on_steps = rng.integers(range.low, range.high + 1, count) * step
    y = np.where(rng.random(count) < 0.3, on_steps, y)
    return np.where(rng.random(count) < 0.2, rng.choice(ENDS, count), y)


def neighbours(rng, range, count, rows, by=None):
    """Two tables that differ in these rows, by at most `by`."""
    y = some_values(rng, range, count)
    other = y.copy()
    if by is None:
        other[rows] = some_values(rng, range, len(rows))
        # Often as far apart as can be: there the charge is tight.
        if rng.random() < 0.5:
            step = 2.0**range.exponent
            y[rows], other[rows] = range.low * step, range.high * step
    else:
        y = np.clip(y, -1e6, 1e6)
        other = y.copy()
        other[rows] += rng.choice([-1.0, 1.0, rng.uniform(-1, 1)]) * by
    return y, other


def rows_of(rng, law):
    range = some_range(rng)
    count = int(rng.integers(1, 6))
    weights = rng.integers(0, 100, count)
    map = vault.Rows(weights)
    made = vault.DiscreteLaplace(2**14) if law == "laplace" else vault.RoundedNormal((2**14,))
    pair = neighbours(rng, range, count, rng.integers(0, count, 1))
    return lambda y, book: [leave(y, book, map, made, range).seq], pair


def finer_rows_of(rng):
    range = some_range(rng)
    count = int(rng.integers(1, 6))
    map = vault.Rows(rng.integers(64, 128, count), finer=rng.integers(0, 4, count))
    pair = neighbours(rng, range, count, rng.integers(0, count, 1))
    return lambda y, book: [leave(y, book, map, vault.RoundedNormal((2**16,)), range).seq], pair


def persons_of(rng):
    """Numbers of persons, and the rows of one of them."""
    persons = rng.integers(0, 3, int(rng.integers(2, 8)))
    return persons, np.flatnonzero(persons == rng.choice(persons))


def person_rows_of(rng):
    range = some_range(rng)
    persons, rows = persons_of(rng)
    map = vault.Rows(rng.integers(1, 100, len(persons)), persons=persons)
    pair = neighbours(rng, range, len(persons), rows)
    return lambda y, book: [leave(y, book, map, vault.RoundedNormal((2**14,)), range).seq], pair


def some_sums(rng, count, persons=None, size=1000, bits=0):
    weights = rng.integers(-size, size + 1, (count, int(rng.integers(1, 4)))) << bits
    squares = (weights.astype(object) ** 2).sum(axis=1)
    if persons is None:
        return vault.Sums(weights, norm2=int(squares.max()))
    roots = np.zeros(8)
    np.add.at(roots, persons, np.sqrt(squares.astype(float)))
    return vault.Sums(weights, norm2=int(roots.max() ** 2 * (1 + 1e-5)) + 1, persons=persons)


def sums_of(rng, by=None):
    range = some_range(rng)
    count = int(rng.integers(1, 6))
    map = some_sums(rng, count)
    pair = neighbours(rng, range, count, rng.integers(0, count, 1), by)
    text = None if by is None else str(Fraction(by).numerator)
    law = vault.RoundedNormal((2**16,))
    return lambda y, book: [leave(y, book, map, law, range, by=text).seq], pair


def large_sums_of(rng):
    """Sums that 64 bits do not hold."""
    range = vault.Range(-(2**45), 2**45, -20)
    map = some_sums(rng, 4, size=2**20, bits=10)
    pair = neighbours(rng, range, 4, rng.integers(0, 4, 1))
    return lambda y, book: [leave(y, book, map, vault.RoundedNormal((2**90,)), range).seq], pair


def laplace_sums_of(rng):
    range = some_range(rng)
    weights = rng.integers(-20, 21, (3, 2))
    map = vault.Sums(weights, norm1=int(np.abs(weights).sum(axis=1).max()))
    pair = neighbours(rng, range, 3, rng.integers(0, 3, 1))
    return lambda y, book: [leave(y, book, map, vault.DiscreteLaplace(2**12), range).seq], pair


def person_sums_of(rng):
    range = some_range(rng)
    persons, rows = persons_of(rng)
    map = some_sums(rng, len(persons), persons)
    pair = neighbours(rng, range, len(persons), rows)
    return lambda y, book: [leave(y, book, map, vault.RoundedNormal((2**18,)), range).seq], pair


def within_of(rng):
    """Sums of residuals about public predictions, clipped."""
    base = some_range(rng)
    range = vault.Range(base.low, base.high, base.exponent, within=int(rng.integers(1, 12)))
    count = int(rng.integers(1, 6))
    centre = rng.integers(base.low - 3, base.high + 4, count)
    map = some_sums(rng, count)
    pair = neighbours(rng, base, count, rng.integers(0, count, 1))
    law = vault.RoundedNormal((2**16,))
    return lambda y, book: [leave(y, book, map, law, range, centre=centre).seq], pair


def squares_of(rng, by=None, within=False):
    """Sums, then squares of residuals about what the released sums predict."""
    range = some_range(rng, narrowest=2, exponents=(-3, 1))
    pair_range = range
    if within:
        range = vault.Range(range.low, range.high, range.exponent, within=int(rng.integers(1, 12)))
    count = int(rng.integers(1, 6))
    centre = rng.integers(range.low, range.high + 1, count) if within else None
    sums = some_sums(rng, count, size=30)
    weights = rng.integers(0, 30, (count, 2))
    first = vault.RoundedNormal((2**12,))
    text = None if by is None else str(Fraction(by).numerator)
    more = {"by": text, "centre": centre}
    share = vault.cost_of(sums.facts, first, range, text)  # as much again for the squares

    def releases(y, book):
        left = leave(y, book, sums, first, range, line="sums", reserve=share, **more)
        # Public predictions: any function of what left.
        middles = [int(left.integers[0] + i) % 90 - 45 for i in np.arange(count)]
        squares = vault.Squares(weights, middles, sums)
        sigma = least_noise(squares, first, range, text, book.entry(left.seq))
        law = vault.RoundedNormal((sigma,))
        second = leave(y, book, squares, law, range, line="squares", after=left.seq, **more)
        return [left.seq, second.seq]

    return releases, neighbours(rng, pair_range, count, rng.integers(0, count, 1), by)


def least_noise(squares, first, range, by, entry):
    """The least σ = 2^a·b of 9 bits whose squares fit into the reserve of an entry."""
    charged = Cost.read(entry.body["cost"])

    def fits(sigma):
        return fits_into(squares, first, sigma, range, by, charged)

    power = least(lambda k: fits(2**k), 10, 60)
    return least(lambda k: fits(k << (power - 8)), 129, 256) << (power - 8)


def least(holds, low, high):
    """The least whole number that holds, if `high` does and all from there on down to it."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def fits_into(squares, first, sigma, range, by, charged):
    try:
        law = squares.law(sigma) if hasattr(squares, "law") else vault.RoundedNormal((sigma,))
        pair = squares.pair(first, law, range, range.apart(by))
    except PrivestError:  # a step moves it by more than its noise, or too little noise
        return False
    return all(amount <= charged.amounts[unit] for unit, amount in pair.amounts.items())


def person_squares_of(rng):
    range = some_range(rng, 8)
    persons, rows = persons_of(rng)
    sums = some_sums(rng, len(persons), persons, size=20)
    weights = rng.integers(-9, 10, (len(persons), int(rng.integers(1, 3))))
    first = vault.RoundedNormal((2**13,))
    share = vault.cost_of(sums.facts, first, range)
    share = Cost({unit: amount / 2 + Fraction(1, 10**6) for unit, amount in share.amounts.items()})

    def releases(y, book):
        left = leave(y, book, sums, first, range, line="sums", reserve=share)
        middles = np.full(len(persons), left.integers[0] % 9)
        squares = vault.PersonSquares(weights, middles, sums)
        law = squares.law(least_noise(squares, first, range, None, book.entry(left.seq)))
        second = leave(y, book, squares, law, range, line="squares", after=left.seq)
        return [left.seq, second.seq]

    return releases, neighbours(rng, range, len(persons), rows)


def stream_of(rng):
    """Blocks of one or two steps; the later ones look back to the earlier ones."""
    range = some_range(rng)
    lags = rng.integers(-50, 51, 3)
    lags[0] += 100
    ends = [0, 1, 2, 4] if rng.random() < 0.5 else [0, 2, 3, 4]
    present = np.ones(4, dtype=bool)
    present[3 if ends[2] == 2 else 1] = rng.random() < 0.7
    law = vault.RoundedNormal((2**14,))

    def releases(y, book):
        seqs = []
        for start, stop in itertools.pairwise(ends):
            map = vault.Lagged(lags, present[:stop], past=start)
            seqs.append(leave(y[:stop], book, map, law, range, start=start).seq)
        return seqs

    return releases, neighbours(rng, range, 4, rng.integers(0, 4, 1))


def levels_of(rng):
    levels = int(rng.integers(2, 6))
    low = int(rng.integers(-9, 9))
    spacing = int(rng.integers(1, 9))
    range = vault.Range(low, low + spacing * (levels - 1), int(rng.integers(-2, 3)))
    persons, rows = persons_of(rng)
    map = vault.Levels(levels, len(persons), persons=persons)
    law = vault.WrongLevel(2**60, levels)
    pair = neighbours(rng, range, len(persons), rows)
    return lambda y, book: [leave(y, book, map, law, range).seq], pair


CASES = {
    "rows": lambda rng: rows_of(rng, "gaussian"),
    "rows with Laplace noise": lambda rng: rows_of(rng, "laplace"),
    "rows with finer steps": finer_rows_of,
    "rows of persons": person_rows_of,
    "sums": sums_of,
    "sums of close values": lambda rng: sums_of(rng, by=2.0),
    "sums beyond 64 bits": large_sums_of,
    "sums with Laplace noise": laplace_sums_of,
    "sums of persons": person_sums_of,
    "sums about predictions": within_of,
    "sums and squares": squares_of,
    "sums and squares of close values": lambda rng: squares_of(rng, by=2.0),
    "sums and squares about predictions": lambda rng: squares_of(rng, within=True),
    "sums and squares of persons": person_squares_of,
    "stream": stream_of,
    "levels": levels_of,
}


def pairs(ledger, name, count, seed=0):
    """The largest share of a charge that was moved, over `count` pairs of one case."""
    largest = Fraction(0)
    for k in range(count):
        releases, pair = CASES[name](np.random.default_rng([seed, k]))
        largest = max(largest, replay(ledger, releases, pair, k))
    return largest
