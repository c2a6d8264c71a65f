"""The privacy-preserving Cramér-Rao lower bound and its cost (`thm:crbound`, `coro:PPCR`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

import numpy as np

from privest.arrays import Array, ArrayLike, Flags, as_array, as_number, plural, read_only
from privest.bounds._classical import (
    Identifiability,
    classical_bound,
    in_range,
    level_for,
    local_model,
    require_seen,
    verdict,
)
from privest.errors import InvalidInput, NotIdentifiable, NumericalFailure
from privest.linalg import (
    PSD,
    InformationRoot,
    level_root,
    pointwise_weight,
    private_root,
    weighted_roots,
)
from privest.model import LinearModel, NonlinearModel
from privest.privacy import PrivacyLevel, StreamLevel
from privest.records import as_frame, decimals, plain, standard_errors, text_table

Kind = Literal["unbiased", "bayesian"]


class Bound(ABC):
    """The floor on the error covariance of unbiased estimates under any admissible mechanism.

    covariance        Σ_PPCR = PI⁻¹, (…, n, n).
    information       PI, (…, n, n): the privacy-preserving Fisher information.
    classical         Σ_CR: the bound without privacy.
    cost              Σ_PPCR − Σ_CR.
    cost_floor        (HᵀSH)⁻¹ ≤ cost (`coro:PPCR`), whatever the noise.
    identifiable      whether the bound is finite; `identifiability` says what is hidden if not.
    kind              "unbiased", or "bayesian": any estimate, mean-square error over a prior.
    names             of the parameters.

    Streams have a leading axis of steps, sweeps one of levels; [k] selects. Variances that do not
    exist are infinite there; `covariance` of a single bound raises NotIdentifiable.
    """

    kind: Kind = "unbiased"
    names: tuple[str, ...]
    FIELDS: ClassVar[tuple[str, ...]] = (
        "names", "kind", "identifiable", "covariance", "standard_error", "classical",
        "classical_error", "information", "cost", "cost_floor",
    )  # fmt: skip

    if not TYPE_CHECKING:

        def __getattribute__(self, name: str) -> object:
            """Arrays are read-only, those that are computed once too."""
            value = super().__getattribute__(name)
            return read_only(value) if isinstance(value, np.ndarray) else value

    @property
    @abstractmethod
    def covariance(self) -> Array: ...

    @property
    @abstractmethod
    def information(self) -> Array: ...

    @property
    @abstractmethod
    def classical(self) -> Array: ...

    @property
    @abstractmethod
    def identifiable(self) -> bool | Flags: ...

    @property
    def cost_floor(self) -> Array:
        raise InvalidInput(
            "cost_floor is that of one level or of a sweep, for unbiased estimates (`coro:PPCR`)."
        )

    @property
    def identifiability(self) -> Identifiability:
        raise InvalidInput("identifiability is of one bound: select it with [k].")

    @property
    def cost(self) -> Array:
        with np.errstate(invalid="ignore"):  # of what is hidden
            return np.asarray(self.covariance - self.classical)

    @property
    def standard_error(self) -> Array:
        """√diag covariance: least standard errors."""
        return standard_errors(self.covariance)

    @property
    def classical_error(self) -> Array:
        return standard_errors(self.classical)

    def contrast(self, weights: ArrayLike | Mapping[str, float]) -> Bound:
        """The bound of aᵀθ: a vector a, {name: coefficient}, or a matrix (k, n), one a row."""
        rows = contrast_rows(weights, self.names)
        covariance = np.asarray(rows @ self.covariance @ rows.T)
        hidden = ~np.broadcast_to(self.identifiable, covariance.shape[:-2])
        covariance[hidden] = unknown(len(rows))
        return GivenBound(
            contrast_names(rows, self.names), covariance, rows @ self.classical @ rows.T, self.kind
        )

    def summary(self) -> str:
        """A text table: least standard errors with and without privacy, and their ratio."""
        if self.covariance.ndim > 2:
            raise InvalidInput("a summary is of one bound: select it with [k].")
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.standard_error / self.classical_error
        columns = {
            "std err": decimals(self.standard_error),
            "no privacy": decimals(self.classical_error),
            "ratio": decimals(ratio),
        }
        head = f"Least standard errors ({self.kind}), {plural(len(self.names), 'parameter')}"
        return "\n".join([head, *text_table(self.names, columns)])

    def to_frame(self, library: str = "pandas") -> Any:  # noqa: ANN401
        """A row for each parameter: least standard errors with and without privacy."""
        if self.covariance.ndim > 2:
            raise InvalidInput("a frame is of one bound: select it with [k].")
        columns = {
            "parameter": list(self.names),
            "standard_error": self.standard_error,
            "classical_error": self.classical_error,
        }
        return as_frame(columns, library)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, for JSON; None for what does not exist."""
        return {name: plain(self._existing(name)) for name in self.FIELDS}

    def _existing(self, name: str) -> object:
        try:
            return getattr(self, name)
        except (InvalidInput, NotIdentifiable):
            return None

    def __repr__(self) -> str:
        count = plural(len(self.names), "parameter")
        private = np.trace(self.covariance)
        without = np.trace(self.classical)
        return f"Bound({count}, trace {private:.4g}, without privacy {without:.4g})"


