"""The private Kalman filter and smoother, and the likelihood of releases.

Where nothing is known of directions of x_0 = mean0 + D δ + N(0, cov0), the columns of D are further
series that show zeros. With M the response of an estimate to δ, X̃ that of whitened innovations,

    ζ(δ) = ζ(0) − X̃ δ ,   x̂(δ) = x̂(0) + M δ ,    δ | releases ~ N(δ̂, (X̃ᵀX̃)⁻¹) by least squares,
    x̂ = x̂(0) + M δ̂ ,   P = P⁰ + M (X̃ᵀX̃)⁻¹ Mᵀ ,   ℓ = −½(N log 2π + log|V| + log|X̃ᵀX̃| + RSS)

X̃ᵀX̃ = RᵀR by QR; once R has full rank the filter goes on from a proper state. (δ ~ N(0, I) besides
changes none of it, and keeps a system without other noise regular.)
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import Array, Index
from privest.dynamics import _kernel as kernel
from privest.dynamics._releases import Data
from privest.dynamics._steps import (
    Derivatives,
    Matrices,
    Plan,
    Steps,
    each_times,
    input_terms,
    numbers_shown,
    step_slopes,
    steps_of,
    whiten_loop,
)
from privest.errors import NotIdentifiable, NumericalFailure
from privest.linalg import compiling
from privest.linalg.tolerances import rank_tolerance

LOG_2PI = math.log(2 * math.pi)
HIDDEN = 1e-8  # part of a response to δ below which it is rounding of none
LARGE = 2**19  # numbers, 4 MB: from here on NumPy asks for huge pages
# √(variance before / after) beyond which rounding loses more than 1e-8: a vague start, or an
# unstable system over a long gap.
NARROWED = 1e7

PRODUCTS = (kernel.multiply, kernel.still)
STEP = (
    *PRODUCTS, kernel.less, kernel.copy, kernel.symmetrise, kernel.reflect, kernel.observe,
    kernel.listen, kernel.predict, kernel.update,
)  # fmt: skip
BACK = (
    *STEP, kernel.inverse_scale, kernel.expected_squares, kernel.smoothed_errors,
    kernel.moved_state, kernel.add_outer,
)  # fmt: skip
TABLES = "rows3 rows3 index rows3 rows2 index"


class Pass(NamedTuple):
    """A filter over all steps: entries of the covariances, and means of S series.

    predicted P⁻, filtered P, factor U (E, N, w), gain (E, r, w), scale (E, r); ahead x⁻, mean x
    (K, S, w), zeta (K, S, r).
    """

    entry: Index
    predicted: Array
    filtered: Array
    factor: Array
    gain: Array
    scale: Array
    ahead: Array
    mean: Array
    zeta: Array

    def of_steps(self, covariances: Array, n: int) -> Array:
        if len(covariances) == len(self.entry):
            return covariances[:, :n, :n]
        return np.asarray(covariances[self.entry, :n, :n])

    def log_scales(self) -> float:
        logs = np.log(np.where(self.scale > 0, self.scale, 1.0)) @ np.ones(self.scale.shape[1])
        return float(np.bincount(self.entry, minlength=len(logs)) @ logs)


def forward(steps: Steps, begin: Array, values: Array, shift: Array, root: Array) -> Pass:
    """The filter of whitened values (K, S, r) from means (S, N) and U; shift (K, 0, 1 or S, N)."""
    (K, S, r) = values.shape
    N = steps.transition.shape[1]
    w = steps.width
    # Entries are as many as steps at most; what is not used is never touched.
    squares = [(K, N, w)] * 3
    room = _room(*squares, (K, r, w), (K, r), (K, S, w), (K, S, w), (K, S, r))
    found = Pass(np.empty(K, dtype=np.int64), *room)
    before = _wide(root, w), _wide(begin, w)
    count = _forward_loop()(*steps.tables, *before, values, _wide(shift, w), *found)
    if count == K:
        return found
    return found._replace(
        predicted=found.predicted[:count], filtered=found.filtered[:count],
        factor=found.factor[:count], gain=found.gain[:count], scale=found.scale[:count],
    )  # fmt: skip


@cache
def _forward_loop() -> compiling.Loop:
    return compiling.where_installed(
        kernel.forward,
        f"{TABLES} rows2 rows2 rows3 rows3 outindex out3 out3 out3 out3 out2 out3 out3 out3",
        uses=STEP,
    )


def _room(*shapes: tuple[int, ...]) -> list[Array]:
    """Arrays that are not filled yet; large ones in one block, which comes in huge pages."""
    sizes = [math.prod(shape) for shape in shapes]
    if sum(sizes) < LARGE:
        return [np.empty(shape) for shape in shapes]
    parts = np.split(np.empty(sum(sizes)), np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes)]


def _wide(array: Array, width: int) -> Array:
    if array.shape[-1] == width:
        return np.ascontiguousarray(array)
    found = np.zeros((*array.shape[:-1], width))
    found[..., : array.shape[-1]] = array
    return found


def backward(steps: Steps, done: Pass, root: Array) -> tuple[Array, Array]:
    """The smoother: means (K, S, n) and covariances (K, n, n); `root`: that of `forward`."""
    (K, S, w) = done.mean.shape
    n = steps.states
    states, covariance = _room((K, S, w), (K, len(root), w))
    which = np.empty(K, dtype=np.int64)
    loop = compiling.where_installed(
        kernel.backward, f"{TABLES} rows2 index rows3 rows3 rows3 out3 out3 outindex", uses=STEP
    )
    count = loop(
        *steps.tables, _wide(root, w), done.entry, done.factor, done.mean, done.zeta, states,
        covariance, which,
    )  # fmt: skip
    own = covariance[::-1] if count == K else covariance[which]
    return states[..., :n], own[:, :n, :n]


def upper_root(*halves: Array) -> Array:
    """U (N, N) upper triangular, diagonal ≥ 0, with UᵀU = Σ X Xᵀ of X (N, ·)."""
    rows = np.concatenate([half.T for half in halves])
    n = rows.shape[1]
    if len(rows) < n:
        rows = np.concatenate([rows, np.zeros((n - len(rows), n))])
    upper = np.triu(scipy.linalg.lapack.dgeqrf(rows)[0][:n])
    return np.asarray(np.copysign(1.0, upper.diagonal())[:, None] * upper)


def unit_root_of(half: Array) -> Array:
    """N lower triangular with N Nᵀ = X Xᵀ + I of X (m, q)."""
    return upper_root(half, np.eye(len(half))).T


def require_sound(done: Pass, steps: Steps, *, smooth: bool = False) -> None:
    """Refuse covariances that overflowed, or that rounding has lost after a wide gap."""
    n = steps.states
    wide, narrow = (  # (n, E), in one piece: quick to look through
        np.ascontiguousarray(np.einsum("eii->ie", part[:, :n, :n]))
        for part in (done.predicted, done.filtered)
    )
    if not math.isfinite(float(narrow.sum())):
        k = int(np.argmin(np.isfinite(narrow).all(axis=0)[done.entry]))
        raise NumericalFailure(
            f"The covariance of the state overflows at step {k}: the system is unstable and what "
            "is released does not show it."
        )
    single = len(done.factor[0]) == 1
    if single and not smooth:
        return
    if not (wide.max(axis=1) > NARROWED**2 * narrow.min(axis=1)).any():
        return
    before = wide.T[done.entry]
    after = narrow.T[done.entry]
    if single:
        before[0] = after[0]
    largest = before.copy()
    for lag in range(1, min(n + 1, len(before))):
        np.maximum(largest[lag:], before[:-lag], out=largest[lag:])
    lost = largest > NARROWED**2 * after
    if (lost & (after > 0)).any():
        k, i = (int(place) for place in np.argwhere(lost & (after > 0))[0])
        raise NumericalFailure(
            f"State {i} is known {math.sqrt(largest[k, i] / after[k, i]):.0e} times better after "
            f"step {k} than before it: rounding loses the difference. The system is unstable over "
            "a long gap, or its start is vague: use diffuse= for what is not known of x_0."
        )


# --- directions of x_0 of which nothing is known ---


class Undetermined(NamedTuple):
    """Knowledge of δ: R (q, q) and Qᵀζ (q, S) by QR.

    reach (q,): the squared length of the columns of R if nothing had cancelled; density (S,):
    −½(N log 2π + log|V| + RSS).
    """

    triangle: Array
    right: Array
    reach: Array
    density: Array

    @classmethod
    def nothing(cls, columns: int, series: int) -> Undetermined:
        q = columns
        return cls(np.zeros((q, q)), np.zeros((q, series)), np.zeros(q), np.zeros(series))

    def after(self, shown: Array, size: Array, fresh: Array) -> Undetermined:
        """With rows X̃ (r, q), their `size` without cancellation, and ζ (r, S) more."""
        rows = np.concatenate([self.triangle, shown])
        turn, upper = np.linalg.qr(rows, mode="complete")
        moved = turn.T @ np.concatenate([self.right, fresh])
        q = rows.shape[1]
        reach = self.reach + np.square(size).sum(axis=0)
        density = self.density - 0.5 * np.square(moved[q:]).sum(axis=0)
        return Undetermined(upper[:q], moved[:q], reach, density)

    def known(self) -> Known:
        scale = np.sqrt(np.where(self.reach > 0, self.reach, 1.0))
        left, values, right = np.linalg.svd(self.triangle / scale)
        rank = int((values > rank_tolerance(len(scale))).sum())
        rest, _ = np.linalg.qr((right[rank:] / scale).T)
        root = (right[:rank] / scale).T / values[:rank]
        root = root - rest @ (rest.T @ root)
        return Known(root @ (left[:, :rank].T @ self.right), root, rest)


class Known(NamedTuple):
    """δ̂ (q, S), a factor of its covariance (q, ·), directions (q, h) of which nothing is known."""

    mean: Array
    root: Array
    hidden: Array

    def covariance(self, base: Array, response: Array) -> Array:
        """P⁰ + M cov(δ) Mᵀ: the limit for δ ~ N(0, κI), κ → ∞, entry by entry."""
        half = response @ self.root
        result = np.asarray(base + half @ half.swapaxes(-1, -2))
        if not self.hidden.shape[1]:
            return result
        open_ = response @ self.hidden
        size = np.linalg.norm(open_, axis=-1, keepdims=True)
        least = HIDDEN * np.linalg.norm(response, axis=-1, keepdims=True)
        open_ = np.where(size > least, open_, 0.0)
        product = open_ @ open_.swapaxes(-1, -2)
        matters = np.abs(product) > HIDDEN * size * size.swapaxes(-1, -2)
        return np.where(matters, np.copysign(np.inf, product), result)


def require_determined(diffuse: Array, hidden: Array) -> None:
    if not hidden.shape[1]:
        return
    raise NotIdentifiable(
        f"The releases do not determine x_0, of which nothing is known: {hidden.shape[1]} of its "
        f"{diffuse.shape[1]} diffuse directions are never shown (`hidden_directions`). Take more "
        "steps, another level, or give cov0.",
        diffuse @ hidden,
    )


class _Early(NamedTuple):
    """Steps until δ is determined: x̂, x̂⁻ (d, S, N), P, P⁻ (d, N, N), and what is then known."""

    filtered: Array
    predicted: Array
    covariance: Array
    predicted_covariance: Array
    now: Undetermined
    known: Known

    @property
    def determined(self) -> bool:
        return not self.known.hidden.shape[1]


def early_steps(steps: Steps, done: Pass, now: Undetermined, series: int) -> _Early:
    N = len(steps.start)
    own = now.known()
    found = []
    for k, e in enumerate(done.entry.tolist()):
        j = steps.kind[k]
        before = own
        ahead = done.ahead[k, series:, :N].T
        after = done.mean[k, series:, :N].T
        scale = np.where(done.scale[e] > 0, done.scale[e], 1.0)
        size = np.abs(steps.rows[j, :, :N]) @ np.abs(ahead) / scale[:, None]
        now = now.after(-done.zeta[k, series:].T, size, done.zeta[k, :series].T)
        own = now.known()
        found.append((
            done.mean[k, :series, :N] + (after @ own.mean).T,
            done.ahead[k, :series, :N] + (ahead @ before.mean).T,
            own.covariance(done.filtered[e, :, :N], after),
            before.covariance(done.predicted[e, :, :N], ahead),
        ))  # fmt: skip
        if not own.hidden.shape[1]:
            break
    count = len(found)
    logs = np.log(np.where(done.scale > 0, done.scale, 1.0)).sum(axis=1)[done.entry[:count]]
    shown = numbers_shown(steps.missing[:count], steps.rows.shape[1])
    spent = logs.sum() + steps.logs[steps.kind[:count]].sum() + 0.5 * shown * LOG_2PI
    now = now._replace(density=now.density - spent)
    filtered, predicted, narrow, wide = (np.stack(part) for part in zip(*found))
    return _Early(filtered, predicted, narrow, wide, now, own)


def with_unit_part(steps: Steps, diffuse: Array) -> Array:
    return upper_root(steps.root, responses(steps, diffuse).T)


def responses(steps: Steps, diffuse: Array) -> Array:
    found = np.zeros((diffuse.shape[1], len(steps.start)))
    found[:, : len(diffuse)] = diffuse.T
    return found


# --- the log-likelihood of releases, and its gradient ---


class _Evaluated(NamedTuple):
    value: float
    done: Pass
    begin: Array
    root: Array
    steps: Steps
    plan: Plan


def log_likelihood(matrices: Matrices, data: Data) -> float:
    """ℓ of all series of a release; for a diffuse start less the (q/2) log κ of δ ~ N(0, κI), κ
    → ∞.
    """
    return _evaluated(matrices, data).value


def value_and_gradient(matrices: Matrices, slopes: Matrices, data: Data) -> tuple[float, Array]:
    """ℓ and ∂ℓ/∂t (p,) by the adjoint, from slopes ∂matrices/∂t; about twice the cost of ℓ."""
    found = _evaluated(matrices, data)
    by = adjoint(found.steps, found.done, found.begin, found.root, series=data.series)
    moved = step_slopes(matrices, slopes, found.plan, data.inputs)
    p = len(slopes.A)
    gradient = sum(slope.reshape(p, -1) @ own.ravel() for own, slope in zip(by, moved))
    return found.value, np.asarray(gradient)


def adjoint(steps: Steps, done: Pass, begin: Array, root: Array, *, series: int) -> Derivatives:
    """∂ℓ by the tables of the steps, from one pass back; `series` of the means are data."""
    (J, r, _) = steps.rows.shape
    N = len(steps.start)
    K = steps.steps
    by = Derivatives(
        np.zeros((J, N, N)), np.zeros((J, N, N)), np.zeros((J, r, N)), np.zeros((J, r, r)),
        np.zeros((K, N)), np.zeros((K, r)), np.zeros(N), np.zeros((N, N)),
    )  # fmt: skip
    loop = compiling.where_installed(
        kernel.adjoint,
        "rows3 index rows3 index rows2 rows2 int index rows3 rows3 rows2 rows3 rows3 out3 out3 "
        "out3 out3 out2 out2 out1 out3",
        uses=BACK,
    )
    loop(
        steps.transition, steps.lead, steps.rows, steps.kind, _wide(root.T @ root, steps.width),
        _wide(begin, steps.width), series, done.entry, done.filtered, done.gain, done.scale,
        done.mean, done.zeta, *by[:7], by.cov[None],
    )  # fmt: skip
    back = np.zeros((J, r, r))  # N⁻ᵀ
    back[:] = np.eye(r)
    whiten_loop()(steps.noise, np.arange(J), back)
    return by._replace(
        rows=back @ by.rows,
        noise=back @ by.noise @ back.swapaxes(1, 2),
        offset=each_times(back, by.offset, steps.kind),
    )


def last_state(matrices: Matrices, data: Data) -> tuple[float, Array, Array]:
    found = _evaluated(matrices, data)
    n = len(matrices.mean0)
    S = data.series
    done = found.done
    open_ = done.mean[-1, S:, :n].T / math.sqrt(S)
    covariance = done.filtered[done.entry[-1], :n, :n] + open_ @ open_.T
    return found.value, done.mean[-1, :S, :n].T, covariance


def first_state(matrices: Matrices, data: Data) -> Array:
    return _evaluated(matrices, data).begin[: data.series, : len(matrices.mean0)].T


def least_response(matrices: Matrices, data: Data) -> float:
    """The smallest eigenvalue of X̃ᵀX̃."""
    steps = steps_of(matrices, data.plan(matrices))
    begin = responses(steps, matrices.diffuse)
    silent = np.zeros((data.steps, len(begin), steps.rows.shape[1]))
    shift = np.zeros((data.steps, 0, len(steps.start)))
    done = forward(steps, begin, silent, shift, steps.root.T)
    upper = _response_root(done.zeta.transpose(0, 2, 1).reshape(-1, len(begin)), begin)
    return float(np.linalg.svd(upper, compute_uv=False)[-1] ** 2)


def _evaluated(matrices: Matrices, data: Data) -> _Evaluated:
    plan = data.plan(matrices)
    S = data.series
    q = matrices.diffuse.shape[1]
    steps = steps_of(matrices, plan)
    values = data.by_series
    N = len(steps.start)
    shift: Array = np.zeros((data.steps, 0, N))
    if data.inputs.shape[1]:
        moved, offset = input_terms(matrices, plan, data.inputs)
        values = values - offset[:, None]
        shift = moved[:, None]
    begin = np.repeat(steps.start[None], S, axis=0)
    root = steps.root.T
    if q:
        values = np.concatenate([values, np.zeros((data.steps, q, values.shape[2]))], axis=1)
        begin = np.concatenate([begin, responses(steps, matrices.diffuse)])
        root = with_unit_part(steps, matrices.diffuse)
        shift = np.concatenate(
            [np.repeat(shift, S, axis=1), np.zeros((data.steps, q * bool(shift.size), N))], axis=1
        )
    done = forward(steps, begin, steps.whitened(values), shift, root)
    require_sound(done, steps)
    logs = done.log_scales() + steps.log_noise()
    if q:
        done, begin, more = _profiled(done, begin, S)
        logs += more
    fresh = done.zeta[:, :S].ravel()
    total = fresh @ fresh + data.shown * (LOG_2PI - 2.0 * math.log(data.unit))
    return _Evaluated(-0.5 * float(total) - S * logs, done, begin, root, steps, plan)


def _profiled(done: Pass, begin: Array, series: int) -> tuple[Pass, Array, float]:
    """The data with δ̂ of each series, then the columns E R⁻¹, √series times; and log|R|.

    −½ d tr(S⁻¹XᵀV⁻¹X), S = RᵀR held, is dℓ of series that show zeros from E R⁻¹, squares only.
    """
    zeta = done.zeta.transpose(0, 2, 1).reshape(-1, len(begin))  # (K r, S + q)
    upper = _response_root(zeta[:, series:], begin[series:])
    inverse = scipy.linalg.lapack.dtrtri(upper)[0]
    turn = np.eye(len(begin))
    turn[series:, :series] = -inverse @ ((zeta[:, series:] @ inverse).T @ zeta[:, :series])
    turn[series:, series:] = math.sqrt(series) * inverse
    done = done._replace(mean=turn.T @ done.mean, zeta=turn.T @ done.zeta)
    return done, turn.T @ begin, float(np.log(np.abs(upper.diagonal())).sum())


def _response_root(zeta: Array, begin: Array) -> Array:
    """R (q, q) upper triangular, RᵀR = ζᵀζ of responses (K r, q); NotIdentifiable if singular."""
    upper = np.asarray(np.linalg.qr(zeta, mode="r"))
    size = np.linalg.norm(upper, axis=0)
    unit = np.where(size > 0, size, 1.0)
    _, values, right = np.linalg.svd(upper / unit)
    values = np.concatenate([values, np.zeros(len(size) - len(values))])
    require_determined(begin.T, (right[values <= HIDDEN] / unit).T)
    return upper
