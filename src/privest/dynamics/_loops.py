"""The loops of filter and smoother, in the part of Python that numba compiles (`_machine`).

One step (`_sweep`) in two stages; rows are sources of noise, columns what they reach:

               z   x      ξ                           z   x     ξ
    ε (r)      Nᵀ  .      .                      ζ    cᵀ  κᵀ    Θ_aᵀ
    ω (N)      .   Fᵀ     .    →  time, reading  ξ⁺   0   B⁺ᵀ   Θ_bᵀ
    ξ (N)      .   BᵀAᵀ   I                      ν    0   0     Θ_cᵀ

`time_update` makes the columns of x triangular by reflections, `reading_update` clears those of z
by rotations in an order that keeps them so (Carlson 1973). Nothing is inverted, diagonals are ≥ 0,
N and F are lower triangular. Columns come in blocks of four, filled up with zeros: loops as short
as a state are slower than what they do. The columns of ξ are made only where Θ is wanted, from the
reflections and rotations that the steps kept (`turns`), many entries side by side.
"""

from __future__ import annotations

import math

import numpy as np

from privest.arrays import Array, Flags, Index

TINY, HUGE = 1e-280, 1e280  # sums of squares in between lost nothing to under- or overflow
GROWN = 1e3  # √_graded.GROWN: as deviations
STATES = 0  # how many, where a loop is compiled for just so many: its loops are unrolled
LANES = 64  # entries whose Θ is made at a time
REACHED = (
    1e-12 / 8
)  # of `_recursions`, with room for the covariance to change by more than its root


def time_update(
    drive: Array, moved: Array, n: int, blocks: int, v: Array, sums: Array, kept: Array, at: int
) -> None:
    """[Fᵀ; BᵀAᵀ] to [B⁻ᵀ; 0]. Reflection j is kept as v, head, ±scale: the sign of its row."""
    for j in range(n):
        for b in range(blocks):
            c = 4 * b
            t0 = t1 = t2 = t3 = 0.0
            for i in range(n):
                x = moved[i, j]
                t0 += x * moved[i, c]
                t1 += x * moved[i, c + 1]
                t2 += x * moved[i, c + 2]
                t3 += x * moved[i, c + 3]
            sums[c], sums[c + 1], sums[c + 2], sums[c + 3] = t0, t1, t2, t3
        own, unit = drive[j, j], 1.0
        total = own * own + sums[j]
        for i in range(n):
            v[i] = moved[i, j]
        if not TINY < total < HUGE:
            unit = abs(own)
            for i in range(n):
                unit = max(unit, abs(v[i]))
            if unit == 0.0:
                for i in range(n + 2):
                    kept[at, j, i] = 0.0
                continue
            own /= unit
            total = own * own
            sums[: 4 * blocks] = 0.0
            for i in range(n):
                v[i] /= unit
                total += v[i] * v[i]
                for c in range(4 * blocks):
                    sums[c] += v[i] * moved[i, c]
        # I − vvᵀ/(total + |own|·size), and the sign that makes the diagonal ≥ 0
        size = math.sqrt(total)
        sign = -1.0 if own >= 0.0 else 1.0
        head = own - sign * size
        scale = 1.0 / (total + abs(own) * size)
        for i in range(n):
            kept[at, j, i] = v[i]
        kept[at, j, n], kept[at, j, n + 1] = head, sign * scale
        for b in range(blocks):
            c = 4 * b
            a0, a1, a2, a3 = drive[j, c], drive[j, c + 1], drive[j, c + 2], drive[j, c + 3]
            t0 = scale * (sums[c] + head * a0)
            t1 = scale * (sums[c + 1] + head * a1)
            t2 = scale * (sums[c + 2] + head * a2)
            t3 = scale * (sums[c + 3] + head * a3)
            drive[j, c] = sign * (a0 - head * t0)
            drive[j, c + 1] = sign * (a1 - head * t1)
            drive[j, c + 2] = sign * (a2 - head * t2)
            drive[j, c + 3] = sign * (a3 - head * t3)
            for i in range(n):
                x = v[i]
                moved[i, c] -= x * t0
                moved[i, c + 1] -= x * t1
                moved[i, c + 2] -= x * t2
                moved[i, c + 3] -= x * t3
        drive[j, j] = unit * size
        for i in range(n):
            moved[i, j] = 0.0