class GivenBound(Bound):
    """A bound of given covariances: a contrast, or one level of a sweep."""

    names: tuple[str, ...]
    kind: Kind

    def __init__(
        self, names: tuple[str, ...], covariance: Array, classical: Array, kind: Kind = "unbiased",
        information: Array | None = None,
    ) -> None:  # fmt: skip
        self.names = names
        self.kind = kind
        self._covariance = covariance
        self._classical = classical
        self._information = information

    @property
    def covariance(self) -> Array:
        return self._covariance

    @property
    def classical(self) -> Array:
        return self._classical

    @property
    def information(self) -> Array:
        return np.linalg.inv(self.covariance) if self._information is None else self._information

    @property
    def identifiable(self) -> bool | Flags:
        finite = np.isfinite(np.einsum("...ii->...i", self.covariance)).all(axis=-1)
        return bool(finite) if finite.ndim == 0 else np.asarray(finite)


class LinearBound(Bound):
    """The bound of one model and one level."""

    def __init__(self, model: LinearModel, level: PSD) -> None:
        self._model = model
        self._level = level
        self.names = model.names
        self._verdict = verdict(model, self._roots[1])

    @cached_property
    def _roots(self) -> tuple[InformationRoot, ...]:
        """Roots of PI and HᵀSH; where one pass over H gives them, also of HᵀΣ⁻¹H and HᵀH."""
        matrix = self._model.matrix
        sigma = self._model.inverse_information
        weight = self._level.pointwise
        variance = sigma.pointwise
        if weight is not None and variance is not None and np.min(variance) > 0:
            weights = [pointwise_weight(weight, variance), weight, 1.0 / variance, 1.0]
            return tuple(weighted_roots(matrix, weights))
        return private_root(matrix, self._level, sigma), level_root(matrix, self._level)

    @property
    def identifiability(self) -> Identifiability:
        return self._verdict

    @property
    def identifiable(self) -> bool:
        return self._verdict.identifiable

    @property
    def information(self) -> Array:
        return self._roots[0].information

    @cached_property
    def classical(self) -> Array:
        if len(self._roots) == 2:
            return classical_bound(self._model)
        _, _, open_, seen = self._roots
        require_seen(self._model, seen)
        return open_.inverse(graded=True)

    @cached_property
    def covariance(self) -> Array:
        self._require_identifiable()
        return inverse_information(self._roots[0])

    @cached_property
    def cost_floor(self) -> Array:
        self._require_identifiable()
        return inverse_information(self._roots[1])

    def contrast(self, weights: ArrayLike | Mapping[str, float]) -> Bound:
        """The bound of aᵀθ, though perhaps θ itself is not identifiable."""
        from privest.bounds._contrast import contrast_bound

        return contrast_bound(self._model, self._level, weights)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"identifiability": self.identifiability.to_dict()}

    def _require_identifiable(self) -> None:
        found = self.identifiability
        if not found:
            require_seen(self._model)
            raise NotIdentifiable(
                f"There is no finite bound: {found.explain()}.", found.hidden_directions
            )

    def __repr__(self) -> str:
        if not self.identifiable:
            count = plural(len(self.names), "parameter")
            return f"Bound({count}, {self.identifiability.explain()})"
        return super().__repr__()


