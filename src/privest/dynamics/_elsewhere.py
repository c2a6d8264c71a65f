"""Linear systems as python-control and scipy.signal know them: A, B, C, D and a time step."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from privest.arrays import Array
from privest.errors import InvalidInput, MissingDependency

Parts = tuple[Array, Array | None, Array, Array | None]
CONTINUOUS = (
    "The system is in continuous time: use StateSpace.from_continuous with its A as F, or sample "
    "it first."
)


def control_parts(system: Any) -> Parts:  # noqa: ANN401
    """A, B, C, D of a discrete `control.StateSpace`."""
    library = _control()
    if not isinstance(system, library.StateSpace):
        raise InvalidInput(
            f"from_control takes a control.StateSpace, not {type(system).__name__}: control.ss "
            "turns a transfer function into one."
        )
    if system.dt is None:
        raise InvalidInput(
            "The system has no time step (dt is None): give it dt=True, or its step, if it is in "
            "discrete time; else use StateSpace.from_continuous."
        )
    return _discrete(system, continuous=bool(system.dt == 0))


def scipy_parts(system: Any) -> Parts:  # noqa: ANN401
    """A, B, C, D of a `scipy.signal.dlti`."""
    if not isinstance(system, scipy.signal.lti | scipy.signal.dlti):
        raise InvalidInput(
            "from_scipy takes a scipy.signal.dlti or scipy.signal.StateSpace(…, dt=…), not "
            f"{type(system).__name__}."
        )
    continuous = isinstance(system, scipy.signal.lti)
    return _discrete(system if continuous else system.to_ss(), continuous=continuous)


def _discrete(system: Any, *, continuous: bool) -> Parts:  # noqa: ANN401
    if continuous:
        raise InvalidInput(CONTINUOUS)
    A, B, C, D = (np.array(getattr(system, name), dtype=np.float64) for name in "ABCD")
    return (A, B, C, D) if B.any() or D.any() else (A, None, C, None)


def as_control(A: Array, B: Array, C: Array, D: Array, dt: float | bool) -> Any:  # noqa: ANN401
    """A discrete `control.StateSpace`; states that do nothing are kept."""
    return _control().StateSpace(A, B, C, D, _time_step(dt), remove_useless_states=False)


def as_scipy(A: Array, B: Array, C: Array, D: Array, dt: float | bool) -> Any:  # noqa: ANN401
    """A discrete `scipy.signal.StateSpace`."""
    return scipy.signal.StateSpace(A, B, C, D, dt=_time_step(dt))


def _time_step(dt: float | bool) -> float | bool:
    if dt is not True and not (isinstance(dt, int | float) and 0 < dt < np.inf):
        raise InvalidInput(f"dt must be a positive time step, or True for any; received {dt!r}.")
    return dt


def _control() -> Any:  # noqa: ANN401
    try:
        import control
    except ImportError:
        raise MissingDependency(
            "python-control is needed for its systems: pip install control."
        ) from None
    return control
