"""What a release needs to know before it begins: level, noise variance, names, transform."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Never

import numpy as np

from privest.arrays import Array
from privest.data import BoxCox, Features, Source, open_source, read_rows
from privest.data._cells import Texts, is_number
from privest.data._names import meant
from privest.errors import InvalidInput, NotIdentifiable, PrivestError
from privest.estimator import PrivateRLS, reference_variance
from privest.linalg import least_squares
from privest.linalg._running import RunningLeastSquares
from privest.linalg.tolerances import rounding
from privest.privacy import Range
from privest.records import Record
from privest.workflow._modelled import (
    as_modelled,
    counted_move,
    epsilon_of,
    level_for,
    modelled_range,
)
from privest.workflow._spec import Spec

LOOKED_AT = 1000  # rows of the target


@dataclass(frozen=True, eq=False, kw_only=True)
class Terms(Record):
    """The terms of a release: all public, none from the data that are to be protected.

    names           of the coefficients.
    noise_variance  σ², given or from the reference set; `reference_rows` says from how many.
    level           s, as stated or as it follows from (ε, δ) or from the accuracy wanted.
    exponent        of the Box-Cox transform; None without one.
    expected        the coefficients that the reference set shows; None without one.
    """

    spec: Spec
    names: tuple[str, ...]
    noise_variance: float
    level: float
    exponent: float | None = None
    reference_rows: int | None = None
    expected: tuple[float, ...] | None = None

    DERIVED: ClassVar[tuple[str, ...]] = ("epsilon",)

    @property
    def limits(self) -> Range | None:
        """The range of the readings, in the units of the modelled target."""
        return modelled_range(self.spec.transform, self.exponent, self.spec.privacy.range)

    @property
    def move(self) -> float | None:
        """By how much one reading moves at most: as stated, and no more than its range allows."""
        return counted_move(self.spec.privacy.move, self.limits)

    @property
    def epsilon(self) -> float | None:
        """ε of this level at the stated δ and move; None where they are not stated."""
        delta, move = self.spec.privacy.delta, self.move
        try:
            return epsilon_of(self.level, delta, move)
        except PrivestError as error:
            raise InvalidInput(
                f"privacy: the level {self.level:g} has no ε for the move {move:g} at δ = "
                f"{delta:g}: {error}"
            ) from None


def stated_terms(spec: Spec) -> Terms | None:
    """The terms where they follow from the spec and its reference alone.

    None where the level is that of a wanted accuracy: it depends on the features, and a plan is
    needed.
    """
    if spec.privacy.standard_error is not None:
        return None
    design = spec.design
    noise = noise_of(spec, design)
    level = level_of(spec, design.names, None, noise)
    return Terms(spec=spec, names=design.names, level=level, **noise)


def require_target(spec: Spec, source: Source) -> None:
    """Refuse a table without the private column, or in which it is a column of texts.

    For that its first rows are looked at; a single bad cell is found by the release.
    """
    source.require([spec.target])
    try:
        next(source.coded_blocks([spec.target], size=LOOKED_AT), None)
    except InvalidInput:
        first = next(source.coded_blocks([spec.target], text=[spec.target], size=LOOKED_AT))
        cells = first[spec.target]
        assert isinstance(cells, Texts)
        if not any(text is not None and is_number(text) for text in cells.distinct):
            raise InvalidInput(
                f"{source.name}, column {spec.target!r}: the target must be a column of numbers; "
                "this one holds texts. Name another target, or write it as numbers."
            ) from None


def new_sums(design: Features) -> RunningLeastSquares:
    """Sums for the coefficients of a design."""
    return RunningLeastSquares(len(design.names), rounding(len(design.names)))


def add_rows(sums: RunningLeastSquares, H: Array) -> None:
    """Rows of H; there are no readings yet."""
    if len(H):
        rows = np.column_stack([H, np.zeros(len(H))])
        sums.add(np.asfortranarray(rows), np.abs(H))


def require_full(sums: RunningLeastSquares, names: tuple[str, ...], where: str, rows: int) -> None:
    """Raise NotIdentifiable, naming the columns, where the rows do not determine θ."""
    if not sums.full:
        _refuse(sums.root().hidden, sums.natural, names, where, rows)


def require_shown(rls: PrivateRLS, names: tuple[str, ...], where: str) -> None:
    """The same for the rows that an estimator has seen."""
    if not rls.identifiable:
        sizes = np.sqrt(np.diagonal(rls.information))
        _refuse(rls.hidden_directions, sizes, names, where, rls.readings)


def _refuse(hidden: Array, sizes: Array, names: tuple[str, ...], where: str, rows: int) -> Never:
    """Say which columns (of these sizes) take part in the hidden directions, and what to do."""
    if rows < len(names):
        raise NotIdentifiable(
            f"{where}: {rows} rows do not determine {len(names)} coefficients. More rows are "
            "needed, or fewer features.",
            hidden,
        )
    zero = [name for name, size in zip(names, sizes) if size == 0]
    if zero and "=" in zero[0]:
        raise NotIdentifiable(
            f"{where}: no row has {', '.join(map(repr, zero))}: its coefficient cannot be told. "
            "Take the category off the list; that nobody has it is then public.",
            hidden,
        )
    raise NotIdentifiable(
        f"{where}: {_reason(zero, _tied(hidden, sizes, names))}. The coefficients cannot be told "
        "apart: leave one of the columns out.",
        hidden,
    )


def _tied(hidden: Array, sizes: Array, names: tuple[str, ...]) -> list[str]:
    """The columns that take part, in units in which no column's unit decides."""
    part = np.linalg.norm(hidden * np.maximum(sizes, 1e-300)[:, None], axis=1)
    return [name for name, size in zip(names, part) if size > 1e-6 * part.max()]