def reading_update(
    root: Array, heard: Array, scale: Array, told: Array, r: int, n: int, blocks: int, kept: Array,
    at: int,
) -> None:  # fmt: skip
    """[Nᵀ 0; B⁻ᵀGᵀ B⁻ᵀ] to [cᵀ κᵀ; 0 B⁺ᵀ]: scale, told, heard and root, in place.

    Of rotation (j, i) cosine and sine are kept.
    From the last row up: what a row takes from the one of z has columns that it has itself.
    """
    for j in range(r):
        own = scale[j, j]
        if own < 0.0:
            for c in range(j, r):
                scale[j, c] = -scale[j, c]
            own = -own
        total = own * own
        for up in range(n):
            i = n - 1 - up
            other = heard[i, j]
            if other == 0.0:
                kept[at, j, 2 * i], kept[at, j, 2 * i + 1] = 1.0, 0.0
                continue
            total += other * other
            size = math.sqrt(total) if TINY < total < HUGE else math.hypot(own, other)
            cosine, sine = own / size, other / size
            own = size
            kept[at, j, 2 * i], kept[at, j, 2 * i + 1] = cosine, sine
            for c in range(j + 1, r):
                a, b = scale[j, c], heard[i, c]
                scale[j, c], heard[i, c] = cosine * a + sine * b, cosine * b - sine * a
            for p in range(blocks):
                c = 4 * p
                a0, a1, a2, a3 = told[j, c], told[j, c + 1], told[j, c + 2], told[j, c + 3]
                b0, b1, b2, b3 = root[i, c], root[i, c + 1], root[i, c + 2], root[i, c + 3]
                told[j, c] = cosine * a0 + sine * b0
                told[j, c + 1] = cosine * a1 + sine * b1
                told[j, c + 2] = cosine * a2 + sine * b2
                told[j, c + 3] = cosine * a3 + sine * b3
                root[i, c] = cosine * b0 - sine * a0
                root[i, c + 1] = cosine * b1 - sine * a1
                root[i, c + 2] = cosine * b2 - sine * a2
                root[i, c + 3] = cosine * b3 - sine * a3
        scale[j, j] = own


def gram(root: Array, n: int, blocks: int, sums: Array, out: Array, at: int) -> None:
    """out[at] = XᵀX of X = root, upper triangular."""
    for i in range(n):
        for b in range(blocks):
            c = 4 * b
            t0 = t1 = t2 = t3 = 0.0
            for k in range(i + 1):
                x = root[k, i]
                t0 += x * root[k, c]
                t1 += x * root[k, c + 1]
                t2 += x * root[k, c + 2]
                t3 += x * root[k, c + 3]
            sums[c], sums[c + 1], sums[c + 2], sums[c + 3] = t0, t1, t2, t3
        for j in range(n):
            out[at, i, j] = sums[j]


def moved_factor(
    transition: Array, drive: Array, at: int, factor: Array, to: Array, below: Array, n: int,
    blocks: int,
) -> None:  # fmt: skip
    """Fᵀ and BᵀAᵀ of one kind of step, B = factor with rows filled up to whole blocks."""
    q = drive.shape[2]
    for j in range(n):
        for i in range(q):
            to[i, j] = drive[at, j, i]
        for i in range(q, n):
            to[i, j] = 0.0
        for b in range(blocks):
            c = 4 * b
            t0 = t1 = t2 = t3 = 0.0
            for k in range(n):
                x = transition[at, j, k]
                t0 += x * factor[k, c]
                t1 += x * factor[k, c + 1]
                t2 += x * factor[k, c + 2]
                t3 += x * factor[k, c + 3]
            below[c, j], below[c + 1, j], below[c + 2, j], below[c + 3, j] = t0, t1, t2, t3


