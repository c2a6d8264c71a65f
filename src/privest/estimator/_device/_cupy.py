"""CuPy as a backend: array operations on a graphics processor, and fused kernels for hot loops."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from privest.arrays import Array, Index
from privest.errors import MissingDependency
from privest.estimator._device._kernels import Fused, fused_for, voigt_kernel
from privest.estimator.likelihood._terms import Backend, Likelihood, Namespace

SHARE = 0.4  # of the free memory: for what an estimate of its needs leaves out
LEAST, MOST = 1024, 2**24  # problems at a time: more fill the device no better
TEMPORARIES = 16  # arrays of a screening alive at the same time


@cache
def cupy_backend() -> Backend:
    """The backend, or MissingDependency: without CuPy, or without a device that it sees."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        raise MissingDependency(
            "a graphics processor was asked for: that needs an NVIDIA one and CuPy, pip install "
            "'privest[gpu]' (or the CuPy package that fits your CUDA). Without it leave `backend`, "
            "or --device, out."
        ) from None
    try:
        devices = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise MissingDependency(_NONE.format(f" ({error})")) from None
    if devices < 1:
        raise MissingDependency(_NONE.format(""))
    return CupyBackend(cupy, importlib.import_module("cupyx.scipy.special"))


_NONE = (
    "CuPy is installed but sees no graphics processor{}: run this where there is one, or leave "
    "`backend`, or --device, out."
)


@dataclass(frozen=True)
class CupyBackend(Backend):
    """`xp` is cupy (a stand-in in tests), `given_special` cupyx.scipy.special."""

    xp: Namespace
    given_special: Namespace
    remote: ClassVar[bool] = True

    def voigt(self, x: Array, y: Array) -> tuple[Array, Array, Array]:
        """One kernel instead of some 400 array operations."""
        K, slope, bend = voigt_kernel(self.xp)(x, y)
        return K, slope, bend

    def sorted(self, array: Array | Index) -> Index:
        order: Index = self.xp.argsort(array, axis=-1)  # stable, as CuPy documents
        return order

    def block(self, numbers: int) -> int:
        return int(min(MOST, max(LEAST, self._free() // (8 * numbers))))

    def entries(self) -> int:
        return int(max(2**17, self._free() // (8 * TEMPORARIES)))

    def _free(self) -> float:
        """Bytes to be had: what the device has free, and what CuPy keeps for another use."""
        free, _ = self.xp.cuda.runtime.memGetInfo()
        return SHARE * float(free + self.xp.get_default_memory_pool().free_bytes())

    def host(self, array: Any) -> Any:  # noqa: ANN401 - whatever has a shape
        return np.asarray(self.xp.asnumpy(array))

    def fused(self, likelihood: Likelihood, H: Array) -> Fused | None:
        return fused_for(likelihood, H, self.xp)
