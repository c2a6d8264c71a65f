"""Exposure: what an ordinary reader guesses, and an attacker tells apart, after a release.

The ordinary reader sees release, features and level, fits the coefficients and σ² to the release,
and shrinks. *Before* is the same reader without that person's rows. Values vary around their
prediction with residual variance σ², taken as normal and independent; skewed or few-valued data
allow closer guesses, so no number here is a floor. h is the leverage of a row.

The attacker has any amount of computing; other people's values are known, or independent given
the features. Neighbouring data differ in one value (person, record) replaced by any other in the
range, which clipping enforces.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from privest.arrays import ArrayLike, as_choice, as_nonnegative, as_number, as_positive
from privest.errors import InvalidInput
from privest.privacy.adjacency import Range, as_range
from privest.privacy.statement import DELTA as DELTA
from privest.privacy.statement import grid_mu, grid_statement, pure_epsilon
from privest.records import Record

FAR = 12.0  # deviations: beyond it a normal tail is no number any more
LARGE = 100.0  # σ√s: beyond it the noise vanishes beside σ, and the limit is reached to 1e-7
BANDS = ((1.0, "small"), (3.0, "moderate"), (10.0, "large"), (math.inf, "very large"))
SUSPICION = 9.0  # odds against: a suspicion of 10%
EVEN = 0.5  # prior probability of each of two equally likely candidates


@dataclass(frozen=True, kw_only=True)
class Exposure(Record):
    """Exposure of one value by its release, for values that vary with sd σ.

    before, after  sd of the ordinary reader's guess without and with that person's row.
    typical, pair  √2σ, the rms difference of people with equal features, and how often an attacker
                   picks the right one of two equally likely values at that distance.
    ends           the same for the two ends of the range; None: no range.
    epsilon, delta  of one value replaced anywhere in the range; ∞ without a range.
    """

    sd: float
    before: float
    after: float
    typical: float
    pair: float
    ends: float | None
    epsilon: float
    delta: float


def exposure(
    level: float,
    *,
    sd: float,
    range: Range | tuple[float, float] | None = None,
    delta: float = DELTA,
    distribution: str = "gaussian",
    leverage: float = 0.0,
) -> Exposure:
    """The exposure of one value at a privacy level.

    range: (low, high) of the values. distribution: of the privacy noise, "gaussian" or "laplace"
    (scale 1/√s, δ = 0). Real releases: μ is that of the grid.

    >>> found = exposure(4.0, sd=0.2**0.5, range=(0.0, 5.0))
    >>> round(found.after, 3), round(found.pair, 3), round(found.epsilon, 1)
    (0.333, 0.737, 96.7)
    """
    as_choice(distribution, ("gaussian", "laplace"), "distribution")
    s = as_positive(level, "level")
    sigma = as_positive(sd, "sd")
    before, after = reader_sds(s, sigma, leverage, distribution)
    typical = math.sqrt(2) * sigma
    pure = distribution == "laplace"
    ends = None
    epsilon = math.inf
    if range is not None:
        width = as_range(range).width
        ends = told_apart(s, width, distribution)
        if pure:
            epsilon = pure_epsilon("laplace", s, width)
        else:
            epsilon = grid_statement(s, sensitivity=width, delta=delta).epsilon
    return Exposure(
        sd=sigma, before=before, after=after, typical=typical,
        pair=told_apart(s, typical, distribution), ends=ends, epsilon=epsilon,
        delta=0.0 if pure else delta,
    )  # fmt: skip


def told_apart(level: float, apart: float, distribution: str = "gaussian") -> float:
    """Probability that an attacker is right between two equally likely values `apart`."""
    if distribution == "laplace":
        return laplace_chance(apart * math.sqrt(level))
    with np.errstate(over="ignore"):  # a difference beyond the grid counts as all of it
        return chance_of_mu(grid_mu(level, apart))


# --- the ordinary reader --------------------------------------------------------------------------


def reader_sds(
    level: float, sd: float, leverage: float = 0.0, distribution: str = "gaussian"
) -> tuple[float, float]:
    """The sd of the reader's guess before and after the release.

    Gaussian rows, g = sσ²/(1 + sσ²): σ√(1 + h/((1−h)g)) and √((g + (1−g)h)/s), the best linear
    guess, and the best of all for normal residuals. Laplace: σ and the posterior mean.
    """
    if distribution == "laplace":
        return sd, laplace_sd(level, sd)
    if not 0 <= leverage < 1:
        raise InvalidInput(f"leverage must lie in [0, 1); received {leverage:g}.")
    a = level * sd * sd
    g = a / (1 + a)
    before = sd * math.sqrt(1 + leverage / (1 - leverage) / g) if leverage else sd
    return before, math.sqrt((g + (1 - g) * leverage) / level)


def laplace_sd(level: float, sd: float) -> float:
    """The sd of the posterior mean under Laplace noise of scale 1/√s, for normal residuals.

    With a = σ√s, u = z/σ and A, B = e^{a²/2 ∓ au}Φ(±u − a) the released value has the density
    a(A + B)/2 and the score a·tanh((ln B − ln A)/2): the mean square error is
    σ²(1 − a²E tanh²), which lies between σ²/(1 + a²) and σ²/(1 + a²/2).
    """
    a = sd * math.sqrt(level)
    lowest = 1 / (1 + a * a)
    highest = 1 / (1 + a * a / 2)
    if a > LARGE:
        return sd * math.sqrt(highest)
    # Beyond the last node the density is (a/2)e^{a²/2 − au}, or nothing, and tanh² is 1.
    last = a + FAR if a < FAR else 4 * FAR
    places, weights = np.polynomial.legendre.leggauss(400)
    u = last * (places + 1) / 2
    log_a = a * a / 2 - a * u + scipy.special.log_ndtr(u - a)
    log_b = a * a / 2 + a * u + scipy.special.log_ndtr(-u - a)
    density = a / 2 * (np.exp(log_a) + np.exp(log_b))
    inner = float(weights @ (density * np.tanh((log_b - log_a) / 2) ** 2)) * last / 2
    tail = math.exp(a * a / 2 - a * last) / 2 if a < FAR else 0.0
    share = 1 - a * a * 2 * (inner + tail)
    return sd * math.sqrt(min(max(share, lowest), highest))


def stream_sds(level: float, correlation: float, sd: float) -> tuple[float, float, float]:
    """Sds of a guess in an AR(1): without the stream, without its own step, from all steps."""
    after = neighbours_error(level, correlation, sd)
    return sd, 1 / math.sqrt(1 / after**2 - level), after


def answer_beliefs(share: float, epsilon: float) -> tuple[float, float]:
    """P(yes) of a reader after a released yes, and after a released no; `share`: P(yes) before.

    Randomised response, the truth with t = e^ε/(1 + e^ε).
    """
    t = coin_chance(epsilon)
    yes = share * t
    no = share * (1 - t)
    return yes / (yes + (1 - share) * (1 - t)), no / (no + (1 - share) * t)


def informed_error(level: ArrayLike, spread: ArrayLike) -> float:
    """1/√(s + 1/τ²): sd of the guess of an informed attacker with the prior y ~ N(m, τ²)."""
    s = as_positive(level, "level")
    tau = as_positive(spread, "spread")
    return tau / math.hypot(1.0, tau * math.sqrt(s))


def neighbours_error(level: ArrayLike, correlation: ArrayLike, spread: ArrayLike) -> float:
    """Sd of the guess of a reader of all other steps of a long stream.

    Measurements are an AR(1) with lag-1 correlation φ and variance γ₀ = `spread`²; with
    q = γ₀(1 − φ²) the smoothed variance, ∫ (1/f(ω) + s)⁻¹ dω/2π, is q/√((1 + φ² + sq)² − 4φ²).
    """
    s = as_positive(level, "level")
    phi = as_number(correlation, "correlation")
    tau = as_positive(spread, "spread")
    variance = tau * tau
    if not math.isfinite(s * variance):
        raise InvalidInput(f"spread {tau:g} is too large at this level: choose other units.")
    if not abs(phi) < 1:
        raise InvalidInput(f"correlation must lie between -1 and 1; received {phi:g}.")
    q = variance * (1 - phi) * (1 + phi)
    # (1 + φ² + sq)² − 4φ² as a product of two positive terms: no cancellation at φ near ±1.
    near = (1 - abs(phi)) ** 2 + s * q
    far = (1 + abs(phi)) ** 2 + s * q
    return math.sqrt(q / (math.sqrt(near) * math.sqrt(far)))


# --- the attacker: two candidates, any amount of computing ----------------------------------------


def chance_of_mu(mu: ArrayLike, prior: float = EVEN) -> float:
    """Probability that the best guess between two candidates is right, of any μ-GDP release.

    Φ(μ/2) where they are equally likely; with the prior π of one of them and ℓ = ln(π/(1 − π))
    πΦ(μ/2 + ℓ/μ) + (1 − π)Φ(μ/2 − ℓ/μ). For real releases with the μ of `grid_statement`.
    """
    half = as_nonnegative(mu, "mu") / 2
    if prior == EVEN or half == 0:
        return max(float(scipy.special.ndtr(half)), prior, 1 - prior)
    shift = float(scipy.special.logit(prior)) / (2 * half)
    one, other = scipy.special.ndtr([half + shift, half - shift])
    return float(prior * one + (1 - prior) * other)


def chance_of_side(level: ArrayLike, spread: ArrayLike) -> float:
    """½ + arctan(τ√s)/π: probability of guessing the side of the median of y ~ N(m, τ²)."""
    s = as_positive(level, "level")
    tau = as_positive(spread, "spread")
    return EVEN + math.atan(tau * math.sqrt(s)) / math.pi


def coin_chance(epsilon: ArrayLike, prior: float = EVEN) -> float:
    """max(t, π, 1 − π), t = e^ε/(1 + e^ε): probability of guessing a yes or no of prior π."""
    return max(float(scipy.special.expit(as_nonnegative(epsilon, "epsilon"))), prior, 1 - prior)


def laplace_chance(epsilon: ArrayLike, prior: float = EVEN) -> float:
    """The same under Laplace noise of scale c/ε, for values c apart: 1 − e^{−ε/2}√(π(1 − π)).

    Where |ln(π/(1 − π))| > ε the release decides nothing: max(π, 1 − π).
    """
    given = as_nonnegative(epsilon, "epsilon")
    if abs(float(scipy.special.logit(prior))) > given:
        return max(prior, 1 - prior)
    if prior == EVEN:
        return EVEN - math.expm1(-given / 2) / 2
    return 1 - math.exp(-given / 2) * math.sqrt(prior * (1 - prior))


def odds_beyond(mu: ArrayLike, epsilon: ArrayLike) -> float:
    """Φ(μ/2 − ε/μ): probability that the odds between two values change by more than e^ε.

    The log Bayes factor of a μ-GDP release is N(μ²/2, μ²).
    """
    mu = as_positive(mu, "mu")
    epsilon = as_nonnegative(epsilon, "epsilon")
    return float(scipy.special.ndtr(mu / 2 - epsilon / mu))


def mu_for_chance(chance: ArrayLike) -> float:
    """2Φ⁻¹(p): the μ at which an attacker is right with probability p, ½ < p < 1."""
    p = as_number(chance, "the attacker's chance")
    if not EVEN < p < 1:
        raise InvalidInput(
            f"the attacker's chance must lie between 0.5, a guess, and 1; received {p:g}. A usual "
            "choice is 0.75."
        )
    return 2 * float(scipy.special.ndtri(p))


# --- ε in words -----------------------------------------------------------------------------------


def band(epsilon: float) -> str:
    """The size of ε in a word: a convention."""
    return next(word for most, word in BANDS if epsilon <= most)


def suspicion_after(epsilon: float) -> float:
    """e^ε/(9 + e^ε): what a suspicion of 10% becomes at most."""
    return float(scipy.special.expit(epsilon - math.log(SUSPICION)))
