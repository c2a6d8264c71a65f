"""Continuous time: what a linear stochastic differential equation does over a gap between readings.

    dx = F x dt + B u dt + dW ,   cov dW = Qc dt ,   u constant over the gap h:

    x(t+h) = A x(t) + ΨBu + w ,    cov w = Q ,
    A = e^{Fh} ,   Ψ = ∫₀ʰ e^{Fs} ds ,   Q = ∫₀ʰ e^{Fs} Qc e^{Fᵀs} ds

Van Loan reads all three off one exponential of [[F, Qc], [0, −Fᵀ]] h, whose lower block e^{−Fᵀh}
overflows over long gaps of stable systems. Here the gap is halved until ‖F‖h ≤ ¼, where Taylor
series are exact to rounding, and doubled again:

    A(2h) − I = 2E + E² ,  E = A(h) − I ;   Ψ(2h) = Ψ + AΨ ;   Q(2h) = Q + A Q Aᵀ

Q is a sum of squares, nothing overflows but what grows itself, and E keeps the digits of slow parts
beside fast ones (‖F‖h = 1e12 and more). Distinct gaps are done side by side.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from privest.arrays import EPS, Array, ArrayLike, Index, as_array, as_positive, plural
from privest.errors import InvalidInput, NumericalFailure
from privest.linalg import psd

SMALL = 0.25  # ‖F‖h below which TERMS terms of the series leave nothing
TERMS = 16  # (2·¼)^16/17! = 4e-20
FADED = 100.0  # time constants after which a stable system has forgotten its start: e^{-200}
CHUNK = 4096  # gaps done side by side


class Motion(NamedTuple):
    """A, Q (J, n, n) and Ψ = ∫e^{Fs}ds (J, n, n) of J gaps."""

    A: Array
    Q: Array
    integral: Array


def over_gaps(F: Array, Qc: Array, gaps: Array) -> Motion:
    """A, Q and Ψ over gaps (J,) ≥ 0. O(J n³ log ‖F‖h)."""
    parts = [_doubled(F, Qc, gaps[start : start + CHUNK]) for start in range(0, len(gaps), CHUNK)]
    done = Motion(*(np.concatenate(each) for each in zip(*parts)))
    finite = np.isfinite(done.A) & np.isfinite(done.Q) & np.isfinite(done.integral)
    if not finite.all():
        worst = gaps[~finite.all(axis=(1, 2))].min()
        raise NumericalFailure(
            f"Over a gap of {worst:.6g} the state leaves the range of numbers: F is not stable. "
            "State the time in other units, or put readings (missing ones) in between."
        )
    return done


def _doubled(F: Array, Qc: Array, gaps: Array) -> Motion:
    unit = float(np.abs(F).sum(axis=1).max()) or 1.0  # of 1/time: no power of F leaves the range
    F, Qc, gaps = F / unit, Qc / unit, unit * gaps
    halvings = np.ceil(np.log2(np.maximum(gaps / SMALL, 1.0))).astype(np.intp)
    E, integral, Q = _short(F, Qc, np.ldexp(gaps, -halvings))
    with np.errstate(over="ignore", invalid="ignore"):  # looked at by the caller
        for done in range(int(halvings.max(initial=0))):
            own = np.flatnonzero(halvings > done)
            e, q, psi = E[own], Q[own], integral[own]
            moved = q + e @ q  # A Q, then A Q Aᵀ
            grown = q + moved + moved @ e.swapaxes(-1, -2)
            Q[own] = grown / 2 + grown.swapaxes(-1, -2) / 2
            integral[own] = 2 * psi + e @ psi
            E[own] = 2 * e + e @ e
    return Motion(np.eye(len(F)) + E, Q, integral / unit)


def _short(F: Array, Qc: Array, gaps: Array) -> tuple[Array, Array, Array]:
    """E, Ψ and Q by their Taylor series: Ψ = Σ F^j h^{j+1}/(j+1)!, Q alike with FM + MFᵀ."""
    n = len(F)
    power: Array = np.eye(n)
    spread, E = Qc, np.zeros((len(gaps), n, n))
    integral, Q = np.zeros_like(E), np.zeros_like(E)
    for j in range(TERMS):
        weight = (gaps ** (j + 1) / math.factorial(j + 1))[:, None, None]
        integral += weight * power
        Q += weight * spread
        power = F @ power
        E += weight * power
        moved = F @ spread
        spread = moved + moved.T
    return E, integral, Q


def stationary_covariance(F: Array, Qc: Array) -> Array:
    """P with FP + PFᵀ + Qc = 0: Q over a gap after which everything earlier is forgotten."""
    rate = -float(np.linalg.eigvals(F).real.max())
    if not rate > len(F) * EPS * float(np.abs(F).max()):
        raise InvalidInput(
            "cov0='stationary' needs a stable F (all eigenvalues left of the imaginary axis); the "
            f"largest real part is {-rate:.3g}. Give cov0."
        )
    return np.asarray(over_gaps(F, Qc, np.array([FADED / rate])).Q[0])


def gaps_between(times: ArrayLike | None, step: float | None) -> tuple[Array, Index | None]:
    """The distinct gaps (J,), and which one follows each reading (K,); None where all are one.

    The last reading has no successor: what follows it, for predictions, is `step`, or a gap as long
    as the one before. Gaps that differ by rounding of the times count as equal.
    """
    after = None if step is None else as_positive(step, "step")
    if times is None:
        if after is None:
            raise InvalidInput("give the times of the readings, or the step between them.")
        return np.array([after]), None
    when = as_array(times, "times", ndim=1)
    gaps = np.diff(when)
    if (gaps <= 0).any():
        k = int(np.argmax(gaps <= 0))
        raise InvalidInput(
            f"times must increase: that of reading {k + 1} ({when[k + 1]:.6g}) is not after that "
            f"of reading {k} ({when[k]:.6g})."
        )
    if after is None and len(when) < 2:
        raise InvalidInput("times must be at least two, or give the step that follows them.")
    every = np.append(gaps, gaps[-1] if after is None else after)
    order = np.argsort(every)
    apart = np.diff(every[order]) > 4 * EPS * max(np.abs(when).max(), every.max())
    group = np.concatenate([[0], np.cumsum(apart)])
    own = np.empty(len(every), dtype=np.intp)
    own[order] = group
    distinct = np.bincount(own, weights=every) / np.bincount(own)
    return distinct, None if len(distinct) == 1 else own


class Sampled(NamedTuple):
    """A, Q, B of a StateSpace and cov0: (…) or with a time axis."""

    A: Array
    Q: Array
    B: Array | None
    cov0: ArrayLike | None


def sampled(
    F: ArrayLike, Qc: ArrayLike, B: ArrayLike | None, cov0: ArrayLike | str | None,
    times: ArrayLike | None, step: float | None,
) -> Sampled:  # fmt: skip
    """The matrices of `StateSpace.from_continuous`."""
    drift, spread = _drift(F), as_array(Qc, "Qc", ndim=(0, 2))
    n = len(drift)
    if spread.ndim == 0:
        spread = spread * np.eye(n)
    spread = psd(spread, "Qc", size=n).dense()
    acts = None if B is None else np.atleast_2d(as_array(B, "B", ndim=(0, 2)))
    if acts is not None and len(acts) != n:
        raise InvalidInput(f"B must have {plural(n, 'row')}; received shape {acts.shape}.")
    if isinstance(cov0, str):
        if cov0 != "stationary":
            raise InvalidInput(f"cov0 must be numbers or 'stationary'; received {cov0!r}.")
        cov0 = stationary_covariance(drift, spread)
    gaps, own = gaps_between(times, step)
    A, Q, integral = over_gaps(drift, spread, gaps)
    if own is None:
        return Sampled(A[0], Q[0], None if acts is None else integral[0] @ acts, cov0)
    return Sampled(A[own], Q[own], None if acts is None else (integral @ acts)[own], cov0)


def _drift(F: ArrayLike) -> Array:
    drift = np.atleast_2d(as_array(F, "F", ndim=(0, 2)))
    if drift.shape[0] != drift.shape[1] or drift.size == 0:
        raise InvalidInput(f"F must be square, n×n; received shape {drift.shape}.")
    return drift