def heard_rows(
    rows: Array, noise: Array, at: int, root: Array, heard: Array, scale: Array, told: Array, n: int
) -> None:
    """B⁻ᵀGᵀ and Nᵀ of one kind of step."""
    r = rows.shape[1]
    for j in range(r):
        for i in range(n):
            total = 0.0
            for k in range(i, n):
                total += root[i, k] * rows[at, j, k]
            heard[i, j] = total
        for i in range(r):
            scale[j, i] = noise[at, i, j]
        for i in range(told.shape[1]):
            told[j, i] = 0.0


def near(new: Array, old: Array, n: int) -> bool:
    """Whether no entry of the factor changed by REACHED, in units of the deviation of its row."""
    for i in range(n):
        change, size = 0.0, 0.0
        for j in range(n):
            change = max(change, abs(new[i, j] - old[i, j]))
            size += new[i, j] * new[i, j]
        if not (change == 0.0 or change * n < REACHED * math.sqrt(size)):
            return False
    return True


def grown(new: Array, units: Array, n: int) -> bool:
    """Whether a state is far wider than before the gap; a unit of zero becomes the present one."""
    found = False
    for i in range(n):
        size = 0.0
        for j in range(n):
            size += new[i, j] * new[i, j]
        size = math.sqrt(size)
        if units[i] == 0.0:
            units[i] = size
        found = found or size > GROWN * units[i]
    return found


def forward_steps(
    kind: Index, start: Index, stop: Index, hidden: Flags, transition: Array, drive: Array,
    rows: Array, noise: Array, k: int, e: int, next_check: int, opened: bool, before: Array,
    now: Array, units: Array, entry: Index, predicted: Array, filtered: Array, factor: Array,
    gain: Array, scale: Array, reflections: Array, rotations: Array,
) -> tuple[int, int, int, bool]:  # fmt: skip
    """Steps k, k + 1, … into the entries e, e + 1, … until something needs a look: the factor has
    arrived, a gap is wide, no room is left. Returns the next k, e, next_check and whether a gap is
    open; `before` and `now` (N, N) are the factors around the last step.
    """
    n, r, steps = STATES or now.shape[0], rows.shape[1], kind.shape[0]
    blocks = (n + 3) // 4
    width = 4 * blocks
    held, old = np.zeros((n, width)), np.zeros((n, width))
    to, below, v, sums = (
        np.zeros((n, width)),
        np.zeros((width, width)),
        np.zeros(n),
        np.zeros(width),
    )
    heard, white, told = np.zeros((n, r)), np.zeros((r, r)), np.zeros((r, width))
    for i in range(n):
        for j in range(n):
            held[i, j] = now[i, j]
    attention = False
    while k < steps and e < factor.shape[0] and not attention:
        j = kind[k]
        moved_factor(transition, drive, j, held, to, below, n, blocks)
        time_update(to, below, n, blocks, v, sums, reflections, e)
        gram(to, n, blocks, sums, predicted, e)
        heard_rows(rows, noise, j, to, heard, white, told, n)
        reading_update(to, heard, white, told, r, n, blocks, rotations, e)
        gram(to, n, blocks, sums, filtered, e)
        for a in range(n):
            for b in range(n):
                old[a, b] = held[a, b]
                held[a, b] = to[b, a]
                factor[e, a, b] = to[b, a]
            for b in range(r):
                gain[e, a, b] = told[b, a]
        for a in range(r):
            for b in range(r):
                scale[e, a, b] = white[b, a] if b <= a else 0.0
        entry[k] = e
        if opened or hidden[j]:
            if not opened:
                for a in range(n):
                    units[a] = 0.0
                grown(old, units, n)
            wide = grown(held, units, n)
            opened, attention = wide or hidden[j], wide
        age = k - start[k]
        k, e, last = k + 1, e + 1, stop[k]
        if age == 0:
            next_check = 1
        elif k < last and age >= next_check:
            attention = attention or near(held, old, n)
    for i in range(n):
        for j in range(n):
            before[i, j], now[i, j] = old[i, j], held[i, j]
    return k, e, next_check, opened


