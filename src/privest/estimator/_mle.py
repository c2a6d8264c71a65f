"""Batched maximum likelihood: θ̂ = argmax Σ_i ℓ(z_i, (Hθ)_i) for thousands of trials at once.

Newton steps A d = g, g = Hᵀℓ', A = Hᵀ diag(−ℓ'') H. Where A is not positive, far from the maximum,
−ℓ'' is replaced by max(|ℓ''|, w/100), w the EM weights: always a direction of ascent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, as_array
from privest.errors import InvalidInput
from privest.estimator.device import as_backend, holds, require_here
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, Namespace, Terms
from privest.estimator.starts import MANY, best_starts, subsets
from privest.linalg import require_units, root_of_rows

ITERATIONS = 200
# Converged: the maximum is within so many standard errors, √(gᵀA⁻¹g) with A = −∇²; the Newton step
# is still taken, after which the distance is about its square.
TOLERANCE = 1e-7
# A counts as positive when its pivots are above this part of the diagonal of the EM matrix.
POSITIVE = 1e-9
# Newton steps are taken where they are above this part, or the promised rise is below NEAR.
SAFE, NEAR = 0.01, 1.0
FLAT = 1e-6  # a promised rise below this where A is not positive: no maximum here
FLOOR = 0.01  # elsewhere |−ℓ''| is raised to this part of w
RISE = 0.1  # part of the rise promised by the slope that a step must bring
SHORTEST, LONGEST = 0.1, 0.5  # a step that fails is shortened by a factor between these
SAME = 1e-6  # maxima whose log-likelihoods differ by less are the same
ROUNDING = 1e-13  # of Σℓ, relative


@dataclass(frozen=True, eq=False)
class Maxima:
    value: Array  # (trials, n)
    log_likelihood: Array  # (trials,) Σ_i ℓ at the estimate
    converged: Flags  # gradient small and −∇² positive definite: a maximum, perhaps not the highest


def maximum_likelihood(
    H: ArrayLike,
    z: ArrayLike,
    likelihood: Likelihood,
    *,
    offset: ArrayLike = 0.0,
    starts: int | ArrayLike | None = None,
    backend: Backend | str = NUMPY,
) -> Maxima:
    """Maximise Σ_i ℓ(z_i, (Hθ + b)_i) over θ for every row of z (trials, m); H (m, n) of full rank.

    offset   b, a number or one a row.
    starts   how many exact fits of n rows to start from besides least squares, or start points (k,
             n) or (trials, k, n). None: `likelihood.fits` where there may be several maxima.
    backend  "numpy", or "cupy" (extra `gpu`); the arrays of the result are where z was.

    `converged` does not say that the maximum is the highest (Cauchy noise, 20 rows, 10 parameters:
    1 trial in 1000 is not). Cost: 8-20 evaluations of ℓ a trial and start.
    """
    where = as_backend(backend, likelihood)
    for array, name in ((H, "H"), (z, "z")):
        require_here(array, where, name)
    matrix = as_array(where.host(H), "H", ndim=2)
    require_units(matrix, "H")
    own = where if holds(z) else NUMPY  # where z is, and where the result will be
    releases = _releases(z, matrix, likelihood, own)
    m, n = matrix.shape
    shift = where.xp.asarray(np.broadcast_to(as_array(offset, "offset"), m))
    begin = _Starts(matrix, shift, likelihood, starts, len(releases), where)
    held = m * likelihood.numbers + 4 * n * n + 20 * n  # numbers of a problem in an iteration
    per_block = max(1, where.block(held) // begin.count)
    parts = []
    for at in range(0, len(releases), per_block):
        z_block = where.xp.asarray(releases[at : at + per_block])
        first = begin(z_block, at)  # (trials, k, n)
        repeated = where.xp.repeat(z_block, begin.count, axis=0)
        theta = where.xp.reshape(first, (-1, n))
        ends = _climb(matrix, shift, repeated, theta, likelihood, where)
        shaped = [where.xp.reshape(end, (*first.shape[:2], *end.shape[1:])) for end in ends]
        parts.append(_best(shaped, where, own))
    value, height, converged = (own.xp.concat(part) for part in zip(*parts))
    return Maxima(value, height, converged)


def _releases(z: ArrayLike, H: Array, likelihood: Likelihood, own: Backend) -> Array:
    """z as (trials, m), checked where it is."""
    if own.remote:
        given = own.xp.asarray(z, dtype=own.xp.float64)
        if given.ndim not in (1, 2) or not bool(own.xp.isfinite(given).all()):
            raise InvalidInput("z must be (m,) or (trials, m), and finite.")
        releases: Array = given.reshape(-1, given.shape[-1])
    else:
        releases = np.atleast_2d(as_array(z, "z", ndim=(1, 2)))
    if releases.shape[1] != len(H):
        raise InvalidInput(f"z has {releases.shape[1]} measurements and H {len(H)} rows.")
    if likelihood.variance.ndim and likelihood.variance.size != len(H):
        raise InvalidInput(
            f"the likelihood is for {likelihood.variance.size} measurements; H has {len(H)} rows."
        )
    if not len(releases):
        raise InvalidInput("z has no trials.")
    impossible = int((~likelihood.possible(releases, own)).any(axis=1).sum())
    if impossible:
        raise InvalidInput(
            f"{impossible} of {len(releases)} trials hold a release that the mechanism cannot give "
            "(its probability is 0 for every measurement: 0 from a ratio, or a number off the grid "
            "of a quantiser). Pass the releases as they came, unrounded and unscaled."
        )
    return releases


class _Starts:
    """Start points (trials, k, n) of a block of trials, made where the arrays are."""

    def __init__(
        self,
        H: Array,
        offset: Array,
        likelihood: Likelihood,
        starts: int | ArrayLike | None,
        trials: int,
        backend: Backend,
    ) -> None:
        self.matrix = H
        self.offset = offset
        self.likelihood = likelihood
        self.backend = backend
        self.given: Array | None = None
        if starts is None:
            many = 2 if H.shape[1] > MANY else 1
            starts = many * likelihood.fits if likelihood.several_maxima else 0
        if isinstance(starts, int | np.integer):
            if starts < 0:
                raise InvalidInput(f"starts must be ≥ 0; received {starts}.")
            self.solution = H @ root_of_rows(H).inverse()  # (m, n); refuses hidden directions
            self.wanted = 0
            if starts:
                self.rows = subsets(H)
                self.wanted = min(int(starts), len(self.rows))
            self.count = 1 + self.wanted
            return
        given = as_array(backend.host(starts), "starts", ndim=(2, 3))
        if given.shape[-1] != H.shape[1]:
            raise InvalidInput(
                f"starts have {given.shape[-1]} entries; H has {H.shape[1]} columns."
            )
        if given.ndim == 2:
            given = np.broadcast_to(given, (trials, *given.shape))
        if len(given) != trials:
            raise InvalidInput(f"starts are for {len(given)} trials; z has {trials}.")
        self.given, self.count = given, given.shape[1]

    def __call__(self, z: Array, at: int) -> Array:
        xp = self.backend.xp
        begin: Array
        if self.given is not None:
            begin = xp.asarray(self.given[at : at + len(z)])
            return begin
        centre = self.likelihood.centre(z, self.backend) - self.offset
        begin = (centre @ xp.asarray(self.solution))[:, None]
        if self.wanted:
            others = best_starts(
                self.matrix, self.offset, self.rows, z, centre, self.likelihood, self.wanted,
                self.backend,
            )  # fmt: skip
            begin = xp.concat([begin, others], axis=1)
        return begin


def _best(ends: list[Array], where: Backend, own: Backend) -> tuple[Array, ...]:
    """The highest end of every trial, among equals one that converged."""
    xp = where.xp
    _, height, good = ends
    same = height >= xp.max(height, axis=1, keepdims=True) - SAME
    chosen = xp.argmax(xp.where(same, good + 1.0, 0.0), axis=1)
    row = xp.arange(len(height))
    found = tuple(end[row, chosen] for end in ends)
    return found if own.remote else tuple(where.host(array) for array in found)


def _climb(
    H: Array, offset: Array, z: Array, theta: Array, likelihood: Likelihood, backend: Backend
) -> tuple[Array, Array, Flags]:
    """Climb from each row of θ to a maximum: (θ, Σℓ, converged)."""
    xp = backend.xp
    H, z, theta = xp.asarray(H), xp.asarray(z), xp.asarray(theta)
    problems, n = theta.shape
    products = xp.reshape(H[:, :, None] * H[:, None, :], (-1, n * n)).T

    def gram(weights: Array) -> Array:
        matrices: Array = xp.reshape(products @ weights.T, (n, n, -1))
        return matrices

    ends = (
        xp.zeros((problems, n)),
        xp.zeros(problems),
        xp.zeros(problems, dtype=xp.bool),
    )
    terms = likelihood(z, theta @ H.T + offset, backend)
    height = xp.sum(terms.value, axis=1)
    which, length = xp.arange(problems), xp.ones(problems)
    for spent in range(1, ITERATIONS + 1):
        gradient = (terms.slope @ H).T
        scale = (H * H).T @ terms.weight.T  # diagonal of the EM matrix
        with np.errstate(over="ignore", invalid="ignore"):  # where A is not positive: worthless
            step, margin = solve(gram(terms.curvature), gradient, scale, xp)
            promised = xp.sum(step * gradient, axis=0)
        positive = margin > POSITIVE
        found = positive & (promised <= TOLERANCE**2)
        rough = ~positive | ((margin <= SAFE) & (promised >= NEAR))
        if xp.any(rough):
            raised = xp.maximum(xp.abs(terms.curvature[rough]), FLOOR * terms.weight[rough])
            step[:, rough] = solve(gram(raised), gradient[:, rough], scale[:, rough], xp)[0]
            promised[rough] = xp.sum(step[:, rough] * gradient[:, rough], axis=0)

        leaving = found | (~positive & (promised <= FLAT))
        if spent == ITERATIONS:
            leaving = xp.ones_like(found)
        if xp.any(leaving):
            last = theta + xp.where(found, step, 0.0).T  # the Newton step, where it can be trusted
            go = xp.nonzero(leaving)[0]
            for end, value in zip(ends, (last, height, found)):
                end[which[go]] = value[go]
            stay = xp.nonzero(~leaving)[0]
            if not len(stay):
                break
            which, length, z, theta, height = (a[stay] for a in (which, length, z, theta, height))
            terms = Terms(*(a[stay] for a in terms))
            step, promised = step[:, stay], promised[stay]

        tried = theta + (length * step).T
        new = likelihood(z, tried @ H.T + offset, backend)
        reached = xp.sum(new.value, axis=1)
        hoped = length * promised
        # Near the maximum the rise drowns in the rounding of Σℓ.
        up = reached - height >= RISE * hoped - ROUNDING * xp.abs(height)
        theta = xp.where(up[:, None], tried, theta)
        terms = Terms(*(xp.where(up[:, None], a, b) for a, b in zip(new, terms)))
        best = 0.5 * hoped / (hoped - xp.where(up, 0.0, reached - height))  # of the parabola
        length = xp.where(up, 1.0, length * xp.clip(best, SHORTEST, LONGEST))
        height = xp.where(up, reached, height)
    return ends


def solve(A: Array, b: Array, scale: Array, xp: Namespace) -> tuple[Array, Array]:
    """x of A x = b for every problem (last axis), and the least pivot of A in units of `scale`.

    A (n, n, k), b and `scale` (n, k). For small n many times faster than LAPACK problem by problem.
    """
    n = A.shape[0]
    margin = A[0, 0] / scale[0]
    columns, forward = [], []
    for i in range(n):
        pivot = A[0, 0]
        margin = xp.minimum(margin, pivot / scale[i])
        root = xp.sqrt(xp.where(pivot > 0, pivot, 1.0))
        column, value = A[1:, 0] / root, b[0] / root
        columns.append((root, column))
        forward.append(value)
        A = A[1:, 1:] - column[:, None] * column[None]
        b = b[1:] - column * value
    solution: list[Array] = []
    for (root, column), value in zip(reversed(columns), reversed(forward)):
        for i, known in enumerate(solution):
            value = value - column[i] * known
        solution.insert(0, value / root)
    return xp.stack(solution), margin
