"""The Kalman filter's loops, in the part of Python that numba compiles.

The covariance is P = UᵀU, U upper triangular. With F Fᵀ = Q and whitened numbers z_i = h_iᵀx +
ν_iε_i,

    [Fᵀ   0]  n reflections   [U⁻  · ]      [ν   0 ]  n rotations     [c  gᵀ  Θaᵀ]
    [UAᵀ  I]       →          [0   Θcᵀ] ,   [U⁻h U⁻]  last row up →   [0  U   Θbᵀ]

(Carlson 1973 for the rotations). Nothing is inverted or subtracted: Q, R and cov0 may have any
rank. ξ = Θ_aζ + Θ_bξ⁺ + Θ_cν gives an old unit error ξ from the new one, for the smoother.
Tables have n columns filled up with zeros to whole fours, and are indexed, never sliced: a slice
costs more than a step of a small system.
"""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import Array, Index

SETTLED = 1e-15  # of the size of its column: an entry that moves by no more stands still
KNOWN = 1e-13  # of its deviation before the step: what is left of a number that is known already
NO_PIVOT = 16 * 2.2e-16  # of the diagonal, for each column: a pivot below this is rounding


def reflect(top: Array, below: Array, n: int, m: int, columns: int, v: Array) -> None:
    """[top; below] to [upper triangle; 0], one reflection for each of the first n columns."""
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
    """Take in one number with noise ν and heard = U h: U in place, told to [gᵀ Θaᵀ]; returns c."""
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
        for b in range(columns // 4):
            c = 4 * b
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
        for b in range(columns // 4):
            c = 4 * b
            t0 = t1 = t2 = t3 = 0.0
            for k in range(n):
                x = left[k, i]
                t0 += x * right[k, c]
                t1 += x * right[k, c + 1]
                t2 += x * right[k, c + 2]
                t3 += x * right[k, c + 3]
            out[i, c], out[i, c + 1], out[i, c + 2], out[i, c + 3] = t0, t1, t2, t3


def load(table: Array, e: int, n: int, columns: int, out: Array) -> None:
    """out = table[e]."""
    for i in range(n):
        for b in range(columns // 4):
            c = 4 * b
            out[i, c], out[i, c + 1] = table[e, i, c], table[e, i, c + 1]
            out[i, c + 2], out[i, c + 3] = table[e, i, c + 2], table[e, i, c + 3]


def store(source: Array, n: int, columns: int, table: Array, e: int) -> None:
    """table[e] = source."""
    for i in range(n):
        for b in range(columns // 4):
            c = 4 * b
            table[e, i, c], table[e, i, c + 1] = source[i, c], source[i, c + 1]
            table[e, i, c + 2], table[e, i, c + 3] = source[i, c + 2], source[i, c + 3]


def copy(source: Array, first: int, n: int, columns: int, out: Array) -> None:
    """out = source[:, first : first + columns]."""
    for i in range(n):
        for b in range(columns // 4):
            c = 4 * b
            s = first + c
            out[i, c], out[i, c + 1] = source[i, s], source[i, s + 1]
            out[i, c + 2], out[i, c + 3] = source[i, s + 2], source[i, s + 3]


def gram(root: Array, n: int, columns: int, table: Array, e: int) -> None:
    """table[e] = UᵀU, U upper triangular."""
    for i in range(n):
        for b in range(columns // 4):
            c = 4 * b
            t0 = t1 = t2 = t3 = 0.0
            for k in range(i + 1):
                x = root[k, i]
                t0 += x * root[k, c]
                t1 += x * root[k, c + 1]
                t2 += x * root[k, c + 2]
                t3 += x * root[k, c + 3]
            table[e, i, c], table[e, i, c + 1] = t0, t1
            table[e, i, c + 2], table[e, i, c + 3] = t2, t3


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


def predict(
    held: Array, transition: Array, drive: Array, a: int, top: Array, below: Array, v: Array
) -> None:
    """U of the step before in `held` to U⁻ in `top`; with 2w columns, Θ_cᵀ right in `below`."""
    n, width, columns = transition.shape[1], transition.shape[2], top.shape[1]
    for i in range(n):
        for b in range(width // 4):
            c = 4 * b
            t0 = t1 = t2 = t3 = 0.0
            for k in range(i, n):
                x = held[i, k]
                t0 += x * transition[a, k, c]
                t1 += x * transition[a, k, c + 1]
                t2 += x * transition[a, k, c + 2]
                t3 += x * transition[a, k, c + 3]
            below[i, c], below[i, c + 1], below[i, c + 2], below[i, c + 3] = t0, t1, t2, t3
        for c in range(width, columns):
            top[i, c] = below[i, c] = 0.0
        if columns > width:
            below[i, width + i] = 1.0
    load(drive, a, n, width, top)
    reflect(top, below, n, n, columns, v)


def update(
    top: Array, rows: Array, noise: Array, j: int, heard: Array, told: Array, gain: Array,
    scale: Array, e: int,
) -> None:  # fmt: skip
    """Take in the numbers of a step: U⁻ to U in `top`; c_i, and g_i (with 2w columns Θ_a)."""
    r, width, (n, columns) = rows.shape[1], rows.shape[2], top.shape
    for i in range(r):
        scale[e, i] = 0.0  # what must be left of a number without noise
        if noise[j, i] == 0.0:
            scale[e, i] = KNOWN * KNOWN * listen(top, rows, j, i, heard)
    for i in range(r):
        square = listen(top, rows, j, i, heard)
        if noise[j, i] == 0.0 and square <= scale[e, i]:  # known before it is seen
            told[:] = 0.0
            scale[e, i] = 0.0
        else:
            scale[e, i] = observe(top, heard, noise[j, i], n, columns, told)
        for c in range(width):
            gain[e, i, c] = told[0, columns - width + c]


def listen(root: Array, rows: Array, j: int, i: int, heard: Array) -> float:
    """heard = U h; its square."""
    square = 0.0
    for a in range(len(heard)):
        t0 = t1 = t2 = t3 = 0.0
        for b in range(a // 4, rows.shape[2] // 4):
            c = 4 * b
            t0 += root[a, c] * rows[j, i, c]
            t1 += root[a, c + 1] * rows[j, i, c + 1]
            t2 += root[a, c + 2] * rows[j, i, c + 2]
            t3 += root[a, c + 3] * rows[j, i, c + 3]
        heard[a] = (t0 + t1) + (t2 + t3)
        square += heard[a] * heard[a]
    return square


def lead_mean(
    now: Array, s: int, transition: Array, a: int, shift: Array, k: int, ahead: Array
) -> None:
    """x of one series to x⁻ = Ax + shift of step k, in `now` and in `ahead`."""
    n, width, moves = transition.shape[1], transition.shape[2], shift.shape[1]
    for b in range(width // 4):
        c = 4 * b
        t0 = t1 = t2 = t3 = 0.0
        for i in range(n):
            x = now[s, i]
            t0 += x * transition[a, i, c]
            t1 += x * transition[a, i, c + 1]
            t2 += x * transition[a, i, c + 2]
            t3 += x * transition[a, i, c + 3]
        ahead[k, s, c], ahead[k, s, c + 1] = t0, t1
        ahead[k, s, c + 2], ahead[k, s, c + 3] = t2, t3
    if moves:
        for c in range(width):
            ahead[k, s, c] += shift[k, min(s, moves - 1), c]
    for b in range(width // 4):  # much quicker than one by one
        c = 4 * b
        now[s, c], now[s, c + 1] = ahead[k, s, c], ahead[k, s, c + 1]
        now[s, c + 2], now[s, c + 3] = ahead[k, s, c + 2], ahead[k, s, c + 3]


def forward(
    transition: Array, drive: Array, lead: Index, rows: Array, noise: Array, kind: Index,
    root: Array, begin: Array, values: Array, shift: Array, entry: Index,
    predicted: Array, filtered: Array, factor: Array, gain: Array, scale: Array, ahead: Array,
    mean: Array, zeta: Array,
) -> int:  # fmt: skip
    """The filter over all steps; returns how many entries of the tables it filled.

    By kind of step (J): whitened rows h_i, noise ν_i, which Aᵀ and Fᵀ lead to it. root U and begin
    (S, w): before step 0; values (K, S, r) whitened, shift (K, 0, 1 or S, w). By entry, a step
    unlike the one before: P⁻, P, U, g_i and c_i. By step: x⁻, x and ζ.
    """
    steps, n, width = kind.shape[0], transition.shape[1], transition.shape[2]
    series, r = begin.shape[0], rows.shape[1]
    held, top, below = root.copy(), np.zeros((n, width)), np.zeros((n, width))
    v, heard, told, now = np.zeros(n), np.zeros(n), np.zeros((1, width)), begin.copy()
    e, last, settled = -1, -1, False
    for k in range(steps):
        j = kind[k]
        a = lead[j]
        if not (settled and j == last):
            e += 1
            predict(held, transition, drive, a, top, below, v)
            gram(top, n, width, predicted, e)
            update(top, rows, noise, j, heard, told, gain, scale, e)
            gram(top, n, width, filtered, e)
            settled = j == last and still(top, held, n, width)
            last = j
            copy(top, 0, n, width, held)
            store(top, n, width, factor, e)
        entry[k] = e
        for s in range(series):
            lead_mean(now, s, transition, a, shift, k, ahead)
            for i in range(r):
                if scale[e, i] == 0.0:
                    zeta[k, s, i] = 0.0
                    continue
                fresh = values[k, s, i]
                for c in range(n):
                    fresh -= rows[j, i, c] * now[s, c]
                fresh /= scale[e, i]
                zeta[k, s, i] = fresh
                for c in range(width):
                    now[s, c] += fresh * gain[e, i, c]
            for c in range(width):
                mean[k, s, c] = now[s, c]
    return e + 1


def backward(
    transition: Array, drive: Array, lead: Index, rows: Array, noise: Array, kind: Index,
    root: Array, entry: Index, factor: Array, mean: Array, zeta: Array, states: Array,
    covariance: Array, which: Index,
) -> int:  # fmt: skip
    """The smoother, from the last step back: x^s = x + Uᵀe and P^s = UᵀXU.

        e ← Θ_aζ + Θ_be ,   X ← Θ_bXΘ_bᵀ + Θ_cΘ_cᵀ ,   from e = 0, X = I

    Returns how many covariances differ; `which`: that of each step.
    """
    steps, series, width = mean.shape
    n, r, columns = factor.shape[1], rows.shape[1], 2 * width
    X, new, half, U = np.eye(n, width), np.eye(n, width), np.eye(n, width), np.eye(n, width)
    unit, moved = np.zeros((series, width)), np.zeros((series, width))
    top, below, held = np.zeros((n, columns)), np.zeros((n, columns)), root.copy()
    v, heard, told, scale = np.zeros(n), np.zeros(n), np.zeros((1, columns)), np.zeros((1, r))
    later, lost, fresh = np.zeros((n, width)), np.zeros((n, width)), np.zeros((1, r, width))
    at, last, settled = -1, -1, False
    for back in range(steps):
        k = steps - 1 - back
        e = entry[k]
        if e != last:
            j = kind[k]
            load(factor, e, n, width, U)
            if e > 0:
                load(factor, e - 1, n, width, held)
            else:
                copy(root, 0, n, width, held)
            predict(held, transition, drive, lead[j], top, below, v)
            update(top, rows, noise, j, heard, told, fresh, scale, 0)
            copy(top, width, n, width, later)
            copy(below, width, n, width, half)
            multiply_turned(half, half, n, n, width, lost)
        multiply(unit, U, series, n, width, moved)
        for s in range(series):
            for c in range(width):
                states[k, s, c] = mean[k, s, c] + moved[s, c]
        multiply(unit, later, series, n, width, moved)
        for s in range(series):
            for c in range(width):
                total = moved[s, c]
                for i in range(r):
                    total += zeta[k, s, i] * fresh[0, i, c]
                unit[s, c] = total
        if not (settled and e == last):
            at += 1
            multiply(X, U, n, n, width, half)
            multiply_turned(U, half, n, n, width, new)
            symmetrise(new, n)
            store(new, n, width, covariance, at)
            multiply(X, later, n, n, width, half)
            multiply_turned(later, half, n, n, width, new)
            less(-1.0, lost, n, n, new)
            symmetrise(new, n)
            settled = e == last and still(new, X, n, n)
            last = e
            copy(new, 0, n, width, X)
        which[k] = at
    return at + 1


def symmetrise(matrix: Array, n: int) -> None:
    for i in range(n):
        for c in range(i):
            matrix[i, c] = matrix[c, i]


def less(times: float, part: Array, m: int, n: int, out: Array) -> None:
    """out −= times·part."""
    for i in range(m):
        for c in range(n):
            out[i, c] -= times * part[i, c]


def less_at(times: float, part: Array, m: int, n: int, table: Array, e: int) -> None:
    """table[e] −= times·part."""
    for i in range(m):
        for c in range(n):
            table[e, i, c] -= times * part[i, c]


def inverse_scale(H: Array, g: Array, scale: Array, e: int, c: Array, inverse: Array) -> None:
    r, n = H.shape
    for i in range(r):
        for a in range(i):
            total = 0.0
            for b in range(n):
                total += H[i, b] * g[a, b]
            c[i, a] = total
        for a in range(r):
            total = 1.0 if a == i else 0.0
            for b in range(i):
                total -= c[i, b] * inverse[b, a]
            inverse[i, a] = total / scale[e, i]


def expected_squares(inverse: Array, KM: Array, K: Array, D: Array) -> None:
    """D = c⁻ᵀc⁻¹ + KᵀMK."""
    r, n = K.shape
    for i in range(r):
        for a in range(r):
            total = 0.0
            for b in range(r):
                total += inverse[b, i] * inverse[b, a]
            for b in range(n):
                total += KM[i, b] * K[a, b]
            D[i, a] = total


def smoothed_errors(
    zeta: Array, k: int, s: int, H: Array, g: Array, inverse: Array, At: Array, sigma: Array,
    error: Array, rho: Array,
) -> None:  # fmt: skip
    """ê, ρ and σ of the step before, of one series."""
    r, n = len(error), len(rho)
    for i in range(r):
        total = zeta[k, s, i]
        for a in range(n):
            total -= g[i, a] * sigma[s, a]
        error[i] = total
    for i in range(r):  # c⁻ᵀ, first entries last
        total = 0.0
        for a in range(i, r):
            total += inverse[a, i] * error[a]
        error[i] = total
    for a in range(n):
        total = sigma[s, a]
        for i in range(r):
            total += H[i, a] * error[i]
        rho[a] = total
    for a in range(n):
        total = 0.0
        for b in range(n):
            total += At[a, b] * rho[b]
        sigma[s, a] = total


def moved_state(mean: Array, k: int, s: int, P: Array, sigma: Array, out: Array) -> None:
    """out = x + Pσ."""
    n = len(out)
    for a in range(n):
        total = mean[k, s, a]
        for b in range(n):
            total += P[a, b] * sigma[s, b]
        out[a] = total


def add_row(row: Array, table: Array, k: int) -> None:
    """table[k] += row."""
    for a in range(len(row)):
        table[k, a] += row[a]


def add_outer(times: float, left: Array, right: Array, table: Array, j: int) -> None:
    """table[j] += times·left rightᵀ."""
    for a in range(len(left)):
        for b in range(len(right)):
            table[j, a, b] += times * left[a] * right[b]


def unit_less(T: Array, n: int) -> None:
    """T to I − T."""
    for a in range(n):
        for b in range(n):
            T[a, b] = -T[a, b]
        T[a, a] += 1.0


def transpose(matrix: Array, n: int, out: Array) -> None:
    """out = matrixᵀ."""
    for a in range(n):
        for b in range(n):
            out[b, a] = matrix[a, b]


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

    The first `data` series are data; further ones add their squares only (a diffuse start).
    """
    steps, series, width = mean.shape
    n, r = transition.shape[1], rows.shape[1]
    square, wide = (n, width), (r, width)
    M, N, T, work = np.zeros(square), np.zeros(square), np.zeros(square), np.zeros(square)
    NAP, new, At, A = np.zeros(square), np.zeros(square), np.zeros(square), np.zeros(square)
    P, P0, H, g = np.zeros(square), np.zeros(square), np.zeros(wide), np.zeros(wide)
    W, K, KM, expected = np.zeros(wide), np.zeros(wide), np.zeros(wide), np.zeros(wide)
    c, inverse, D = np.zeros((r, r)), np.zeros((r, r)), np.zeros((r, r))
    sigma, rho, error = np.zeros((series, n)), np.zeros(n), np.zeros(r)
    state, past = np.zeros(n), np.zeros(n)
    last, before, settled, of = -1, -2, False, 0
    times = 0.0  # data series of steps whose expectations N, D, … are the same and still to count
    for back in range(steps):
        k = steps - 1 - back
        j, e = kind[k], entry[k]
        first = entry[k - 1] if k > 0 else -1
        again = (e, first) == (last, before)
        if not (settled and again):
            less_at(times, NAP, n, n, by_transition, of)
            less_at(0.5 * times, N, n, n, by_drive, of)
            less_at(times, expected, r, n, by_rows, of)
            less_at(0.5 * times, D, r, r, by_noise, of)
            times, of = 0.0, j
            load(transition, lead[j], n, width, At)
            load(filtered, e, n, width, P)
            load(rows, j, r, width, H)
            load(gain, e, r, width, g)
            if first >= 0:
                load(filtered, first, n, width, P0)
            else:
                copy(cov0, 0, n, width, P0)
            inverse_scale(H, g, scale, e, c, inverse)
            multiply(inverse, H, r, r, width, W)
            multiply_turned(inverse, g, r, r, width, K)  # Kᵀ
            multiply_turned(K, H, n, r, width, T)
            unit_less(T, n)
            multiply(M, T, n, n, width, work)
            multiply_turned(T, work, n, n, width, N)
            multiply_turned(W, W, n, r, width, work)
            less(-1.0, work, n, n, N)
            multiply(K, M, r, n, width, KM)
            multiply(KM, P, r, n, width, W)
            copy(K, 0, r, width, expected)
            less(1.0, W, r, n, expected)
            expected_squares(inverse, KM, K, D)
            multiply(At, N, n, n, width, work)
            multiply_turned(work, P0, n, n, width, NAP)
            transpose(At, n, A)
            multiply(work, A, n, n, width, new)
            symmetrise(new, n)
            settled = again and still(new, M, n, n)
            last, before = e, first
            copy(new, 0, n, width, M)
        times += data
        for s in range(series):
            moved_state(mean, k, s, P, sigma, state)
            smoothed_errors(zeta, k, s, H, g, inverse, At, sigma, error, rho)
            if k > 0:
                moved_state(mean, k - 1, s, P0, sigma, past)
            else:
                moved_state(begin, 0, s, P0, sigma, past)
            add_outer(1.0, rho, past, by_transition, j)
            add_outer(0.5, rho, rho, by_drive, j)
            add_outer(1.0, error, state, by_rows, j)
            add_outer(0.5, error, error, by_noise, j)
            if s < data:
                add_row(rho, by_shift, k)
                add_row(error, by_offset, k)
    less_at(times, NAP, n, n, by_transition, of)
    less_at(0.5 * times, N, n, n, by_drive, of)
    less_at(times, expected, r, n, by_rows, of)
    less_at(0.5 * times, D, r, r, by_noise, of)
    less_at(0.5 * data, M, n, n, by_cov, 0)
    for s in range(series):
        add_outer(0.5, sigma[s], sigma[s], by_cov, 0)
        if s < data:
            add_row(sigma[s], by_mean, 0)


def roots(covariances: Array, out: Array) -> None:
    """Lower triangular L with L Lᵀ = S of each S (J, n, n), of any rank."""
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


def unit_roots(shown: Array, roots: Array, own: Index, out: Array) -> None:
    """Lower triangular N with N Nᵀ = X Xᵀ + I, X = shown_j·roots[own[j]], by reflections."""
    m, q = shown.shape[1], roots.shape[2]
    width = m + (-m) % 4
    top, below, v = np.zeros((m, width)), np.zeros((q, width)), np.zeros(q)
    for j in range(shown.shape[0]):
        for i in range(m):
            for c in range(width):
                top[i, c] = 1.0 if i == c else 0.0
            for c in range(q):
                total = 0.0
                for a in range(roots.shape[1]):
                    total += shown[j, i, a] * roots[own[j], a, c]
                below[c, i] = total
        reflect(top, below, m, q, width, v)
        for i in range(m):
            for c in range(m):
                out[j, i, c] = top[c, i] if c <= i else 0.0


def white_rows(shown: Array, C: Array, own: Index, noise: Array, out: Array) -> None:
    """h = N⁻¹G of each kind, G = LᵀC: shown Lᵀ (J, r, m), C[own[j]] (m, n); out (J, r, w)."""
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
    for k in range(kind.shape[0]):
        j = kind[k]
        for i in range(tables.shape[1]):
            total = 0.0
            for c in range(tables.shape[2]):
                total += tables[j, i, c] * vectors[k, c]
            out[k, i] = total


def turn(matrix: Array, vectors: Array, n: int) -> None:
    """Tᵀv_k in place, T (s, s), the first n columns of v (K, s, w)."""
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
    """N⁻¹v in place, values (K, ·, r), N (J, r, r) lower triangular.

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
