"""What releases tell about parameters at best: Fisher's information, exact for K steps.

With ξ = (x̂, ∂_1x̂, …, ∂_px̂) of predictions, innovations e ~ N(0, F), gain K and U = I − KG:

    I_ij = Σ_k ½ tr(F⁻¹∂_iF F⁻¹∂_jF) + E[∂_ieᵀ F⁻¹ ∂_je] ,     ∂_ie = −∂_iG x̂ − G ∂_ix̂ − ∂_i offset

E ξξᵀ = Π + μμᵀ goes along: ξ⁺ = Φξ + Γe + known, Φ of A, ∂A, K, U and ∂G, Γ = (K, ∂_iK). Nothing is
inverted but F ≥ I: any rank of Q, R and cov0, missing steps, changing levels, lags, known inputs.
Where no parameter moves A or G, x̂ itself has no part in it and is left out: E x̂x̂ᵀ of a local level
grows for ever, that of its slopes settles.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from privest.arrays import Array, Index
from privest.dynamics._releases import Data
from privest.dynamics._kalman import least_response
from privest.dynamics._steps import Matrices
from privest.dynamics._steps import step_slopes
from privest.dynamics._steps import Derivatives, Steps, input_terms, steps_of
from privest.errors import NumericalFailure

SETTLED = 1e-14  # change of a covariance in a step, in its own units: it stands still
VAGUE, RATIO, LIMITS = 1e2, 4.0, 5  # κ = 1e2, 4e2, … in units of what is left of a diffuse start
LIMIT_ERROR = 1e-8  # of the limit κ → ∞, between its last two extrapolations


def information(matrices: Matrices, slopes: Matrices, data: Data) -> Array:
    """I (p, p) about t from all series of the data; its values are not looked at.

    O(K (np)³), or until the covariances have settled. The private Cramér-Rao bound of t is I⁻¹.
    A diffuse start: the limit of vaguer and vaguer ones (that of δ ~ N(0, κI), κ → ∞).
    """
    plan = data.plan(matrices)
    seen = steps_of(matrices, plan)
    shift, _, _ = input_terms(matrices, plan, data.inputs)
    given = step_slopes(matrices, slopes, plan, data.inputs)
    cov = seen.root @ seen.root.T
    if not matrices.diffuse.shape[1]:
        return data.series * _summed(seen, given, shift, cov)
    columns = np.zeros((len(seen.start), matrices.diffuse.shape[1]))
    columns[: seen.states] = matrices.diffuse
    unit = VAGUE / least_response(matrices, data)
    found = [
        _summed(seen, given, shift, cov + columns @ columns.T * (unit * RATIO**i))
        for i in range(LIMITS)
    ]
    return data.series * _limit(found)


def _limit(found: list[Array]) -> Array:
    """κ → ∞ of a power series in 1/κ, by Neville's extrapolation to 1/κ = 0."""
    table, last = list(found), found[-1]
    for order in range(1, len(table)):
        last = table[-1]
        weight = RATIO**order
        table = [(weight * b - a) / (weight - 1.0) for a, b in itertools.pairwise(table)]
    size = np.sqrt(np.abs(table[0].diagonal()))
    size = np.where(size > 0, size, 1.0)
    if not (np.abs(table[0] - last) <= LIMIT_ERROR * np.outer(size, size)).all():
        raise NumericalFailure(
            "What the releases tell about the parameters depends on where the states start, of "
            "which nothing is known (diffuse): the bound has no limit. Give cov0."
        )
    return table[0]


class _Now(NamedTuple):
    """P_{k|k} (N, N) and its slopes (p, N, N), Π ((p + 1)N)² of the filtered ξ and its mean μ.

    (Or (pN)² and so on, where x̂ is left out.)
    """

    P: Array
    slopes: Array
    spread: Array
    mean: Array


class _Maps(NamedTuple):
    """ξ⁺ = Φ(ξ + known) and how ∂e sees it: `heard` (p, r, (p + 1)N), c⁻¹; the gain K."""

    lead: Array
    update: Array
    heard: Array
    whiten: Array
    gain: Array


def _summed(seen: Steps, given: Derivatives, shift: Array, cov: Array) -> Array:
    p, N, steps = len(given.start), len(seen.start), seen.steps
    driven = np.concatenate([shift[None], given.shift]).transpose(1, 0, 2).reshape(steps, -1)
    mean = np.concatenate([seen.start[None], given.start]).ravel()
    moving = bool(mean.any() or driven.any() or given.offset.any())
    used = slice(0 if given.transition.any() or given.rows.any() else N, None)
    driven, mean = driven[:, used], mean[used]
    now = _Now(cov, given.cov, np.zeros((len(mean), len(mean))), mean)
    total, k, kind = np.zeros((p, p)), 0, seen.kind
    stop = _run_ends(kind)
    while k < steps:
        known = driven[k], given.offset[:, k]
        before, (now, added, maps) = now, _step(seen, given, int(kind[k]), now, known, used)
        total += added[0] + added[1]
        k, end = k + 1, int(stop[k])
        if k < end and _change(now, before) <= SETTLED:
            total += (end - k) * added[0]
            if moving:
                more, mean = _means(maps, now.mean, driven[k:end], given.offset[:, k:end])
                total, now = total + more, now._replace(mean=mean)
            k = end
    return (total + total.T) / 2


def _run_ends(kind: Index) -> Index:
    """The step after the last of the run of equal kinds that each step is in."""
    ends = np.append(np.flatnonzero(np.diff(kind)) + 1, len(kind))
    return np.asarray(ends[np.searchsorted(ends, np.arange(len(kind)), side="right")])


