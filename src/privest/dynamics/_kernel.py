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
        own = top[j, j]
        square = 0.0
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
            a0 = top[j, c]
            a1 = top[j, c + 1]
            a2 = top[j, c + 2]
            a3 = top[j, c + 3]
            t0 = head * a0
            t1 = head * a1
            t2 = head * a2
            t3 = head * a3
            for i in range(m):
                x = v[i]
                t0 += x * below[i, c]
                t1 += x * below[i, c + 1]
                t2 += x * below[i, c + 2]
                t3 += x * below[i, c + 3]
            t0 = scale * t0
            t1 = scale * t1
            t2 = scale * t2
            t3 = scale * t3
            top[j, c] = head * t0 - a0
            top[j, c + 1] = head * t1 - a1
            top[j, c + 2] = head * t2 - a2
            top[j, c + 3] = head * t3 - a3
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
    square = noise * noise
    size = noise
    for up in range(n):
        i = n - 1 - up
        x = heard[i]
        if x == 0.0:
            continue
        square += x * x
        new = math.sqrt(square)
        cosine = size / new
        sine = x / new
        size = new
        for c in range(i, columns):
            upper = told[0, c]
            lower = root[i, c]
            told[0, c] = cosine * upper + sine * lower
            root[i, c] = cosine * lower - sine * upper
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
            out[i, c] = t0
            out[i, c + 1] = t1
            out[i, c + 2] = t2
            out[i, c + 3] = t3


def copy(source: Array, first: int, n: int, columns: int, out: Array) -> None:
    """out = source[:, first : first + columns]."""
    for i in range(n):
        for c in range(columns):
            out[i, c] = source[i, first + c]


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
    n = transition.shape[1]
    width = transition.shape[2]
    columns = top.shape[1]
    multiply(held, transition[a], n, n, width, below)
    for i in range(n):
        for c in range(width, columns):
            top[i, c] = below[i, c] = 0.0
        if columns > width:
            below[i, width + i] = 1.0
    copy(drive[a], 0, n, width, top)
    reflect(top, below, n, n, columns, v)


def update(
    top: Array, rows: Array, noise: Array, j: int, heard: Array, told: Array, gain: Array,
    scale: Array, e: int,
) -> None:  # fmt: skip
    """Take in the numbers of a step: U⁻ to U in `top`; c_i, and g_i (with 2w columns Θ_a)."""
    r = rows.shape[1]
    width = rows.shape[2]
    n, columns = top.shape
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
        total = 0.0
        for c in range(a, rows.shape[2]):
            total += root[a, c] * rows[j, i, c]
        heard[a] = total
        square += total * total
    return square


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
    steps = kind.shape[0]
    n = transition.shape[1]
    width = transition.shape[2]
    series = begin.shape[0]
    r = rows.shape[1]
    moves = shift.shape[1]
    held = root.copy()
    top = np.zeros((n, width))
    below = np.zeros((n, width))
    v = np.zeros(n)
    heard = np.zeros(n)
    told = np.zeros((1, width))
    now = begin.copy()
    e = -1
    last = -1
    settled = False
    for k in range(steps):
        j = kind[k]
        a = lead[j]
        if not (settled and j == last):
            e += 1
            predict(held, transition, drive, a, top, below, v)
            multiply(top.T, top, n, n, width, predicted[e])
            update(top, rows, noise, j, heard, told, gain, scale, e)
            multiply(top.T, top, n, n, width, filtered[e])
            settled = j == last and still(top, held, n, width)
            last = j
            copy(top, 0, n, width, held)
            copy(top, 0, n, width, factor[e])
        entry[k] = e
        multiply(now, transition[a], series, n, width, ahead[k])
        for s in range(series if moves else 0):
            for c in range(width):
                ahead[k, s, c] += shift[k, min(s, moves - 1), c]
        copy(ahead[k], 0, series, width, now)
        for s in range(series):
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
    n = factor.shape[1]
    r = rows.shape[1]
    columns = 2 * width
    X = np.eye(n, width)
    new = np.eye(n, width)
    half = np.eye(n, width)
    U = np.eye(n, width)
    unit = np.zeros((series, width))
    moved = np.zeros((series, width))
    top = np.zeros((n, columns))
    below = np.zeros((n, columns))
    held = root.copy()
    v = np.zeros(n)
    heard = np.zeros(n)
    told = np.zeros((1, columns))
    scale = np.zeros((1, r))
    later = np.zeros((n, width))
    lost = np.zeros((n, width))
    fresh = np.zeros((1, r, width))
    at = -1
    last = -1
    settled = False
    for back in range(steps):
        k = steps - 1 - back
        e = entry[k]
        if e != last:
            j = kind[k]
            copy(factor[e], 0, n, width, U)
            if e > 0:
                copy(factor[e - 1], 0, n, width, held)
            else:
                copy(root, 0, n, width, held)
            predict(held, transition, drive, lead[j], top, below, v)
            update(top, rows, noise, j, heard, told, fresh, scale, 0)
            copy(top, width, n, width, later)
            copy(below, width, n, width, half)
            multiply(half.T, half, n, n, width, lost)
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
            multiply(U.T, half, n, n, width, new)
            symmetrise(new, n)
            copy(new, 0, n, width, covariance[at])
            multiply(X, later, n, n, width, half)
            multiply(later.T, half, n, n, width, new)
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
    r = len(error)
    n = len(rho)
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


