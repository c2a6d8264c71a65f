"""Cramér-Rao bounds of the parameters of a dynamic model, exact for K steps.

    cov θ̂ ≥ J I⁻¹ Jᵀ ,   J = ∂θ/∂t ,   I the Fisher information of the releases about t
    I_ij = Σ_k ½ tr(F⁻¹∂_iF F⁻¹∂_jF) + E[∂_ieᵀ F⁻¹ ∂_je] ,     ∂_ie = −∂_iG x̂ − G ∂_ix̂ − ∂_i offset

of innovations e ~ N(0, F). E ξξᵀ = Π + μμᵀ of ξ = (x̂, ∂_1x̂, …, ∂_px̂) goes along: ξ⁺ = Φξ + Γe +
known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
import scipy

from privest.arrays import Array, ArrayLike, Flags, as_count, as_flags
from privest.bounds import GivenBound
from privest.dynamics._families import Family, Theta, as_family, as_parameters
from privest.dynamics._kalman import first_state, least_response, responses
from privest.dynamics._releases import Data, Level
from privest.dynamics._steps import Derivatives, Matrices, Steps, input_terms, step_slopes, steps_of
from privest.dynamics._system import known_inputs
from privest.errors import InvalidInput, NumericalFailure
from privest.linalg.tolerances import SQUARED
from privest.privacy import StreamLevel, as_stream_level

LONGEST = 16_000  # measurements whose largest eigenvalue is computed
VAGUE = 1e5  # κ in units of what is left of a diffuse start: rounding is 1e5 of that of doubles
LIMIT_CHANGE = 1e-3  # of I from κ to 2κ, relatively: terms beyond 1/κ are about its square
SETTLED = 1e-12  # relative, of all further changes of covariances
NULL = 1e-8  # of the largest eigenvalue of an information with unit diagonal: flat
SHARE = 1e-3  # part of a parameter's largest move from which on a flat direction moves it
WEAK = 1.0  # standard error of a logarithm or artanh beyond which hardly anything is known
NO_PRIVACY = 1e6  # releases with so much less noise are taken for the measurements themselves
LEAST_LEVEL = 1e10 * SQUARED  # errors of variances, some 1/level², are still numbers

# --- exact information of K steps ---


def information(matrices: Matrices, slopes: Matrices, data: Data) -> Array:
    """I (p, p) about t from all series of the data, in O(K (np)³) or until covariances have
    settled.

    Diffuse start: the limit of δ ~ N(0, κI) from κ and 2κ.
    """
    plan = data.plan(matrices)
    seen = steps_of(matrices, plan)
    shift, _ = input_terms(matrices, plan, data.inputs)
    given = step_slopes(matrices, slopes, plan, data.inputs)
    cov = seen.root @ seen.root.T
    if not matrices.diffuse.shape[1]:
        return data.series * _information(seen, given, shift, cov)
    columns = responses(seen, matrices.diffuse).T
    unit = VAGUE / least_response(matrices, data)
    vague, vaguer = (
        _information(seen, given, shift, cov + times * unit * columns @ columns.T)
        for times in (1.0, 2.0)
    )
    size = np.sqrt(np.maximum(vaguer.diagonal(), np.finfo(float).tiny))
    if not (np.abs(vaguer - vague) <= LIMIT_CHANGE * np.outer(size, size)).all():
        raise NumericalFailure("The bound has no limit as the start becomes vague: give cov0.")
    return data.series * (2.0 * vaguer - vague)


class _Covariances(NamedTuple):
    """P_{k|k} (N, N), its slopes (p, N, N), and Π of the filtered ξ."""

    P: Array
    slopes: Array
    spread: Array


class _Maps(NamedTuple):
    """ξ⁺ = update(lead ξ + known), −∂e = heard ξ; c⁻¹ with cᵀc = F; what a step adds to I."""

    lead: Array
    update: Array
    heard: Array
    whiten: Array
    gain: Array
    added: Array


def _information(seen: Steps, given: Derivatives, shift: Array, cov: Array) -> Array:
    """I of one series that starts with covariance `cov`.

    Where no parameter changes A or G, ξ is without x̂ (whose variance may grow without end).
    """
    p = len(given.start)
    N = len(seen.start)
    steps = seen.steps
    driven = np.concatenate([shift[None], given.shift]).transpose(1, 0, 2).reshape(steps, -1)
    mean = np.concatenate([seen.start[None], given.start]).ravel()
    moving = bool(mean.any() or driven.any() or given.offset.any())
    used = slice(0 if given.transition.any() or given.rows.any() else N, None)
    driven = driven[:, used]
    mean = mean[used]
    now = _Covariances(cov, given.cov, np.zeros((len(mean), len(mean))))
    total = np.zeros((p, p))
    before = math.inf
    settled = False
    last = -1
    for k, kind in enumerate(seen.kind.tolist()):
        if kind != last:
            settled = False
            before = math.inf
            last = kind
        if not settled:
            then = now
            now, maps = _covariance_step(seen, given, kind, now, used)
            change = _change(now, then)
            settled = _has_settled(change, before)
            before = change
        total += maps.added
        if moving:
            mean = maps.lead @ mean + driven[k]
            offset = given.offset[:, k]
            felt = ((maps.heard @ mean + offset) @ maps.whiten.T).reshape(p, -1)
            total += felt @ felt.T
            pulled = np.concatenate([np.zeros(N), (offset @ maps.gain.T).ravel()])[-len(mean) :]
            mean = maps.update @ mean - pulled
    return (total + total.T) / 2


def _has_settled(change: float, before: float) -> bool:
    if not change < before < math.inf:
        return change == 0.0
    return change**2 / (before - change) <= SETTLED


def _change(new: _Covariances, old: _Covariances) -> float:
    def unit(P: Array) -> Array:
        size = np.sqrt(np.maximum(P.diagonal(), 0.0))
        size = np.where(size > 0, size, 1.0)
        return np.outer(size, size)

    own = unit(new.P)
    whole = unit(new.spread)
    size = np.abs(new.slopes / own).max(initial=0.0)
    moved = np.abs((new.slopes - old.slopes) / own).max(initial=0.0)
    return max(
        float(np.abs((new.P - old.P) / own).max()),
        float(np.abs((new.spread - old.spread) / whole).max(initial=0.0)),
        float(moved / size) if size > 0 else 0.0,
    )


def _covariance_step(
    seen: Steps, given: Derivatives, j: int, now: _Covariances, used: slice
) -> tuple[_Covariances, _Maps]:
    A, F, G, noise = seen.of_kind(j)
    dA, dQ, dG, dV = (part[:, j] for part in given[:4])
    p = len(dA)
    N = len(A)
    r = len(G)
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
    d_gain = (slopes @ G.T + P @ dG.swapaxes(1, 2) - gain @ moved) @ precision
    kept = np.eye(N) - gain @ G
    filtered = kept @ P @ kept.T + gain @ (noise @ noise.T) @ gain.T
    lost = gain @ dG @ filtered
    slopes = kept @ slopes @ kept.T - lost - lost.swapaxes(1, 2) + gain @ dV @ gain.T
    lead = _blocks(A, dA, A)[used, used]
    update = _blocks(np.eye(N), -gain @ dG, kept)[used, used]
    heard = _blocks(np.zeros((r, N)), dG, G)[r:].reshape(p, r, -1)[:, :, used]
    ahead = lead @ now.spread @ lead.T
    own = np.concatenate([gain[None], d_gain]).reshape(-1, r)[used]
    spread = update @ ahead @ update.T + own @ covariance @ own.T
    white = whiten @ moved @ whiten.T
    rows = whiten @ heard
    added = 0.5 * np.einsum("iab,jab->ij", white, white)
    added += np.einsum("iax,jax->ij", rows @ ahead, rows)
    found = _Covariances((filtered + filtered.T) / 2, slopes, (spread + spread.T) / 2)
    return found, _Maps(lead, update, heard, whiten, gain, added)


def _blocks(first: Array, below: Array, own: Array) -> Array:
    """[[first, 0, …], [below_i, own at i]]."""
    p = len(below)
    rows, N = first.shape
    found = np.zeros((p + 1, rows, p + 1, N))
    found[0, :, 0] = first
    found[1:, :, 0] = below
    found[np.arange(1, p + 1), :, np.arange(1, p + 1)] = own
    return found.reshape((p + 1) * rows, (p + 1) * N)


# --- unknown starts ---

Start = Callable[[], Array]  # x_0 of each series, (n, series)


def information_of(
    matrices: Matrices, slopes: Matrices, data: Data, start: Start | None = None
) -> Array:
    """I (p, p) from all series, for any start x_0 = mean0 + Eδ; at mean0 where none is given.

    Where θ changes the response to δ (ARX), δ counts as q more parameters: I_θθ − I_θδ I_δδ⁻¹ I_δθ.
    """
    if not matrices.diffuse.shape[1] or not (slopes.A.any() or slopes.C.any()):
        return information(matrices, slopes, data)
    x = np.repeat(matrices.mean0[:, None], data.series, axis=1) if start is None else start()
    one = Data(*data._replace(values=data.values[:, :, :1]))
    found = [_given_start(matrices, slopes, one, x_0) for x_0 in x.T]
    return np.asarray(np.mean(found, axis=0) * data.series)


def _given_start(matrices: Matrices, slopes: Matrices, data: Data, x_0: Array) -> Array:
    """I_θθ − I_θδ I_δδ⁻¹ I_δθ of one series that starts at x_0."""
    p = len(slopes.A)
    q = matrices.diffuse.shape[1]
    known = matrices._replace(mean0=x_0, diffuse=matrices.diffuse[:, :0])
    wide = Matrices(*(np.concatenate([own, np.zeros((q, *own.shape[1:]))]) for own in slopes))
    wide = wide._replace(diffuse=wide.diffuse[:, :, :0])
    wide.mean0[p:] = matrices.diffuse.T
    # A mean and x_0 shift the first measurements alike, a difference of two large numbers: θ is
    # first turned to directions that move δ along.
    wide.mean0[:p] -= _regression(information(known, wide, data), p) @ wide.mean0[p:]
    total = information(known, wide, data)
    return np.asarray(total[:p, :p] - _regression(total, p) @ total[p:, :p])


def _regression(total: Array, p: int) -> Array:
    own = total[p:, p:]
    unit = np.sqrt(own.diagonal())
    try:
        half = scipy.linalg.cho_factor(own / np.outer(unit, unit), lower=True)
    except np.linalg.LinAlgError:
        raise NumericalFailure("The releases do not tell all of x_0 apart.") from None
    return np.asarray(scipy.linalg.cho_solve(half, total[p:, :p] / unit[:, None]).T / unit)


# --- covariances of natural parameters ---


def covariance_of(info: Array, slopes: Array, held: Flags) -> Array:
    """JI⁻¹Jᵀ; infinite in parameters that a flat direction moves, NaN in those held."""
    free = np.flatnonzero(~held)
    result: Array = np.full(info.shape, np.nan)
    if not len(free):
        return result
    H = info[np.ix_(free, free)]
    unit = np.sqrt(np.where(H.diagonal() > 0, H.diagonal(), 1.0))
    values, vectors = np.linalg.eigh(H / np.outer(unit, unit))
    flat = values <= NULL * max(values[-1], 0.0)
    moved = slopes[:, free] @ (vectors / unit[:, None])
    known = moved[:, ~flat] / np.sqrt(values[~flat])
    result = np.asarray(known @ known.T)
    size = np.abs(moved).max(axis=1, initial=0.0)[:, None]
    lost = (np.abs(moved[:, flat]) > SHARE * np.where(size > 0, size, 1.0)).any(axis=1)
    _set_nan(result, lost | (slopes[:, free] == 0).all(axis=1))
    result[lost, lost] = np.inf
    return result


def _set_nan(covariance: Array, which: Flags) -> None:
    covariance[which] = np.nan
    covariance[:, which] = np.nan


def estimate_covariance(info: Array, slopes: Array, held: Flags, transformed: Flags) -> Array:
    """`covariance_of` an estimate, NaN also where a logarithm or artanh has an error above WEAK."""
    result = covariance_of(info, slopes, held)
    working = covariance_of(info, np.eye(len(info)), held).diagonal()
    wide = transformed & ~held & ~(working <= WEAK**2)
    _set_nan(result, (slopes[:, wide] != 0).any(axis=1) & np.isfinite(result.diagonal()))
    return result


def expected_information(
    family: Family, t: Array, data: list[Data], free: Flags, *, private: bool = True,
    planned: bool = False,
) -> Array | None:  # fmt: skip
    """I (p, p) about those of t that are free, from all data; None where it cannot be computed.

    `private`: from the releases; else from the measurements. `planned`: x_0 is mean0.
    """
    matrices = family.matrices(t)
    total = np.zeros((family.size, family.size))
    slopes = Matrices(*(part[free] for part in family.slopes(t)))
    try:
        for own in data if free.any() else ():
            seen = Data(*own._replace(unit=own.unit * (1.0 if private else NO_PRIVACY)))
            start = None if planned else partial(first_state, matrices, own)
            total[np.ix_(free, free)] += information_of(matrices, slopes, seen, start)
    except NumericalFailure:
        return None
    return total


def exact_bound(
    family: Family, t: Array, data: list[Data], held: Flags, *, private: bool,
    planned: bool = False,
) -> Array | None:  # fmt: skip
    total = expected_information(family, t, data, ~held, private=private, planned=planned)
    return None if total is None else covariance_of(total, family.natural_slopes(t), held)


# --- the level ---


def exposure(level: StreamLevel, steps: int) -> float:
    """λmax(S̄), S̄ = AᵀA; with lags of the first LONGEST measurements."""
    if level.form == "dense":
        return float(np.linalg.norm(level.dense_rows(0, steps), 2) ** 2)
    reach = level.reach
    m = level.block or 0
    if not reach:
        blocks = level.blocks(0, 1 if level.steps is None else steps)[0]
        return float(np.linalg.norm(blocks, 2, axis=(1, 2)).max() ** 2)
    count = min(steps, LONGEST // m)
    blocks = level.blocks(0, count + reach if level.steps is None else level.steps)
    band = np.zeros(((reach + 1) * m, count * m))  # LAPACK's lower band storage of S̄
    for lag, later in zip(*np.tril_indices(reach + 1)[::-1]):
        left = blocks[later - lag, later:][:count]
        right = blocks[later, later:][:count]
        part = left.swapaxes(-1, -2) @ right  # of S̄_{k+lag, k}, shown by step k + later
        for row, column in np.ndindex(m, m):
            below = lag * m + row - column
            if below >= 0:
                band[below, column::m][: len(part)] += part[:, row, column]
    last = count * m - 1
    found = scipy.linalg.eigvals_banded(band, lower=True, select="i", select_range=(last, last))
    return float(found[0])


def require_level(shown: float) -> None:
    if not shown > 0:
        raise InvalidInput("The level is 0: the releases are noise and show nothing to fit.")
    if not LEAST_LEVEL <= shown <= 1.0 / LEAST_LEVEL:
        raise InvalidInput(
            f"A level of {shown:.1g} is beyond the range in which variances can be computed: state "
            "the measurements in other units."
        )


# --- before a release ---


class ParameterBound(GivenBound):
    """The least covariance of every unbiased estimate of θ from K Gaussian releases.

    classical: from the measurements themselves. exposure: λmax(S̄).
    """

    FIELDS: ClassVar[tuple[str, ...]] = (*GivenBound.FIELDS, "exposure")

    def __init__(
        self, names: tuple[str, ...], covariance: Array, classical: Array, exposure: float
    ) -> None:
        super().__init__(names, covariance, classical)
        self.exposure = exposure


def parameter_bound(
    family: str | Family, theta: Theta, level: Level, *, steps: int,
    inputs: ArrayLike | None = None, missing: ArrayLike | None = None,
) -> ParameterBound:  # fmt: skip
    """The Cramér-Rao bound of θ from `steps` Gaussian releases at a privacy level.

        cov θ̂ ≥ I(θ)⁻¹ ,   I/K → (1/4π) ∫ W(ω)² ∂log f ∂log fᵀ dω ,   W = f/(f + 1/s)

    f is the spectrum of the measurements. At a low level variances go with s⁻² for stationary
    parameters, with s⁻¹ for a mean. θ is a public guess; `missing` (K,), `inputs` as in `fit`.

    >>> found = parameter_bound("ar1-mean", {"phi1": 0.8, "q": 0.36}, 0.2, steps=2000)  # γ₀ = 1
    >>> found.standard_error.round(4).tolist(), found.classical_error.round(4).tolist()
    ([0.0463, 0.1084], [0.0134, 0.0114])
    """
    count = as_count(steps, "steps", least=1)
    u = known_inputs(inputs, count)
    model = as_family(family, inputs=u.shape[1])
    t = model.working(as_parameters(model, theta))
    flags = np.zeros(count, dtype=bool)
    if missing is not None:
        flags = as_flags(missing, "missing", ((count,),))
    wanted = as_stream_level(level, measurements=model.measurements)
    if wanted.steps is not None and wanted.steps < count:
        raise InvalidInput(f"The level has {wanted.steps} steps; asked for {count}.")
    shown = exposure(wanted, count)
    require_level(shown)
    zeros = np.zeros((count, model.measurements, 1))
    data = [Data(zeros, flags, wanted, 1.0, model.regressors(u), simulated=False)]
    private, classical = (
        exact_bound(model, t, data, np.zeros(model.size, dtype=bool), private=private, planned=True)
        for private in (True, False)
    )
    if private is None or classical is None:
        raise NumericalFailure("The bound has no limit as the start becomes vague: give cov0.")
    return ParameterBound(model.names, private, classical, shown)
