"""The filter and the adjoint recursion in the part of Python that numba compiles (`_machine`).

The formulas of `_adjoint`, one step after another: a square-root filter forward, (σ, M) backward.
Distinct steps have an entry e in tables; once P (forward) or M (backward) has settled within a run
of steps of one kind, its entry is used again and its parts are counted for all that are left.
"""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import Array, Index

REACHED = 1e-12  # as `_recursions`: all further changes stay below this part of the matrix
DOUBLINGS = 30  # 2³⁰ steps: what has not died out by then contracts by less than 1e-9 a step
DEAD = 1e-60  # of its peak: what x_0 did to a state is over (a gap cannot bring it back to 1e-16)
PATIENCE = 1.5  # a failed check is not repeated before the steps of a run have grown by this


def triangle(array: Array, columns: int) -> None:
    """Householder QR in place: Rᵀ with a positive diagonal is left in the first rows, turned."""
    rows = array.shape[0]
    for j in range(columns):
        total = 0.0
        for i in range(j, rows):
            total += array[i, j] * array[i, j]
        norm = math.sqrt(total)
        if norm == 0.0:
            continue
        head = array[j, j]
        sign = -1.0 if head > 0.0 else 1.0
        array[j, j] = head - sign * norm
        scale = 1.0 / (norm * (norm + abs(head)))
        for t in range(j + 1, columns):
            along = 0.0
            for i in range(j, rows):
                along += array[i, j] * array[i, t]
            along *= scale
            for i in range(j, rows):
                array[i, t] -= along * array[i, j]
        array[j, j] = norm
        for t in range(j + 1, columns):
            array[j, t] *= sign


def filtered_step(
    root: Array, A: Array, F: Array, G: Array, N: Array, array: Array,
    whiten: Array, gain: Array, covariance: Array,
) -> float:  # fmt: skip
    """One step from the factor `root`, which is replaced: c⁻¹, K and P_{k|k}; returns log det c."""
    n, r, noises = A.shape[0], G.shape[0], N.shape[1]
    end = n + F.shape[1]
    for i in range(n):
        for a in range(n):
            total = 0.0
            for b in range(n):
                total += A[a, b] * root[b, i]
            array[i, r + a] = total
    for i in range(n, end):
        for a in range(n):
            array[i, r + a] = F[a, i - n]
    for i in range(end):
        for b in range(r):
            total = 0.0
            for a in range(n):
                total += array[i, r + a] * G[b, a]
            array[i, b] = total
    for i in range(noises):
        for b in range(r):
            array[end + i, b] = N[b, i]
        for a in range(n):
            array[end + i, r + a] = 0.0
    triangle(array, r + n)
    logs = 0.0
    for j in range(r):
        logs += math.log(array[j, j])
        for i in range(r):
            total = 1.0 if i == j else 0.0
            for k in range(j, i):
                total -= array[k, i] * whiten[k, j]
            whiten[i, j] = total / array[i, i] if i >= j else 0.0
    for a in range(n):
        for j in range(r):
            total = 0.0
            for k in range(j, r):
                total += array[k, r + a] * whiten[k, j]
            gain[a, j] = total
        for b in range(n):
            root[a, b] = array[r + b, r + a] if b <= a else 0.0
    for a in range(n):
        for b in range(a + 1):
            total = 0.0
            for k in range(b + 1):
                total += root[a, k] * root[b, k]
            covariance[a, b] = total
            covariance[b, a] = total
    return logs


def changed(new: Array, old: Array) -> float:
    """max |new − old|_ij in units of √(new_ii new_jj); beyond every limit where not finite."""
    n, worst = new.shape[0], 0.0
    for i in range(n):
        for j in range(n):
            unit = math.sqrt(max(new[i, i], old[i, i]) * max(new[j, j], old[j, j]))
            gap = abs(new[i, j] - old[i, j])
            if unit > 0.0:
                gap /= unit
            if not gap <= worst:
                worst = gap
    return worst


def settles(change: float, reference: Array, contraction: Array) -> bool:
    """Whether all further changes Σ_j Mʲ δ Mʲᵀ, |δ| ≤ change in units, stay below REACHED.

    The sum by doubling: X ← X + T X Tᵀ, T ← T².
    """
    if change == 0.0:
        return True
    if not change <= REACHED:
        return False
    n = reference.shape[0]
    power, total = np.empty((n, n)), np.eye(n)
    for i in range(n):
        for j in range(n):
            up, down = reference[j, j], reference[i, i]
            power[i, j] = contraction[i, j] * math.sqrt(up if up > 0.0 else 1.0)
            power[i, j] /= math.sqrt(down if down > 0.0 else 1.0)
    for _ in range(DOUBLINGS):
        size = 0.0
        for i in range(n):
            for j in range(n):
                size += power[i, j] * power[i, j]
        if not size < 1e12:
            return False
        moved, again = np.zeros((n, n)), np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                for k in range(n):
                    moved[i, j] += power[i, k] * total[k, j]
                    again[i, j] += power[i, k] * power[k, j]
        whole = 0.0
        for i in range(n):
            for j in range(n):
                for k in range(n):
                    total[i, j] += moved[i, k] * power[j, k]
        for i in range(n):
            for j in range(n):
                whole += total[i, j] * total[i, j]
        if not change * n * math.sqrt(whole) <= REACHED:
            return False
        if size < 1e-20:
            return True
        power = again
    return False


