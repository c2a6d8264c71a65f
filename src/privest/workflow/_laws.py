"""The laws of the noise of a table, and which promise each of them makes.

gaussian  z = y + N(0, 1/s). The level s is the promise; ε with a δ.
laplace   z = y + Laplace(1/√s). Pure ε = width·√s.
coin      randomised response of a yes or no (1 or 0): what is neither is the nearer of both. Pure
          ε, s = 4 sinh²(ε/2)/width².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from privest.arrays import as_choice
from privest.errors import InvalidInput
from privest.privacy import relative_variance
from privest.privacy.attacker import chance_of_mu, laplace_chance
from privest.records import Record
from privest.workflow._modelled import level_for

if TYPE_CHECKING:
    from privest.workflow._spec import Spec

Law = Literal["gaussian", "laplace", "coin"]
LAWS: tuple[str, ...] = get_args(Law)
YES_NO = (0.0, 1.0)
DELTA = 1e-6  # of Gaussian noise, where it is only compared


def read_law(given: Any, name: str, known: tuple[str, ...] = LAWS) -> Any:  # noqa: ANN401 - a Law
    """The law of a noise, checked."""
    if given == "bit":
        raise InvalidInput(
            "law bit was removed in version 0.2: use law laplace, or family binomial for a yes or "
            "no, which has coins without a law."
        )
    return as_choice(given, known, name)


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
    other = "" if law == "gaussian" else ", or Gaussian noise"
    if kind != "gaussian":
        _require_family(spec, law)
    _refuse_if(
        several and spec.person is not None,
        f"law {law}, family {kind}: people with several rows are not there for it: what the rows "
        f"of a person show adds up to as many times ε. Give one row a person{other}.",
    )
    if law == "gaussian":
        _refuse_if(
            privacy.epsilon is not None and privacy.delta is None,
            "privacy: ε needs delta and move, the difference in one reading it speaks of (or a "
            "range, which limits it): an ε without them says nothing. Or take a law that has no "
            "delta: --law laplace (plan says what each costs).",
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
    _refuse_if(
        law == "coin" and privacy.move is not None,
        "privacy: a coin hides a yes from a no, and speaks of nothing else: leave move out.",
    )
    ends = range_of(spec, spec.targets[0])
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
    """Gaussian and Laplace noise at the same ε, for readings a width apart.

    >>> [(one.law, round(one.variance, 2), round(one.guess, 2)) for one in offers(1.0, 1e-6)]
    [('gaussian', 17.9, 0.55), ('laplace', 2.0, 0.7)]
    """
    some = DELTA if delta is None else delta
    level = level_for(epsilon, some, 1.0)
    return (
        LawOffer(
            law="gaussian", epsilon=epsilon, delta=some, variance=1 / level,
            guess=chance_of_mu(math.sqrt(level)),
        ),
        LawOffer(
            law="laplace", epsilon=epsilon, delta=0.0, guess=laplace_chance(epsilon),
            variance=relative_variance("laplace", epsilon),
        ),
    )  # fmt: skip
