"""What an attacker can do with a release at privacy level s (a larger s reveals more).

A release z = y + e/√s, e ~ N(0, 1), of one reading y. The attacker sees z, knows s and the law of
the noise, and has any amount of computing time. The numbers are those of the best attacker of each
kind, in closed form: of two candidates with a prior probability each, or of the normal prior
y ~ N(m, τ²). c is a difference between two readings, in their own units.

They hold for Gaussian noise. A real release rounds to a grid of 2⁻¹⁰ deviations of the noise: its
μ, and so each chance Φ(μ/2), is that of `grid_statement`, larger by at most one step. Other laws:
`coin_chance`, `laplace_chance`.

    ε alone says little of this: (ε, δ) allows an attacker to be right with (e^ε + δ)/(1 + e^ε)
    (`allowed_chance`), Gaussian noise at ε = 1, δ = 1e-6 with 0.547 and not 0.731.
"""

from __future__ import annotations

import math

import scipy

from privest.arrays import ArrayLike, as_count, as_number, as_positive
from privest.errors import InvalidInput

COIN = 0.5  # what a guess between two values is worth without any release


def reading_error(level: ArrayLike) -> float:
    """1/√s: the least standard deviation of a guess that is unbiased for every value.

    [proved, docs/promise.md]: the Fisher bound.

    >>> reading_error(4.0)
    0.5
    """
    return 1 / math.sqrt(as_positive(level, "level"))


def informed_error(level: ArrayLike, spread: ArrayLike) -> float:
    """1/√(s + 1/τ²): root mean square error of one who believed y ~ N(m, τ²), τ = `spread`.

    Without the release it is τ. The posterior law is N(·, 1/(s + 1/τ²)) whatever z is.

    >>> round(informed_error(4.0, 1.0), 6)
    0.447214
    """
    s, tau = as_positive(level, "level"), as_positive(spread, "spread")
    return tau / math.hypot(1.0, tau * math.sqrt(s))


def chance_between(level: ArrayLike, apart: ArrayLike) -> float:
    """Φ(c√s/2): how often the better guess between two equally likely values c apart is right.

    >>> round(chance_between(4.0, 1.0), 4), chance_between(4.0, 0.0)
    (0.8413, 0.5)
    """
    s, c = as_positive(level, "level"), _difference(apart)
    return chance_of_mu(c * math.sqrt(s))


def chance_of_mu(mu: ArrayLike, prior: float = COIN) -> float:
    """How often the better guess between two candidates is right, of any μ-GDP release.

    Φ(μ/2) where they are equally likely. With the prior π of one of them and ℓ = ln(π/(1 − π))
    πΦ(μ/2 + ℓ/μ) + (1 − π)Φ(μ/2 − ℓ/μ). For real releases with the μ of `grid_statement`.

    >>> round(chance_of_mu(2.0), 4), round(chance_of_mu(0.0, 0.1), 4)
    (0.8413, 0.9)
    """
    half = _difference(mu, "mu") / 2
    if prior == COIN or half == 0:
        return max(float(scipy.special.ndtr(half)), prior, 1 - prior)
    shift = float(scipy.special.logit(prior)) / (2 * half)
    one, other = scipy.special.ndtr([half + shift, half - shift])
    return float(prior * one + (1 - prior) * other)


def chance_of_side(level: ArrayLike, spread: ArrayLike) -> float:
    """½ + arctan(τ√s)/π: how often the guess "above" or "below the median" is right, y ~ N(m, τ²).

    y − m and z − m are jointly normal with correlation ρ = τ√s/√(1 + τ²s); they have the same sign
    with probability ½ + arcsin(ρ)/π (Sheppard).

    >>> chance_of_side(1.0, 1.0)
    0.75
    """
    s, tau = as_positive(level, "level"), as_positive(spread, "spread")
    return COIN + math.atan(tau * math.sqrt(s)) / math.pi


def neighbours_error(level: ArrayLike, correlation: ArrayLike, spread: ArrayLike) -> float:
    """Root mean square error of one who also sees all other times of a long stream.

    The readings scatter about what the attacker knows as an AR(1) with lag-1 correlation φ and
    variance γ₀ = `spread`²; with q = γ₀(1 − φ²) the smoothed variance is

        q/√((1 + φ² + sq)² − 4φ²) ,

    ∫ (1/f(ω) + s)⁻¹ dω/2π over the spectral density f. φ = 0 is `informed_error`. `as_if_level` of
    it is the level at which the attacker would know as much without neighbours.

    >>> round(neighbours_error(1.0, 0.95, 1.0), 4), round(informed_error(1.0, 1.0), 4)
    (0.3951, 0.7071)
    """
    s, phi = as_positive(level, "level"), as_number(correlation, "correlation")
    tau = as_positive(spread, "spread")
    variance = tau * tau
    if not math.isfinite(s * variance):
        raise InvalidInput(f"spread {tau:g} is too large at this level: choose other units.")
    if not abs(phi) < 1:
        raise InvalidInput(f"correlation must lie between -1 and 1; received {phi:g}.")
    q = variance * (1 - phi) * (1 + phi)
    # (1 + φ² + sq)² − 4φ² as a product of two positive terms: no cancellation at φ near ±1.
    near, far = (1 - abs(phi)) ** 2 + s * q, (1 + abs(phi)) ** 2 + s * q
    return math.sqrt(q / (math.sqrt(near) * math.sqrt(far)))