def _relative(new: Array, old: Array) -> float:
    """The largest change of an entry, in units √(P_iiP_jj)."""
    unit = np.sqrt(np.abs(new.diagonal()))
    unit = np.where(unit > 0, unit, 1.0)
    return float(np.abs((new - old) / unit / unit[:, None]).max(initial=0.0))


def _change(new: _Now, old: _Now) -> float:
    """The largest change, in units of each."""
    unit = np.sqrt(new.P.diagonal())
    unit = np.where(unit > 0, unit, 1.0)
    size = np.abs(new.slopes / unit / unit[:, None]).max(initial=0.0)
    moved = np.abs((new.slopes - old.slopes) / unit / unit[:, None]).max(initial=0.0)
    return max(
        _relative(new.P, old.P),
        _relative(new.spread, old.spread),
        float(moved / size) if size > 0 else 0.0,
    )


def _step(
    seen: Steps,
    given: Derivatives,
    j: int,
    now: _Now,
    known: tuple[Array, Array],
    used: slice,
) -> tuple[_Now, tuple[Array, Array], _Maps]:
    """The next step of kind j; what it adds to I by covariances and by means."""
    A, F, G, noise = seen.transition[j], seen.drive[j], seen.rows[j], seen.noise[j]
    dA, dQ, dG, dV = (part[:, j] for part in given[:4])
    p, N, r = len(dA), len(A), len(G)
    led = dA @ now.P @ A.T
    P = A @ now.P @ A.T + F @ F.T
    slopes = led + led.swapaxes(1, 2) + A @ now.slopes @ A.T + dQ
    # V ≥ I: Cholesky is safe, and so is its triangular inverse.
    seen_P = G @ P
    crossed = dG @ seen_P.T
    covariance = seen_P @ G.T + noise @ noise.T
    moved = crossed + crossed.swapaxes(1, 2) + G @ slopes @ G.T + dV
    whiten = np.linalg.inv(np.linalg.cholesky(covariance))
    precision = whiten.T @ whiten
    gain = seen_P.T @ precision
    turned = dG.swapaxes(1, 2)
    d_gain = (slopes @ G.T + P @ turned - gain @ moved) @ precision
    kept = np.eye(N) - gain @ G
    filtered = kept @ P @ kept.T + gain @ (noise @ noise.T) @ gain.T
    lost = gain @ dG @ filtered
    slopes = kept @ slopes @ kept.T - lost - lost.swapaxes(1, 2) + gain @ dV @ gain.T
    maps = _Maps(
        _blocks(A, dA, A)[used, used], _blocks(np.eye(N), -gain @ dG, kept)[used, used],
        _heard(G, dG)[:, :, used], whiten, gain,
    )  # fmt: skip
    ahead = maps.lead @ now.spread @ maps.lead.T
    own = np.concatenate([gain[None], d_gain]).reshape(-1, r)[used]
    spread = maps.update @ ahead @ maps.update.T + own @ covariance @ own.T
    white = whiten @ moved @ whiten.T
    rows = (whiten @ maps.heard).reshape(p * r, -1)
    squares = np.einsum("iajb->ijab", (rows @ ahead @ rows.T).reshape(p, r, p, r))
    by_covariances = 0.5 * np.einsum("iab,jab->ij", white, white) + np.einsum("ijaa->ij", squares)
    mean = maps.lead @ now.mean + known[0]
    felt = whiten @ (maps.heard @ mean + known[1])[:, :, None]
    mean = maps.update @ mean - _from_offset(gain, known[1], len(mean))
    found = _Now((filtered + filtered.T) / 2, slopes, (spread + spread.T) / 2, mean)
    return found, (by_covariances, np.einsum("iab,jab->ij", felt, felt)), maps


def _blocks(first: Array, below: Array, own: Array) -> Array:
    """[[first, 0, …], [below_i, own at i]]."""
    p, N = len(below), len(first)
    found = np.zeros((p + 1, N, p + 1, N))
    found[0, :, 0], found[1:, :, 0] = first, below
    for i in range(p):
        found[1 + i, :, 1 + i] = own
    return found.reshape((p + 1) * N, (p + 1) * N)


def _heard(G: Array, dG: Array) -> Array:
    """−∂_ie as rows on ξ, (p, r, (p + 1)N)."""
    p, (r, N) = len(dG), G.shape
    found = np.zeros((p, r, p + 1, N))
    found[:, :, 0] = dG
    for i in range(p):
        found[i, :, 1 + i] = G
    return found.reshape(p, r, (p + 1) * N)


def _from_offset(gain: Array, offset: Array, size: int) -> Array:
    """(0, K ∂_i offset) of offsets (p, r), or its last `size` entries."""
    return np.concatenate([np.zeros(len(gain)), (offset @ gain.T).ravel()])[-size:]


def _means(maps: _Maps, mean: Array, driven: Array, offset: Array) -> tuple[Array, Array]:
    """What means add over the rest of a run whose covariances have settled, and the last mean."""
    steps = len(driven)
    pulled = np.stack([_from_offset(maps.gain, offset[:, k], len(mean)) for k in range(steps)])
    forcing, closed = driven @ maps.update.T - pulled, maps.update @ maps.lead
    found, now = np.empty((steps, len(mean))), mean
    for k in range(steps):
        now = closed @ now + forcing[k]
        found[k] = now
    before = np.concatenate([mean[None], found[:-1]])
    ahead = before @ maps.lead.T + driven
    felt = np.einsum("irx,kx->ikr", maps.heard, ahead) + offset
    white = felt @ maps.whiten.T
    return np.einsum("ikr,jkr->ij", white, white), found[-1]
