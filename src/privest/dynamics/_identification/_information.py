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

from privest.arrays import Array
from privest.dynamics._identification._adjoint import passed
from privest.dynamics._identification._data import Data
from privest.dynamics._identification._diffuse import response_size
from privest.dynamics._identification._likelihood import plan_for
from privest.dynamics._identification._matrices import Matrices
from privest.dynamics._identification._step_slopes import step_slopes
from privest.dynamics._identification._steps import Derivatives, steps_of
from privest.dynamics._observed import Observed
from privest.dynamics._recursions import (
    PATIENCE,
    REACHED,
    recurrence,
    relative_change,
    run_starts,
    settled,
)
from privest.errors import NumericalFailure

VAGUE, RATIO, LIMITS = 1e2, 4.0, 5  # κ = 1e2, 4e2, … in units of what is left of a diffuse start
LIMIT_ERROR = 1e-8  # of the limit κ → ∞, between its last two extrapolations


def information(matrices: Matrices, slopes: Matrices, data: Data) -> Array:
    """I (p, p) about t from all series of the data; its values are not looked at.

    O(K (np)³), or until the covariances have settled. The private Cramér-Rao bound of t is I⁻¹.
    A diffuse start: the limit of vaguer and vaguer ones (that of δ ~ N(0, κI), κ → ∞).
    """
    plan = plan_for(matrices, data)
    seen, shift, offset = steps_of(matrices, plan, data)
    given = step_slopes(matrices, slopes, plan, data, seen)
    del offset  # a known number added to z̃
    cov = seen.root @ seen.root.T
    if not matrices.diffuse.shape[1]:
        return data.series * _summed(seen, given, shift, cov)
    columns = np.zeros((len(seen.start), matrices.diffuse.shape[1]))
    columns[: seen.states] = matrices.diffuse
    silent = np.zeros((data.steps, seen.rows.shape[1], 1))
    way = passed(seen, plan, silent, np.zeros_like(shift), silent[:, :, 0], columns)
    unit = VAGUE / response_size(way.innovations[:, :, 1:], columns)
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


def _summed(seen: Observed, given: Derivatives, shift: Array, cov: Array) -> Array:
    p, N, steps = len(given.start), len(seen.start), seen.steps
    driven = np.concatenate([shift[None], given.shift]).transpose(1, 0, 2).reshape(steps, -1)
    mean = np.concatenate([seen.start[None], given.start]).ravel()
    moving = bool(mean.any() or driven.any() or given.offset.any())
    used = slice(0 if given.transition.any() or given.rows.any() else N, None)
    driven, mean = driven[:, used], mean[used]
    now = _Now(cov, given.cov, np.zeros((len(mean), len(mean))), mean)
    total, k, next_check = np.zeros((p, p)), 0, 0
    kind = seen.kind
    first, stop = run_starts(kind), steps - run_starts(kind[::-1])[::-1]
    while k < steps:
        known = driven[k], given.offset[:, k]
        before, (now, added, maps) = now, _step(seen, given, int(kind[k]), now, known, used)
        total += added[0] + added[1]
        age, end, k = k - int(first[k]), int(stop[k]), k + 1
        if age == 0:
            next_check = 1
        elif k < end and age >= next_check:
            change = _change(now, before)
            if change <= REACHED:
                if settled(change, now.spread, maps.update @ maps.lead):
                    total += (end - k) * added[0]
                    if moving:
                        more, mean = _means(maps, now.mean, driven[k:end], given.offset[:, k:end])
                        total, now = total + more, now._replace(mean=mean)
                    k = end
                next_check = int(PATIENCE * age) + 1
    return (total + total.T) / 2


def _change(new: _Now, old: _Now) -> float:
    """The largest change, in units of each."""
    unit = np.sqrt(new.P.diagonal())
    unit = np.where(unit > 0, unit, 1.0)
    size = np.abs(new.slopes / unit / unit[:, None]).max(initial=0.0)
    moved = np.abs((new.slopes - old.slopes) / unit / unit[:, None]).max(initial=0.0)
    return max(
        relative_change(new.P, old.P),
        relative_change(new.spread, old.spread),
        float(moved / size) if size > 0 else 0.0,
    )


def _step(
    seen: Observed,
    given: Derivatives,
    j: int,
    now: _Now,
    known: tuple[Array, Array],
    used: slice,
) -> tuple[_Now, tuple[Array, Array], _Maps]:
    """The next step of kind j; what it adds to I by covariances and by means."""
    A, F, G, noise = seen.of_kind(j)
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
    forcing = (driven @ maps.update.T - pulled)[:, :, None]
    entry = np.zeros(steps, dtype=np.intp)
    found = recurrence((maps.update @ maps.lead)[None], entry, forcing, mean[:, None])[:, :, 0]
    before = np.concatenate([mean[None], found[:-1]])
    ahead = before @ maps.lead.T + driven
    felt = np.einsum("irx,kx->ikr", maps.heard, ahead) + offset
    white = felt @ maps.whiten.T
    return np.einsum("ikr,jkr->ij", white, white), found[-1]