def as_if_level(error: ArrayLike, spread: ArrayLike) -> float:
    """1/error² − 1/τ²: the level at which one with this prior has this error, by y's own z alone.

    >>> round(as_if_level(informed_error(4.0, 1.0), 1.0), 9)
    4.0
    """
    known, tau = as_positive(error, "error"), as_positive(spread, "spread")
    if known > tau:
        raise InvalidInput(
            f"an error of {known:g} is more than was unknown before (± {tau:g}): no level gives it."
        )
    return (1 - known / tau) * (1 + known / tau) / known / known


# --- other laws of noise --------------------------------------------------------------------------


def coin_chance(epsilon: ArrayLike, prior: float = COIN) -> float:
    """max(t, π, 1 − π), t = e^ε/(1 + e^ε): how often a yes or no behind randomised response is
    guessed, of which the reader believed π before.

    >>> round(coin_chance(1.0), 4), coin_chance(1.0, 0.1)
    (0.7311, 0.9)
    """
    return max(float(scipy.special.expit(_difference(epsilon, "epsilon"))), prior, 1 - prior)


def laplace_chance(epsilon: ArrayLike, prior: float = COIN) -> float:
    """Between two values c apart under Laplace noise of scale c/ε: 1 − e^{−ε/2}√(π(1 − π)).

    Where |ln(π/(1 − π))| > ε the release decides nothing: max(π, 1 − π).

    >>> round(laplace_chance(1.0), 4), round(laplace_chance(1.0, 0.3), 4)
    (0.6967, 0.7221)
    """
    given = _difference(epsilon, "epsilon")
    if abs(float(scipy.special.logit(prior))) > given:
        return max(prior, 1 - prior)
    if prior == COIN:
        return COIN - math.expm1(-given / 2) / 2
    return 1 - math.exp(-given / 2) * math.sqrt(prior * (1 - prior))


def allowed_chance(epsilon: ArrayLike, delta: ArrayLike = 0.0) -> float:
    """(e^ε + δ)/(1 + e^ε): the most that (ε, δ)-differential privacy allows; Gaussian noise: less.

    >>> round(allowed_chance(1.0, 1e-6), 4)
    0.7311
    """
    epsilon, delta = _difference(epsilon, "epsilon"), _difference(delta, "delta")
    if delta > 1:
        raise InvalidInput(f"delta is a probability; received {delta:g}.")
    return coin_chance(epsilon) + delta * float(scipy.special.expit(-epsilon))


def odds_beyond(mu: ArrayLike, epsilon: ArrayLike) -> float:
    """Φ(μ/2 − ε/μ): how often the odds between two values change by more than e^ε.

    The log of the Bayes factor of a μ-GDP release is N(μ²/2, μ²): typically e^{μ²/2}. This is not
    δ, but larger: at ε = 1, δ = 1e-6 it is 20 times δ.

    >>> from privest.privacy import gdp
    >>> print(f"{odds_beyond(gdp.mu_of(1.0, 1e-6), 1.0):.1e}")
    2.0e-05
    """
    mu, epsilon = as_positive(mu, "mu"), _difference(epsilon, "epsilon")
    return float(scipy.special.ndtr(mu / 2 - epsilon / mu))


# --- choosing -------------------------------------------------------------------------------------


def level_for_tolerance(apart: ArrayLike, chance: ArrayLike) -> float:
    """s = (2Φ⁻¹(p)/c)²: the level at which two values c apart are told with chance p.

    The inverse of `chance_between`. c: a range, a difference that matters; ½ < p < 1.

    >>> round(level_for_tolerance(1.0, 0.75), 4)
    1.8197
    """
    c = as_positive(apart, "apart")
    root = mu_for_chance(chance) / c
    return root * root


def mu_for_chance(chance: ArrayLike) -> float:
    """2Φ⁻¹(p): the μ at which an attacker is right with chance p, ½ < p < 1."""
    return 2 * float(scipy.special.ndtri(_better_than_a_coin(chance)))


def epsilon_for_chance(chance: ArrayLike) -> float:
    """ln(p/(1 − p)): the ε of a coin that is seen through with chance p; inverse of `coin_chance`.

    >>> round(epsilon_for_chance(0.75), 6)  # ln 3
    1.098612
    """
    return float(scipy.special.logit(_better_than_a_coin(chance)))


def effective_rows(rows: int, level: ArrayLike, variance: ArrayLike) -> float:
    """K/(1 + 1/(sσ²)): so many rows without privacy tell as much as K rows at level s.

    >>> effective_rows(100, 1.0, 1.0)
    50.0
    """
    share = as_positive(level, "level") * as_positive(variance, "variance")
    return as_count(rows, "rows", least=1) * share / (1 + share)


def _difference(value: ArrayLike, name: str = "apart") -> float:
    number = as_number(value, name)
    if number < 0:
        raise InvalidInput(f"{name} must be >= 0; received {number:g}.")
    return number


def _better_than_a_coin(chance: ArrayLike) -> float:
    p = as_number(chance, "chance")
    if not COIN < p < 1:
        raise InvalidInput(
            f"the attacker's chance must lie between 0.5, a coin, and 1; received {p:g}. A usual "
            "choice is 0.75."
        )
    return p
