"""The CUDA text of this room (`likelihoods.cu`, `climb.cu`), compiled for a problem when it is met.

One problem a thread, everything in registers: no array of an iteration ever reaches the memory.
The same text compiles for a processor, which is how tests without a device compare it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from privest.arrays import Array
from privest.estimator._starts import SCREENED, Fits
from privest.estimator.likelihood import _pieces as pieces
from privest.estimator.likelihood import _voigt
from privest.estimator.likelihood._additive import LaplaceLikelihood, VoigtLikelihood
from privest.estimator.likelihood._inverse import InverseGaussianLikelihood
from privest.estimator.likelihood._terms import Likelihood, Namespace
from privest.noise.quadrature import gauss

THREADS = 128  # a block
# Blocks that a multiprocessor must be able to hold: more hide waiting better and leave fewer
# registers to each thread. By family, measured on an H200 (`benchmarks/gpu_run.py`).
BLOCKS = {1: 3, 2: 4, 3: 3}
AT_ONCE = 2**17  # threads that climb, problem after problem: what a large device holds
MOST_PARAMETERS = 8  # more do not fit in registers: array operations
MOST_READINGS = 64  # humps of a trial are the bits of one word


def family_of(likelihood: Likelihood) -> tuple[int, list[float]] | None:
    """The number of a likelihood in `climb.cu` and its parameters; None: it has none."""
    if type(likelihood) is LaplaceLikelihood:
        return 1, [likelihood.scale]
    if type(likelihood) is VoigtLikelihood:
        return 2, [likelihood.scale]
    if type(likelihood) is InverseGaussianLikelihood:
        return 3, [likelihood.sd, likelihood.truncation]
    return None


def tables() -> str:
    """The constants that `likelihoods.cu` takes from the modules whose formulas it repeats."""
    nodes, weights = gauss(pieces.POINTS)
    return "\n".join([
        f"#define VOIGT_STEP {_voigt.STEP!r}",
        f"#define VOIGT_NODES {_voigt.TABLE.shape[1]}",
        f"#define GAUSS_NODES {pieces.POINTS}",
        _table("VOIGT_NODE", _voigt.OFFSETS),
        _table("VOIGT_WEIGHT", _voigt.WEIGHTS),
        _table("GAUSS_NODE", nodes),
        _table("GAUSS_WEIGHT", weights),
    ])  # fmt: skip


def _table(name: str, values: Array) -> str:
    size = "".join(f"[{n}]" for n in values.shape)
    text = repr(values.tolist()).replace("[", "{").replace("]", "}")
    return f"__constant__ double {name}{size} = {text};"


def cuda_text(path: Path) -> str:
    """A file of CUDA text without its remarks: compilers want plain letters."""
    lines = path.read_text("utf-8").splitlines()
    return "\n".join(line.split("//")[0].rstrip() for line in lines) + "\n"


def text(name: str) -> str:
    """A file of this room."""
    return cuda_text(Path(__file__).with_name(name))


def climb_text(family: int, m: int, n: int, kept: int, count: int) -> str:
    """The whole program for one kind of problem."""
    from privest.estimator import _mle as mle

    constants = {
        "READINGS": m, "PARAMETERS": n, "FAMILY": family,
        "KEPT": max(kept, 1), "COUNT": max(count, 1), "TOLERANCE": mle.TOLERANCE,
        "POSITIVE": mle.POSITIVE, "SAFE": mle.SAFE, "NEAR": mle.NEAR, "FLAT": mle.FLAT,
        "FLOOR": mle.FLOOR, "RISE": mle.RISE, "SHORTEST": mle.SHORTEST, "LONGEST": mle.LONGEST,
        "ROUNDING": mle.ROUNDING, "THREADS": THREADS, "BLOCKS": BLOCKS[family],
    }  # fmt: skip
    defines = "\n".join(f"#define {name} {value!r}" for name, value in constants.items())
    return "\n".join([defines, tables(), text("likelihoods.cu"), text("climb.cu")])


@cache
def voigt_kernel(cupy: Namespace) -> Any:  # noqa: ANN401 - a kernel of CuPy
    """K, K_x/K, K_xx/K of arrays x and y."""
    return cupy.ElementwiseKernel(
        "float64 x, float64 y",
        "float64 height, float64 slope, float64 bend",
        "voigt_profile(x, y, &height, &slope, &bend)",
        "privest_voigt",
        preamble=tables() + "\n" + text("likelihoods.cu"),
    )


@cache
def _module(cupy: Namespace, family: int, m: int, n: int, kept: int, count: int) -> Any:  # noqa: ANN401 - a module of CuPy
    return cupy.RawModule(code=climb_text(family, m, n, kept, count))


@dataclass(frozen=True, eq=False)
class Fused:
    """Kernels for one likelihood and one H; all arrays are the device's."""

    cupy: Namespace
    family: int
    matrix: Array  # on the device, like the next two
    deviation: Array
    parameters: Array

    def _launch(self, name: str, kept: int, count: int, size: int, *arguments: Any) -> None:  # noqa: ANN401
        m, n = self.matrix.shape
        kernel = _module(self.cupy, self.family, m, n, kept, count).get_function(name)
        kernel((math.ceil(size / THREADS),), (THREADS,), (np.int64(size), *arguments))

    def climb(self, z: Array, begin: Array, iterations: int) -> tuple[Array, ...]:
        """(θ, Σℓ, converged, evaluations, gradient) from start points (trials, k, n)."""
        xp = self.cupy
        trials, count, n = begin.shape
        size = trials * count
        theta, height, norm = xp.empty((size, n)), xp.empty(size), xp.empty(size)
        good, spent = xp.empty(size, dtype=xp.bool_), xp.empty(size, dtype=xp.int64)
        self._launch(
            "climb", 1, 1, min(size, AT_ONCE), np.int64(size), xp.zeros(1, dtype=xp.uint64),
            self.matrix, xp.ascontiguousarray(z), self.deviation, self.parameters,
            xp.ascontiguousarray(begin), np.int32(count), np.int32(iterations),
            theta, height, good, spent, norm,
        )  # fmt: skip
        return theta, height, good, spent, norm

    def starts(self, fits: Fits, z: Array, centre: Array, first: Array, wanted: int) -> Array:
        """`first` and the best fits, as `_starts.best_starts` finds them: (trials, 1 + k, n)."""
        xp = self.cupy
        kept = min(wanted * SCREENED, len(fits))
        begin = xp.empty((len(z), wanted + 1, first.shape[1]))
        begin[:, 0] = first
        self._launch(
            "screen", kept, wanted, len(z), self.matrix, xp.ascontiguousarray(z),
            xp.ascontiguousarray(centre), self.deviation, self.parameters,
            xp.asarray(fits.rows.astype(np.int32)), xp.asarray(np.ascontiguousarray(fits.inverses)),
            np.int32(len(fits)), begin,
        )  # fmt: skip
        result: Array = begin
        return result


def fused_for(likelihood: Likelihood, H: Array, cupy: Namespace) -> Fused | None:
    """The kernels for a problem, or None where it has none (another noise, too many parameters)."""
    family = family_of(likelihood)
    m, n = H.shape
    if family is None or n > MOST_PARAMETERS or m > MOST_READINGS:
        return None
    deviation = np.broadcast_to(np.sqrt(likelihood.variance), m)
    return Fused(
        cupy,
        family[0],
        cupy.asarray(np.ascontiguousarray(H)),
        cupy.asarray(np.ascontiguousarray(deviation)),
        cupy.asarray(np.array(family[1])),
    )
