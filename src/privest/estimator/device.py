"""Where maximum likelihood computes: NumPy on this machine, or CuPy on a graphics processor."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from privest.arrays import Index
from privest.errors import InvalidInput, MissingDependency
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, Namespace

NAMES = ("numpy", "cupy")
SHARE = 0.4  # of the free memory: for what an estimate of its needs leaves out
LEAST, MOST = 1024, 2**24  # problems at a time: more fill the device no better
TEMPORARIES = 16  # arrays of a screening alive at the same time


def as_backend(given: Backend | str, likelihood: Likelihood | None = None) -> Backend:
    """The backend of a name, or the one given; it must be able to hold the likelihood's arrays."""
    if isinstance(given, str):
        if given not in NAMES:
            raise InvalidInput(f"backend must be {' or '.join(NAMES)}; received {given!r}.")
        backend = NUMPY if given == "numpy" else cupy_backend()
    else:
        backend = given
    if backend.remote and likelihood is not None and not likelihood.anywhere:
        raise InvalidInput(
            f"{type(likelihood).__name__} is written for NumPy's arrays (it asks a distribution "
            "for its density): it cannot run on a graphics processor. Leave `backend` out."
        )
    return backend


def require_here(array: object, backend: Backend, name: str) -> None:
    if holds(array) and not backend.remote:
        raise InvalidInput(
            f"{name} lies on a graphics processor: pass backend='cupy', or bring it here first."
        )


def holds(array: object) -> bool:
    return hasattr(array, "__cuda_array_interface__")


@cache
def cupy_backend() -> Backend:
    """The backend of CuPy; MissingDependency without it, or without a device that it sees."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        raise MissingDependency(
            "a graphics processor was asked for: that needs an NVIDIA one and CuPy, pip install "
            "'privest[gpu]' (or the CuPy package that fits your CUDA). Without it leave `backend` "
            "out."
        ) from None
    try:
        devices, why = int(cupy.cuda.runtime.getDeviceCount()), ""
    except cupy.cuda.runtime.CUDARuntimeError as error:
        devices, why = 0, f" ({error})"
    if devices < 1:
        raise MissingDependency(
            f"CuPy is installed but sees no graphics processor{why}: run this where there is one, "
            "or leave `backend` out."
        )
    return CupyBackend(cupy, importlib.import_module("cupyx.scipy.special"))


@dataclass(frozen=True)
class CupyBackend(Backend):
    """`xp` is cupy (a stand-in in tests), `given_special` cupyx.scipy.special."""

    xp: Namespace
    given_special: Namespace
    remote: ClassVar[bool] = True

    def sorted(self, array: Any) -> Index:  # noqa: ANN401
        order: Index = self.xp.argsort(array, axis=-1)  # stable, as CuPy documents
        return order

    def block(self, numbers: int) -> int:
        return int(min(MOST, max(LEAST, self._free() // (8 * numbers))))

    def entries(self) -> int:
        return int(max(2**17, self._free() // (8 * TEMPORARIES)))

    def _free(self) -> float:
        free, _ = self.xp.cuda.runtime.memGetInfo()
        return SHARE * float(free + self.xp.get_default_memory_pool().free_bytes())

    def host(self, array: Any) -> Any:  # noqa: ANN401 - whatever has a shape
        return np.asarray(self.xp.asnumpy(array))


__all__ = ["NAMES", "CupyBackend", "as_backend", "cupy_backend", "holds", "require_here"]