@overload
def bound(
    model: LinearModel | NonlinearModel, level: PrivacyLevel | StreamLevel | ArrayLike, *,
    theta: ArrayLike | None = None, prior: ArrayLike | None = None,
) -> Bound: ...  # fmt: skip
@overload
def bound(
    model: object, level: PrivacyLevel | StreamLevel | ArrayLike, *, steps: int | None = None,
    missing: ArrayLike | None = None,
) -> Any: ...  # fmt: skip  # noqa: ANN401
def bound(
    model: object, level: PrivacyLevel | StreamLevel | ArrayLike, *,
    theta: ArrayLike | None = None, prior: ArrayLike | None = None, steps: int | None = None,
    missing: ArrayLike | None = None,
) -> Any:  # fmt: skip
    """The privacy-preserving Cramér-Rao bound of a model under a level, and the cost of privacy.

        Σ_PPCR = (Hᵀ L (LᵀΣL + I)⁻¹ Lᵀ H)⁻¹ ,   S = L Lᵀ ,  Σ = (I_y(Hθ))⁻¹
        Σ_PPCR ≥ Σ_CR + (HᵀSH)⁻¹                          (equality when H is square)

    theta    of a nonlinear model: H = F'(θ), for unbiased estimates near this θ.
    prior    P (n, n) of θ ~ N(·, P): Σ_BPPCR = (PI + P⁻¹)⁻¹ bounds the mean-square error; S counts
             the release alone (`bounds.release_level` for a total).
    steps    of a `dynamics.StateSpace`, with `missing` (K,) or (K, m): a `StateBound`.
    A `StreamLevel` gives the bound after every step (`coro:PPCR_recur`).
    Assumes a continuous noise density that does not depend on θ (`assum:w0`).
    Guarantees: E(θ̂ − θ)(θ̂ − θ)ᵀ ≥ Σ_PPCR for every mechanism with I_z(y) ≤ S, also on average
    (`ineq:ES`), whose density is continuous and piecewise differentiable in y, and every unbiased
    θ̂(z). Attained by the Gaussian mechanism with least squares if w is Gaussian (`thm:opt`).
    Source: `thm:crbound` (`obj:id` under `def:RS`, `concl:PPCRB`, `lemma:PPCR_S`); `coro:PPCR`.
    Streams (`sys:mult`, `def:YH`): `thm:PPF_recur`, `algo:recursive_PI`, `algo:recursive_PPCR`.
    Systems: `sys:dynamic_re`.

    >>> from privest.noise import Gaussian
    >>> b = bound(LinearModel([[2.0]], noise=Gaussian(cov=0.5)), 4.0)
    >>> [float(x[0, 0].round(12)) for x in (b.classical, b.covariance, b.cost_floor)]
    [0.125, 0.1875, 0.0625]
    """
    if hasattr(model, "__bound__"):
        if theta is not None or prior is not None:
            raise InvalidInput("a system has its own prior: leave theta and prior out.")
        return model.__bound__(level, steps, missing)
    if steps is not None or missing is not None:
        raise InvalidInput("steps and missing are of a state space.")
    local = in_range(local_model(model, theta))
    if isinstance(level, StreamLevel):
        if prior is not None or theta is not None:
            raise InvalidInput("the bound of a stream is of a linear model without a prior.")
        from privest.bounds._stream import StreamBound

        return StreamBound(local, level)
    matrix = level_for(level, local)
    if prior is None:
        return LinearBound(local, matrix)
    if theta is not None:
        raise InvalidInput("a prior goes with a linear model: leave theta out.")
    from privest.bounds._prior import PriorBound

    return PriorBound(local, matrix, prior)


def inverse_information(root: InformationRoot) -> Array:
    """PI⁻¹ from the root of PI, where θ is identifiable."""
    try:
        return root.inverse()
    except NotIdentifiable:
        raise NumericalFailure(
            "θ is identifiable under this level, but the information matrix is too ill-conditioned "
            f"to invert in double precision (condition {root.condition:.2g} of its root). "
            "Rescale or drop nearly dependent parameters."
        ) from None


def unknown(n: int) -> Array:
    """Covariance of what is not identifiable: infinite variances, NaN beside them."""
    return np.where(np.eye(n) > 0, np.inf, np.nan)


def contrast_rows(weights: ArrayLike | Mapping[str, float], names: tuple[str, ...]) -> Array:
    """a as rows (k, n), from numbers or from coefficients by name."""
    if isinstance(weights, Mapping):
        if not weights:
            raise InvalidInput("a contrast must name at least one coefficient.")
        strange = [str(name) for name in weights if name not in names]
        if strange:
            raise InvalidInput(
                f"there is no parameter {strange[0]!r}; there are: {', '.join(names)}."
            )
        given = [as_number(weights.get(name, 0.0), f"the coefficient of {name}") for name in names]
        return np.array([given])
    rows = np.atleast_2d(as_array(weights, "a contrast", ndim=(1, 2)))
    if rows.shape[-1] != len(names) or not rows.size:
        raise InvalidInput(
            f"a contrast must have {len(names)} coefficients, one a parameter, in one row or in "
            f"several; received shape {rows.shape}."
        )
    return rows


def contrast_names(rows: Array, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_written(a, names) for a in rows)


def _written(a: Array, names: tuple[str, ...]) -> str:
    index = np.flatnonzero(a)
    terms = [_term(a[j], names[j]) for j in index[:6]]
    text = " ".join(terms).removeprefix("+ ") or "0"
    return text + (" + …" if len(index) > 6 else "")


def _term(coefficient: float, name: str) -> str:
    size = "" if abs(coefficient) == 1 else f"{abs(coefficient):.4g}·"
    return f"{'−' if coefficient < 0 else '+'} {size}{name}"
