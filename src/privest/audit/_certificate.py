"""Does a mechanism keep I_z(y) ≤ S for every y? A verdict by one of three routes.

density   the density is searched or its scores simulated: the level can be proved of it, and
          broken. A test of the draws can contradict the density; it proves nothing
samples   draws alone: the level can be broken
release   code that releases for real, as a black box: its claims can be broken
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

import numpy as np

from privest.arrays import Array, ArrayLike, as_choice
from privest.audit._density import by_density
from privest.audit._information import by_scores
from privest.audit._release import Check, release_checks
from privest.audit._sampler import compared
from privest.audit._samples import UNCHANGED, by_samples
from privest.audit._terms import (
    CLOSED_FORM,
    LIMIT,
    NOT_EXAMINED,
    Audited,
    Draws,
    Finding,
    Look,
    Sampler,
    Stated,
    as_audited,
    as_domain,
    has_density,
    stated_level,
)
from privest.errors import InvalidInput
from privest.linalg import PSD
from privest.mechanism import Componentwise, Mechanism
from privest.records import Record

Method = Literal["density", "samples", "release"]
ON_DOMAIN: Final = "holds on the examined domain"
Verdict = Literal["holds", "holds on the examined domain", "violated", "undecided", "not broken"]
PLACES = 20  # measurement vectors in a domain, for mechanisms that are not searched by input
SAMPLES, RELEASES = 200_000, 10_000  # draws, unless stated
HEADS = {
    "holds": "HOLDS: the information of the density stays within the level",
    ON_DOMAIN: "HOLDS {}: the information of the density stays within the level there",
    "violated": "VIOLATED: the release reveals more than the level allows",
    "undecided": "UNDECIDED: no violation was found, and none was excluded",
    "not broken": "NOT BROKEN: no check failed, which proves nothing",
}


@dataclass(frozen=True, eq=False)
class Certificate(Record):
    """The result of an audit of I_z(y) ≤ S.

    verdict     "holds": proved of the density at every y; it alone makes `bool(certificate)` true.
                "holds on the examined domain": nothing above the level was found in `domain` at
                `resolution`; narrower peaks and other inputs were not examined. "violated".
                "undecided": no violation was found by densities or samples. "not broken": no check
                of a real release failed.
    sampler     of the draws, next to the density: "not broken", "contradicts" (then nothing holds),
                "not examined"; "audited itself": there is no density.
    margin      the largest λ_max(S^-½ I_z(y) S^-½) that was found: 1 is exactly the level.
    error       a bound on the error of the margin, or at `confidence` where that is given.
    claimed     the margin of the mechanism's own supremum; inf: unbounded; NaN: not stated.
    worst_y     a y at which the margin is found (or approached); None: the same everywhere.
    reasons     sentences: what was examined, and at which resolution.
    domain      the measurements that the verdict is about; empty: every y.
    resolution  the widest distance between neighbouring inputs; 0: the same at every y; NaN: at
                some places only.
    checks      of a real release: claim, outcome (passed, failed, undecided), found, examined.
    """

    verdict: Verdict
    margin: float
    error: float
    claimed: float
    worst_y: Array | None
    method: str
    confidence: float | None = None
    reasons: tuple[str, ...] = ()
    domain: str = ""
    resolution: float = 0.0
    sampler: Draws = "not examined"
    checks: tuple[Check, ...] = ()

    @property
    def not_examined(self) -> tuple[str, ...]:
        """Properties that the verdict does not cover."""
        other = ("other measurements",) if self.domain or self.checks else ()
        return (*other, *NOT_EXAMINED)

    def __bool__(self) -> bool:
        return self.verdict == "holds"

    def __str__(self) -> str:
        head = HEADS[self.verdict].format(self.domain)
        return "\n  ".join([f"{head}.", *self._body()])

    def _body(self) -> list[str]:
        missing = f"Not examined: {'; '.join(self.not_examined)}."
        if self.checks:
            return [*map(str, self.checks), missing]
        doubt = f" ± {self.error:.1g}" if self.error > 0 else ""
        sure = "" if self.confidence is None else f", confidence {self.confidence:.4g}"
        what = f"worst information {self.margin:.6g} of the level{doubt}"
        if UNCHANGED in self.reasons and self.verdict != "violated":
            what = "no information was seen"
        return [f"{what} ({self.method}{sure})", *self.reasons, missing]


def certify(
    mechanism: Audited,
    level: Stated,
    *,
    method: Method | None = None,
    search: ArrayLike | None = None,
    domain: ArrayLike | None = None,
    samples: int | None = None,
    rng: np.random.Generator | int | None = None,
    confidence: float = 0.999,
) -> Certificate:
    """A verdict on I_z(y) ≤ S for every y, with its reasons.

    search    measurement vectors (k, m) to look at, besides those of the search (channels) or
              instead of the usual ones.
    domain    (low, high) of the measurements, or a row for each: the verdict is about it. Left
              out: inputs up to 64 times the sizes among a channel's parameters (or 1).

    method="density" (the default where there is one; without `rng` a fixed generator draws):
      Independent channels: the worst input, by numbers. "holds" needs the mechanism's own supremum
        within the level, and a search that found nothing above it.
      `GaussianMechanism`: its log-density is checked to be quadratic in y with curvature S.
      Running code (`StreamMechanism`): the density that it claims, next to `samples`/10 runs.
      Other mechanisms: simulated scores. "violated" needs an excess beyond the interval at
        `confidence` for all y together; "holds" rests on the mechanism's own supremum.
      Draws are tested at some measurement vectors, all of them at `confidence` together. A sampler
        that contradicts the density is audited from samples.
    method="samples" (the only one for a plain sampler f(y, rng, n) → (n, q)): "violated" if a lower
      bound from the samples exceeds the level, or an exact output moves with y; else "undecided".
    method="release": code that releases for real, f(rows (n, m)) → (n, q) or a mechanism with
      `release`: "violated" or "not broken", never "holds".

    >>> import privest.noise
    >>> from privest.mechanism import Additive
    >>> print(certify(Additive(privest.noise.Laplace(1.0)), 1.0))
    HOLDS: the information of the density stays within the level.
      worst information 1 of the level ± ... (closed form supremum)
      The same at every input.
      A search over 1 input found nothing above its own supremum.
      Its sampler is not broken, which proves nothing: 200000 draws at each of 4 ...
    >>> certify(Additive(privest.noise.Uniform(1.0)), 1.0).margin
    inf
    """
    if method is not None:
        as_choice(method, get_args(Method), "method")
    usual = RELEASES if method == "release" else SAMPLES
    look = Look.checked(search, usual if samples is None else samples, confidence, rng)
    audited, stated = as_audited(mechanism), stated_level(level)
    given = look.places.shape[1] or stated.size or 1
    S = stated.for_size(audited.measurements if isinstance(audited, Mechanism) else given)
    if method == "release":
        return _of_release(release_checks(audited, S, look), look.confidence)  # type: ignore[arg-type]
    if method != "samples" and isinstance(audited, Mechanism) and has_density(audited):
        return _by_density(audited, S, replace(look, domain=as_domain(domain, S.size)))
    return _by_samples(audited, S, look, refused=method == "density" or domain is not None)


def _by_samples(audited: Mechanism | Sampler, S: PSD, look: Look, *, refused: bool) -> Certificate:
    if refused:
        raise InvalidInput(
            "samples alone have no density to search on a domain: name vectors with search=."
        )
    return _judged(by_samples(audited, S, look))


def _by_density(audited: Mechanism, S: PSD, look: Look) -> Certificate:
    if look.domain is not None and not look.places.size and not isinstance(audited, Componentwise):
        look = replace(look, places=look.in_domain(PLACES))
    found = by_density(audited, S, look) or by_scores(audited, S, look)
    return _judged(compared(audited, S, found, look))


def _judged(found: Finding) -> Certificate:
    claims = found.claimed <= LIMIT
    verdict: Verdict = "undecided"
    if found.least > LIMIT:
        verdict = "violated"
    elif claims and not (found.refuted or found.unsure):
        verdict = ON_DOMAIN if found.where else "holds"
    endless = not found.refuted and found.claimed == found.margin == math.inf
    holds = verdict in ("holds", ON_DOMAIN)
    method = CLOSED_FORM if holds or endless else found.method
    said = found.reasons + (found.undecided if verdict == "undecided" else ())
    return Certificate(
        verdict, found.margin, found.error, found.claimed, found.worst_y, method,
        found.confidence, said, found.where, found.resolution, found.sampler,
    )  # fmt: skip


def _of_release(checks: tuple[Check, ...], confidence: float) -> Certificate:
    failed = any(check.outcome == "failed" for check in checks)
    return Certificate(
        "violated" if failed else "not broken", math.nan, math.nan, math.nan, None, "real release",
        confidence, checks=checks, resolution=math.nan,
    )  # fmt: skip