def moved_state(mean: Array, s: int, P: Array, sigma: Array, out: Array) -> None:
    """out = x + Pσ."""
    n = len(out)
    for a in range(n):
        total = mean[s, a]
        for b in range(n):
            total += P[a, b] * sigma[s, b]
        out[a] = total


def add_outer(times: float, left: Array, right: Array, table: Array, j: int) -> None:
    """table[j] += times·left rightᵀ."""
    for a in range(len(left)):
        for b in range(len(right)):
            table[j, a, b] += times * left[a] * right[b]


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
    n = transition.shape[1]
    r = rows.shape[1]
    square = (n, width)
    wide = (r, width)
    unit = np.eye(n, width)
    M = np.zeros(square)
    N = np.zeros(square)
    T = np.zeros(square)
    work = np.zeros(square)
    NAP = np.zeros(square)
    new = np.zeros(square)
    A = np.zeros(square)
    W = np.zeros(wide)
    K = np.zeros(wide)
    KM = np.zeros(wide)
    expected = np.zeros(wide)
    c = np.zeros((r, r))
    inverse = np.zeros((r, r))
    D = np.zeros((r, r))
    sigma = np.zeros((series, n))
    rho = np.zeros(n)
    error = np.zeros(r)
    state = np.zeros(n)
    past = np.zeros(n)
    last = -1
    before = -2
    settled = False
    of = 0
    times = 0.0  # data series of steps whose expectations N, D, … are the same and still to count
    for back in range(steps):
        k = steps - 1 - back
        j = kind[k]
        e = entry[k]
        first = entry[k - 1] if k > 0 else -1
        again = (e, first) == (last, before)
        if not (settled and again):
            less(times, NAP, n, n, by_transition[of])
            less(0.5 * times, N, n, n, by_drive[of])
            less(times, expected, r, n, by_rows[of])
            less(0.5 * times, D, r, r, by_noise[of])
            times = 0.0
            of = j
            At = transition[lead[j]]
            P = filtered[e]
            P0 = filtered[first] if first >= 0 else cov0
            H = rows[j]
            g = gain[e]
            inverse_scale(H, g, scale, e, c, inverse)
            multiply(inverse, H, r, r, width, W)
            multiply(inverse.T, g, r, r, width, K)  # Kᵀ
            multiply(K.T, H, n, r, width, work)
            copy(unit, 0, n, width, T)
            less(1.0, work, n, n, T)
            multiply(M, T, n, n, width, work)
            multiply(T.T, work, n, n, width, N)
            multiply(W.T, W, n, r, width, work)
            less(-1.0, work, n, n, N)
            multiply(K, M, r, n, width, KM)
            multiply(KM, P, r, n, width, W)
            copy(K, 0, r, width, expected)
            less(1.0, W, r, n, expected)
            expected_squares(inverse, KM, K, D)
            multiply(At, N, n, n, width, work)
            multiply(work.T, P0, n, n, width, NAP)
            A[:, :n] = At[:, :n].T
            multiply(work, A, n, n, width, new)
            symmetrise(new, n)
            settled = again and still(new, M, n, n)
            last = e
            before = first
            copy(new, 0, n, width, M)
        times += data
        for s in range(series):
            moved_state(mean[k], s, P, sigma, state)
            smoothed_errors(zeta, k, s, H, g, inverse, At, sigma, error, rho)
            moved_state(mean[k - 1] if k > 0 else begin, s, P0, sigma, past)
            add_outer(1.0, rho, past, by_transition, j)
            add_outer(0.5, rho, rho, by_drive, j)
            add_outer(1.0, error, state, by_rows, j)
            add_outer(0.5, error, error, by_noise, j)
            if s < data:
                for a in range(n):
                    by_shift[k, a] += rho[a]
                for i in range(r):
                    by_offset[k, i] += error[i]
    less(times, NAP, n, n, by_transition[of])
    less(0.5 * times, N, n, n, by_drive[of])
    less(times, expected, r, n, by_rows[of])
    less(0.5 * times, D, r, r, by_noise[of])
    less(0.5 * data, M, n, n, by_cov[0])
    for s in range(series):
        add_outer(0.5, sigma[s], sigma[s], by_cov, 0)
        if s < data:
            by_mean += sigma[s]


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
    m = shown.shape[1]
    q = roots.shape[2]
    width = m + (-m) % 4
    top = np.zeros((m, width))
    below = np.zeros((q, width))
    v = np.zeros(q)
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
