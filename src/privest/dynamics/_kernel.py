"""The Kalman filter's loops, in the part of Python that numba compiles.

The covariance is P = UᵀU, U upper triangular: its rows are unit sources of error, its columns the
states that they reach. With F Fᵀ = Q and whitened numbers z_i = h_iᵀx + ν_iε_i, a step is

    [Fᵀ   0]  n reflections   [U⁻  · ]      [ν   0 ]  n rotations     [c  gᵀ  Θaᵀ]
    [UAᵀ  I]       →          [0   Θcᵀ] ,   [U⁻h U⁻]  last row up →   [0  U   Θbᵀ]

(Carlson 1973 for the rotations). Nothing is inverted or subtracted: Q, R and cov0 may have any
rank, and diagonals stay ≥ 0. ξ = Θ_aζ + Θ_bξ⁺ + Θ_cν says how an old unit error ξ depends on the
new one; only a smoother asks for this right half. Tables have n columns filled up with zeros to
whole fours (`width`): inner loops of four are unrolled and vectorised.
"""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import Array, Index

SETTLED = 1e-15  # of the size of its column: an entry that moves by no more stands still
KNOWN = 1e-13  # of its deviation before the step: what is left of a number that is known already
NO_PIVOT = 16 * 2.2e-16  # of the diagonal, for each column: a pivot below this is rounding


