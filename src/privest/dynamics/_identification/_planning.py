"""What a level would tell about the parameters of a model, before anything is released."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_count, as_flags
from privest.dynamics._releases import Data, inputs_of
from privest.dynamics._identification._exposure import exposure, require_level
from privest.dynamics._identification._family import Family
from privest.dynamics._identification._floors import floor, long_floor
from privest.dynamics._identification._parsing import as_family
from privest.dynamics._releases import Level
from privest.errors import InvalidInput, NumericalFailure
from privest.privacy import EndlessLevel, as_stream_level
from privest.records import Record, standard_errors


@dataclass(frozen=True, eq=False, repr=False)
class ParameterBound(Record):
    """The floor under the covariance of every unbiased estimate of θ from K releases.

    bound       (p, p): the private Cramér-Rao bound, exact for these steps.
    classical   (p, p): the same from the readings themselves.
                Where θ moves what an unknown x_0 does later (ARX): with x_0 unknown, at mean0.
    whittle     (p, p): `bound` as if K were large, NaN for means and coefficients of inputs, of
                which a spectrum says nothing; None where levels or gaps change with time, or a root
                is next to 1.
    exposure    λmax(S̄): what is shown of readings that move together.
    """

    names: tuple[str, ...]
    theta: Array
    bound: Array | None
    classical: Array | None
    whittle: Array | None
    steps: int
    exposure: float

    DERIVED: ClassVar[tuple[str, ...]] = ("standard_error", "classical_error")

    @property
    def standard_error(self) -> Array | None:
        """√diag bound, (p,): the least standard errors at this level."""
        return None if self.bound is None else standard_errors(self.bound)

    @property
    def classical_error(self) -> Array | None:
        """√diag classical, (p,): the least without privacy."""
        return None if self.classical is None else standard_errors(self.classical)

    def __repr__(self) -> str:
        said = "no limit" if self.bound is None else ", ".join(
            f"{name} ± {error:.3g}" for name, error in zip(self.names, standard_errors(self.bound))
        )  # fmt: skip
        return f"ParameterBound({self.steps} steps: {said})"


def parameter_bound(
    family: str | Family, theta: ArrayLike, level: Level, steps: int,
    *, inputs: ArrayLike | None = None, missing: ArrayLike | None = None,
) -> ParameterBound:  # fmt: skip
    """How well θ can be known from `steps` releases at a level, if it is the θ that is given.

        cov θ̂ ≥ I(θ)⁻¹ ,   I/K → (1/4π) ∫ W(ω)² ∂log f ∂log fᵀ dω ,   W = f/(f + 1/s)

    f is the spectrum of the readings, W the gain of Wiener's filter. At a low level W is small and
    variances go with s⁻² for stationary parameters, where those of a mean go with s⁻¹. θ is a
    guess, public, never taken from the readings. `missing` (K,) steps, `inputs` (K, p) as in `fit`.
    Cost: see `fit`; a constant level until its filter has settled.

    >>> found = parameter_bound("ar1-mean", [0.8, 0.36], 0.2, 2000)  # γ₀ = 1
    >>> found.standard_error.round(4).tolist(), found.classical_error.round(4).tolist()
    ([0.0463, 0.1084], [0.0134, 0.0114])
    """
    count = as_count(steps, "steps", least=1)
    u = inputs_of(inputs, count)
    model = as_family(family, inputs=u.shape[1])
    given = as_array(theta, "theta", ndim=1)
    if given.shape != (model.size,):
        raise InvalidInput(
            f"theta must hold {', '.join(model.names)}; received shape {given.shape}."
        )
    flags = np.zeros(count, dtype=bool)
    if missing is not None:
        flags = as_flags(missing, "missing", ((count,),))
    wanted = as_stream_level(level, readings=model.readings)
    if wanted.steps is not None and wanted.steps < count:
        raise InvalidInput(f"The level has {wanted.steps} steps; asked for {count}.")
    shown = exposure(wanted, count)
    require_level(shown)
    silent = np.zeros((count, model.readings, 1))
    data = model.regressors(Data(silent, flags, wanted, 1.0, u, simulated=False))
    t, free = model.working(given), np.zeros(model.size, dtype=bool)
    constant = isinstance(wanted, EndlessLevel) and not flags.any()
    return ParameterBound(
        model.names, given.copy(), floor(model, t, [data], free, private=True, planned=True),
        floor(model, t, [data], free, private=False, planned=True),
        _long(model, t, data) if constant else None, count, shown,
    )  # fmt: skip


def _long(model: Family, t: Array, data: Data) -> Array | None:
    """Whittle's bound; None where its integral is not found (a root next to 1)."""
    try:
        return long_floor(model, t, [data], np.zeros(model.size, dtype=bool))
    except NumericalFailure:
        return None