def turn_room(n: int, r: int) -> tuple[Array, Array, Array, Array, Array]:
    """What `turns` works in."""
    return (
        np.empty((n, n, LANES)),
        np.empty((n, n, LANES)),
        np.empty((r, n, LANES)),
        np.empty((n + 2, LANES)),
        np.empty(LANES),
    )


def turns(
    reflections: Array, rotations: Array, e: int, count: int, fresh: Array, later: Array,
    lost: Array, at: int, room: tuple[Array, ...],
) -> None:  # fmt: skip
    """Θ_a, Θ_b and Θ_cΘ_cᵀ of the entries e, …, e + count − 1 into those from `at` on.

    From the identity in the columns of ξ. Entries run along the last axis: no step waits for
    another here. `room`: of `turn_room`.
    """
    n, r = reflections.shape[1], rotations.shape[1]
    to, below, told, v, t = room
    to[:], below[:], told[:] = 0.0, 0.0, 0.0
    for a in range(n):
        below[a, a] = 1.0
    for j in range(n):
        for i in range(n + 2):
            for s in range(count):
                v[i, s] = reflections[e + s, j, i]
        for c in range(n):
            t[:] = 0.0
            for i in range(n):
                for s in range(count):
                    t[s] += v[i, s] * below[i, c, s]
            for s in range(count):  # the row of `to` is zero before
                to[j, c, s] = -v[n, s] * v[n + 1, s] * t[s]
                t[s] *= abs(v[n + 1, s])
            for i in range(n):
                for s in range(count):
                    below[i, c, s] -= v[i, s] * t[s]
    for j in range(r):
        for up in range(n):
            i = n - 1 - up
            for s in range(count):
                v[0, s], v[1, s] = rotations[e + s, j, 2 * i], rotations[e + s, j, 2 * i + 1]
            for c in range(n):
                for s in range(count):
                    a, b = told[j, c, s], to[i, c, s]
                    told[j, c, s] = v[0, s] * a + v[1, s] * b
                    to[i, c, s] = v[0, s] * b - v[1, s] * a
    for a in range(n):
        for b in range(a + 1):
            t[:] = 0.0
            for c in range(n):
                for s in range(count):
                    t[s] += below[c, a, s] * below[c, b, s]
            for s in range(count):
                lost[at + s, a, b] = t[s]
                lost[at + s, b, a] = t[s]
        for b in range(n):
            for s in range(count):
                later[at + s, a, b] = to[b, a, s]
        for b in range(r):
            for s in range(count):
                fresh[at + s, a, b] = told[b, a, s]


def turn_steps(
    reflections: Array, rotations: Array, fresh: Array, later: Array, lost: Array
) -> None:
    """Θ_a, Θ_b and Θ_cΘ_cᵀ of every entry."""
    entries = reflections.shape[0]
    room = turn_room(reflections.shape[1], rotations.shape[1])
    for e in range(0, entries, LANES):
        turns(reflections, rotations, e, min(LANES, entries - e), fresh, later, lost, e, room)


def filtered_steps(
    kind: Index, entry: Index, transition: Array, rows: Array, gain: Array, scale: Array,
    values: Array, shift: Array, offset: Array, mean: Array, filtered: Array, predicted: Array,
    innovations: Array,
) -> tuple[float, float]:  # fmt: skip
    """x̂_{k|k−1}, ζ and x̂_{k|k} of one series; returns Σζᵀζ and Σ log det c.

    shift and offset (K, …), or (0, …) where they are zero.
    """
    n, r = mean.shape[0], rows.shape[1]
    squares, logs, product = 0.0, 0.0, 1.0
    for k in range(kind.shape[0]):
        j, e = kind[k], entry[k]
        for a in range(n):
            total = shift[k, a] if shift.shape[0] > 0 else 0.0
            for b in range(n):
                total += transition[j, a, b] * mean[b]
            predicted[k, a] = total
        for a in range(r):
            total = values[k, a] - (offset[k, a] if offset.shape[0] > 0 else 0.0)
            for b in range(n):
                total -= rows[j, a, b] * predicted[k, b]
            for b in range(a):
                total -= scale[e, a, b] * innovations[k, b]
            total /= scale[e, a, a]
            innovations[k, a] = total
            squares += total * total
            product *= scale[e, a, a]
        if not 1e-100 < product < 1e100:
            logs += math.log(product)
            product = 1.0
        for a in range(n):
            total = predicted[k, a]
            for b in range(r):
                total += gain[e, a, b] * innovations[k, b]
            mean[a] = total
            filtered[k, a] = total
    return squares, logs + math.log(product)


