"""The Voigt profile as a loop, in the part of Python that numba compiles (`_voigt`)."""

from __future__ import annotations

import math

from privest.arrays import Array


def profile(
    points: Array, widths: Array, nodes: Array, weights: Array, step: float, result: Array
) -> None:
    """K, K_x/K, K_xx/K at x = `points` into `result` (3, k); y = `widths`, one or k of them.

    A result (1, k) takes K alone.
    """
    whole = result.shape[0] > 1
    period = 2.0 * math.pi / step
    cap = math.pi / step
    y = widths[0]
    for k in range(len(points)):
        if len(widths) > 1:
            y = widths[k]
        x = abs(points[k])
        part = x / step
        part -= math.floor(part)
        half = 1 if part < 0.25 or part > 0.75 else 0
        sign = 2.0 * half - 1.0
        square = y * y
        first, slope, second, third = 0.0, 0.0, 0.0, 0.0
        if not whole:
            for j in range(nodes.shape[1]):
                d = x - nodes[half, j]
                first += weights[half, j] / (d * d + square)
        for j in range(nodes.shape[1] if whole else 0):
            d = x - nodes[half, j]
            q = 1.0 / (d * d + square)
            term = weights[half, j] * q
            first += term
            term *= q
            second += term
            slope += term * d
            third += term * q
        first *= y
        slope *= -2.0 * y
        second = y * (6.0 * second - 8.0 * square * third)
        if y < cap and x < 40.0:
            # E = e^{ibz}, i = 1/(E + σ), all as real and imaginary parts
            turn = 2.0 * math.pi * part
            fall = math.exp(-period * y)
            er, ei = fall * math.cos(turn), fall * math.sin(turn)
            size = (er + sign) ** 2 + ei * ei
            ir, ii = (er + sign) / size, -ei / size
            # E/(E + σ) = 1 − σ i
            vr, vi = er * ir - ei * ii, er * ii + ei * ir
            height = 2.0 * math.exp((y - x) * (y + x))
            wr, wi = height * math.cos(2.0 * x * y), -height * math.sin(2.0 * x * y)
            cr, ci = wr * vr - wi * vi, wr * vi + wi * vr
            first += cr
            if not whole:
                result[0, k] = first
                continue
            # u = −2z + ibσ i, u' = −2 + b²σ E i²
            ur, ui = -2.0 * x - period * sign * ii, -2.0 * y + period * sign * ir
            br = -2.0 + period * period * sign * (vr * ir - vi * ii)
            bi = period * period * sign * (vr * ii + vi * ir)
            sr, si = ur * ur - ui * ui + br, 2.0 * ur * ui + bi
            slope += cr * ur - ci * ui
            second += cr * sr - ci * si
        result[0, k] = first
        if not whole:
            continue
        slope /= first
        result[1, k] = slope if points[k] > 0 else -slope
        result[2, k] = second / first