def _reason(zero: list[str], tied: list[str]) -> str:
    if zero:
        return f"{', '.join(map(repr, zero))} {'is' if len(zero) == 1 else 'are'} 0 in every row"
    if "intercept" in tied and len(tied) == 2:
        return f"{next(name for name in tied if name != 'intercept')!r} is constant"
    listed = ", ".join(repr(name) for name in tied)
    return f"{listed} are tied: a combination of them is zero in every row"


def noise_of(spec: Spec, design: Features) -> dict[str, Any]:
    """The `noise_variance`, `exponent`, `reference_rows` and `expected` of the terms."""
    noise = spec.noise
    if noise.reference is None:
        assert noise.variance is not None
        return {"noise_variance": noise.variance, "exponent": noise.exponent}
    source = open_source(noise.reference)
    blocks = list(read_rows(source, design, spec.target, missing=spec.missing))
    H = np.concatenate([block.H for block in blocks])
    y = np.concatenate([block.y for block in blocks if block.y is not None])
    sums = new_sums(design)
    add_rows(sums, H)
    require_full(sums, design.names, source.name, len(H))
    exponent = noise.exponent
    if spec.transform != "none":
        require_positive(y, source.name, spec.target)
    if spec.transform == "box-cox" and exponent is None:
        exponent = BoxCox.fit(y).exponent
    y = as_modelled(spec.transform, exponent, y)
    variance = reference_variance(H, y, source.name)
    found = {"noise_variance": variance, "exponent": exponent, "reference_rows": len(H)}
    return found | {"expected": tuple(least_squares(H, y)[0].tolist())}


def require_positive(y: Array, where: str, target: str) -> None:
    """A logarithm or a power needs values > 0; the message does not say which are not."""
    if not (y > 0).all():
        raise InvalidInput(
            f"{where}: {target!r} has values that are 0 or negative: a logarithm or a Box-Cox "
            "transform does not exist for them. Correct them, or choose transform none."
        )


def level_of(
    spec: Spec, names: tuple[str, ...], classical: Array | None, noise: Mapping[str, Any]
) -> float:
    """s; for a wanted accuracy it needs `classical`, Σ_CR = σ²(HᵀH)⁻¹. `noise`: of `noise_of`."""
    privacy, variance = spec.privacy, noise["noise_variance"]
    if privacy.level is not None:
        return privacy.level
    if privacy.epsilon is not None:
        limits = modelled_range(spec.transform, noise.get("exponent"), privacy.range)
        move = counted_move(privacy.move, limits)
        assert privacy.delta is not None
        assert move is not None
        return level_for(privacy.epsilon, privacy.delta, move)
    assert privacy.standard_error is not None
    assert privacy.of is not None
    assert classical is not None
    place = index_of(names, privacy.of)
    least = float(classical[place, place])
    # Variances are Σ_CR times (σ² + 1/s)/σ², whatever the coefficient.
    with np.errstate(over="ignore"):
        times = np.float64(privacy.standard_error) / math.sqrt(least)
    if times <= 1:
        raise InvalidInput(
            f"privacy: {privacy.of!r} cannot have the standard error {privacy.standard_error:g}: "
            f"without any privacy it is {math.sqrt(least):.4g}. More rows are needed."
        )
    with np.errstate(over="ignore", divide="ignore"):
        level = float(1 / (variance * (times**2 - 1)))
    if not 0 < level < math.inf:
        raise InvalidInput(
            f"privacy: the level that gives {privacy.of!r} the standard error "
            f"{privacy.standard_error:g} is too small or too large for a number. Without any "
            f"privacy it is {math.sqrt(least):.4g}: ask for one nearer to that."
        )
    return level


def index_of(names: tuple[str, ...], name: str) -> int:
    """Which coefficient has this name."""
    if name not in names:
        raise InvalidInput(
            f"there is no coefficient {name!r}; there are {', '.join(names)}.{meant(name, names)}"
        )
    return names.index(name)
