"""I_z(y) of any mechanism: from its density by numbers, or from samples alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from privest.arrays import CONFIDENCE, Array, Flags, as_array, as_confidence, as_count
from privest.audit._gaussian import checked_precision
from privest.audit._move_size import Sampler
from privest.audit._running import described, examined
from privest.audit._sampled import Look, information_from_samples
from privest.errors import InvalidInput
from privest.mechanism import (
    Channel,
    Componentwise,
    GaussianMechanism,
    Mechanism,
    Runnable,
    RunningMechanism,
)
from privest.mechanism._numerics import information_by_numbers
from privest.privacy import EndlessLevel, PrivacyLevel, StreamLevel, as_level
from privest.records import Record

Method = Literal["density", "samples"]
KNOWN = "curvature of a quadratic log-density"
Audited = Mechanism | Channel | Sampler | Runnable
Stated = PrivacyLevel | StreamLevel | EndlessLevel | ArrayLike


@dataclass(frozen=True, eq=False)
class FisherInformation(Record):
    """I_z(y) as an audit found it.

    matrix        (m, m); inf where the density jumps as y moves; from samples NaN beside an inf:
                  not estimated.
    error         (m, m): a bound on each entry's error, or where `confidence` is given the half
                  width of its interval at that confidence.
    method        how it was found.
    lower         from samples: with `confidence` the information about reading i reaches lower[i]
                  somewhere within reach[i] of y. Assumes nothing but independent draws.
    unchanged     from samples: the readings that changed no output wherever we looked.
    notes         sentences for people.
    """

    matrix: Array
    error: Array
    method: str
    confidence: float | None = None
    lower: Array | None = None
    reach: Array | None = None
    unchanged: Flags | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        diagonal = np.diagonal(self.matrix)
        error = np.diagonal(self.error)
        still = np.zeros(diagonal.size, bool) if self.unchanged is None else self.unchanged
        shown = ", ".join(
            "none seen" if same else f"{i:.4g} ± {e:.1g}"
            for i, e, same in zip(diagonal[:6], error[:6], still)
        )
        more = ", …" if diagonal.size > 6 else ""
        sure = "" if self.confidence is None else f" at {self.confidence:.0%} confidence"
        head = f"information about each reading: {shown}{more} ({self.method}{sure})"
        return "\n".join([head, *(f"  {note}" for note in self.notes)])


def fisher_information(
    mechanism: Audited,
    y: ArrayLike,
    *,
    method: Method | None = None,
    samples: int = 200_000,
    rng: np.random.Generator | None = None,
    confidence: float = CONFIDENCE,
    steps: int | None = None,
) -> FisherInformation:
    """I_z(y) = E[s sᵀ], s = ∂ ln p(z|y)/∂y, of any mechanism at one reading vector y.

    None of the mechanism's own closed forms is believed.

    From the density (`method="density"`, the default where there is one):
      independent channels (`Componentwise`, or a `Channel` by itself): quadrature or summation for
      each, with an error bound; jumps in y, vanishing outcomes and one-sided limits are seen;
      `GaussianMechanism`: its S, after a check that the log-density is quadratic in y with just
      this curvature; no random numbers are needed;
      what users really run (`steps` as in `certify`): what it claims, if its noise at y bears
      that out; else from samples;
      any other mechanism: the mean of s sᵀ over `samples` simulated releases, with an interval.
      That mean does not see a density that jumps; the samples method does.
    From samples (`method="samples"`; the only one for a plain sampler `f(y, rng, n)` → (n, q)):
      an estimate with an interval and lower bounds that hold whatever the mechanism is; infinite
      if an exact output moves with y.
      `samples` is the number of draws at each of about eight points a reading.

    >>> import privest.noise
    >>> from privest.mechanism._additive import Additive
    >>> found = fisher_information(Additive(privest.noise.Laplace(0.5)), [1.0])
    >>> found.matrix.round(8).tolist(), bool(found.error.max() < 1e-8)
    ([[4.0]], True)
    """
    samples, confidence = as_count(samples, "samples", least=2), as_confidence(confidence)
    given = np.atleast_1d(as_array(y, "y", ndim=(0, 1)))
    audited = as_audited(mechanism, "audit", steps)
    if method == "density" and not isinstance(audited, Mechanism):
        raise InvalidInput("a plain sampler has no density: use method='samples'.")
    if method == "samples" or not isinstance(audited, Mechanism) or not has_density(audited):
        look = Look(given[None], samples, required(rng), confidence)
        return _by_samples(as_sampler(audited), look)
    if isinstance(audited, Componentwise):
        return _by_channels(audited, given)
    if isinstance(audited, GaussianMechanism):
        checked = checked_precision(audited, given[None])
        if checked is not None:
            S, off = checked
            return FisherInformation(S, np.full(S.shape, off * np.abs(S).max()), KNOWN)
    look = Look(given[None], samples, required(rng), confidence)
    if isinstance(audited, RunningMechanism):
        return _by_runs(audited, look)
    return _by_scores(audited, look)


def as_audited(given: Audited, verb: str, steps: int | None = None) -> Mechanism | Sampler:
    """A mechanism, or a plain sampler; one channel is a mechanism for one reading.

    `steps`: how much of what a user runs is audited, where that is not fixed.
    """
    if isinstance(given, Channel):
        return Componentwise(given, readings=1)
    if isinstance(given, Runnable):
        return given.as_mechanism() if steps is None else given.as_mechanism(steps)
    if not isinstance(given, Mechanism) and not callable(given):
        raise InvalidInput(
            f"{verb} a Mechanism, a Channel or a sampler f(y, rng, n); received "
            f"{type(given).__name__}."
        )
    return given


def stated_level(given: Stated, steps: int | None) -> PrivacyLevel:
    """A level in any form; that of a stream is S̄ of its first steps."""
    if isinstance(given, EndlessLevel):
        if steps is None:
            raise InvalidInput("the level has no last step: say how many to audit, steps=20.")
        given = given.first(steps)
    if isinstance(given, StreamLevel):
        return PrivacyLevel(given.cumulative(steps))
    return as_level(given)


def has_density(mechanism: Mechanism | Channel) -> bool:
    """False for channels that were given as a sampler only."""
    channels = mechanism.channels if isinstance(mechanism, Componentwise) else (mechanism,)
    return all(getattr(channel, "has_density", True) for channel in channels)


def required(rng: np.random.Generator | None) -> np.random.Generator:
    """The generator, or an error that asks for one."""
    if rng is None:
        raise InvalidInput("this needs random numbers: give rng=numpy.random.default_rng(...).")
    return rng


def as_sampler(mechanism: Mechanism | Sampler) -> Sampler:
    """The mechanism as a plain function (y, rng, n) → (n, q)."""
    if not isinstance(mechanism, Mechanism):
        return mechanism
    return lambda y, rng, n: mechanism.simulate(y, rng, trials=n)


def spread(mechanism: Componentwise, values: Array) -> Array:
    """Aᵀ diag(values) A, with inf wherever an infinite value is seen."""
    A = np.eye(mechanism.readings) if mechanism.matrix is None else mechanism.matrix
    endless = ~np.isfinite(values)
    result = (A.T * np.where(endless, 0.0, values)) @ A
    touched = (A[endless] != 0).astype(float)
    return np.where(touched.T @ touched > 0, np.inf, result)


def _by_channels(mechanism: Componentwise, y: Array) -> FisherInformation:
    u = mechanism.inputs(y)
    found = [information_by_numbers(c, float(v)) for c, v in zip(mechanism.channels, u)]
    matrix = spread(mechanism, np.array([estimate.value for estimate in found]))
    A = np.eye(mechanism.readings) if mechanism.matrix is None else np.abs(mechanism.matrix)
    error = (A.T * np.array([estimate.error for estimate in found])) @ A
    kind = "summation" if mechanism.discrete else "quadrature"
    return FisherInformation(matrix, error, kind)


def _by_scores(mechanism: Mechanism, look: Look) -> FisherInformation:
    (y,), samples = look.places, look.samples
    score = mechanism.score(mechanism.simulate(y, look.rng, trials=samples), y)
    matrix = score.T @ score / samples
    fourth = (score**2).T @ score**2 / samples
    deviation = np.sqrt(np.maximum(fourth - matrix**2, 0.0) / samples)
    wide = scipy.stats.norm.ppf((1 + look.confidence) / 2)
    method = "mean over simulated scores"
    return FisherInformation(matrix, wide * deviation, method, look.confidence)


def _by_runs(mechanism: RunningMechanism, look: Look) -> FisherInformation:
    place = examined(mechanism, look.places[0], look)
    notes = (described([place], look),)
    if not place.good:
        return _by_samples(as_sampler(mechanism), look, notes)
    S, method = mechanism.worst_information(), "as claimed, borne out by runs of the code"
    return FisherInformation(S, np.zeros_like(S), method, look.confidence, notes=notes)


def _by_samples(sampler: Sampler, look: Look, notes: tuple[str, ...] = ()) -> FisherInformation:
    found = information_from_samples(
        sampler,
        look.places[0],
        samples=look.samples,
        rng=look.rng,
        confidence=look.confidence,
    )
    return FisherInformation(
        found.matrix,
        found.error,
        "samples",
        found.confidence,
        found.lower,
        found.reach,
        found.unchanged,
        notes + found.notes,
    )
