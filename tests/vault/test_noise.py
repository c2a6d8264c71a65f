"""The laws of the noise: by enumeration of words, against mpmath, and by draws."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chisquare, kstest

from privest.vault import noise
from privest.vault.noise import Laplace, Normal, Uniform, accepts, exp_minus, is_heads, karney

# The noise is real: a test at this level fails once in a million runs of a right sampler.
ALARM = 1e-6


@pytest.fixture(autouse=True)
def exact():
    with mpmath.workprec(600):
        yield


# --- exact laws of small cases, by every sequence of words ----------------------------------------


class Ended(Exception):
    """A decision needs one more word."""


class Script:
    """Words of few bits that are written down."""

    def __init__(self, bits, words):
        self.bits, self.words = bits, list(words)

    def word(self):
        if not self.words:
            raise Ended
        return self.words.pop(0)


def law_of(decide, bits, depth):
    """{outcome: probability of the sequences of words that decide it}, and what is undecided."""
    found, undecided = {}, Fraction(0)
    sequences = [()]
    while sequences:
        words = sequences.pop()
        try:
            outcome = decide(Script(bits, words))
        except Ended:
            if len(words) == depth:
                undecided += Fraction(1, 2 ** (bits * depth))
            else:
                sequences += [(*words, word) for word in range(2**bits)]
        else:
            found[outcome] = found.get(outcome, 0) + Fraction(1, 2 ** (bits * len(words)))
    return found, undecided


def assert_law(found, undecided, probability):
    """Every probability lies between what is decided and that with all that is not."""
    assert sum(found.values()) + undecided == 1
    for outcome, decided in found.items():
        true = probability(outcome)
        assert mpmath.mpf(decided.numerator) / decided.denominator <= true
        upper = decided + undecided
        assert true <= mpmath.mpf(upper.numerator) / upper.denominator


def test_heads_have_probability_e_to_minus_half():
    found, undecided = law_of(is_heads, 4, 6)
    assert undecided < 1e-7
    assert_law(found, undecided, lambda heads: mpmath.e**-0.5 if heads else 1 - mpmath.e**-0.5)


class Dyadic(Uniform):
    """x = digits/2^bits, whose further digits are 0."""

    def __init__(self, digits, bits):
        self.digits, self.bits, self.source = digits, bits, self

    def extend(self):
        self.digits, self.bits = 2 * self.digits, self.bits + 1


@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize("digits", [1, 3, 7])
def test_a_step_is_accepted_with_its_probability(k, digits):
    """e^{−x(2k + x)/(2k + 2)} at x = digits/8."""
    x = mpmath.mpf(digits) / 8
    found, undecided = law_of(lambda source: accepts(k, Given(digits, source), source), 3, 5)
    assert undecided < (0.06 if digits < 7 else 0.3)  # longer chains at larger x
    accepted = mpmath.exp(-x * (2 * k + x) / (2 * k + 2))
    assert_law(found, undecided, lambda is_true: accepted if is_true else 1 - accepted)


class Given(Dyadic):
    """x = digits/8 beside uniforms of words of some bits."""

    def __init__(self, digits, source):
        super().__init__(digits, 3)
        self.step = source.bits

    def extend(self):
        self.digits, self.bits = self.digits << self.step, self.bits + self.step


@pytest.mark.parametrize("sigma", [1, 3])
def test_karney_has_the_law_of_a_rounded_normal(sigma):
    """As far as 16 bits decide; the exact laws of its three steps are above."""
    found, undecided = law_of(lambda source: karney(sigma, source), 1, 16)
    assert undecided < 0.6

    def probability(z):
        low, high = (mpmath.mpf(2 * z - 1) / 2 / sigma, mpmath.mpf(2 * z + 1) / 2 / sigma)
        return mpmath.ncdf(high) - mpmath.ncdf(low)

    assert_law(found, undecided, probability)


def mass(law, m):
    """P(|z| ≤ m)."""
    if isinstance(law, Normal):
        return mpmath.erf(mpmath.mpf(2 * m + 1) / (2 * law.sigma) / mpmath.sqrt(2))
    q = mpmath.exp(-mpmath.mpf(1) / law.scale)
    return 1 - 2 * q ** (m + 1) / (1 + q)


@pytest.mark.parametrize("law", [Normal(1), Normal(3), Laplace(1), Laplace(3)])
def test_inversion_has_its_law(law):
    """Words of 3 bits meet boundaries all the time."""

    def decide(source):
        return noise.magnitude_of(law, source.word(), source.bits, source)

    found, undecided = law_of(decide, 3, 5)
    assert undecided < 1e-3
    assert len(found) >= 5

    def probability(m):
        return mass(law, m) - (mass(law, m - 1) if m else 0)

    assert_law(found, undecided, probability)


def test_floors_agree_for_every_way_to_go_on():
    for times, plus, over in ((6, 0, 1), (2 * 5, 2 * 5 * 2 + 1, 2), (14, 7, 2)):
        found, undecided = law_of(lambda s, a=(times, plus, over): Uniform(s).floor(*a), 2, 8)
        expected = {}
        size = 2 * times * over
        for j in range(size):  # the floor is constant between these points
            value = math.floor((times * Fraction(2 * j + 1, 2 * size) + plus) / over)
            expected[value] = expected.get(value, 0) + Fraction(1, size)
        assert_law(found, undecided, lambda z, e=expected: mpmath.mpf(float(e[z])))
        assert set(found) == set(expected)


# --- enclosures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("law", [Normal(1), Normal(7), Normal(1024), Laplace(1), Laplace(1024)])
def test_masses_are_enclosed_to_two_units(law):
    size = law.sigma if isinstance(law, Normal) else law.scale
    for m in {0, 1, size // 2, size, 3 * size, 8 * size, 40 * size if size < 1024 else 5}:
        low, high = law.mass(m, 128)
        true = mass(law, m) * mpmath.mpf(2) ** 128
        assert low <= true <= high
        assert high - low <= 3


@pytest.mark.parametrize("law", [Normal(1024), Laplace(1024)])
def test_tables_are_floors_of_the_law(law):
    table = noise.table_of(law)
    assert (np.diff(table.astype(object)) >= 0).all()
    assert table[-1] == 2**63 - 1
    rng = np.random.default_rng(0)
    for m in [0, 1, len(table) - 2, *rng.integers(0, len(table) - 1, 300).tolist()]:
        assert int(table[m]) == int(mpmath.floor(mass(law, m) * mpmath.mpf(2) ** 63))
    # F(m) < 1 would be cut off at the end of the table: the last entry is a tie, which goes on.
    tail = noise.magnitude_of(law, 2**63 - 1, 63, Script(64, [2**63, 5, 5]))
    assert tail >= len(table) - 1


@pytest.mark.parametrize("x", [Fraction(1, 2), Fraction(7, 3), Fraction(44), Fraction(1, 1024)])
def test_powers_are_enclosed(x):
    low, high = exp_minus(x, 100)
    true = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** 100
    assert low <= true <= high
    assert high - low <= 2
    assert exp_minus(Fraction(0), 10)[1] >= 2**10


def test_the_root_of_two_over_pi_is_enclosed():
    low, high = noise._root_of_two_over_pi(300)
    true = mpmath.sqrt(2 / mpmath.pi) * mpmath.mpf(2) ** 300
    assert low <= true <= high
    assert high - low <= 3


# --- draws ----------------------------------------------------------------------------------------


def assert_drawn(law, drawn):
    """χ² of cells of at least 50 expected draws."""
    drawn = np.array([int(z) for z in drawn])
    count = len(drawn)
    size = law.sigma if isinstance(law, Normal) else law.scale
    step = max(1, size // 8)
    ends = np.arange(-8, 9) * step  # cells are (end, next end]
    masses = [float(mass(law, abs(int(m)))) for m in ends]

    def below(m, both):  # P(z ≤ m)
        return (1 + both) / 2 if m >= 0 else (1 - float(mass(law, -int(m) - 1) if m else 0)) / 2

    cumulative = np.array([0.0, *(below(m, both) for m, both in zip(ends, masses)), 1.0])
    expected = np.diff(cumulative) * count
    cells = np.searchsorted(ends, drawn)
    observed = np.bincount(cells, minlength=len(expected))
    good = expected >= 50
    assert good.sum() > 1
    observed = np.append(observed[good], observed[~good].sum())
    expected = np.append(expected[good], max(expected[~good].sum(), 1e-9))
    if expected[-1] < 1e-6:
        observed, expected = observed[:-1], expected[:-1]
    expected *= observed.sum() / expected.sum()
    assert chisquare(observed, expected).pvalue > ALARM
    signs = np.sign(drawn)
    assert abs(int(signs.sum())) < 5 * math.sqrt(count)  # p < 1e-6


FAST = 50_000
SIGMAS = [1, 3, 7, 512, 2**40]


@pytest.mark.parametrize("sigma", SIGMAS)
def test_karneys_draws(sigma):
    assert_karney(sigma, FAST)


def assert_karney(sigma, count):
    digits = noise.Digits()
    drawn = [karney(sigma, digits) for _ in range(count)]
    if sigma > 1000:
        assert kstest(np.array(drawn) / sigma, ndtr).pvalue > ALARM
    else:
        assert_drawn(Normal(sigma), drawn)


@pytest.mark.parametrize("law", [Normal(1), Normal(7), Normal(512), Laplace(1), Laplace(512)])
def test_draws_of_a_table(law):
    assert_drawn(law, noise.by_table(law, 10**6))


def test_few_and_many_draws_have_one_law():
    for size in (1, 3):
        few = [z for _ in range(20) for z in noise.rounded_normals(size, 100 * size)]
        assert_drawn(Normal(size), few)  # one by one
        assert_drawn(Normal(size), noise.rounded_normals(size, 20_000))  # by table
    assert_drawn(Laplace(2), noise.laplaces(2, 1000))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sigma", SIGMAS)
def test_ten_million_draws(sigma):
    if sigma < 1000:
        assert_drawn(Normal(sigma), noise.by_table(Normal(sigma), 10**7))
    assert_karney(sigma, 10**7)


def test_a_table_takes_one_word_a_number(monkeypatch):
    asked = []
    true = noise.os_words
    monkeypatch.setattr(noise, "os_words", lambda n: asked.append(n) or true(n))
    noise.by_table(Normal(7), 1000)
    assert asked == [1000]  # a tie, which takes more, has probability 1e-15


def test_nothing_is_drawn_without_the_operating_system(monkeypatch):
    def urandom(count):
        raise OSError

    monkeypatch.setattr(noise.os, "urandom", urandom)
    with pytest.raises(noise.NotReleasable, match="no randomness"):
        noise.rounded_normals(1024, 1)
