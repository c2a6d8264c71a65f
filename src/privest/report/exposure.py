"""The exposure panel: what one person is exposed to, in five sentences and their details.

The same for plan, release, estimate and app. Formulas: `privacy.exposures`.
Guesses are rounded down and rates up: a sentence promises no more than the level does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from privest.privacy import exposures as attack
from privest.privacy import gdp
from privest.report.sections import Part, Section, Sentence, say

HALF = 0.6745  # deviations within which half of normal errors are
FRACTIONS = (1 / 20, 1 / 10, 1 / 5)  # of the range: the sd, where nobody states it
ALWAYS = 0.999
TENTH = 0.1  # a prior probability
MANY = 600.0  # e^ε is a number up to here


@dataclass(frozen=True, kw_only=True)
class Private:
    """One private column as an attacker sees it, in modelled units (`ends`: those of the file).

    sd, source  of values around the prediction, and whether it is stated, estimated or assumed;
                `limit`: it is an upper limit, because the estimate is zero.
    leverage    mean of the rows, n/K. rows: the most that a person has.
    share       of yes, where the outcome is yes or no.
    apart       a difference that was stated to matter.
    largest     whether rows have levels of their own, and this is the largest.
    mu_apart    of the aggregate form: μ of two values so far apart; exposure: Fisher information of
                all that leaves about one value.
    """

    target: str
    level: float
    distribution: str = "gaussian"
    logarithm: bool = False
    ends: tuple[float, float] | None = None
    width: float | None = None
    sd: float | None = None
    source: str = "stated"
    limit: bool = False
    leverage: float = 0.0
    rows: int | None = None
    share: float | None = None
    apart: float | None = None
    largest: bool = False
    mu_apart: Callable[[float], float] | None = None
    exposure: float = 0.0

    @property
    def value(self) -> str:
        return f"“{self.target}”"

    @property
    def sds(self) -> list[float]:
        """The sd that is known, or three fractions of the range."""
        if self.sd is not None:
            return [self.sd]
        return [] if self.width is None else [self.width * share for share in FRACTIONS]

    def told(self, apart: float) -> float:
        """How often an attacker is right between two equally likely values so far apart."""
        if self.mu_apart is not None:
            return attack.chance_of_mu(self.mu_apart(apart))
        return attack.told_apart(self.level, apart, self.distribution)

    def amount(self, apart: float) -> float | Sentence:
        """A difference for people: after a logarithm a factor."""
        return say("factor", factor=_exp(apart)) if self.logarithm else apart


def exposure(
    columns: Sequence[Private],
    epsilon: float | None,
    delta: float,
    *,
    unenforced: tuple[float, float] | None = None,
) -> Section:
    """The panel of one release.

    epsilon     of all values of a person replaced anywhere in their ranges; None: no range.
    unenforced  a smaller difference that was stated, and its ε.
    """
    first = columns[0]
    parts: list[Part] = []
    if first.largest:
        parts.append(say("largest_level", level=first.level))
    parts += [_guess(one) for one in columns]
    parts += _pairs(columns)
    parts += _ends(columns)
    if epsilon is None:
        parts.append(say("no_range"))
        if unenforced is not None:  # it was asked for, and is said after the range's
            parts.append(_unenforced(unenforced, delta))
    else:
        parts += _epsilon(columns, epsilon, delta)
    parts.append(say("not_hidden" if first.mu_apart is None else "not_hidden_sums"))
    details = _details(columns, epsilon, delta)
    if epsilon is not None and unenforced is not None:
        details.append(_unenforced(unenforced, delta))
    return Section("exposure", say("exposure"), tuple(parts), tuple(details))


# --- line 1: the ordinary reader ------------------------------------------------------------------


def _guess(one: Private) -> Sentence:
    if one.share is not None and one.distribution == "randomised response":
        yes, no = attack.answer_beliefs(one.share, _answer_epsilon(one))
        return say("guess_answer", before=one.share, yes=yes, no=no)
    if not one.sds:
        return say("guess_unknown", value=one.value, least=1 / math.sqrt(one.level))
    if one.mu_apart is not None:
        return _guess_sums(one)
    return _guess_value(one)


def _guess_sums(one: Private) -> Sentence:
    """Noisy sums: a reader knows next to nothing of one row; an informed attacker little."""
    if one.share is not None:
        return say("guess_sums_answer", before=one.share)
    informed = [attack.informed_error(one.exposure, sd) for sd in one.sds]
    if one.logarithm:
        before, after = ([_exp(HALF * sd) for sd in sds] for sds in (one.sds, informed))
        return say("guess_sums_factors", value=one.value, before=before, informed=after)
    key = "guess_sums" if one.sd is not None else "guess_sums_fractions"
    return say(key, value=one.value, sds=one.sds, informed=informed)


def _guess_value(one: Private) -> Sentence:
    found = [
        attack.reader_sds(one.level, sd, one.leverage if one.sd else 0.0, one.distribution)
        for sd in one.sds
    ]
    before, after = found[0]
    if one.logarithm and one.sd is not None:
        return say("guess_factor", after=_exp(HALF * after), before=_exp(HALF * before))
    if one.logarithm:
        return say(
            "guess_factors",
            value=one.value,
            sds=[_exp(sd) for sd in one.sds],
            after=[_exp(HALF * x) for _, x in found],
        )
    if one.sd is None:
        return say("guess_fractions", value=one.value, sds=one.sds, after=[x for _, x in found])
    values = {"value": one.value, "before": before, "after": after, "half": HALF * after}
    return say("guess_below" if one.limit else "guess", **values)


def _exp(number: float) -> float:
    return math.exp(min(number, MANY))


def _answer_epsilon(one: Private) -> float:
    """ε of randomised response, from its level: s·R² = 4 sinh²(ε/2)."""
    return 2 * math.asinh(math.sqrt(one.level) * (one.width or 1.0) / 2)


# --- lines 2 and 3: the attacker ------------------------------------------------------------------


def right(*chances: float) -> Sentence:
    """How often an attacker is right; of several, one after another."""
    always = say("right_always")
    if min(chances) > ALWAYS:
        return always
    said = [always if chance > ALWAYS else chance for chance in chances]
    return say("right_most", p=said)


def _pairs(columns: Sequence[Private]) -> list[Sentence]:
    first = columns[0]
    if first.share is not None:  # yes or no: the ends are the only pair
        return []
    if len(columns) > 1:
        apart = [math.sqrt(2) * one.sd for one in columns if one.sd]
        if len(apart) < len(columns):
            return []
        return [say("pair_record", right=right(_record_apart(columns, apart)))]
    if first.apart is not None:
        values = {"apart": first.amount(first.apart), "right": right(first.told(first.apart))}
        return [say("pair_stated", **values)]
    return _typical_pair(first)


def _typical_pair(one: Private) -> list[Sentence]:
    """Two people with equal features, as far apart as they typically are."""
    typical = [math.sqrt(2) * sd for sd in one.sds]
    if not typical:
        return []
    if one.rows is not None:  # their means differ so
        typical = [x * math.sqrt((1 + 1 / one.rows) / 2) for x in typical]
    amounts, rates = [one.amount(x) for x in typical], right(*(one.told(x) for x in typical))
    if one.sd is None:
        return [say("pair_fractions", apart=amounts, right=rates)]
    key = "pair" if one.rows is None else "pair_person"
    return [say(key, apart=amounts[0], right=rates)]


def _record_apart(columns: Sequence[Private], apart: Sequence[float]) -> float:
    mus = [one.mu_apart(d) for one, d in zip(columns, apart) if one.mu_apart is not None]
    return attack.chance_of_mu(gdp.compose(*mus))


def _ends(columns: Sequence[Private]) -> list[Sentence]:
    first = columns[0]
    if any(one.width is None for one in columns):
        return []
    widths = [one.width or 0.0 for one in columns]
    if len(columns) > 1:
        return [say("ends_record", right=right(_record_apart(columns, widths)))]
    if first.distribution == "randomised response":
        share = first.share or 0.5
        chance = attack.coin_chance(_answer_epsilon(first), share)
        always = max(share, 1 - share)
        return [say("ends_answer", right=right(chance), always=always)]
    low, high = first.ends or (0.0, widths[0])
    return [say("ends", low=low, high=high, right=right(first.told(widths[0])))]


# --- line 4: ε ------------------------------------------------------------------------------------


def _epsilon(columns: Sequence[Private], epsilon: float, delta: float) -> list[Sentence]:
    first, word = columns[0], attack.band(epsilon)
    unit = "one_record" if len(columns) > 1 else "one_value" if first.rows is None else "one_person"
    said = say("epsilon", adjacency=say(unit), epsilon=epsilon, delta=delta, word=word)
    return [said, _band(epsilon, delta, word)]


def _band(epsilon: float, delta: float, word: str) -> Sentence:
    if word in ("small", "moderate"):
        p = attack.suspicion_after(epsilon)
        if delta == 0:
            return say("suspicion", p=p)
        out = attack.odds_beyond(gdp.mu_of(epsilon, delta), epsilon)
        return say("suspicion_gaussian", p=p, out=out)
    return say(f"band_{word.replace(' ', '_')}")


def _unenforced(stated: tuple[float, float], delta: float) -> Sentence:
    apart, epsilon = stated
    return say("unenforced", apart=apart, epsilon=epsilon, delta=delta)


# --- details --------------------------------------------------------------------------------------


def _details(columns: Sequence[Private], epsilon: float | None, delta: float) -> list[Part]:
    first, said = columns[0], list[Sentence]()
    for one in columns:
        said += _of_column(one)
    if first.rows is not None:
        said.append(say("person_rows_are", rows=first.rows))
    if len(columns) > 1:
        said.append(say("columns_reveal"))
    if epsilon is not None:
        said.append(say("odds" if delta > 0 else "odds_pure", factor=_exp(epsilon)))
        if delta > 0:
            smaller = delta / 1000
            larger = gdp.epsilon_of(gdp.mu_of(epsilon, delta), smaller)
            said.append(say("delta_is", epsilon=larger, delta=smaller))
    return [*said, say("relatives"), say("second_release")]


def _of_column(one: Private) -> list[Sentence]:
    if one.share is not None:
        return [say("share_is", share=one.share, source=say(one.source))]
    said = []
    if one.sd is not None:
        values = {"variance": one.sd**2, "source": say(one.source)}
        said.append(say("sd_is", **values))
    if one.distribution == "gaussian":
        least = 1 / math.sqrt(one.exposure or one.level)
        if not one.logarithm:
            said.append(say("unbiased", least=least))
        if one.sd is not None and one.rows is None and one.mu_apart is None:
            higher = attack.chance_of_side(one.level, one.sd)
            said.append(say("higher_of_two", p=higher))
    if one.sd is not None and one.rows is None:
        said.append(say("prior_tenth", p=_with_prior(one, math.sqrt(2) * one.sd)))
    return said


def _with_prior(one: Private, apart: float) -> float:
    """The attacker's rate where one of two values has prior probability 10%."""
    if one.mu_apart is not None:
        return attack.chance_of_mu(one.mu_apart(apart), TENTH)
    if one.distribution == "laplace":
        return attack.laplace_chance(apart * math.sqrt(one.level), TENTH)
    return attack.chance_of_mu(apart * math.sqrt(one.level), TENTH)