def closed_loop(gain: Array, G: Array, A: Array, kept: Array, found: Array) -> None:
    """U = I − KG and UA."""
    n, r = gain.shape
    for a in range(n):
        for b in range(n):
            total = 1.0 if a == b else 0.0
            for j in range(r):
                total -= gain[a, j] * G[j, b]
            kept[a, b] = total
    for a in range(n):
        for b in range(n):
            total = 0.0
            for k in range(n):
                total += kept[a, k] * A[k, b]
            found[a, b] = total


def scalar_ahead(
    k: int, end: int, A: float, G: float, gain: float, whiten: float, values: Array, shift: Array,
    offset: Array, filtered: Array, zeta: Array,
) -> None:  # fmt: skip
    """Means of one series of one state and one number, k ≤ step < end, all with the same gain."""
    x, inputs = filtered[k - 1, 0, 0], shift.shape[0] > 0
    for t in range(k, end):
        x, fresh = A * x, values[t, 0, 0]
        if inputs:
            x += shift[t, 0]
            fresh -= offset[t, 0]
        fresh -= G * x
        zeta[t, 0, 0] = whiten * fresh
        x += gain * fresh
        filtered[t, 0, 0] = x


def heard_of_start(filtered: Array, k: int, data: int, peak: Array) -> bool:
    """Whether some state of the series after the first `data` is not dead; keeps their peaks."""
    alive = False
    for a in range(peak.shape[0]):
        for s in range(data, filtered.shape[2]):
            size = abs(filtered[k, a, s])
            peak[a] = max(peak[a], size)
            if not size <= DEAD * peak[a]:
                alive = True
    return alive


def filter_loop(
    A: Array, F: Array, G: Array, N: Array, kind: Index, root: Array, begun: Array, values: Array,
    shift: Array, offset: Array, entry: Index, first: Index, whiten: Array, gain: Array,
    covariance: Array, filtered: Array, zeta: Array, live: Index,
) -> float:  # fmt: skip
    """The forward pass; returns Σ log det c_k, NaN where a covariance overflows.

    begun (N, series): z̃, shift and offset are of the first of them; the others show zeros.
    `first` (K,): the first step of every entry. Covariance K is that before step 0. `live` (1,):
    the step from which on those others are 0 and left as they are.
    """
    steps, n, r = kind.shape[0], A.shape[1], G.shape[1]
    series, data, inputs = begun.shape[1], values.shape[2], shift.shape[0] > 0
    array = np.empty((n + F.shape[2] + N.shape[2], r + n))
    factor, kept, loop = root.copy(), np.empty((n, n)), np.empty((n, n))
    ahead, fresh = np.empty(n), np.empty(r)
    logs, own_logs, e, last, age, next_check, held = 0.0, 0.0, -1, -1, 0, 1, False
    for a in range(n):
        for b in range(n):
            total = 0.0
            for k in range(n):
                total += root[a, k] * root[b, k]
            covariance[steps, a, b] = total
    k, active, small, peak = 0, series, n == 1 and r == 1 and data == 1, np.zeros(n)
    live[0] = steps if series > data else 0
    for a in range(n):
        for s in range(data, series):
            peak[a] = max(peak[a], abs(begun[a, s]))
    while k < steps:
        j = kind[k]
        if small and active == data and held and j == last:
            end = k
            while end < steps and kind[end] == j:
                entry[end] = e
                end += 1
            scalar_ahead(
                k, end, A[j, 0, 0], G[j, 0, 0], gain[e, 0, 0], whiten[e, 0, 0], values, shift,
                offset, filtered, zeta,
            )  # fmt: skip
            logs += (end - k) * own_logs
            k = end
            continue
        if j != last:
            held, age, next_check = False, 0, 1
        else:
            age += 1
        last = j
        if not held:
            e += 1
            first[e] = k
            own_logs = filtered_step(
                factor, A[j], F[j], G[j], N[j], array, whiten[e], gain[e], covariance[e]
            )
            if not math.isfinite(own_logs):
                return math.nan
            if age >= next_check:
                change = changed(covariance[e], covariance[e - 1])
                if change <= REACHED:
                    closed_loop(gain[e], G[j], A[j], kept, loop)
                    held = settles(change, covariance[e], loop)
                    next_check = int(PATIENCE * age) + 1
        entry[k] = e
        logs += own_logs
        for s in range(active):
            for a in range(n):
                total = shift[k, a] if inputs and s < data else 0.0
                for b in range(n):
                    total += A[j, a, b] * (filtered[k - 1, b, s] if k > 0 else begun[b, s])
                ahead[a] = total
            for i in range(r):
                total = values[k, i, s] if s < data else 0.0
                if inputs and s < data:
                    total -= offset[k, i]
                for a in range(n):
                    total -= G[j, i, a] * ahead[a]
                fresh[i] = total
            for i in range(r):
                total = 0.0
                for b in range(i + 1):
                    total += whiten[e, i, b] * fresh[b]
                zeta[k, i, s] = total
            for a in range(n):
                total = ahead[a]
                for i in range(r):
                    total += gain[e, a, i] * fresh[i]
                filtered[k, a, s] = total
        k += 1
        if active > data and not heard_of_start(filtered, k - 1, data, peak):
            active, live[0] = data, k
    return logs


