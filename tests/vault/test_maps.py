"""From values to whole numbers, what maps show, and the bounds of their costs: by brute force."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

from privest import vault
from privest.errors import InvalidInput
from privest.vault import maps
from privest.vault.cost import delta_of
from privest.vault.maps import Facts, cost_of, exact_sums, log_odds, on_grid, pure_amounts

VALUES = [0.0, -0.0, 5e-324, -5e-324, 1e-300, 0.3, -0.3, 2.5, -2.5, 7.0, 123.456, -1e5, np.inf]


def words(*numbers):
    return np.array(numbers, dtype=np.uint64)


def k_of(y, range, word):
    return int(on_grid(np.array([y]), range, words(word))[0])


# --- from values to whole numbers -----------------------------------------------------------------


@pytest.mark.parametrize("exponent", [-3, 0, 5, -960, 900])
@pytest.mark.parametrize("y", VALUES)
def test_a_value_goes_up_with_the_fraction_that_it_has(y, exponent, monkeypatch):
    """E k = y/2^e, exactly: the words that go up are counted, ties by their next words."""
    range = vault.Range(-(2**50), 2**50, exponent)
    step = Fraction(2) ** exponent
    low, high = range.low * step, range.high * step
    place = max(low, min(high, Fraction(min(y, 1e308)))) / step
    down = math.floor(place)
    fraction = place - down
    if y < 0:  # the complement of the word decides, so that k rises with y
        threshold = math.ceil((1 - fraction) * 2**64) if fraction else 2**64
    else:
        threshold = math.floor(fraction * 2**64)
    monkeypatch.setattr(maps.Digits, "word", lambda self: 2**63)
    ups = [k_of(y, range, word) for word in (0, 2**63, 2**64 - 1)]
    assert set(ups) <= {down, down + 1}
    for word in [w for w in (threshold - 2, threshold + 1) if 0 <= w < 2**64]:
        is_up = word < threshold if y >= 0 else 2**64 - 1 - word >= threshold
        assert k_of(y, range, word) == down + (is_up if fraction else 0)


def test_ties_are_decided_by_more_digits(monkeypatch):
    """y = 2⁻⁷⁰ steps goes up with probability 2⁻⁷⁰: a word of 0, then one below 2⁻⁶."""
    range = vault.Range(-5, 5, 0)
    for word, up in ((2**58 - 1, 1), (2**58, 0), (2**58 + 1, 0)):
        monkeypatch.setattr(maps.Digits, "word", lambda self, w=word: w)
        if word != 2**58:
            assert k_of(2.0**-70, range, 0) == up
            monkeypatch.setattr(maps.Digits, "word", lambda self, w=word: 2**64 - 1 - w)
            assert k_of(-(2.0**-70), range, 2**64 - 1) == -up
    assert k_of(2.0**-70, range, 1) == 0
    assert k_of(-0.0, range, 2**64 - 1) == 0


def test_k_rises_with_y_for_the_same_words():
    range = vault.Range(-20, 20, -2)
    rng = np.random.default_rng(0)
    y = np.sort(np.concatenate([rng.uniform(-7, 7, 3000), np.arange(-28, 28) / 4, [-0.0, 0.0]]))
    for word in rng.integers(0, 2**64, 50, dtype=np.uint64):
        k = on_grid(y, range, np.full(len(y), word))
        assert (np.diff(k) >= 0).all()
        assert k.min() == -20
        assert k.max() == 20


def test_a_range_of_steps_holds_the_typed_one():
    made = vault.Range.around(Fraction("0.1"), Fraction("10"), -13)
    assert Fraction(made.low, 2**13) <= Fraction("0.1") < Fraction(made.low + 1, 2**13)
    assert Fraction(made.high - 1, 2**13) < 10 <= Fraction(made.high, 2**13)
    assert made.apart(None) == made.steps == made.high - made.low
    assert made.apart("0.25") == 2**11
    assert made.apart("0.0001") == 1


@pytest.mark.parametrize("wrong", [(3, 3, 0), (0, 2**53, 0), (0, 1, 1000), (0.0, 1, 0), (1, 0, 0)])
def test_ranges_that_are_none_are_refused(wrong):
    with pytest.raises(InvalidInput):
        vault.Range(*wrong)


# --- what maps show -------------------------------------------------------------------------------


def test_sums_are_exact_at_any_size():
    rng = np.random.default_rng(1)
    for weight, size, rows in ((2**20, 2**17, 5000), (2**45, 2**52, 300), (3, 2, 10**5)):
        W = rng.integers(-weight, weight, (rows, 2))
        k = rng.integers(-size, size + 1, rows)
        sums = [sum(int(w) * int(x) for w, x in zip(W[:, j], k)) for j in range(2)]
        assert exact_sums(W, k, size) == sums


def test_products_of_words_are_exact():
    rng = np.random.default_rng(2)
    drawn = rng.integers(0, 2**64, 100, dtype=np.uint64)
    drawn[:2] = 0, 2**64 - 1
    for factor in (1, 2, 3, 2**32 - 1, 2**32, 2**40 + 12345, 2**52):
        expected = [int(word) * factor >> 64 for word in drawn]
        assert maps._high_product(drawn, factor).tolist() == expected


def test_levels_are_dithered_between_values():
    """P(level | y) is linear between levels: counted over evenly spaced words."""
    map, range = vault.Levels(4, 1), vault.Range(2, 14, 0)  # spacing 4
    grid = (np.arange(2**10, dtype=np.uint64) << np.uint64(54)) + np.uint64(2**53)
    for k in np.arange(2, 15):
        levels = map.shown(np.full(len(grid), k), range, grid)
        assert levels.mean() == (k - 2) / 4
        assert set(levels) <= {(k - 2) // 4, (k - 2) // 4 + 1}


def test_uneven_words_of_a_level_are_counted():
    """A spacing that does not divide 2⁶⁴ makes one step of P larger by up to 2⁻⁶⁴: charged."""
    law = vault.WrongLevel(2**62, 2)
    for spacing in (3, 2**40 + 1):
        span = vault.Range(0, spacing, 0)
        # ⌊U·D/2⁶⁴⌋ ≥ D − r for ⌊r·2⁶⁴/D⌋ words: the largest step between two r.
        steps = [(r + 1) * 2**64 // spacing - r * 2**64 // spacing for r in range(100)]
        slope = Fraction(max(steps), 2**64) / 2  # p − q = 1/2
        information = slope**2 * (Fraction(4, 3) + 4)
        stated = cost_of(vault.Levels(2, 1).facts, law, span).amounts["information"]
        assert information <= stated <= information * (1 + Fraction(spacing, 2**60))


def test_a_wrong_level_takes_exactly_its_words():
    law = vault.WrongLevel(2**61 + 1, 4)
    h, f = law.right, law.flips
    assert h + 3 * f == 2**64
    for level in range(4):
        others = [j for j in range(4) if j != level]
        for word, z in (
            (0, level), (h - 1, level), (h, others[0]), (h + f - 1, others[0]),
            (h + f, others[1]), (h + 2 * f, others[2]), (2**64 - 1, others[2]),
        ):  # fmt: skip
            assert maps.released(law, np.array([level]), words(word)).tolist() == [z]


def test_a_stream_looks_back():
    map = vault.Lagged([5, -2], [True, True, False, True], past=1)
    shown = map.shown(np.array([10, 20, 99, 40]), vault.Range(0, 99, 0), words(0))
    assert shown == [5 * 20 - 2 * 10, 5 * 40]  # the missing one counts as 0, and is not released
    assert (map.facts.norm2, map.indices, map.earlier) == (29, 3, (1,))


# --- bounds, against all whole pairs --------------------------------------------------------------


def all_pairs_squares(A, B, low, high, middle, apart):
    """The largest move of sums and squares; each release rounds one pair of values anew."""
    N = min(high - low, apart)
    largest = 0
    for k, other in itertools.product(range(low, high + 1), repeat=2):
        d = abs(k - other)
        if d > apart:
            continue
        square = ((k - middle) ** 2 - (other - middle) ** 2) ** 2
        in_sums = min(d + 1, N) if d else 1
        largest = max(largest, A * in_sums**2 + B * square)
    return largest


def test_the_pair_bound_of_squares_holds_for_all_pairs():
    rng = np.random.default_rng(3)
    tightest = 0.0
    for _ in range(1500):
        low = int(rng.integers(-10, 5))
        high = low + int(rng.integers(1, 14))
        middle = int(rng.integers(low - 5, high + 6))
        apart = int(rng.integers(1, high - low + 1))
        weight, curve = int(rng.integers(1, 1000)), int(rng.integers(0, 1000))
        sums = vault.Sums([[weight]], norm2=weight**2)
        squares = vault.Squares([[curve]], [middle], sums)
        first, second = vault.RoundedNormal((2**14,)), vault.RoundedNormal((2**17,))
        bound = squares.pair(first, second, vault.Range(low, high, 0), apart).amounts["mu2"]
        A, B = Fraction(weight**2, 4**14), Fraction(curve**2, 4**17)
        largest = all_pairs_squares(A, B, low, high, middle, apart)
        assert largest <= bound
        tightest = max(tightest, float(largest / bound))
        # A bound that forgets that each release rounds anew is not enough where N is small.
    assert tightest > 0.95


def test_rounding_anew_must_be_counted():
    """Without A·(2N − 1) the bound of these would be broken: the test above can fail."""
    A, B = Fraction(1), Fraction(1, 3)
    largest = all_pairs_squares(A, B, 0, 5, 0, 5)
    c, N = 10.0, 5.0
    bare = maps._largest_move(np.array([1.0]), np.array([1 / 3]), np.array([c]), N)
    assert largest > bare
    assert largest <= bare + 2 * N - 1


def test_the_radius_of_persons_holds_for_all_tables():
    rng = np.random.default_rng(4)
    for _ in range(60):
        rows, size = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        weights = rng.integers(-5, 6, (rows, size))
        middles = rng.integers(-3, 4, rows)
        persons = np.zeros(rows, dtype=int)
        sums = vault.Sums(np.ones((rows, 1), dtype=int), norm2=rows**2, persons=persons)
        squares = vault.PersonSquares(weights, middles, sums)
        span = vault.Range(-2, 2, 0)
        law = squares.law(2**20)
        bound = squares.pair(vault.RoundedNormal((2**20,)), law, span, 4).amounts["mu2"]
        bound -= Fraction(16 * rows**2, 4**20)  # the sums
        tables = [np.array(t) for t in itertools.product((-2, 0, 2), repeat=rows)]
        shown = [squares.shown(k, span, words(0)) for k in tables]
        for one, other in itertools.combinations(shown, 2):
            moves = zip(one, other, law.sigma, strict=True)
            assert sum(Fraction((a - b) ** 2, s * s) for a, b, s in moves) <= bound


def test_the_information_of_persons_holds_for_a_step_of_all_their_values():
    """Every table, every direction: Δ²/σ² of the squares is at most x less that of the sums."""
    rng, largest = np.random.default_rng(5), 0.0
    for _ in range(60):
        rows, size = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        weights = rng.integers(-5, 6, (rows, size))
        middles = rng.integers(-3, 4, rows)
        sums = vault.Sums(
            np.ones((rows, 1), dtype=int), norm2=rows**2, persons=np.zeros(rows, dtype=int)
        )
        squares = vault.PersonSquares(weights, middles, sums)
        span = vault.Range(-3, 3, 0)
        law = squares.law(2**14)
        first = vault.RoundedNormal((2**20,))
        x = float(squares.pair(first, law, span, 6).amounts["information"])
        for k in itertools.product((-3, 0, 2), repeat=rows):
            for step in itertools.product((0, 1), repeat=rows):
                here, there = (
                    squares.shown(np.array(at), span, words(0)) for at in (k, np.add(k, step))
                )
                moves = zip(here, there, law.sigma, strict=True)
                moved = sum(((a - b) / s) ** 2 for a, b, s in moves)
                assert moved <= x
                largest = max(largest, moved / x)
    assert largest > 0.5  # it could fail: steps at an end of the range, where r is attained


# --- costs ----------------------------------------------------------------------------------------


def fisher_information(probability, y, width):
    """Of a law that is affine in y between grid points, by its exact difference."""
    here = probability(y)
    slope = (probability(y + width) - here) / width
    return float(np.sum(np.where(here > 0, slope**2 / np.where(here > 0, here, 1), 0)))


def rounded_normal_masses(sigma, reach):
    z = np.arange(-reach, reach + 1)
    upper, lower = (z + 0.5) / sigma, (z - 0.5) / sigma
    return np.where(z > 0, ndtr(-lower) - ndtr(-upper), ndtr(upper) - ndtr(lower))


@pytest.mark.parametrize("weight", [1, 3])
@pytest.mark.parametrize("name", ["normal", "laplace"])
def test_information_through_a_random_rounding(name, weight):
    """At most x(1 + x), or a²(1 + a)², in units of the step, at every place between two steps."""
    size, reach = 6, 200
    if name == "normal":
        masses = rounded_normal_masses(size, reach)
        x = (weight / size) ** 2
        bound, inner = x * (1 + x), math.expm1(x)
    else:
        z = np.abs(np.arange(-reach, reach + 1))
        masses = np.exp(-z / size) * math.tanh(0.5 / size)
        a = weight / size
        bound = inner = a**2 * (1 + a) ** 2
    moved = np.roll(masses, weight)

    def probability(f):
        return (1 - f) * masses + f * moved

    values = [fisher_information(probability, f, 1e-4) for f in (0.0, 0.3, 0.7, 0.9999)]
    # The difference of 1e-4 is exact in the slope; masses are doubles of a cut-off tail.
    assert max(values) <= inner * (1 + 1e-6) <= bound * (1 + 1e-6)
    assert max(values) > (0.9 if name == "normal" else 0.3) * inner


@pytest.mark.parametrize("levels", [2, 3, 6])
def test_information_of_levels_is_attained(levels):
    law = vault.WrongLevel(2**59, levels)
    span = vault.Range(0, 5 * (levels - 1), -2)
    p, q = law.right / 2**64, law.flips / 2**64
    spacing = 5 * 2.0**-2

    def probability(y):
        place = y / spacing
        level = min(int(place), levels - 2)
        found = np.full(levels, q)
        found[level] += (p - q) * (1 - (place - level))
        found[level + 1] += (p - q) * (place - level)
        return found

    values = [fisher_information(probability, y, 1e-7) for y in (0.0, spacing * 0.4)]
    stated = float(cost_of(vault.Levels(levels, 1).facts, law, span).amounts["information"])
    assert max(values) == pytest.approx(stated, rel=1e-5)  # of the step 1e-7, twice over
    assert max(values) <= stated * (1 + 1e-5)


def test_odds_and_pure_epsilon_in_every_unit():
    law = vault.WrongLevel(2**62, 2)
    assert float(log_odds(law)) == pytest.approx(math.log(3), rel=1e-8)
    assert float(log_odds(law)) >= math.log(3)
    for epsilon in (1e-9, 0.1, 1.0, 5.0, 40.0, 600.0):
        amounts = pure_amounts(Fraction(epsilon))
        assert amounts["rho"] == Fraction(epsilon) ** 2 / 2
        # The trade-off of μ-GDP passes through the kink of that of ε: δ at every ε′ is at least
        # that of randomised response, (e^ε − e^ε′)/(1 + e^ε).
        for other in (0.0, epsilon / 2, epsilon * 0.99):
            response = (-math.expm1(other - epsilon)) / (1 + math.exp(-epsilon))
            assert delta_of(Fraction(other), amounts["mu2"]) >= response * (1 - 1e-9)
    assert "mu2" not in pure_amounts(Fraction(800))


def test_costs_follow_from_texts():
    """A cost read back from a file's texts is the cost of the map."""
    map = vault.Sums([[3, 4]], norm2=30, norm1=8)
    law = vault.RoundedNormal((2**12,))
    range = vault.Range(-4, 6, -2)
    read = cost_of(
        Facts.read(map.facts.said()), maps.law_of(law.said()), vault.Range.read(range.said())
    )
    assert read == cost_of(map.facts, law, range)
    assert read.amounts["mu2"] == Fraction(30 * 100, 4**12)
    x = Fraction(30, 4**12)
    assert read.amounts["information"] == x * (1 + x) * 16
    laplace = cost_of(map.facts, vault.DiscreteLaplace(2**12), range, "0.5")
    assert laplace.amounts["epsilon"] == Fraction(8 * 2, 2**12)


