"""What a release needs to know before it begins: level, noise variance, names, transform."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Never

import numpy as np

from privest.arrays import Array, plural
from privest.data import Design, Source, Texts, is_date, is_number, meant, open_source, read_rows
from privest.errors import InvalidInput, NotIdentifiable
from privest.estimator import PrivateRLS, reference_variance
from privest.linalg import least_squares
from privest.linalg._running import RunningLeastSquares
from privest.linalg.tolerances import rounding
from privest.privacy import pure_level
from privest.records import Record
from privest.workflow._column import UNIT, Column, OneColumn
from privest.workflow._laws import law_of, range_of
from privest.workflow._modelled import (
    as_modelled,
    counted_move,
    level_for,
    level_for_chance,
    modelled_range,
)
from privest.workflow._person import PersonRows
from privest.workflow._record import Share, record_shares
from privest.workflow._sections import Privacy
from privest.workflow._spec import Spec

LOOKED_AT = 1000  # rows of the target


@dataclass(frozen=True, eq=False, kw_only=True)
class Terms(Record, OneColumn):
    """The terms of a release: all public, none from the data that are to be protected.

    names     of the coefficients.
    columns   the private columns: level, noise variance, transform, ... of each.
    expected  for each column the coefficients that the reference set shows; () without one.

    With one private column its facts are also those of the terms: `level`, `noise_variance`, ...
    """

    spec: Spec
    names: tuple[str, ...]
    columns: tuple[Column, ...]
    expected: tuple[tuple[float, ...], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values; with one private column its facts also by their own names."""
        record = super().to_dict()
        return record | (self.column.to_dict() if len(self.columns) == 1 else {})


def stated_terms(spec: Spec) -> Terms | None:
    """The terms where they follow from the spec and its reference alone.

    None where the level is that of a wanted accuracy, which depends on the features, or the largest
    of a level column, or where persons have several rows, which are counted: a plan is needed.
    """
    privacy = spec.privacy
    counted = privacy.level_column is not None or spec.person is not None
    if privacy.standard_error is not None or counted:
        return None
    design = spec.design
    known = noise_of(spec, design)
    return Terms(spec=spec, names=design.names, **columns_of(spec, design.names, known, None))


def columns_of(
    spec: Spec,
    names: tuple[str, ...],
    known: Sequence[KnownNoise],
    classical: Array | None,
    person: PersonRows | None = None,
) -> dict[str, Any]:
    """`columns` and `expected` of terms; `classical`: (HᵀH)⁻¹, where an accuracy is wanted."""
    privacy = spec.privacy
    shares = _shares(spec, names, known, classical, person)
    columns = tuple(
        Column(
            target=target,
            level=share.level,
            transform=spec.transform,
            range=range_of(spec, target),
            law=law_of(spec),
            noise_variance=one.variance,
            reference_rows=one.rows,
            delta=privacy.delta,
            move=share.move,
            alone=len(spec.targets) == 1,
            scale=share.scale,
            person=person,
        )
        for target, one, share in zip(spec.targets, known, shares)
    )
    expected = tuple(one.expected for one in known if one.expected is not None)
    return {"columns": columns, "expected": expected}


def _shares(
    spec: Spec,
    names: tuple[str, ...],
    known: Sequence[KnownNoise],
    classical: Array | None,
    person: PersonRows | None,
) -> list[Share]:
    """The level of each target, and the move stated of it: several share one budget."""
    privacy = spec.privacy
    if len(spec.targets) == 1:
        level = level_of(spec, names, classical, known[0], spec.targets[0], person)
        return [Share(level, None, privacy.move)]
    limits = [
        modelled_range(spec.transform, privacy.range_of(target))
        for target, one in zip(spec.targets, known)
    ]
    return record_shares(privacy, spec.targets, limits)


def require_target(spec: Spec, source: Source) -> None:
    """Refuse a table without the private column, or in which it is a column of texts.

    For that its first rows are looked at; a single bad cell is found by the release.
    """
    source.require(spec.targets)
    for target in spec.targets:
        try:
            next(source.coded_blocks([target], size=LOOKED_AT), None)
        except InvalidInput:
            first = next(source.coded_blocks([target], text=[target], size=LOOKED_AT))
            cells = first[target]
            assert isinstance(cells, Texts)
            found = [text for text in cells.distinct if text is not None]
            if any(is_date(text) or is_number(text.replace(",", ".", 1)) for text in found):
                if not any(is_number(text) for text in found):
                    raise  # it says what to do about dates and decimal commas
            else:
                raise InvalidInput(
                    f"{source.name}, column {target!r}: the target must be a column of numbers; "
                    "this one holds texts. Name another target, or write it as numbers: of a yes "
                    "or no 1 and 0."
                ) from None