def carried(
    value: Array, later: Array, lost: Array, at: int, n: int, across: Array, half: Array, new: Array
) -> None:
    """new = Θ_b X Θ_bᵀ + Θ_cΘ_cᵀ of X = value; across is room for Θ_bᵀ."""
    width = across.shape[1]
    for a in range(n):
        for b in range(n):
            across[b, a] = later[at, a, b]
            new[a, b] = lost[at, a, b]
    for a in range(n):
        for p in range(0, width, 4):
            t0 = t1 = t2 = t3 = 0.0
            for k in range(n):
                x = value[a, k]
                t0 += x * across[k, p]
                t1 += x * across[k, p + 1]
                t2 += x * across[k, p + 2]
                t3 += x * across[k, p + 3]
            half[a, p], half[a, p + 1], half[a, p + 2], half[a, p + 3] = t0, t1, t2, t3
    for a in range(n):
        for p in range(0, width, 4):
            t0, t1, t2, t3 = new[a, p], new[a, p + 1], new[a, p + 2], new[a, p + 3]
            for k in range(n):
                x = later[at, a, k]
                t0 += x * half[k, p]
                t1 += x * half[k, p + 1]
                t2 += x * half[k, p + 2]
                t3 += x * half[k, p + 3]
            new[a, p], new[a, p + 1], new[a, p + 2], new[a, p + 3] = t0, t1, t2, t3
    for a in range(n):
        for b in range(a):
            new[b, a] = new[a, b] = 0.5 * (new[a, b] + new[b, a])


def around(value: Array, factor: Array, e: int, n: int, half: Array, out: Array, at: int) -> None:
    """out[at] = B X Bᵀ of the first states, as many as `out` holds; B lower triangular."""
    held = out.shape[1]
    for a in range(held):
        for p in range(0, half.shape[1], 4):
            t0 = t1 = t2 = t3 = 0.0
            for k in range(a + 1):
                x = factor[e, a, k]
                t0 += x * value[k, p]
                t1 += x * value[k, p + 1]
                t2 += x * value[k, p + 2]
                t3 += x * value[k, p + 3]
            half[a, p], half[a, p + 1], half[a, p + 2], half[a, p + 3] = t0, t1, t2, t3
        for b in range(a + 1):
            total = 0.0
            for k in range(b + 1):
                total += half[a, k] * factor[e, b, k]
            out[at, a, b] = total
            out[at, b, a] = total


