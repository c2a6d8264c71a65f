"""The exception tree. Messages say what was wrong, what was received (shapes and public
parameters only, never a measurement) and what to do.
"""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from privest.arrays import Array


class PrivestError(Exception):
    """Base of every error that privest raises on purpose."""

    def __reduce__(self) -> tuple[object, ...]:
        # Without the constructor, which may need more than the message, or make it.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class InvalidInput(PrivestError, ValueError):
    """An argument has the wrong shape, type or range."""


class NotOffered(InvalidInput):
    """A plan combines options that do not exist together; `refused` has the reason of each."""

    def __init__(self, refused: dict[str, str]) -> None:
        super().__init__(next(iter(refused.values())))
        self.refused = refused


class LevelBelowPrior(InvalidInput):
    """A Bayesian level S asks for less than the prior alone reveals: S − J_Y is not ≥ 0."""


class NotCalibratable(PrivestError, ValueError):
    """No choice of its parameters keeps the information of a mechanism within a level."""


class BudgetExceeded(PrivestError, ValueError):
    """The release would reveal more than the privacy budget allows."""


class NotIdentifiable(PrivestError, ValueError):
    """Some directions of θ cannot be estimated; `hidden_directions` (n×h) spans them."""

    def __init__(self, message: str, hidden_directions: Array | None = None) -> None:
        super().__init__(message)
        self.hidden_directions = hidden_directions


class NotReleasable(PrivestError):
    """There is no protected noise: none for this mechanism, or the system gives no randomness."""


class InfiniteInformation(PrivestError):
    """The Fisher information of a density is infinite and the theorem does not apply."""


class NumericalFailure(PrivestError, ArithmeticError):
    """Rounding or a missed convergence would spoil the result. No jitter was added."""


class CheckpointError(PrivestError, OSError):
    """A saved stream cannot be taken up, or must not be overwritten."""


class LedgerError(PrivestError, OSError):
    """A ledger cannot be trusted or written: nothing was released."""


class AgentSilent(PrivestError, TimeoutError):
    """A neighbour was not heard in time: it died, hangs, or is slower than the timeout."""


class CollectorSilent(PrivestError, OSError):
    """A collector does not answer. Reports that a device has drawn wait in its outbox."""


class MissingDependency(PrivestError, ImportError):
    """An optional dependency is needed; the message names the extra that brings it."""


class InfeasibleTarget(PrivestError, ValueError):
    """No levels reach the accuracy that was asked for.

    `reason`: "classical" (not even without privacy), "caps" (not within the limits), "hidden" (the
    limits hide a parameter); `nearest`: the best value of the criterion that can be reached.
    """

    def __init__(self, message: str, reason: str, nearest: float) -> None:
        super().__init__(message)
        self.reason = reason
        self.nearest = nearest


class SmallSampleWarning(UserWarning):
    """A large-sample formula is inaccurate here; the simulated value is given instead."""