def new_sums(design: Design) -> RunningLeastSquares:
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
            f"{where}: {plural(rows, 'row')} cannot determine {plural(len(names), 'coefficient')}. "
            "More rows are needed, or fewer features.",
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


@dataclass(frozen=True)
class KnownNoise:
    """What is known of the noise of a target before any release; all None: nothing.

    variance  σ², as stated or from `rows` rows of a reference set; `expected`: its coefficients.
    """

    variance: float | None = None
    rows: int | None = None
    expected: tuple[float, ...] | None = None


def noise_of(spec: Spec, design: Design) -> list[KnownNoise]:
    """What the plan, or its reference set, says of the noise of each target."""
    noise = spec.noise
    if noise.reference is None:
        return [KnownNoise(noise.variance)] * len(spec.targets)
    H, readings, where = reference_rows(spec, design)
    sums = new_sums(design)
    add_rows(sums, H)
    require_full(sums, design.names, where, len(H))
    return [_reference(spec, H, y, target, where) for target, y in zip(spec.targets, readings.T)]


def reference_rows(spec: Spec, design: Design) -> tuple[Array, Array, str]:
    """H and the readings (rows, targets) of the public reference set, and its name."""
    assert spec.noise.reference is not None
    columns = (*design.columns, *spec.targets)
    source = open_source(spec.noise.reference, spec.reading.of_columns(columns))
    blocks = list(read_rows(source, design, spec.targets, missing=spec.missing))
    H = np.concatenate([block.H for block in blocks])
    return H, np.concatenate([block.targets for block in blocks]), source.name


def _reference(spec: Spec, H: Array, y: Array, target: str, where: str) -> KnownNoise:
    """What a reference set says of one target."""
    if spec.transform != "none":
        require_positive(y, where, target)
    y = as_modelled(spec.transform, y)
    theta = tuple(least_squares(H, y)[0].tolist())
    return KnownNoise(reference_variance(H, y, where), len(H), theta)


def require_positive(y: Array, where: str, target: str) -> None:
    """A logarithm needs values > 0; the message does not say which are not."""
    if not (y > 0).all():
        raise InvalidInput(
            f"{where}: {target!r} has values that are 0 or negative: they have no "
            "logarithm. Correct them, or choose transform none."
        )


def level_of(
    spec: Spec,
    names: tuple[str, ...],
    shape: Array | None,
    noise: KnownNoise,
    target: str,
    person: PersonRows | None = None,
) -> float:
    """s of a target; for a wanted accuracy it needs `shape`, (HᵀH)⁻¹."""
    privacy = spec.privacy
    if privacy.level is not None:
        return privacy.level
    if privacy.tolerance is not None:
        assert privacy.attacker is not None
        return level_for_chance(privacy.tolerance, privacy.attacker)
    if privacy.epsilon is not None:
        limits = modelled_range(spec.transform, range_of(spec, target))
        move, law = counted_move(privacy.move, limits), law_of(spec)
        assert move is not None
        if law != "gaussian":
            return pure_level(law, privacy.epsilon, move)
        assert privacy.delta is not None
        if person is not None:
            return person.level_for(privacy.epsilon, privacy.delta, move, limits)
        return level_for(privacy.epsilon, privacy.delta, move)
    assert shape is not None
    return _level_for_accuracy(spec.privacy, names, shape, noise.variance)


def _level_for_accuracy(
    privacy: Privacy, names: tuple[str, ...], shape: Array, variance: float | None
) -> float:
    """s at which every standard error is at most the one that is wanted."""
    if variance is None:
        raise InvalidInput(
            "privacy: the level for a wanted standard error needs the noise variance of the "
            "readings: state a guess from public knowledge (--noise-variance), or a reference set."
        )
    levels = []
    for name, error in privacy.wanted.items():
        place = index_of(names, name)
        levels.append(level_for_error(name, error, variance, float(shape[place, place])))
    return max(levels)


def level_for_error(name: str, error: float, variance: float, shape: float) -> float:
    """s at which (σ² + UNIT/s)·A_jj is the square of this standard error."""
    least = variance * shape
    with np.errstate(over="ignore"):
        times = np.float64(error) / math.sqrt(least)
    if times <= 1:
        raise InvalidInput(
            f"privacy: {name!r} cannot have the standard error {error:g}: "
            f"without any privacy it is {math.sqrt(least):.4g}. More rows are needed."
        )
    with np.errstate(over="ignore", divide="ignore"):
        level = float(UNIT / (variance * (times**2 - 1)))
    if not 0 < level < math.inf:
        raise InvalidInput(
            f"privacy: the level that gives {name!r} the standard error "
            f"{error:g} is too small or too large for a number. Without any "
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