def test_rows_with_finer_steps_cost_what_their_own_steps_do():
    """Steps of 2^(e − s): μ² of the range is the same, information that of the finer steps."""
    law = vault.RoundedNormal((2**12,))
    coarse, fine = vault.Range(0, 9, 4), vault.Range(0, 9 << 8, -4)
    for made in (law, vault.DiscreteLaplace(2**12)):
        shifted = cost_of(vault.Rows([127, 64], finer=[8, 0]).facts, made, coarse)
        plain = cost_of(vault.Rows([127]).facts, made, fine)
        assert shifted.amounts == plain.amounts
        read = Facts.read(vault.Rows([127, 64], finer=[8, 0]).facts.said())
        assert cost_of(read, made, coarse) == shifted


WRONG = {
    "a norm below the weights": lambda: vault.Sums([[3, 4]], norm2=24),
    "a sum of weights below them": lambda: vault.Sums([[3, 4]], norm1=6),
    "weights that are no whole numbers": lambda: vault.Sums([[0.5]], norm2=1),
    "a person without a number": lambda: vault.Rows([1, 1], persons=[0]),
    "noise below 1024": lambda: vault.RoundedNormal((1023,)),
    "a float as noise": lambda: vault.RoundedNormal((2048.0,)),
    "flips that hide all": lambda: vault.WrongLevel(2**63, 2),
    "no flips": lambda: vault.WrongLevel(0, 2),
    "steps below the noise": lambda: cost_of(
        vault.Rows([2**11]).facts, vault.RoundedNormal((2**10,)), vault.Range(0, 1, 0)
    ),
    "a map without such a norm": lambda: cost_of(
        vault.Sums([[1]], norm2=1).facts, vault.DiscreteLaplace(2**10), vault.Range(0, 1, 0)
    ),
    "levels that do not divide": lambda: vault.Levels(3, 1).require(
        vault.Range(0, 5, 0), vault.WrongLevel(2**60, 3)
    ),
    "rows beyond 64 bits": lambda: vault.Rows([2**20]).require(
        vault.Range(0, 2**45, 0), vault.RoundedNormal((2**40,))
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_would_break_a_bound_is_refused(name):
    with pytest.raises(InvalidInput):
        WRONG[name]()


def test_a_map_cannot_be_changed():
    map = vault.Sums([[3, 4]], norm2=30)
    with pytest.raises(ValueError, match="read-only"):
        map.weights[0, 0] = 100
    with pytest.raises(AttributeError, match="changed"):
        map.weights = np.zeros((1, 2), dtype=int)
    with pytest.raises(AttributeError, match="changed"):
        map.facts = Facts("sums", 2, 1, norm2=0)
