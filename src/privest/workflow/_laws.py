"""The laws of the noise of a table, and which promise each of them makes.

gaussian  z = y + N(0, 1/s). The level s is the promise; ε with a δ.
laplace   z = y + Laplace(1/√s). Pure ε = width·√s.
bit       one random bit of a number in a range. Pure ε, s = 4 sinh²(ε/2)/width².
coin      the same of a yes or no (1 or 0): what is neither is the nearer of both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from privest.errors import InvalidInput
from privest.privacy import relative_variance
from privest.privacy.attacker import chance_of_mu, coin_chance, laplace_chance
from privest.records import Record
from privest.workflow._modelled import level_for

if TYPE_CHECKING:
    from privest.workflow._spec import Spec

Law = Literal["gaussian", "laplace", "bit", "coin"]
LAWS: tuple[str, ...] = get_args(Law)
BITS = ("bit", "coin")
YES_NO = (0.0, 1.0)
DELTA = 1e-6  # of Gaussian noise, where it is only compared


def law_of(spec: Spec) -> Law:
    """The law as stated; else that of the family: coins for a yes or no."""
    stated = spec.privacy.law
    if spec.family == "binomial":
        return "gaussian" if stated == "gaussian" else "coin"
    return stated or "gaussian"


def range_of(spec: Spec, target: str) -> tuple[float, float] | None:
    """The range of a target's readings: of a yes or no it is 0 and 1, unless others are stated."""
    stated = spec.privacy.range_of(target)
    return YES_NO if stated is None and law_of(spec) == "coin" else stated


def require_law(spec: Spec) -> None:
    """Refuse what law, family and privacy cannot be to each other, saying what to do."""
    law, privacy, kind = law_of(spec), spec.privacy, spec.family
    several = law != "gaussian" or kind != "gaussian"
    if kind != "gaussian":
        _require_family(spec, law)
    _refuse_if(
        several and spec.person is not None,
        f"law {law}, family {kind}: people with several rows are not there for it: what the rows "
        "of a person show adds up to as many times ε. Give one row a person, or Gaussian noise.",
    )
    if law == "gaussian":
        _refuse_if(
            privacy.epsilon is not None and privacy.delta is None,
            "privacy: ε needs delta and move, the difference in one reading it speaks of (or a "
            "range, which limits it): an ε without them says nothing. Or take a law that has no "
            "delta: --law laplace, or --law bit with a range (plan says what each costs).",
        )
        _refuse_if(
            privacy.delta is None and privacy.move is not None,
            "privacy: delta and move go together; delta is not given.",
        )
        return
    _refuse_if(
        privacy.delta is not None,
        f"privacy: law {law} keeps its ε without a delta: leave delta out.",
    )
    _refuse_if(
        privacy.epsilon is None and privacy.level is None,
        f"privacy: law {law} takes epsilon (or a level).",
    )
    ends = range_of(spec, spec.targets[0])
    _refuse_if(
        law in BITS and ends is None,
        "privacy: one bit of a number needs the public range of the numbers: --range low,high.",
    )
    _refuse_if(
        law in BITS and privacy.move is not None,
        f"privacy: law {law} speaks of the whole range: leave move out.",
    )
    _refuse_if(
        privacy.epsilon is not None and ends is None and privacy.move is None,
        "privacy: ε needs to know how far apart two readings can be: --range low,high, which "
        "enforces it, or --move, which is a condition.",
    )


def _require_family(spec: Spec, law: Law) -> None:
    kind, noise = spec.family, spec.noise
    _refuse_if(
        spec.transform != "none",
        f"family {kind} has a link of its own: leave the transform out.",
    )
    _refuse_if(
        noise.variance is not None or noise.reference is not None,
        f"family {kind}: how readings scatter follows from their mean: leave the noise variance "
        "and the reference set out.",
    )
    _refuse_if(len(spec.targets) > 1, f"family {kind} takes one target.")
    _refuse_if(
        spec.privacy.standard_error is not None,
        f"family {kind}: the level for a wanted error is not known beforehand: state epsilon "
        "or a level, and see what plan says of the errors.",
    )
    _refuse_if(
        kind == "binomial" and spec.privacy.law == "laplace",
        "family binomial: a yes or no has coins (the default), which are better than Laplace noise "
        "at every ε; or --law gaussian.",
    )
    _refuse_if(
        kind == "poisson" and law in BITS,
        "family poisson: counts take noise that is added: --law laplace or gaussian.",
    )


def _refuse_if(wrong: bool, why: str) -> None:
    if wrong:
        raise InvalidInput(why)


@dataclass(frozen=True, kw_only=True)
class LawOffer(Record):
    """What one law would cost and promise at an ε, for one number a person in a range.

    variance  of the noise on a reading, in units of the squared width of the range.
    guess     how often a guess between the two ends of the range is right.
    delta     0: the promise is pure.
    """

    law: Law
    epsilon: float
    delta: float
    variance: float
    guess: float


def offers(epsilon: float, delta: float | None) -> tuple[LawOffer, ...]:
    """Gaussian, Laplace and one bit at the same ε, for readings a width apart.

    >>> [(one.law, round(one.variance, 2), round(one.guess, 2)) for one in offers(1.0, 1e-6)]
    [('gaussian', 17.9, 0.55), ('laplace', 2.0, 0.7), ('bit', 0.92, 0.73)]
    """
    some = DELTA if delta is None else delta
    level = level_for(epsilon, some, 1.0)
    both: tuple[tuple[Any, float], ...] = (
        ("laplace", laplace_chance(epsilon)), ("bit", coin_chance(epsilon)),
    )  # fmt: skip
    return (
        LawOffer(
            law="gaussian", epsilon=epsilon, delta=some, variance=1 / level,
            guess=chance_of_mu(math.sqrt(level)),
        ),
        *(
            LawOffer(
                law=law, epsilon=epsilon, delta=0.0, guess=guess,
                variance=relative_variance(law, epsilon),
            )
            for law, guess in both
        ),
    )  # fmt: skip