def expected_step(
    A: Array, G: Array, gain: Array, whiten: Array, P: Array, before: Array, M: Array,
    weight: float, kept: Array, N: Array, work: Array, new: Array, d_A: Array, d_F: Array,
    d_G: Array, d_N: Array,
) -> None:  # fmt: skip
    """The parts of M and N, `weight` times; `new` is AᵀNA, U = kept is given."""
    n, r = gain.shape
    for a in range(n):
        for b in range(n):
            total = 0.0
            for k in range(n):
                total += M[a, k] * kept[k, b]
            work[a, b] = total
    for a in range(n):
        for b in range(a + 1):
            total = 0.0
            for k in range(n):
                total += kept[k, a] * work[k, b]
            N[a, b] = total
    for i in range(r):
        # W = c⁻¹G row by row, KᵀM row by row.
        for a in range(n):
            heard = 0.0
            for j in range(i + 1):
                heard += whiten[i, j] * G[j, a]
            work[0, a] = heard
        for a in range(n):
            for b in range(a + 1):
                N[a, b] += work[0, a] * work[0, b]
        for a in range(n):
            total = 0.0
            for k in range(n):
                total += gain[k, i] * M[k, a]
            work[0, a] = total
        for a in range(n):
            total = gain[a, i]
            for k in range(n):
                total -= work[0, k] * P[k, a]
            d_G[i, a] -= weight * total
        for j in range(r):
            total = 0.0
            for k in range(n):
                total += work[0, k] * gain[k, j]
            for k in range(max(i, j), r):
                total += whiten[k, i] * whiten[k, j]
            d_N[i, j] -= 0.5 * weight * total
    for a in range(n):
        for b in range(a):
            N[b, a] = N[a, b]
    for a in range(n):
        for b in range(n):
            total = 0.0
            for k in range(n):
                total += A[a, k] * before[k, b]
            work[a, b] = total
    for a in range(n):
        for b in range(n):
            total = 0.0
            for k in range(n):
                total += N[a, k] * work[k, b]
            d_A[a, b] -= weight * total
            d_F[a, b] -= 0.5 * weight * N[a, b]
    for a in range(n):
        for b in range(n):
            total = 0.0
            for k in range(n):
                total += N[a, k] * A[k, b]
            work[a, b] = total
    for a in range(n):
        for b in range(a + 1):
            total = 0.0
            for k in range(n):
                total += A[k, a] * work[k, b]
            new[a, b] = total
            new[b, a] = total


def scalar_back(
    k: int, end: int, A: float, G: float, gain: float, whiten: float, P: float, sigma: Array,
    later: Array, filtered: Array, zeta: Array, d_A: Array, d_F: Array, d_G: Array, d_N: Array,
    d_shift: Array, d_offset: Array,
) -> None:  # fmt: skip
    """Squares of one series of one state and one number, k ≥ step > end, as they come back."""
    s, x, inputs = sigma[0, 0], later[0, 0], d_shift.shape[0] > 0
    a = f = g = v = 0.0
    for t in range(k, end, -1):
        fresh = whiten * zeta[t, 0, 0] - gain * s
        rho = s + G * fresh
        g += fresh * x
        v += fresh * fresh
        s = A * rho
        x = filtered[t - 1, 0, 0] + P * s
        a += rho * x
        f += rho * rho
        if inputs:
            d_shift[t, 0] = rho
            d_offset[t, 0] = fresh
    d_A[0, 0] += a
    d_F[0, 0] += 0.5 * f
    d_G[0, 0] += g
    d_N[0, 0] += 0.5 * v
    sigma[0, 0], later[0, 0] = s, x


