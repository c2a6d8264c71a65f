"""Does a mechanism keep I_z(y) ≤ S for every y? A verdict with its reasons.

A density is searched (`_density`) or its scores simulated (`_simulation`), and its draws are
compared with it (`_draws`); code that users run is run; a plain sampler is judged by its samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_confidence, as_count
from privest.audit._calls import ASPECTS, Calls, excess_text
from privest.audit._density import by_density
from privest.audit._draws import compared
from privest.audit._finding import (
    CLOSED_FORM,
    Audited,
    Draws,
    Finding,
    Look,
    Stated,
    as_audited,
    as_domain,
    has_density,
    stated_level,
)
from privest.audit._samples import UNCHANGED, by_samples
from privest.audit._simulation import by_running, by_scores
from privest.errors import InvalidInput
from privest.mechanism import Componentwise, Mechanism, Runnable, RunningMechanism
from privest.privacy import SequentialLevel
from privest.records import Record

Verdict = Literal["holds", "violated", "undecided"]
# A margin of 1 is what a calibrated mechanism has; so much above it is rounding.
TOLERANCE = 1e-6
# Reading vectors in a domain, of a mechanism that is not searched input by input.
PLACES = 20


@dataclass(frozen=True, eq=False)
class Certificate(Record):
    """What an audit of I_z(y) ≤ S found.

    verdict     "holds", "violated" or "undecided"; `bool(certificate)` is true for "holds" only.
    margin      the largest λ_max(S^-½ I_z(y) S^-½) that was found: 1 is exactly the level.
    error       of the margin: a bound, or at `confidence` where that is given.
    claimed     the same from the mechanism's own supremum; inf: it says that there is none; NaN: it
                says nothing.
    worst_y     a y at which the margin is found (or approached); None for a mechanism that shows
                the same everywhere.
    method      "closed form supremum", "search by quadrature", "simulated scores", "samples".
    reasons     sentences for people: what was examined, at which resolution, with which power.
    where       what a verdict is about ("for inputs from −64 to 64"); empty: every y.
    resolution  the widest distance between neighbouring inputs that were looked at; 0: the same at
                every y; NaN: at some places only.
    power       the least excess over the level that its draws would have shown with probability
                0.99; NaN: not known.
    examined    of the fixed list `_calls.ASPECTS`; `not_examined`: the rest of it.
    sampler     "agrees" or "contradicts": the draws, next to the density; "not examined"; "audited
                itself": there is no density.
    """

    verdict: Verdict
    margin: float
    error: float
    claimed: float
    worst_y: Array | None
    method: str
    confidence: float | None = None
    reasons: tuple[str, ...] = ()
    where: str = ""
    resolution: float = 0.0
    sampler: Draws = "not examined"
    power: float = math.nan
    examined: tuple[str, ...] = ()

    @property
    def not_examined(self) -> tuple[str, ...]:
        """What the verdict says nothing of."""
        return tuple(part for part in ASPECTS if part not in self.examined)

    def __bool__(self) -> bool:
        return self.verdict == "holds"

    def __str__(self) -> str:
        there = f"HOLDS {self.where}: the information stays within the level there"
        head = {
            "holds": there if self.where else "HOLDS: the information stays within the level",
            "violated": "VIOLATED: the release shows more than the level allows",
            "undecided": "UNDECIDED: no violation was found, and none was excluded",
        }[self.verdict]
        doubt = f" ± {self.error:.1g}" if self.error > 0 else ""
        sure = "" if self.confidence is None else f", confidence {self.confidence:.4g}"
        what = f"worst information {self.margin:.6g} of the level{doubt}"
        if UNCHANGED in self.reasons and self.verdict != "violated":
            what = "no information was seen"
        scope = [
            f"Examined: {'; '.join(self.examined) or 'nothing'}.",
            f"Not examined: {'; '.join(self.not_examined)}.",
        ]
        lines = [f"{head}.", f"{what} ({self.method}{sure})", *self.reasons]
        if self.verdict != "violated":
            lines.append(excess_text(self.power))
        return "\n  ".join([*lines, *scope])


def certify(
    mechanism: Audited,
    level: Stated,
    *,
    search: ArrayLike | None = None,
    domain: ArrayLike | None = None,
    steps: int | None = None,
    samples: int = 200_000,
    rng: np.random.Generator | None = None,
    confidence: float = 0.999,
) -> Certificate:
    """Search for the y that shows most, and compare with the level and with what is claimed.

    `search`: reading vectors (k, m) to look at besides those of the search (for channels), or
    the only ones to look at (for samplers, default y = 0; what users run: 0 and two fixed vectors;
    other mechanisms: a few random directions at several distances).
    `domain`: (low, high) of the readings, or a row for each: the search covers it, and the verdict
    is about it. Left out: inputs up to 64 times the sizes among a channel's parameters (or 1). The
    certificate prints the range and the resolution; what is narrower or outside was not examined.

    The sampler is compared with the density, and the certificate states what would have been seen
    with probability 0.99: `samples` draws at some inputs, one at each of as many over the range.
    A sampler that contradicts its density is audited from samples; without `rng` a fixed
    generator draws.

    Independent channels (`Componentwise`, or one `Channel`): one input at a time, by numbers.
      "holds" needs both: the mechanism's own supremum within the level, and a search that found
      nothing above it.
    `GaussianMechanism`: its log-density is checked to be quadratic in y with the stated curvature,
      which is then the information at every y; no random numbers are needed.
    Other mechanisms: simulated scores at each y, if they are the derivatives of the log-density
      (else derived ones); half of the `samples` choose the direction that
      shows most, the others measure it. "violated" needs an excess beyond the interval at
      `confidence` for all y together; "holds" rests on the mechanism's own supremum.
    What users really run (`StreamMechanism`, `Sensor`, a table's mechanism; `steps` of a stream or
      rows of a table, and the level of a stream may be its own): the code itself is run. "holds"
      needs a claim within the level and noise that bears it out (mean, covariance and distribution
      at a tenth of `samples` runs for each y, and no exact output that moves with y). Noise
      that contradicts the claim is "violated" where its variance proves it, else "undecided".
    A plain sampler `f(y, rng, n)`: "violated" if a lower bound from the samples exceeds the level,
      or if an exact output moves with y (infinite); else "undecided".

    >>> import privest.noise
    >>> from privest.mechanism._additive import Additive
    >>> print(certify(Additive(privest.noise.Laplace(1.0)), 1.0))
    HOLDS: the information stays within the level.
      worst information 1 of the level ± ... (closed form supremum)
      The same at every input.
      A search over 1 input found nothing above what it says itself.
      Its sampler agrees with its density: 200000 draws at each of 3 inputs and ...
    >>> certify(Additive(privest.noise.Uniform(1.0)), 1.0).margin
    inf
    """
    count = as_count(samples, "samples", least=4)
    places = np.zeros((0, 0)) if search is None else as_array(search, "search", ndim=(1, 2))
    look = Look(np.atleast_2d(places), count, as_confidence(confidence), rng)
    # Of a plain mechanism `steps` says how much of a stream's level is meant.
    plain = isinstance(level, SequentialLevel) and not isinstance(mechanism, Runnable)
    audited = as_audited(mechanism, "certify", None if plain else steps)
    stated = stated_level(level, steps)
    if not isinstance(audited, Mechanism):
        if domain is not None:
            raise InvalidInput(
                "a plain sampler is audited at the vectors of search=, not on a domain."
            )
        S = stated.for_size(look.places.shape[1] or stated.size or 1)
        return _judged(by_samples(audited, S, look), Calls(audited, S, look))
    S = stated.for_size(audited.readings)
    look = replace(look, domain=as_domain(domain, audited.readings))
    if look.domain is not None and not look.places.size and not isinstance(audited, Componentwise):
        look = replace(look, places=look.in_domain(PLACES))
    calls = Calls(audited, S, look)
    if not has_density(audited):
        return _judged(by_samples(audited, S, look), calls)
    if isinstance(audited, RunningMechanism):
        return _judged(by_running(audited, S, look), calls)
    found = by_density(audited, S, look) or by_scores(audited, S, look)
    return _judged(compared(audited, S, found, look, 1 + TOLERANCE), calls)


def _judged(before: Finding, calls: Calls) -> Certificate:
    found = calls.after(before, 1 + TOLERANCE)
    claims = found.claimed <= 1 + TOLERANCE
    verdict: Verdict = "holds" if claims and not (found.refuted or found.unsure) else "undecided"
    if found.least > 1 + TOLERANCE:
        verdict = "violated"
    endless = not found.refuted and found.claimed == found.margin == math.inf
    method = CLOSED_FORM if verdict == "holds" or endless else found.method
    said = found.reasons + (found.undecided if verdict == "undecided" else ())
    return Certificate(
        verdict, found.margin, found.error, found.claimed, found.worst_y, method,
        found.confidence, said, found.where, found.resolution, found.sampler,
        (1 + found.power) * found.margin - 1, found.examined,
    )  # fmt: skip
