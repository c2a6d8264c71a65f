"""I_z(y) of any mechanism: from its density by numbers, or from samples alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, ArrayLike, as_choice
from privest.audit._density import checked_precision, information_of_channels
from privest.audit._running import Scores, described, noise_test
from privest.audit._samples import Information, Sampled, information_from_samples
from privest.audit._terms import Audited, Look, Sampler, as_audited, has_density, one_vector
from privest.errors import InvalidInput
from privest.mechanism import Componentwise, GaussianMechanism, Mechanism
from privest.mechanism.affine import RunningMechanism

Method = Literal["density", "samples"]
KNOWN = "curvature of a quadratic log-density"


def fisher_information(
    mechanism: Audited,
    y: ArrayLike,
    *,
    method: Method | None = None,
    samples: int = 200_000,
    rng: np.random.Generator | int | None = None,
    confidence: float = CONFIDENCE,
) -> Information:
    """I_z(y) = E[s sᵀ], s = ∂ ln p(z|y)/∂y, of any mechanism at one y (`def:Fisher`).

    The mechanism's own closed forms are not used.

    method="density" (the default where there is one):
      independent channels: quadrature or summation for each, with an error bound;
      `GaussianMechanism`, and running code: S, checked as in `certify`; running code that fails is
      judged from samples;
      any other mechanism: the mean of s sᵀ over `samples` simulated releases, with an interval. It
      does not see a density that jumps; the samples method does.
    method="samples" (the only one for a plain sampler f(y, rng, n) → (n, q)): an estimate and lower
      bounds that hold whatever the mechanism is; infinite if an exact output moves with y.
      `samples` is the number of draws at each of about sixteen points per measurement.
      **At a kink of p(z|·) at y, or where an outcome vanishes, the estimate averages the two
      one-sided limits and is too small**; the lower bounds hold, and a note says so.

    >>> import privest.noise
    >>> from privest.mechanism import Additive
    >>> found = fisher_information(Additive(privest.noise.Laplace(0.5)), [1.0])
    >>> found.matrix.round(8).tolist(), bool(found.error.max() < 1e-8)
    ([[4.0]], True)
    """
    if method is not None:
        as_choice(method, get_args(Method), "method")
    audited = as_audited(mechanism)
    look = Look.checked(one_vector(y, audited)[None], samples, confidence, rng)
    if isinstance(audited, Mechanism) and has_density(audited) and method != "samples":
        return _by_density(audited, look)
    if method == "density":
        raise InvalidInput("a plain sampler has no density: use method='samples'.")
    return _by_samples(audited, look)


def _by_density(audited: Mechanism, look: Look) -> Information:
    if isinstance(audited, Componentwise):
        matrix, error = information_of_channels(audited, look.places[0])
        kind = "summation" if audited.discrete else "quadrature"
        return Information(matrix=matrix, error=error, method=kind)
    if isinstance(audited, GaussianMechanism):
        checked = checked_precision(audited, look.places)
        if checked is not None:
            S, off = checked
            error = np.full(S.shape, off * np.abs(S).max())
            return Information(matrix=S, error=error, method=KNOWN)
    return (
        _by_runs(audited, look)
        if isinstance(audited, RunningMechanism)
        else _by_scores(audited, look)
    )


def _by_scores(mechanism: Mechanism, look: Look) -> Information:
    (y,), scores = look.places, Scores(mechanism, look)
    score = scores.at(y, look.rng)
    samples = len(score)
    matrix = score.T @ score / samples
    fourth = (score**2).T @ score**2 / samples
    deviation = np.sqrt(np.maximum(fourth - matrix**2, 0.0) / samples)
    wide = scipy.stats.norm.ppf((1 + look.confidence) / 2)
    how, sure = "mean over simulated scores", look.confidence
    error, notes = wide * deviation, scores.said
    return Information(matrix=matrix, error=error, method=how, confidence=sure, notes=notes)


def _by_runs(mechanism: RunningMechanism, look: Look) -> Information:
    place = noise_test(mechanism, look.places[0], look)
    notes = (described([place], look)[0],)
    if place.wrong or place.atom is not None:
        found = _by_samples(mechanism, look)
        return replace(found, notes=notes + found.notes)
    S, how = mechanism.worst_information(), "as claimed, borne out by runs of the code"
    error, sure = np.zeros_like(S), look.confidence
    return Information(matrix=S, error=error, method=how, confidence=sure, notes=notes)


def _by_samples(sampler: Mechanism | Sampler, look: Look) -> Sampled:
    (y,), sure = look.places, look.confidence
    return information_from_samples(sampler, y, samples=look.samples, rng=look.rng, confidence=sure)