def adjoint_loop(
    A: Array, G: Array, kind: Index, begun: Array, data: int, live: int, entry: Index,
    first: Index, whiten: Array, gain: Array, covariance: Array, filtered: Array, zeta: Array,
    d_A: Array, d_F: Array, d_G: Array, d_N: Array, d_shift: Array, d_offset: Array,
    d_start: Array, d_cov: Array,
) -> None:  # fmt: skip
    """The pass back: adds to d_A (J, N, N), ∂FFᵀ, ∂G, ∂NNᵀ of every kind, and so on."""
    steps, n, r, series = kind.shape[0], A.shape[1], G.shape[1], zeta.shape[2]
    inputs = d_shift.shape[0] > 0
    M, N, work = np.zeros((n, n)), np.zeros((n, n)), np.empty((n, n))
    kept, loop, turn, new = np.empty((n, n)), np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    sigma, later, rho = np.zeros((n, series)), np.empty((n, series)), np.empty(n)
    fresh = np.empty(r)
    for s in range(series):
        for a in range(n):
            later[a, s] = filtered[steps - 1 if s < data else live - 1, a, s]
    last, age, next_check, settled, held = -1, 0, 1, False, False
    k, small = steps - 1, n == 1 and r == 1 and data == 1
    while k >= 0:
        j, e = kind[k], entry[k]
        end = max(first[e], live - 1)
        if small and held and e == last and k > end:
            scalar_back(
                k, end, A[j, 0, 0], G[j, 0, 0], gain[e, 0, 0], whiten[e, 0, 0],
                covariance[e, 0, 0], sigma, later, filtered, zeta, d_A[j], d_F[j], d_G[j], d_N[j],
                d_shift, d_offset,
            )  # fmt: skip
            k = end
        if e != last:
            settled, held, age, next_check, last = False, False, 0, 1, e
            closed_loop(gain[e], G[j], A[j], kept, loop)
        else:
            age += 1
        earlier = entry[k - 1] if k > 0 else steps
        if not held:
            left = k - first[e]
            count = float(data * (left + 1 if settled else 1))
            expected_step(
                A[j], G[j], gain[e], whiten[e], covariance[e], covariance[earlier], M, count,
                kept, N, work, new, d_A[j], d_F[j], d_G[j], d_N[j],
            )  # fmt: skip
            if k == 0 or (settled and first[e] == 0):
                for a in range(n):
                    for b in range(n):
                        d_cov[a, b] -= 0.5 * data * new[a, b]
            held = settled
            if left > 0 and not held and age >= next_check:
                change = changed(new, M)
                if change <= REACHED:
                    for a in range(n):
                        for b in range(n):
                            turn[a, b] = loop[b, a]
                    settled = settles(change, new, turn)
                    next_check = int(PATIENCE * age) + 1
            for a in range(n):
                for b in range(n):
                    M[a, b] = new[a, b]
        for s in range(series if k < live else data):
            for i in range(r):
                total = 0.0
                for b in range(i, r):
                    total += whiten[e, b, i] * zeta[k, b, s]
                for a in range(n):
                    total -= gain[e, a, i] * sigma[a, s]
                fresh[i] = total
            for a in range(n):
                total = sigma[a, s]
                for i in range(r):
                    total += G[j, i, a] * fresh[i]
                rho[a] = total
            for i in range(r):
                for a in range(n):
                    d_G[j, i, a] += fresh[i] * later[a, s]
                for b in range(r):
                    d_N[j, i, b] += 0.5 * fresh[i] * fresh[b]
            for a in range(n):
                total = 0.0
                for b in range(n):
                    total += A[j, b, a] * rho[b]
                sigma[a, s] = total
            for a in range(n):
                total = filtered[k - 1, a, s] if k > 0 else begun[a, s]
                for b in range(n):
                    total += covariance[earlier, a, b] * sigma[b, s]
                later[a, s] = total
            for a in range(n):
                for b in range(n):
                    d_A[j, a, b] += rho[a] * later[b, s]
                    d_F[j, a, b] += 0.5 * rho[a] * rho[b]
            if inputs and s < data:
                for a in range(n):
                    d_shift[k, a] += rho[a]
                for i in range(r):
                    d_offset[k, i] += fresh[i]
        k -= 1
    for s in range(series):
        for a in range(n):
            if s < data:
                d_start[a] += sigma[a, s]
            for b in range(n):
                d_cov[a, b] += 0.5 * sigma[a, s] * sigma[b, s]
