"""What leaves of an aggregate release, and how its promise is divided."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from privest.aggregate import (
    FOR_SQUARES_OF_LEVEL,
    Split,
    SumDesign,
    kind_of,
    level_for_errors,
    split,
    sum_covariance,
)
from privest.arrays import Array
from privest.errors import InvalidInput
from privest.privacy import Range, gdp
from privest.reading import read_fields, read_number, read_text
from privest.records import plain
from privest.workflow.spec import Model, Privacy

SCORES = "scores"  # the kind of yes/no and counts: no squares, the variance is known
NUMBERS = {"estimate": math.nan, "variance": math.inf, "freedom": math.inf}  # what null means
SHOWN = ("residual_variance", "r_squared")  # where squares were released
LARGEST = 1e100  # of a number in a published matrix: its square is a double
KINDS = ("none", "squares", "free", "persons", SCORES)


@dataclass(frozen=True, eq=False)
class Published:
    """What leaves of one private column.

    kind       of squares that were released (`aggregate.Split`), or "scores".
    level      c₁, the Fisher information of the sums about one value.
    estimate   θ̂; NaN, with infinite variance, where score equations have no root.
    variance, freedom   of Student's t, infinite where normal.
    residual_variance, r_squared   that the squares show, approximate; None where they do not.
    matrix     with publish = "matrix": z and t as they were drawn, B = Σ ℓxᵀ and Σ ℓℓᵀ.
    """

    target: str
    kind: str
    level: float
    estimate: Array
    variance: Array
    freedom: Array
    residual_variance: float | None = None
    r_squared: float | None = None
    matrix: Mapping[str, Array] = field(default_factory=dict)

    @property
    def covariance(self) -> Array:
        """(n, n) of θ̂; NaN beside the diagonal where the matrix was not published."""
        if "covariance" in self.matrix:
            return np.asarray(self.matrix["covariance"])
        if self.matrix and self.kind != SCORES:
            cross, gram = self.matrix["cross"], self.matrix["gram"]
            return sum_covariance(cross, gram, self.level, self.variance)
        found = np.full((len(self.estimate),) * 2, np.nan)
        np.fill_diagonal(found, self.variance)
        return found

    def within(self, places: Sequence[int]) -> Published:
        """The submodel of some coefficients, the others 0: generalised least squares of z.

        E z = √c₁·B·Cθ, cov z = I + c₁·σ²·Σℓℓᵀ, with the mean σ² that the release shows. It needs
        the matrix, and no new release.
        """
        if not self.matrix or self.kind == SCORES:
            raise InvalidInput(
                "a smaller model needs the published matrix of sums of a numeric outcome; else it "
                "is a new release, which spends privacy again."
            )
        B, gram = self.matrix["cross"], self.matrix["gram"]
        inverse = np.linalg.inv(B)
        shape = np.diagonal(inverse @ gram @ inverse.T)
        noise = (inverse**2).sum(axis=1) / self.level
        sigma2 = float(np.mean(np.maximum(self.variance - noise, 0.0) / shape))
        V = np.eye(len(B)) + self.level * sigma2 * gram
        X = math.sqrt(self.level) * B[:, list(places)]
        solved = np.linalg.solve(V, X)
        covariance = np.linalg.inv(X.T @ solved)
        estimate = covariance @ (solved.T @ self.matrix["sums"])
        freedom = np.full(len(places), float(self.freedom.min()))
        return replace(
            self, estimate=estimate, variance=np.diagonal(covariance).copy(), freedom=freedom,
            matrix={"covariance": covariance},
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain values; what is not finite is null: no estimate, or normal intervals."""
        found: dict[str, Any] = {one.name: plain(getattr(self, one.name)) for one in fields(self)}
        for name in NUMBERS:
            own = getattr(self, name).tolist()
            found[name] = [x if math.isfinite(x) else None for x in own]
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def from_dict(cls, given: object, n: int) -> Published:
        """Every field checked."""
        shown = [name for name in SHOWN if isinstance(given, Mapping) and name in given]
        record = read_fields(given, FIELDS | dict.fromkeys(shown, read_number), "sums")
        for name, unknown in NUMBERS.items():
            listed = record[name] if isinstance(record[name], list) else []
            record[name] = _numbers([unknown if x is None else x for x in listed], (n,), name)
        found = cls(**record | {"matrix": _matrix(record["matrix"], n)})
        if found.kind not in KINDS or not found.level > 0:
            raise InvalidInput("sums: kind or level is not one of an aggregate release.")
        none = np.isnan(found.estimate).all() and np.isinf(found.variance).all()
        known = np.isfinite(found.estimate).all() and np.isfinite(found.variance).all()
        good = ((found.variance > 0) & (found.freedom >= 1)).all()
        if not (good and (known or (none and found.kind == SCORES))):
            raise InvalidInput("sums: variances are above 0, and degrees of freedom at least 1.")
        return found


def _any(given: object, name: str) -> Any:  # noqa: ANN401 - checked later
    return given


FIELDS: dict[str, Any] = {
    "target": read_text, "kind": read_text, "level": read_number, "estimate": _any,
    "variance": _any, "freedom": _any, "matrix": _any,
}  # fmt: skip