def reflect(top: Array, below: Array, n: int, m: int, columns: int, v: Array) -> None:
    """[top; below] to [upper triangle; 0], one reflection for each of the first n columns.

    top (n, ·) is upper triangular there with a diagonal ≥ 0, below (m, ·) is full.
    """
    for j in range(n):
        own, square = top[j, j], 0.0
        for i in range(m):
            x = below[i, j]
            v[i] = x
            square += x * x
        if square == 0.0:
            continue
        size = math.sqrt(own * own + square)
        head = own + size
        scale = 1.0 / (size * head)
        for b in range(j // 4, columns // 4):
            c = 4 * b
            a0, a1, a2, a3 = top[j, c], top[j, c + 1], top[j, c + 2], top[j, c + 3]
            t0, t1, t2, t3 = head * a0, head * a1, head * a2, head * a3
            for i in range(m):
                x = v[i]
                t0 += x * below[i, c]
                t1 += x * below[i, c + 1]
                t2 += x * below[i, c + 2]
                t3 += x * below[i, c + 3]
            t0, t1, t2, t3 = scale * t0, scale * t1, scale * t2, scale * t3
            top[j, c], top[j, c + 1] = head * t0 - a0, head * t1 - a1
            top[j, c + 2], top[j, c + 3] = head * t2 - a2, head * t3 - a3
            for i in range(m):
                x = v[i]
                below[i, c] -= x * t0
                below[i, c + 1] -= x * t1
                below[i, c + 2] -= x * t2
                below[i, c + 3] -= x * t3
        top[j, j] = size
        for i in range(m):
            below[i, j] = 0.0


def observe(root: Array, heard: Array, noise: float, n: int, columns: int, told: Array) -> float:
    """Take in one number with noise ν and heard = U h: U to U⁺ in place, told to [gᵀ Θaᵀ]; c."""
    told[:] = 0.0
    square, size = noise * noise, noise
    for up in range(n):
        i = n - 1 - up
        x = heard[i]
        if x == 0.0:
            continue
        square += x * x
        new = math.sqrt(square)
        cosine, sine = size / new, x / new
        size = new
        for b in range(i // 4, columns // 4):
            c = 4 * b
            a0, a1, a2, a3 = told[0, c], told[0, c + 1], told[0, c + 2], told[0, c + 3]
            b0, b1, b2, b3 = root[i, c], root[i, c + 1], root[i, c + 2], root[i, c + 3]
            told[0, c], told[0, c + 1] = cosine * a0 + sine * b0, cosine * a1 + sine * b1
            told[0, c + 2], told[0, c + 3] = cosine * a2 + sine * b2, cosine * a3 + sine * b3
            root[i, c], root[i, c + 1] = cosine * b0 - sine * a0, cosine * b1 - sine * a1
            root[i, c + 2], root[i, c + 3] = cosine * b2 - sine * a2, cosine * b3 - sine * a3
    return size


def multiply(left: Array, right: Array, m: int, n: int, columns: int, out: Array) -> None:
    """out = left right, of (m, n) and (n, columns)."""
    for i in range(m):
        for c in range(0, columns, 4):
            t0 = t1 = t2 = t3 = 0.0
            for k in range(n):
                x = left[i, k]
                t0 += x * right[k, c]
                t1 += x * right[k, c + 1]
                t2 += x * right[k, c + 2]
                t3 += x * right[k, c + 3]
            out[i, c], out[i, c + 1], out[i, c + 2], out[i, c + 3] = t0, t1, t2, t3


def multiply_turned(left: Array, right: Array, m: int, n: int, columns: int, out: Array) -> None:
    """out = leftᵀ right, of (n, m) and (n, columns)."""
    for i in range(m):
        for c in range(0, columns, 4):
            t0 = t1 = t2 = t3 = 0.0
            for k in range(n):
                x = left[k, i]
                t0 += x * right[k, c]
                t1 += x * right[k, c + 1]
                t2 += x * right[k, c + 2]
                t3 += x * right[k, c + 3]
            out[i, c], out[i, c + 1], out[i, c + 2], out[i, c + 3] = t0, t1, t2, t3


def copy(source: Array, first: int, n: int, columns: int, out: Array) -> None:
    """out = source[:, first : first + columns], n rows."""
    for i in range(n):
        for b in range(columns // 4):
            c = 4 * b
            s = first + c
            out[i, c], out[i, c + 1] = source[i, s], source[i, s + 1]
            out[i, c + 2], out[i, c + 3] = source[i, s + 2], source[i, s + 3]


def add(times: float, row: Array, columns: int, out: Array) -> None:
    """out += times·row."""
    for b in range(columns // 4):
        c = 4 * b
        out[c] += times * row[c]
        out[c + 1] += times * row[c + 1]
        out[c + 2] += times * row[c + 2]
        out[c + 3] += times * row[c + 3]


def dot(left: Array, right: Array, columns: int) -> float:
    """leftᵀright."""
    t0 = t1 = t2 = t3 = 0.0
    for b in range(columns // 4):
        c = 4 * b
        t0 += left[c] * right[c]
        t1 += left[c + 1] * right[c + 1]
        t2 += left[c + 2] * right[c + 2]
        t3 += left[c + 3] * right[c + 3]
    return (t0 + t1) + (t2 + t3)


def still(new: Array, old: Array, n: int, columns: int) -> bool:
    """Whether no entry moved by more than SETTLED of its column."""
    for c in range(columns):
        size = change = 0.0
        for i in range(n):
            size += new[i, c] * new[i, c]
            change = max(change, abs(new[i, c] - old[i, c]))
        if not (change == 0.0 or change * change <= SETTLED * SETTLED * size):
            return False
    return True


def advance(
    held: Array, transition: Array, drive: Array, rows: Array, noise: Array, columns: int,
    top: Array, below: Array, v: Array, heard: Array, told: Array,
    predicted: Array, gain: Array, scale: Array, fresh: Array,
) -> None:  # fmt: skip
    """One step of the filter, from U of the step before in `held` to U of this one in `top`.

    Writes P⁻, gains g_i and c_i; with columns = 2w, in their place, Θ_aᵀ to `fresh`, Θ_bᵀ to the
    right half of `top` and Θ_cᵀ to that of `below`.
    """
    n = len(transition)
    r, width = rows.shape
    multiply(held, transition, n, n, width, below)
    copy(drive, 0, n, width, top)
    if columns > width:
        for i in range(n):
            for c in range(width, columns):
                top[i, c] = below[i, c] = 0.0
            below[i, width + i] = 1.0
    reflect(top, below, n, n, columns, v)
    needed = columns == width
    for i in range(r):
        needed = needed or noise[i] == 0.0
    if needed:
        multiply_turned(top, top, n, n, width, predicted)
    for i in range(r):
        known = False
        for a in range(n):
            heard[a] = dot(top[a], rows[i], width)
        if noise[i] == 0.0:
            total = before = 0.0
            for a in range(n):
                total += heard[a] * heard[a]
                for c in range(n):
                    before += rows[i, a] * predicted[a, c] * rows[i, c]
            known = total <= KNOWN * KNOWN * before
        if known:  # known before it is seen: it tells nothing
            told[:] = 0.0
            scale[i] = 0.0
        else:
            scale[i] = observe(top, heard, noise[i], n, columns, told)
        if columns > width:
            copy(told, width, 1, width, fresh[i : i + 1])
        else:
            copy(told, 0, 1, width, gain[i : i + 1])


def forward(
    transition: Array, drive: Array, lead: Index, rows: Array, noise: Array, kind: Index,
    root: Array, begin: Array, values: Array, shift: Array, entry: Index,
    predicted: Array, filtered: Array, factor: Array, gain: Array, scale: Array, ahead: Array,
    mean: Array, zeta: Array,
) -> int:  # fmt: skip
    """The filter over all steps; returns how many entries of the tables it filled.

    Tables by kind of step (J): whitened rows h_i (r, w), their noise ν_i (r,), and which Aᵀ and Fᵀ
    (n, w) lead into it. root U (n, w) and begin (S, w) are before the first step; values (K, S, r)
    whitened, shift (K, 0, 1 or S, w).
    Tables by entry, a step that differs from the one before: P⁻, P, U, gains g_i and c_i.
    By step: x⁻, x and ζ, (K, S, ·).
    """
    steps, n, width = kind.shape[0], transition.shape[1], transition.shape[2]
    series, r, moves = begin.shape[0], rows.shape[1], shift.shape[1]
    held, top, below = root.copy(), np.zeros((n, width)), np.zeros((n, width))
    v, heard, told, now = np.zeros(n), np.zeros(n), np.zeros((1, width)), begin.copy()
    e, last, settled = -1, -1, False
    for k in range(steps):
        j = kind[k]
        a = lead[j]
        if not (settled and j == last):
            e += 1
            advance(
                held, transition[a], drive[a], rows[j], noise[j], width, top, below, v, heard,
                told, predicted[e], gain[e], scale[e], below,
            )  # fmt: skip
            multiply_turned(top, top, n, n, width, filtered[e])
            settled = j == last and still(top, held, n, width)
            last = j
            copy(top, 0, n, width, held)
            copy(top, 0, n, width, factor[e])
        entry[k] = e
        multiply(now, transition[a], series, n, width, ahead[k])
        for s in range(series):
            if moves:
                add(1.0, shift[k, min(s, moves - 1)], width, ahead[k, s])
        copy(ahead[k], 0, series, width, now)
        for s in range(series):
            for i in range(r):
                if scale[e, i] == 0.0:
                    zeta[k, s, i] = 0.0
                    continue
                fresh = (values[k, s, i] - dot(rows[j, i], now[s], width)) / scale[e, i]
                zeta[k, s, i] = fresh
                add(fresh, gain[e, i], width, now[s])
        copy(now, 0, series, width, mean[k])
    return e + 1


def backward(
    transition: Array, drive: Array, lead: Index, rows: Array, noise: Array, kind: Index,
    root: Array, entry: Index, factor: Array, mean: Array, zeta: Array, states: Array,
    covariance: Array, which: Index,
) -> int:  # fmt: skip
    """The smoother, from the last step back: x^s = x + Uᵀe and P^s = UᵀXU.

        e ← Θ_aζ + Θ_be ,   X ← Θ_bXΘ_bᵀ + Θ_cΘ_cᵀ ,   from e = 0, X = I

    Θ of an entry is found again from U of the entry before, by the step of the filter.
    states (K, S, w); covariances (·, n, w) and which one each step has; returns how many.
    """
    steps, series, width = mean.shape
    n, r, columns = factor.shape[1], rows.shape[1], 2 * width
    X, new, half = np.zeros((n, width)), np.zeros((n, width)), np.zeros((n, width))
    unit, moved = np.zeros((series, width)), np.zeros((series, width))
    top, below, predicted = np.zeros((n, columns)), np.zeros((n, columns)), np.zeros((n, width))
    v, heard, told, scale = np.zeros(n), np.zeros(n), np.zeros((1, columns)), np.zeros(r)
    gain, fresh = np.zeros((r, width)), np.zeros((r, width))
    later, lost, held = np.zeros((n, width)), np.zeros((n, width)), np.zeros((n, width))
    for i in range(n):
        X[i, i] = 1.0
    at, last, settled = -1, -1, False
    for back in range(steps):
        k = steps - 1 - back
        e = entry[k]
        if e != last:
            j = kind[k]
            a = lead[j]
            if e > 0:
                copy(factor[e - 1], 0, n, width, held)
            else:
                copy(root, 0, n, width, held)
            advance(
                held, transition[a], drive[a], rows[j], noise[j], columns, top, below, v, heard,
                told, predicted, gain, scale, fresh,
            )  # fmt: skip
            copy(top, width, n, width, later)
            copy(below, width, n, width, half)
            multiply_turned(half, half, n, n, width, lost)
        multiply(unit, factor[e], series, n, width, states[k])
        multiply(unit, later, series, n, width, moved)
        copy(moved, 0, series, width, unit)
        for s in range(series):
            add(1.0, mean[k, s], width, states[k, s])
            for i in range(r):
                add(zeta[k, s, i], fresh[i], width, unit[s])
        if not (settled and e == last):
            at += 1
            multiply(X, factor[e], n, n, width, half)
            multiply_turned(factor[e], half, n, n, width, covariance[at])
            multiply(X, later, n, n, width, half)
            multiply_turned(later, half, n, n, width, new)
            for i in range(n):
                add(1.0, lost[i], width, new[i])
                for c in range(i):  # symmetric to the last bit
                    covariance[at, i, c] = covariance[at, c, i]
                    new[i, c] = new[c, i]
            settled = e == last and still(new, X, n, n)
            last = e
            copy(new, 0, n, width, X)
        which[k] = at
    return at + 1


def less(times: float, part: Array, m: int, n: int, out: Array) -> None:
    """out −= times·part."""
    for i in range(m):
        for c in range(n):
            out[i, c] -= times * part[i, c]


def adjoint(
    transition: Array, lead: Index, rows: Array, kind: Index, cov0: Array, begin: Array, data: int,
    entry: Index, filtered: Array, gain: Array, scale: Array, mean: Array, zeta: Array,
    by_transition: Array, by_drive: Array, by_rows: Array, by_noise: Array, by_shift: Array,
    by_offset: Array, by_mean: Array, by_cov: Array,
) -> None:  # fmt: skip
    """∂ℓ by every table: backwards from σ = 0, M = 0, with K = [g]c⁻¹, W = c⁻¹G, T = I − KG,

        ê = c⁻ᵀ(ζ − gᵀσ) ,  ρ = σ + Gᵀê ,  N = TᵀMT + WᵀW ,  D = c⁻ᵀc⁻¹ + KᵀMK ,  x^s = x + Pσ
        ∂G = êx^sᵀ − Kᵀ(I − MP) ,  ∂V = ½(êêᵀ − D) ,  ∂offset = ê ,  ∂shift = ρ
        ∂Q = ½(ρρᵀ − N) ,  ∂A = ρx^s₋ᵀ − NAP₋ ,   σ ← Aᵀρ ,  M ← AᵀNA

    The first `data` series are data; further ones add their squares only (`Kalman.diffuse`).
    """
    steps, series, width = mean.shape
    n, r = transition.shape[1], rows.shape[1]
    square = (n, width)
    M, N, T, MT = np.zeros(square), np.zeros(square), np.zeros(square), np.zeros(square)
    A, AN, NAP, new = np.zeros(square), np.zeros(square), np.zeros(square), np.zeros(square)
    c, inverse, D = np.zeros((r, r)), np.zeros((r, r)), np.zeros((r, r))
    wide = (r, width)
    W, K, KM, expected = np.zeros(wide), np.zeros(wide), np.zeros(wide), np.zeros(wide)
    sigma, rho, error = np.zeros((series, n)), np.zeros(n), np.zeros(r)
    state, past = np.zeros(n), np.zeros(n)
    last, before, settled, of = -1, -2, False, 0
    times = 0.0  # data series of steps whose expectations N, D, … are the same and still to count
    for back in range(steps):
        k = steps - 1 - back
        j, e = kind[k], entry[k]
        led = lead[j]
        first = entry[k - 1] if k > 0 else -1
        P0 = filtered[first] if first >= 0 else cov0
        if not (settled and e == last and first == before):
            less(times, NAP, n, n, by_transition[of])
            less(0.5 * times, N, n, n, by_drive[of])
            less(times, expected, r, n, by_rows[of])
            less(0.5 * times, D, r, r, by_noise[of])
            times, of = 0.0, j
            for i in range(r):
                for a in range(i):
                    total = 0.0
                    for b in range(n):
                        total += rows[j, i, b] * gain[e, a, b]
                    c[i, a] = total
                c[i, i] = scale[e, i]
                for a in range(r):
                    total = 1.0 if a == i else 0.0
                    for b in range(i):
                        total -= c[i, b] * inverse[b, a]
                    inverse[i, a] = total / c[i, i]
            multiply(inverse, rows[j], r, r, width, W)
            multiply_turned(inverse, gain[e], r, r, width, K)  # Kᵀ
            multiply_turned(K, rows[j], n, r, width, T)
            for a in range(n):
                for b in range(n):
                    T[a, b] = (1.0 if a == b else 0.0) - T[a, b]
                    A[b, a] = transition[led, a, b]
            multiply(M, T, n, n, width, MT)
            multiply_turned(T, MT, n, n, width, N)
            multiply_turned(W, W, n, r, width, MT)
            less(-1.0, MT, n, n, N)
            multiply(K, M, r, n, width, KM)
            multiply(KM, filtered[e], r, n, width, expected)
            for i in range(r):
                for a in range(n):
                    expected[i, a] = K[i, a] - expected[i, a]
                for a in range(r):
                    total = 0.0
                    for b in range(r):
                        total += inverse[b, i] * inverse[b, a]
                    for b in range(n):
                        total += KM[i, b] * K[a, b]
                    D[i, a] = total
            multiply(transition[led], N, n, n, width, AN)
            multiply_turned(AN, P0, n, n, width, NAP)
            multiply(AN, A, n, n, width, new)
            settled = e == last and first == before and still(new, M, n, n)
            last, before = e, first
            for a in range(n):
                for b in range(n):
                    M[a, b] = 0.5 * (new[a, b] + new[b, a])
        times += data
        for s in range(series):
            for i in range(r):
                total = zeta[k, s, i]
                for a in range(n):
                    total -= gain[e, i, a] * sigma[s, a]
                error[i] = total
            for i in range(r):  # c⁻ᵀ, first entries last
                total = 0.0
                for a in range(i, r):
                    total += inverse[a, i] * error[a]
                error[i] = total
            for a in range(n):
                total = mean[k, s, a]
                for b in range(n):
                    total += filtered[e, a, b] * sigma[s, b]
                state[a] = total
                total = sigma[s, a]
                for i in range(r):
                    total += rows[j, i, a] * error[i]
                rho[a] = total
            for a in range(n):
                total = 0.0
                for b in range(n):
                    total += transition[led, a, b] * rho[b]
                sigma[s, a] = total
            for a in range(n):
                total = mean[k - 1, s, a] if k > 0 else begin[s, a]
                for b in range(n):
                    total += P0[a, b] * sigma[s, b]
                past[a] = total
            for a in range(n):
                for b in range(n):
                    by_transition[j, a, b] += rho[a] * past[b]
                    by_drive[j, a, b] += 0.5 * rho[a] * rho[b]
            for i in range(r):
                for a in range(n):
                    by_rows[j, i, a] += error[i] * state[a]
                for a in range(r):
                    by_noise[j, i, a] += 0.5 * error[i] * error[a]
            if s < data:
                for a in range(n):
                    by_shift[k, a] += rho[a]
                for i in range(r):
                    by_offset[k, i] += error[i]
    less(times, NAP, n, n, by_transition[of])
    less(0.5 * times, N, n, n, by_drive[of])
    less(times, expected, r, n, by_rows[of])
    less(0.5 * times, D, r, r, by_noise[of])
    for s in range(series):
        for a in range(n):
            if s < data:
                by_mean[a] += sigma[s, a]
            for b in range(n):
                by_cov[a, b] += 0.5 * sigma[s, a] * sigma[s, b]
    for a in range(n):
        for b in range(n):
            by_cov[a, b] -= 0.5 * data * M[a, b]


def roots(covariances: Array, out: Array) -> None:
    """Lower triangular L ≥ 0 on its diagonal with L Lᵀ = S, of each of (J, n, n), of any rank."""
    for j in range(covariances.shape[0]):
        n = covariances.shape[1]
        for a in range(n):
            pivot = covariances[j, a, a]
            least = NO_PIVOT * n * pivot
            for b in range(a):
                pivot -= out[j, a, b] * out[j, a, b]
            root = math.sqrt(pivot) if pivot > least else 0.0
            for i in range(n):
                out[j, i, a] = 0.0
            out[j, a, a] = root
            if root > 0.0:
                for i in range(a + 1, n):
                    total = covariances[j, i, a]
                    for b in range(a):
                        total -= out[j, i, b] * out[j, a, b]
                    out[j, i, a] = total / root


def unit_roots(half: Array, out: Array) -> None:
    """Lower triangular N with N Nᵀ = X Xᵀ + I, of each X (J, m, q); out (J, m, m).

    By reflections: the unit is never lost to rounding.
    """
    m, q = half.shape[1], half.shape[2]
    width = m + (-m) % 4
    top, below, v = np.zeros((m, width)), np.zeros((q, width)), np.zeros(q)
    for j in range(half.shape[0]):
        for i in range(m):
            for c in range(width):
                top[i, c] = 1.0 if i == c else 0.0
            for c in range(q):
                below[c, i] = half[j, i, c]
        reflect(top, below, m, q, width, v)
        for i in range(m):
            for c in range(m):
                out[j, i, c] = top[c, i] if c <= i else 0.0


def white_rows(shown: Array, C: Array, own: Index, noise: Array, out: Array) -> None:
    """h = N⁻¹G of each kind, G = LᵀC: shown Lᵀ (J, r, m), C (·, m, n), of which kind j has own[j].

    out (J, r, w). A number without noise has a zero column in N (J, r, r), see `whiten`.
    """
    for j in range(shown.shape[0]):
        for i in range(shown.shape[1]):
            unit = 1.0 / noise[j, i, i] if noise[j, i, i] > 0.0 else 1.0
            for c in range(C.shape[2]):
                total = 0.0
                for a in range(C.shape[1]):
                    total += shown[j, i, a] * C[own[j], a, c]
                for a in range(i):
                    total -= noise[j, i, a] * out[j, a, c]
                out[j, i, c] = unit * total


def apply(tables: Array, kind: Index, vectors: Array, out: Array) -> None:
    """out_k = M v_k, M (J, a, b) of the kind of step k, v (K, b)."""
    for k in range(kind.shape[0]):
        j = kind[k]
        for i in range(tables.shape[1]):
            total = 0.0
            for c in range(tables.shape[2]):
                total += tables[j, i, c] * vectors[k, c]
            out[k, i] = total


def turn(matrix: Array, vectors: Array, n: int) -> None:
    """Tᵀv_k in place, T (s, s) and v (K, s, w), of which n columns are used."""
    count = vectors.shape[1]
    moved = np.zeros(count)
    for k in range(vectors.shape[0]):
        for c in range(n):
            for p in range(count):
                moved[p] = 0.0
                for s in range(count):
                    moved[p] += matrix[s, p] * vectors[k, s, c]
            for p in range(count):
                vectors[k, p, c] = moved[p]


def whiten(noise: Array, kind: Index, values: Array) -> None:
    """N⁻¹v in place: values (K, ·, r) of steps of these kinds, N (J, r, r) lower triangular.

    A number without noise has a zero column in N and is only freed of the noise of those before.
    """
    r = values.shape[2]
    for k in range(values.shape[0]):
        j = kind[k]
        for s in range(values.shape[1]):
            for i in range(r):
                total = values[k, s, i]
                for c in range(i):
                    total -= noise[j, i, c] * values[k, s, c]
                values[k, s, i] = total / noise[j, i, i] if noise[j, i, i] > 0.0 else total
