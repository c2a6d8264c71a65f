"""Where maximum likelihood computes: NumPy on this machine, or CuPy on a graphics processor."""

from __future__ import annotations

from privest.errors import InvalidInput
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood

NAMES = ("numpy", "cupy")


def as_backend(given: Backend | str, likelihood: Likelihood | None = None) -> Backend:
    """The backend of a name, or the one given; it must be able to hold the likelihood's arrays."""
    if isinstance(given, str):
        if given not in NAMES:
            raise InvalidInput(f"backend must be {' or '.join(NAMES)}; received {given!r}.")
        backend = NUMPY if given == "numpy" else _of_cupy()
    else:
        backend = given
    if backend.remote and likelihood is not None and not likelihood.anywhere:
        raise InvalidInput(
            f"{type(likelihood).__name__} is written for NumPy's arrays (it reads a table or asks "
            "a law for its density): it cannot run on a graphics processor. Leave `backend` out."
        )
    return backend


def require_here(array: object, backend: Backend, name: str) -> None:
    """An array of a graphics processor is for a backend that is there."""
    if holds(array) and not backend.remote:
        raise InvalidInput(
            f"{name} lies on a graphics processor: pass backend='cupy', or bring it here first."
        )


def holds(array: object) -> bool:
    """Whether it lies on a graphics processor."""
    return hasattr(array, "__cuda_array_interface__")


def _of_cupy() -> Backend:
    from privest.estimator._device._cupy import cupy_backend

    return cupy_backend()


__all__ = ["NAMES", "as_backend", "holds", "require_here"]