def _matrix(given: object, n: int) -> dict[str, Array]:
    """The published sums and their weights; {} where they are not."""
    shapes = {"sums": (n,), "squares": None, "cross": (n, n), "gram": (n, n)}
    if given == {}:
        return {}
    if not isinstance(given, Mapping) or not set(shapes) - {"squares"} <= set(given) <= set(shapes):
        raise InvalidInput("sums: matrix holds sums, squares, cross and gram.")
    found = {name: _numbers(value, shapes[name], name) for name, value in given.items()}
    if not _estimable(**found):
        raise InvalidInput("sums: the matrix is not one that coefficients follow from.")
    return found


def _numbers(given: object, shape: tuple[int, ...] | None, name: str) -> Array:
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"sums: {name} must be numbers.") from None
    if (shape is not None and found.shape != shape) or found.ndim > 2:
        raise InvalidInput(f"sums: {name} has not the shape of the coefficients.")
    return found


def _estimable(sums: Array, cross: Array, gram: Array, squares: Array | None = None) -> bool:
    """Whether numbers are of a usual size, B is regular and Σ ℓℓᵀ positive definite."""
    whole = (sums, cross, gram, sums if squares is None else squares)
    if not all((np.abs(x) < LARGEST).all() for x in whole):
        return False
    size = np.linalg.norm(cross, axis=0)
    if not (size > 1 / LARGEST).all() or not np.linalg.eigvalsh(gram)[0] > 1 / LARGEST:
        return False
    return bool(np.linalg.matrix_rank(cross / size) == len(cross))


def payload(found: Sequence[Published]) -> bytes:
    """The text whose SHA-256 an entry of a ledger has."""
    listed = [one.to_dict() for one in found]
    return json.dumps(listed, sort_keys=True, separators=(",", ":")).encode()


# --- the promise, divided -------------------------------------------------------------------------


def splits_of(
    model: Model,
    privacy: Privacy,
    limits: Sequence[Range],
    design: SumDesign,
    variances: Sequence[float | None],
) -> tuple[Split, ...]:
    """How the promise is divided, for each private column: μ² in equal parts."""
    found = []
    for own, variance in zip(limits, variances, strict=True):
        promise = _promise(privacy, len(limits), design, variance, model)
        found.append(split_of(model, privacy, own, design, promise))
    return tuple(found)


def split_of(
    model: Model, privacy: Privacy, limits: Range, design: SumDesign, promise: dict[str, float]
) -> Split:
    """The same of one column, for this μ or exposure (`level`)."""

    def kind(summed: Range, **left: float) -> str:
        return "none" if model.family != "gaussian" else kind_of(design, summed, **left)

    return _divided(privacy, design.rows.n, limits, kind, promise)


def splits_of_kinds(
    privacy: Privacy, sums: Sequence[Published], n: int, limits: Sequence[Range]
) -> tuple[Split, ...]:
    """The same from a header. The level for an accuracy needs H: it is taken as it is."""
    found = []
    for one, own in zip(sums, limits, strict=True):
        kind = "none" if one.kind == SCORES else one.kind
        if privacy.standard_error is not None:
            whole = split(kind, n, own, level=1.0)
            promise = {"level": one.level / whole.level}
        else:
            promise = _promise(privacy, len(limits))
        found.append(_divided(privacy, n, own, lambda *_, _kind=kind, **__: _kind, promise))
    return tuple(found)


def summed_range(privacy: Privacy, limits: Range) -> Range:
    """Of what is summed: the values, or their differences from a prediction."""
    return limits if privacy.within is None else Range(-privacy.within, privacy.within)


def _divided(
    privacy: Privacy,
    n: int,
    limits: Range,
    kind: Callable[..., str],
    promise: dict[str, float],
) -> Split:
    """The division of one column; a pilot takes its share of μ² first."""
    summed = summed_range(privacy, limits)
    if privacy.pilot is None:
        return split(kind(summed, **promise), n, summed, **promise)
    first = split("none", n, limits, mu=promise["mu"] * math.sqrt(privacy.pilot))
    left = {"mu": promise["mu"] * math.sqrt(1 - privacy.pilot)}
    second = split(kind(summed, **left), n, summed, **left)
    return replace(
        second, pilot=first.level, exposure=first.level + second.exposure,
        stated=math.hypot(first.stated, second.stated),
    )  # fmt: skip


def _promise(
    privacy: Privacy,
    columns: int,
    design: SumDesign | None = None,
    variance: float | None = None,
    model: Model | None = None,
) -> dict[str, float]:
    """The promised μ of each column, or its exposure."""
    if privacy.epsilon is not None:
        assert privacy.delta is not None
        return {"mu": gdp.mu_of(privacy.epsilon, privacy.delta) / math.sqrt(columns)}
    if privacy.level is not None:
        return {"level": privacy.level / columns}
    assert privacy.standard_error is not None
    assert design is not None
    assert model is not None
    assert variance is not None  # `refusals` asks for it
    names = tuple(model.design.names)
    wanted = {names.index(name): error for name, error in privacy.standard_error.items()}
    return {"level": level_for_errors(design, variance, wanted) / (1 - FOR_SQUARES_OF_LEVEL)}
