"""I_z(y) of any mechanism at one y; next to a level, by simulated scores."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import scipy

from privest.arrays import CONFIDENCE, Array, ArrayLike, as_choice
from privest.audit._density import checked_precision, information_of_channels
from privest.audit._samples import Information, information_from_samples
from privest.audit._terms import (
    AGREE,
    EXAMINED,
    Audited,
    Finding,
    Look,
    as_audited,
    has_density,
    inverse_root,
    one_vector,
    relative,
)
from privest.errors import InvalidInput, PrivestError
from privest.linalg import PSD
from privest.mechanism import Channel, Componentwise, GaussianMechanism, Mechanism
from privest.mechanism.numerics import differences

Method = Literal["density", "samples"]
KNOWN = "curvature of a quadratic log-density"
# Places at which a score is compared with the density; draws there if it must be derived.
FEW_PLACES, DERIVED = 5, 2000
# Draws at which a score is compared with the density, along at most so many directions.
COMPARED, DIRECTIONS = 16, 8
OWN_WORD = "It gives no log-density to derive its score from: the score is unproved."


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
      `GaussianMechanism`: S, checked as in `certify`; of running code that of its claim;
      any other mechanism: the mean of s sᵀ over `samples` simulated releases, with an interval. It
      does not see a density that jumps; the samples method does.
    method="samples" (the only one for a plain sampler f(y, rng, n) → (n, q)): an estimate and lower
      bounds that hold whatever the mechanism is; infinite if an exact output moves with y.
      `samples` draws at each of about sixteen points per measurement.
      **At a kink of p(z|·) at y, or where an outcome vanishes, the estimate averages the two
      one-sided limits and is too small**; the lower bounds hold.

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
    return information_from_samples(
        audited, look.places[0], samples=look.samples, rng=look.rng, confidence=look.confidence
    )


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
    return _by_scores(audited, look)


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


# --- next to a level, by simulated scores ---------------------------------------------------------


def by_scores(mechanism: Mechanism, S: PSD, look: Look) -> Finding:
    """λ_max(S^-½ I S^-½) at every place from simulated scores, next to the claimed supremum."""
    claimed = relative(S, mechanism.worst_information())
    method = "simulated scores"
    if claimed == math.inf:
        said = "It states itself that its information is not bounded."
        return Finding(claimed, 0.0, claimed, claimed, None, method, (said,))
    look = look.at(lambda: _around(S.size, look))
    scores = Scores(mechanism, look)
    margin, error, worst = -math.inf, 0.0, look.places[0]
    for y in look.places:
        here, doubt = _shown(scores, S, y, look)
        if here == math.inf or here - doubt > margin - error:
            margin, error, worst = here, doubt, y
    lies = margin - error > claimed * (1 + AGREE)
    reach = float(np.linalg.norm(look.places, axis=1).max())
    said = (
        f"Looked at {len(look.places)} measurement vectors, of norm {reach:.4g} at most; scores do "
        "not show a density that jumps, and other vectors were not examined."
    )
    lie = (f"The supremum it claims, {claimed:.6g} of the level, is wrong.",) * lies
    return Finding(
        margin, error, margin - error, claimed, worst, method, (said, *scores.said, *lie),
        look.confidence, lies or scores.false, not scores.known, where=EXAMINED,
        resolution=math.nan,
    )  # fmt: skip


class Scores:
    """The scores of a mechanism: its own if they are derivatives of its density, else those."""

    def __init__(self, mechanism: Mechanism, look: Look) -> None:
        self.mechanism, self.samples, self.said = mechanism, look.samples, tuple[str, ...]()
        self.known = density_answers(mechanism, look.places[0], look.rng)
        some = look.places[:: max(1, len(look.places) // FEW_PLACES)]
        self.false = self.known and any(_false_score(mechanism, y, look.rng) for y in some)
        if not self.known:
            self.said = (OWN_WORD,)
        elif self.false:
            self.samples = min(look.samples, DERIVED)
            self.said = (
                "Its score is not the derivative of its log-density; the information is that of "
                f"scores derived from the density, {self.samples} at each place.",
            )

    def at(self, y: Array, rng: np.random.Generator) -> Array:
        z = self.mechanism.simulate(y, rng, trials=self.samples)
        if not self.false:
            return self.mechanism.score(z, y)
        return np.nan_to_num(_derived_scores(self.mechanism, z, y, np.eye(y.size))[0])


def density_answers(mechanism: Mechanism, y: Array, rng: np.random.Generator) -> bool:
    try:
        value = mechanism.log_density(mechanism.simulate(y, rng, trials=1), y)
    except (NotImplementedError, PrivestError):
        return False
    return bool(np.isfinite(value).all())


def _around(measurements: int, look: Look) -> Array:
    directions = look.rng.standard_normal((8, measurements))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    distances = np.array([1e-3, 0.1, 1.0, 3.0, 10.0])[:, None, None]
    return (distances * directions).reshape(-1, measurements)


def _shown(scores: Scores, S: PSD, y: Array, look: Look) -> tuple[float, float]:
    """E (wᵀs)² for the direction w with the most information, and the half width of its interval.

    w comes from the first half of the samples and is judged on the second: the largest eigenvalue
    of a noisy matrix would be too large.
    """
    score = scores.at(y, look.rng)
    first, second = score[: len(score) // 2], score[len(score) // 2 :]
    matrix = first.T @ first / len(first)
    if relative(S, matrix) == math.inf:
        return math.inf, 0.0
    root, _ = inverse_root(S.dense())
    if root.size == 0:
        return 0.0, 0.0
    direction = root @ np.linalg.eigh(root.T @ matrix @ root)[1][:, -1]
    return _mean((second @ direction) ** 2, look)


def _mean(x: Array, look: Look) -> tuple[float, float]:
    wide = scipy.stats.norm.ppf((1 + look.each) / 2)
    return float(x.mean()), float(wide * x.std(ddof=1) / math.sqrt(x.size))


# --- scores, next to the density ------------------------------------------------------------------


def _derived_scores(
    mechanism: Mechanism, z: Array, y: Array, directions: Array
) -> tuple[Array, Array]:
    """vᵀ∂ ln p(z|y)/∂y by differences, for draws z (n, q) and directions v (k, m); with errors."""

    def line(v: Array) -> Channel:
        """ln p(z_i|y + t·v) as a function of t, for draw number i."""

        def log_density(i: Array, t: Array) -> Array:
            rows = y + t.reshape(-1, 1) * v
            return mechanism.log_density(z[i.ravel().astype(np.intp)], rows).reshape(t.shape)

        return Channel.from_functions(log_density=log_density)

    count = np.arange(len(z), dtype=np.float64)
    wide, zero = np.full(len(z), math.inf), np.zeros(len(z))
    found = [differences(line(v), count, zero, wide) for v in directions]
    return np.stack([s for s, _ in found], axis=1), np.stack([e for _, e in found], axis=1)


def _false_score(mechanism: Mechanism, y: Array, rng: np.random.Generator) -> bool:
    z = mechanism.simulate(y, rng, trials=COMPARED)
    m = y.size
    v = np.eye(m) if m <= DIRECTIONS else rng.standard_normal((DIRECTIONS, m))
    found, error = _derived_scores(mechanism, z, y, v)
    with np.errstate(all="ignore"):
        own = mechanism.score(z, y) @ v.T
        apart = ~(np.abs(own - found) <= 1e-4 * (np.abs(own) + np.abs(found)) + 10 * error)
    return bool(np.count_nonzero(apart) > 1)
