"""min over ψ of E ψ² + λ E ψ'² − 2 E ψ' for a density known by its logarithm.

The minimiser solves the weak form, without derivatives of f,

    E ψφ + λ E ψ'φ' = E φ'   for every φ :

jumps, kinks and finite ends of the support (where ψ' = 1/λ, the natural condition) need no special
care. Minus the minimum is E ψ'. Spectral elements: polynomials of degree 8 on panels, continuous
across them, halved where the highest Legendre coefficients of ψ have not died out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import scipy

from privest.arrays import Array, Flags
from privest.errors import NumericalFailure
from privest.noise.distribution import Distribution
from privest.noise.numerics.density import NumericalDensity
from privest.noise.quadrature import gauss, on_panels

DEGREE = 8
POINTS = 16
# The elements cover the densities above this part of the peak.
LEAST_DENSITY = 1e-60
# Between its parts the density may fall to this part of the peak.
GAP_DENSITY = 1e-250
# Highest coefficients below this part of ψ, where the density is above RESOLVED of its peak.
TOP = 1e-10
RESOLVED = 1e-25
# Elements that cost more than this part of the minimum are halved, wherever they are.
PART = 1e-17
ROUNDS = 60
MOST = 40_000
MOST_FALL = 20.0
SMALLEST = 1e-300
HALVINGS = 100  # of an element: more than a double has digits
ROUNDING = 2e-12  # of E ψ'; seen up to 1.3e-12 against closed forms


@dataclass(frozen=True, eq=False)
class Minimiser:
    """ψ at the Gauss-Lobatto nodes of its elements, (e, 9), and the moments that belong to it.

    height  (e,) the density on each, as a part of its peak.
    square, slope, slope_square: E ψ², E ψ', E ψ'². At the minimum E ψ² + λE ψ'² = E ψ'.
    error   of E ψ', from halving all elements.
    """

    edges: Array
    values: Array
    height: Array
    square: float
    slope: float
    slope_square: float
    error: float = 0.0


def least_score(law: Distribution, weight: float) -> Minimiser:
    """ψ that minimises E ψ² + λ E ψ'² − 2 E ψ', λ = `weight` (theory.md 7).

    Raises NumericalFailure where it cannot be resolved. Cost: about ten banded solves, 20-50 ms.
    """
    density = law._numbers
    mass = density.mass.estimate
    off = ROUNDING + mass.error / mass.value
    edges = _first_edges(density, weight)
    for _ in range(ROUNDS):
        found, split = _solve(density, weight, edges)
        if not split.any():
            finer, _ = _solve(density, weight, _halved(edges, np.ones(len(split), bool)))
            # Galerkin: finer elements only increase E ψ'. A second halving would add less.
            change = abs(finer.slope - found.slope) + off * found.slope
            return replace(found, error=change)
        edges = _halved(edges, split)
        if len(edges) > MOST:
            break
    raise _too_rough(len(edges))


def _first_edges(density: NumericalDensity, weight: float) -> Array:
    """Special points, and octaves around them down to the length √λ over which ψ bends.

    Halved until the density changes by less than e^20 on an element; ends without density go.
    """
    fine = 0.25 * min(density.width, math.sqrt(weight))
    points = np.array(density.special_points)
    points = points[np.isfinite(points)]
    cells = density.mass.cells
    edges = np.concatenate([cells.left, cells.right])
    edges = edges[np.abs(edges[:, None] - points).min(axis=1) >= fine]
    edges = np.unique(np.concatenate([edges, points]))
    # Edges closer than rounding allows would make empty elements.
    apart = np.diff(edges) > 1e-9 * density.width + 1e-13 * np.abs(edges[1:])
    edges = np.concatenate([edges[:-1][apart], edges[-1:]])
    for _ in range(HALVINGS):
        height = np.log(np.maximum(density.relative(_inside(edges)), SMALLEST))
        top = height.max(axis=1)
        low = height.min(axis=1)
        live = np.flatnonzero(top > math.log(LEAST_DENSITY))
        first = live[0]
        last = live[-1]
        steep = (top - low)[first : last + 1] > MOST_FALL
        edges = edges[first : last + 2]
        if not steep.any():
            break
        edges = _halved(edges, steep)
        if len(edges) > MOST:
            raise _too_rough(len(edges))
    else:
        raise _too_rough(len(edges))
    if (top[first:last] <= math.log(GAP_DENSITY)).any():
        raise NumericalFailure(
            "the density vanishes between parts that are far apart: their optimal scores are not "
            "connected. Treat the parts separately."
        )
    return edges


def _inside(edges: Array) -> Array:
    return on_panels(edges[:-1], edges[1:], gauss(POINTS)[0])[0]


def _too_rough(count: int) -> NumericalFailure:
    return NumericalFailure(
        f"the optimal score was not resolved by {count} elements: the log-density is too rough. "
        "Give its kinks as breaks, or smooth it."
    )


def _halved(edges: Array, split: Flags) -> Array:
    middle = (edges[:-1] + edges[1:])[split] / 2
    return np.sort(np.concatenate([edges, middle]))


@cache
def _reference() -> tuple[Array, Array, Array]:
    """Shape functions of the Lobatto nodes and their derivatives at the Gauss points; modes."""
    inner, _ = scipy.special.roots_jacobi(DEGREE - 1, 1.0, 1.0)
    nodes = np.concatenate([[-1.0], inner, [1.0]])
    to_modes = np.linalg.inv(np.polynomial.legendre.legvander(nodes, DEGREE))
    at, _ = gauss(POINTS)
    shape = np.polynomial.legendre.legvander(at, DEGREE) @ to_modes
    slopes = np.polynomial.legendre.legder(np.eye(DEGREE + 1))
    slope = np.polynomial.legendre.legvander(at, DEGREE - 1) @ slopes @ to_modes
    return shape, slope, to_modes


def _solve(density: NumericalDensity, weight: float, edges: Array) -> tuple[Minimiser, Flags]:
    shape, slope, to_modes = _reference()
    half = np.diff(edges) / 2
    f = density.relative(_inside(edges)) * gauss(POINTS)[1] / density.mass.estimate.value
    # Element matrices: E ψφ + λ E ψ'φ', and the right side E φ'.
    mass = np.einsum("eq,qi,qj->eij", f * half[:, None], shape, shape, optimize=True)
    stiff = np.einsum("eq,qi,qj->eij", f / half[:, None], slope, slope, optimize=True)
    pull = f @ slope
    count = len(half)
    size = count * DEGREE + 1
    band = np.zeros((DEGREE + 1, size))
    local = mass + weight * stiff
    means, right = np.zeros((2, size))  # E φ and E φ'
    first = np.arange(count) * DEGREE
    local_means = (f * half[:, None]) @ shape
    for i in range(DEGREE + 1):
        np.add.at(means, first + i, local_means[:, i])
        np.add.at(right, first + i, pull[:, i])
        for j in range(i + 1):  # lower band storage: entry (i, j) at [i − j, j]
            np.add.at(band[i - j], first + j, local[:, i, j])
    values = _banded_solve(band, right, means)
    nodal = values[first[:, None] + np.arange(DEGREE + 1)]
    square = float(np.einsum("ei,eij,ej->", nodal, mass, nodal))
    slope_square = float(np.einsum("ei,eij,ej->", nodal, stiff, nodal))
    mean_slope = float((nodal * pull).sum())
    height = f.max(axis=1) / f.max()
    found = Minimiser(edges, nodal, height, square, mean_slope, slope_square)
    return found, _unresolved(found, weight, to_modes, mass, stiff)


def _banded_solve(band: Array, right: Array, means: Array) -> Array:
    """The solution after scaling the diagonal to one: rows of 1e-60 and of 1 are alike.

    A large λ leaves little but slopes, which do not see a constant: the matrix is singular but for
    rounding. Then ψ = χ + c with χ = 0 at the heaviest node, and φ = 1 gives c = −E χ / E 1.
    """
    scale = 1 / np.sqrt(band[0])
    size = band.shape[1]
    lower = np.zeros(band.shape)
    for k in range(len(band)):
        lower[k, : size - k] = band[k, : size - k] * scale[k:] * scale[: size - k]
    try:
        solved = scipy.linalg.solveh_banded(lower, right * scale, lower=True, check_finite=False)
        return np.asarray(solved * scale)
    except np.linalg.LinAlgError:
        heaviest = int(band[0].argmax())
    for k in range(min(len(band), heaviest + 1)):
        lower[k, heaviest - k] = 0.0
    lower[:, heaviest] = np.eye(len(band))[0]
    columns = np.column_stack([right, means]) * scale[:, None]
    columns[heaviest] = 0.0
    solved = scipy.linalg.solveh_banded(lower, columns, lower=True, check_finite=False)
    free, tied = solved.T * scale
    # c adds −E χ E φ / E 1 to every equation: a matrix of rank one (Sherman and Morrison).
    mean = means @ free / (means.sum() - means @ tied)
    return np.asarray(free + mean * tied - mean)


def _unresolved(
    found: Minimiser, weight: float, to_modes: Array, mass: Array, stiff: Array
) -> Flags:
    """Elements whose two highest coefficients are not small, in size or in cost."""
    modes = found.values @ to_modes.T
    modes[:, : DEGREE - 1] = 0.0
    top = modes @ np.linalg.inv(to_modes).T
    cost = np.einsum("ei,eij,ej->e", top, mass + weight * stiff, top)
    typical = math.sqrt(found.square)
    largest = np.maximum(np.abs(found.values).max(axis=1), typical)
    rough = np.abs(modes[:, DEGREE - 1 :]).sum(axis=1) > TOP * largest
    return np.asarray((rough & (found.height > RESOLVED)) | (cost > PART * found.slope))


def as_polynomials(found: Minimiser) -> scipy.interpolate.PPoly:
    """ψ as piecewise polynomials, on the elements where it is resolved.

    Further out the natural condition ψ' = 1/λ of the last element bends ψ upwards: a straight line
    from here is the truer continuation.
    """
    _, _, to_modes = _reference()
    live = np.flatnonzero(found.height > RESOLVED)
    kept = slice(live[0], live[-1] + 1)
    edges = found.edges[live[0] : live[-1] + 2]
    width = np.diff(edges)
    modes = found.values[kept] @ to_modes.T
    # Legendre in t on [−1, 1] to powers of x − left, t = 2(x − left)/width − 1.
    powers = np.zeros((DEGREE + 1, DEGREE + 1))
    shift = np.polynomial.Polynomial([-1.0, 2.0])
    for k in range(DEGREE + 1):
        basis = np.polynomial.legendre.leg2poly(np.eye(DEGREE + 1)[k])
        composed = np.polynomial.Polynomial(basis)(shift)
        powers[k, : k + 1] = composed.coef
    local = modes @ powers / width[:, None] ** np.arange(DEGREE + 1)
    return scipy.interpolate.PPoly(local.T[::-1], edges)