def smooth_steps(
    reflections: Array, rotations: Array, entry: Index, first: Index, factor: Array,
    innovations: Array, filtered: Array, k: int, at: int, next_check: int, hold: int, value: Array,
    before: Array, following: Array, unit: Array, own: Index, covariances: Array, smoothed: Array,
) -> tuple[int, int, int]:  # fmt: skip
    """Back over the steps k, k − 1, …: X and ξ̂ of each (`_sweep`, `_means`), its smoothed
    covariance, filled from the end, and the estimates of all series; until X may have arrived or no
    room is left. X is kept as it is for the steps from `hold` on. Returns the next k, at and
    next_check; `value`, `before` and `following` are X after and before, and Θ_b of the last step.
    """
    n, r, steps, series = factor.shape[1], rotations.shape[1], entry.shape[0], filtered.shape[0]
    width = 4 * ((n + 3) // 4)
    v, room = np.zeros(n), turn_room(n, r)
    fresh, later, lost = np.zeros((LANES, n, r)), np.zeros((LANES, n, n)), np.zeros((LANES, n, n))
    whole, old = np.zeros((n, width)), np.zeros((n, width))
    half, across = np.zeros((n, width)), np.zeros((n, width))
    for a in range(n):
        for b in range(n):
            whole[a, b] = value[a, b]
    base, q, attention = entry[k + 1] + 1, 0, False  # entries from `base` on have their Θ here
    while k >= 0 and (at > 0 or k >= hold) and not attention:
        e, own_entry = entry[k + 1], entry[k]
        if e < base:
            base = max(0, e + 1 - LANES)
            turns(reflections, rotations, base, e + 1 - base, fresh, later, lost, 0, room)
        q = e - base
        if k < hold:
            old, whole = whole, old
            carried(old, later, lost, q, n, across, half, whole)
            at -= 1
            around(whole, factor, own_entry, n, half, covariances, at)
            if own_entry != e:
                next_check = steps - k
            elif k > first[k] and steps - k >= next_check:
                attention = near(whole, old, n)
        own[k] = at
        for s in range(series):
            for a in range(n):
                total = 0.0
                for b in range(r):
                    total += fresh[q, a, b] * innovations[s, k + 1, b]
                for b in range(n):
                    total += later[q, a, b] * unit[s, b]
                v[a] = total
            for a in range(n):
                unit[s, a] = v[a]
                total = filtered[s, k, a]
                for b in range(a + 1):
                    total += factor[own_entry, a, b] * v[b]
                smoothed[s, k, a] = total
        k -= 1
    for a in range(n):
        for b in range(n):
            value[a, b], before[a, b], following[a, b] = whole[a, b], old[a, b], later[q, a, b]
    return k, at, next_check


def triangle(work: Array, m: int, q: int) -> None:
    """The first m columns of q rows to an upper triangle, ≥ 0 on its diagonal, by reflections.

    Below the diagonal something is left.
    """
    for j in range(m):
        total, unit = 0.0, 1.0
        for i in range(j, q):
            total += work[i, j] * work[i, j]
        if not TINY < total < HUGE:
            unit = 0.0
            for i in range(j, q):
                unit = max(unit, abs(work[i, j]))
            if unit == 0.0:
                continue
            total = 0.0
            for i in range(j, q):
                work[i, j] /= unit
                total += work[i, j] * work[i, j]
        own, size = work[j, j], math.sqrt(total)
        sign = -1.0 if own >= 0.0 else 1.0
        head = own - sign * size
        scale = 1.0 / (total + abs(own) * size)
        for c in range(j + 1, m):
            dot = head * work[j, c]
            for i in range(j + 1, q):
                dot += work[i, j] * work[i, c]
            dot *= scale
            work[j, c] = sign * (work[j, c] - head * dot)
            for i in range(j + 1, q):
                work[i, c] -= work[i, j] * dot
        work[j, j] = unit * size


def shown_steps(
    own: Index, hidden: Flags, shown: Array, matrix: Array, half: Array, unit: float, rows: Array,
    noise: Array,
) -> None:  # fmt: skip
    """G = LᵀC and N, N Nᵀ = LᵀRL + I, of every kind of step; stacks of one hold for all.

    own: whose matrices a kind has; hidden: it shows nothing.
    """
    r, m, n = shown.shape[1], shown.shape[2], matrix.shape[2]
    work = np.zeros((r + half.shape[2], r))
    for e in range(own.shape[0]):
        if hidden[e]:
            for a in range(r):
                for b in range(n):
                    rows[e, a, b] = 0.0
                for b in range(r):
                    noise[e, a, b] = 1.0 if a == b else 0.0
            continue
        s = own[e] if shown.shape[0] > 1 else 0
        c = own[e] if matrix.shape[0] > 1 else 0
        h = own[e] if half.shape[0] > 1 else 0
        for a in range(r):
            for b in range(n):
                total = 0.0
                for k in range(m):
                    total += shown[s, a, k] * matrix[c, k, b]
                rows[e, a, b] = unit * total
            for b in range(half.shape[2]):
                total = 0.0
                for k in range(m):
                    total += shown[s, a, k] * half[h, k, b]
                work[r + b, a] = unit * total
            for b in range(r):
                work[a, b] = 1.0 if a == b else 0.0
        triangle(work, r, r + half.shape[2])
        for a in range(r):
            for b in range(r):
                noise[e, a, b] = work[b, a] if b <= a else 0.0


def is_lower(stack: Array) -> bool:
    """Whether nothing stands above the diagonals."""
    for s in range(stack.shape[0]):
        for i in range(stack.shape[1]):
            for j in range(i + 1, stack.shape[2]):
                if stack[s, i, j] != 0.0:
                    return False
    return True


def triangular_roots(half: Array, lower: Array) -> None:
    """Lower-triangular L ≥ 0 on the diagonal with L Lᵀ = half halfᵀ, of each (m, q)."""
    count, m, q = half.shape
    work = np.zeros((q, m))
    for s in range(count):
        for i in range(m):
            for j in range(q):
                work[j, i] = half[s, i, j]
        triangle(work, m, q)
        for j in range(m):
            for c in range(m):
                lower[s, c, j] = work[j, c] if c >= j else 0.0


def single_step(
    transition: Array, drive: Array, rows: Array, noise: Array, values: Array, unit: float,
    vague: float, mean: Array, root: Array, ahead: Array, spread: Array, fresh: Array, new: Array,
    narrow: Array, factor: Array,
) -> float:  # fmt: skip
    """One step of one series: x̂_{k|k−1}, P_{k|k−1}, ζ, x̂_{k|k}, P_{k|k} and B⁺ into the arrays.

    Returns Σζᵀζ + 2 log det c, NaN where the step is not an ordinary one: a start far vaguer than
    what is read (by √`vague`), an overflow, a reading that is known before it is taken.
    """
    n, r = root.shape[0], rows.shape[1]
    blocks = (n + 3) // 4
    width = 4 * blocks
    held, to, below = np.zeros((n, width)), np.zeros((n, width)), np.zeros((width, width))
    v, sums = np.zeros(n), np.zeros(width)
    heard, white, told = np.zeros((n, r)), np.zeros((r, r)), np.zeros((r, width))
    reflections, rotations = np.empty((1, n, n + 2)), np.empty((1, r, 2 * n))
    for i in range(n):
        for j in range(n):
            held[i, j] = root[i, j]
    for a in range(r):
        read, own = 0.0, 0.0
        for j in range(n):
            total = 0.0
            for i in range(n):
                total += rows[0, a, i] * held[i, j]
            read += total * total
        for j in range(r):
            own += noise[0, a, j] * noise[0, a, j]
        if not read <= vague * own:
            return math.nan
    moved_factor(transition, drive, 0, held, to, below, n, blocks)
    time_update(to, below, n, blocks, v, sums, reflections, 0)
    gram(to, n, blocks, sums, spread, 0)
    heard_rows(rows, noise, 0, to, heard, white, told, n)
    reading_update(to, heard, white, told, r, n, blocks, rotations, 0)
    gram(to, n, blocks, sums, narrow, 0)
    for a in range(n):
        total = 0.0
        for b in range(n):
            total += transition[0, a, b] * mean[b]
            factor[a, b] = to[b, a]
        ahead[a] = total
    deviance, logs, sound = 0.0, 0.0, 0.0
    for a in range(r):
        total = unit * values[a]
        for b in range(n):
            total -= rows[0, a, b] * ahead[b]
        for b in range(a):
            total -= white[b, a] * fresh[b]
        fresh[a] = total / white[a, a]
        deviance += fresh[a] * fresh[a]
        logs += math.log(white[a, a])
    for a in range(n):
        total = ahead[a]
        for b in range(r):
            total += told[b, a] * fresh[b]
        new[a] = total
        for b in range(n):
            sound += narrow[0, a, b]
    return deviance + 2.0 * logs + 0.0 * sound  # NaN where the covariance is not finite
