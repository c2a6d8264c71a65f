"""The Voigt profile, the density of a Gaussian plus a Cauchy number, and two derivatives.

With w the Faddeeva function, x = r/σ√2, y = γ/σ√2,

    f(r) = K(x, y)/σ√(2π) ,   K = Re w(x + iy) = (y/π) ∫ e^{−t²}/((x − t)² + y²) dt .

The trapezoid rule for that integral, with the part of the pole that it misses put back, is exact to
rounding for all x and all y > 0: one formula, real numbers, every term of the sum positive, so that
nothing cancels however far the tail. With h = √(π/(N + 1)), nodes t_j = a + jh, −N − 1 ≤ j ≤ N, of
which a is 0 or h/2, whichever is further from x (σ = −1 or +1), and q_j = 1/((x − t_j)² + y²),

    K    = (h/π) y Σ e^{−t²} q + Re c           c = 2e^{−z² + ibz}/(E + σ) where y < π/h, else 0
    K_x  = −(h/π) y Σ 2 e^{−t²} (x − t) q² + Re cu        E = e^{ibz} ,  b = 2π/h ,  z = x + iy
    K_xx = (h/π) y Σ e^{−t²} q² (6 − 8y²q) + Re c(u² + u')
    u = −2z + ibσ/(E + σ) ,   u' = −2 + b²σE/(E + σ)² .

**Traps:** w' = −2ζw + 2i/√π gives the same from w alone, but loses |ζ|² and |ζ|⁴ units of rounding.
The correction must be 0 and not only small for y ≥ π/h: 1e-16 beside K = 1e-8 is 1e-8 of it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privest.arrays import Array
from privest.estimator.likelihood import _voigt_loop as loop
from privest.linalg import _compiling as compiling

NODES = 13  # N: 2N + 2 terms; K to 7e-15, the slope to 3e-14, the curvature to 2e-12
STEP = math.sqrt(math.pi / (NODES + 1))
PERIOD = 2.0 * math.pi / STEP  # b
CAP = math.pi / STEP  # from this y on the rule alone is exact
BEYOND = 40.0  # from this x on e^{−x²} is 0
OFFSETS = STEP * np.arange(-NODES - 1.0, NODES + 1.0)
BLOCK = 1024  # points at a time: the arrays of all nodes stay in cache
# The nodes and their weights e^{−t²} h/π, first those about 0, then those about h/2.
TABLE = np.stack([OFFSETS, OFFSETS + STEP / 2])
WEIGHTS = np.exp(-(TABLE**2)) * (STEP / math.pi)
FEW = 1000  # points below which a compiled loop does not pay for being loaded


def profile(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """K, K_x/K, K_xx/K for finite x and y > 0 of shapes that go together.

    Against 80 digits, |x| ≤ 1e8, 1e-10 ≤ y ≤ 1e5: ln K to 7e-15, the slope to 3e-14 and the
    curvature of ln K to 2e-12, in units of min(1, 1/|x + iy|) and its square. Cost: 28 divisions, 2
    exponentials and 2 pairs of sine and cosine; a compiled loop where numba is installed.
    """
    K, slope, bend = _computed(x, y, 3)
    return K, slope, bend


def height(x: Array, y: Array) -> Array:
    """K alone, at half the cost."""
    return _computed(x, y, 1)[0]


def _computed(x: Array, y: Array, rows: int) -> list[Array]:
    shape = np.broadcast_shapes(np.shape(x), np.shape(y))
    flat = np.ascontiguousarray(np.broadcast_to(x, shape), dtype=np.float64).ravel()
    own = np.ascontiguousarray(y, dtype=np.float64).ravel()
    if own.size not in (1, flat.size):
        own = np.ascontiguousarray(np.broadcast_to(y, shape), dtype=np.float64).ravel()
    result = np.empty((rows, flat.size))
    if compiling.wanted(None, flat.size >= FEW):
        code = compiling.machine_code(loop.profile, "rows1 rows1 rows2 rows2 float out2")
        code(flat, own, TABLE, WEIGHTS, STEP, result)
    else:
        _by_arrays(flat, own, result)
    return [row.reshape(shape) for row in result]


def _by_arrays(x: Array, y: Array, result: Array) -> None:
    """The same in array operations: points with the same nodes together, a block at a time."""
    size = np.abs(x)
    part = size / STEP
    part = part - np.floor(part)
    shifted = (part < 0.25) | (part > 0.75)
    make = _block if len(result) > 1 else _height_block
    for half in (0, 1):
        chosen = np.flatnonzero(shifted == half)
        own = size[chosen], part[chosen], y if y.size == 1 else y[chosen]
        found = np.empty((len(result), chosen.size))
        for at in range(0, chosen.size, BLOCK):
            here = slice(at, at + BLOCK)
            width = own[2] if y.size == 1 else own[2][here]
            found[:, here] = make(own[0][here], own[1][here], width, half)
        result[:, chosen] = found
    if len(result) > 1:
        result[1] *= np.sign(x)


def _block(x: Array, part: Array, y: Array, half: int) -> Array:
    d = x - TABLE[half][:, None]
    q = d * d
    q += y * y
    np.divide(1.0, q, out=q)
    weights = WEIGHTS[half]
    first = weights @ q
    square = q * q
    second = weights @ square
    d *= square
    slope = weights @ d
    square *= q
    third = weights @ square
    found = np.stack([first, -2.0 * slope, 6.0 * second - (8.0 * y * y) * third]) * y
    near = (x < BEYOND) & (y < CAP)
    if near.any():
        own = y if y.size == 1 else y[near]
        found[:, near] += np.stack(_correction(x[near], part[near], own, 2.0 * half - 1.0))
    found[1:] /= found[0]
    return found


def _height_block(x: Array, part: Array, y: Array, half: int) -> Array:
    """K of a block."""
    q = x - TABLE[half][:, None]
    q *= q
    q += y * y
    np.divide(1.0, q, out=q)
    found = y * (WEIGHTS[half] @ q)
    near = (x < BEYOND) & (y < CAP)
    if near.any():
        x, part, y = x[near], part[near], y if y.size == 1 else y[near]
        E = np.exp(-PERIOD * y + (2j * math.pi) * part)
        c = 2.0 * np.exp((y - x) * (y + x) - 2j * x * y) * E / (E + (2.0 * half - 1.0))
        found[near] += np.real(c)
    height: Array = found[None]
    return height


def _correction(
    x: Array,
    part: Array,
    y: Array,
    sign: Array | float,
    xp: Any = np,  # noqa: ANN401
) -> tuple[Array, Array, Array]:
    """Re c, Re c', Re c''; E, i = 1/(E + σ), v = E i, c, u, u' as real and imaginary parts."""
    turn = (2.0 * math.pi) * part
    fall = xp.exp(-PERIOD * y)
    er, ei = fall * xp.cos(turn), fall * xp.sin(turn)
    ir = er + sign
    size = 1.0 / (ir * ir + ei * ei)
    ir, ii = ir * size, -ei * size
    vr, vi = er * ir - ei * ii, er * ii + ei * ir
    height, angle = 2.0 * xp.exp((y - x) * (y + x)), (2.0 * y) * x
    wr, wi = height * xp.cos(angle), -height * xp.sin(angle)
    cr, ci = wr * vr - wi * vi, wr * vi + wi * vr
    period = PERIOD * sign
    ur, ui = -2.0 * x - period * ii, period * ir - 2.0 * y
    bend = PERIOD * period
    sr = ur * ur - ui * ui + (bend * (vr * ir - vi * ii) - 2.0)
    si = 2.0 * ur * ui + bend * (vr * ii + vi * ir)
    return cr, cr * ur - ci * ui, cr * sr - ci * si


def in_namespace(x: Array, y: Array, xp: Any) -> tuple[Array, Array, Array]:  # noqa: ANN401
    """`profile` in the functions of an array namespace, node by node."""
    sign_of_x, x = xp.sign(x), xp.abs(x)
    part = x / STEP - xp.floor(x / STEP)
    half = (part < 0.25) | (part > 0.75)
    sign, y = xp.where(half, 1.0, -1.0), y + xp.zeros_like(x)
    first, slope, second, third = (xp.zeros_like(x) for _ in range(4))
    for (t, shifted), (weight, other) in zip(TABLE.T.tolist(), WEIGHTS.T.tolist()):
        d = x - xp.where(half, shifted, t)
        q = 1.0 / (d * d + y * y)
        term = xp.where(half, other, weight) * q
        first, term = first + term, term * q
        second, slope, third = second + term, slope + term * d, third + term * q
    sums = (y * first, -2.0 * y * slope, y * (6.0 * second - 8.0 * y * y * third))
    near = (x < BEYOND) & (y < CAP)
    added = _correction(xp.where(near, x, 0.0), part, xp.where(near, y, 1.0), sign, xp)
    K, K1, K2 = (a + xp.where(near, b, 0.0) for a, b in zip(sums, added))
    return K, sign_of_x * K1 / K, K2 / K
