"""The terms of a release: columns, levels, the promise, and the charge. All public."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from privest.aggregate import (
    FOR_SQUARES_OF_LEVEL,
    Split,
    SumDesign,
    kind_of,
    level_for_errors,
    split,
)
from privest.arrays import Array
from privest.data.cells import meant
from privest.errors import InvalidInput
from privest.ledger import Cost, cost_of
from privest.privacy import Adjacency, Range, gdp
from privest.workflow.spec import Model, Privacy, beside_of, distribution_of, ends_of
from privest.workflow.strategies import Distribution, Ends, Gaussian

if TYPE_CHECKING:
    from privest.workflow.aggregate import Aggregate
    from privest.workflow.rows import Rows

SAME = 1e-9  # relative: roots are found to about 1e-12, and processors round differently
ROUNDING = Fraction(1, 2**44)  # the grid reveals less by 7.6e-14, more than the split rounds


@dataclass(frozen=True)
class Column:
    """A private column and its level.

    level              s; of a level column the largest.
    residual_variance  σ² as stated, or from a reference of `reference_rows` rows; None: unknown.
    """

    target: str
    level: float
    residual_variance: float | None = None
    reference_rows: int | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Terms:
    """Model, privacy and solved levels: all that a mechanism and a promise need.

    most    the most rows that any person has, where persons have several.
    splits  of the aggregate form: how the promise of each column is divided; () of rows.
    """

    model: Model
    privacy: Privacy
    columns: tuple[Column, ...]
    most: int | None = None
    splits: tuple[Split, ...] = ()

    @property
    def terms(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(Terms)}

    # --- strategies -------------------------------------------------------------------------------

    @property
    def distribution(self) -> Distribution:
        return distribution_of(self.model, self.privacy)

    @property
    def form(self) -> Rows | Aggregate:
        from privest.workflow.aggregate import FORMS

        return FORMS[self.privacy.form]

    # --- columns ----------------------------------------------------------------------------------

    @property
    def column(self) -> Column:
        if len(self.columns) != 1:
            listed = ", ".join(repr(one.target) for one in self.columns)
            raise InvalidInput(f"there are several private columns, {listed}: take one of them.")
        return self.columns[0]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.model.design.names)

    @property
    def beside(self) -> tuple[str, ...]:
        return beside_of(self.model, self.privacy)

    def index(self, name: str) -> int:
        return index_of(self.names, name)

    def ends(self, column: Column) -> Ends | None:
        return ends_of(self.model, self.privacy, column.target)

    def limits(self, column: Column) -> Range | None:
        """The range of the target, or of its logarithm where that is modelled."""
        return limits_of(self.model, self.privacy, column.target)

    def summed(self, column: Column) -> Range:
        return _summed(self.privacy, _range_of(self.model, self.privacy, column.target))

    def sensitivity(self, column: Column) -> float | None:
        """The stated one, at most the width of `limits`, in the same units."""
        limits, stated = self.limits(column), self.privacy.sensitivity
        if limits is None:
            return stated
        return limits.width if stated is None else min(stated, limits.width)

    @property
    def units(self) -> tuple[float, ...]:
        """One unit of each target: the width of its range."""
        return tuple(_range_of(self.model, self.privacy, one).width for one in self.model.target)

    def unit_level(self, column: Column) -> float:
        """The level s of the unit 1/√s in which the released numbers z of a column are counted.

        That of the column; 1 with a level column, where z of each row is in units of its own level.
        """
        return column.level if self.privacy.level_column is None else 1.0

    @property
    def enforced(self) -> bool:
        for column in self.columns:
            limits = self.limits(column)
            if limits is None or (self.sensitivity(column) or 0.0) < limits.width:
                return False
        return True

    # --- the promise ------------------------------------------------------------------------------

    @cached_property
    def epsilon(self) -> float | None:
        """ε at the stated δ for one value, person or record; None where it is not defined."""
        delta = self.privacy.delta
        if self.splits:
            return None if delta is None else gdp.epsilon_of(self.mu, delta)
        width = self.sensitivity(self.column)
        if width is None or (delta is None and not self.distribution.pure):
            return None
        return self.distribution.epsilon(self.column.level, width, delta)

    @property
    def mu(self) -> float:
        return gdp.compose(*(one.stated for one in self.splits))

    def over_the_range(self, delta: float) -> Terms:
        """The same terms with a sensitivity of the whole range, at this δ (0: pure)."""
        privacy = replace(self.privacy, sensitivity=None, delta=delta or None)
        return Terms(**self.terms | {"privacy": privacy})

    @property
    def information(self) -> Fraction:
        """Fisher information about a record in units of its columns: Σ_j u_j²·s_j."""
        levels = [one.exposure for one in self.splits] or [one.level for one in self.columns]
        if len(levels) == 1:
            return Fraction(levels[0])
        parts = [Fraction(level) * Fraction(u) ** 2 for level, u in zip(levels, self.units)]
        return sum(parts, Fraction(0)) * (1 - ROUNDING)

    @property
    def cost(self) -> Cost:
        """The charge of a ledger for one value, person or record."""
        if self.splits:
            mu2, widths = Fraction(self.mu) ** 2, self.units
            move = Adjacency.record(widths) if len(widths) > 1 else Adjacency.measurement(widths[0])
            return Cost(self.information, mu2=mu2, rho=mu2 / 2, sensitivity=move)
        level, sensitivity = self.column.level, self.sensitivity(self.column)
        if sensitivity is None:
            return Cost(self.information)
        law = self.distribution.law(level, self.limits(self.column))
        return cost_of(level, sensitivity=sensitivity, law=law)

    def counted(self, unit: str) -> Fraction | None:
        """The same in a unit of an account: "level", or "mu2"; None: it has no μ."""
        return self.information if unit == "level" else self.cost.mu2

    @property
    def measure(self) -> str:
        """The units in which a level counts; ledgers of 0.2 have the same text."""
        several = len(self.columns) > 1
        units = self.units if several else (None,)
        columns = [[self.model.transform, None, unit] for unit in units]
        names = [one.target for one in self.columns] if several else None
        person = None if self.model.person is None else [self.model.person, "A"]
        text = json.dumps([columns, names, person])
        return "m" + hashlib.sha256(text.encode()).hexdigest()[:16]


# --- pieces of terms ------------------------------------------------------------------------------


def close(stated: Sequence[float | None], computed: Sequence[float | None]) -> bool:
    """Whether numbers are the same but for what another processor computes."""
    return all(
        a is b if a is None or b is None else math.isclose(a, b, rel_tol=SAME)
        for a, b in zip(stated, computed, strict=True)
    )


def index_of(names: tuple[str, ...], name: str) -> int:
    if name not in names:
        raise InvalidInput(
            f"there is no coefficient {name!r}; there are {', '.join(names)}.{meant(name, names)}"
        )
    return names.index(name)


def modelled(transform: str, y: Array) -> Array:
    return np.log(y) if transform == "log" else y


def limits_of(model: Model, privacy: Privacy, target: str) -> Range | None:
    """The range of a target after its transform; the logarithm is increasing."""
    ends = ends_of(model, privacy, target)
    if ends is None:
        return None
    if model.transform == "log":
        # By `math`: NumPy's logarithm differs by processor, and the width of a range is the
        # sensitivity that entries of a ledger name.
        ends = math.log(ends[0]), math.log(ends[1])
    return Range(*ends)


def _range_of(model: Model, privacy: Privacy, target: str) -> Range:
    found = limits_of(model, privacy, target)
    assert found is not None
    return found


class Known(NamedTuple):
    """The residual variance of a target, where it is public; `rows` of the reference."""

    variance: float | None = None
    rows: int | None = None


def columns_of(model: Model, levels: Sequence[float], known: Sequence[Known]) -> tuple[Column, ...]:
    return tuple(
        Column(target, level, *one)
        for target, level, one in zip(model.target, levels, known, strict=True)
    )


# --- levels of rows -------------------------------------------------------------------------------


def solve(
    model: Model,
    privacy: Privacy,
    known: tuple[Known, ...],
    *,
    shape: Array | None = None,
    largest: float | None = None,
) -> Terms:
    """The levels that keep the stated promise.

    shape  (HᵀH)⁻¹, for a wanted accuracy. largest: of a level column.
    """
    draft = Terms(
        model=model,
        privacy=privacy,
        columns=columns_of(model, [1.0] * len(known), known),
    )
    if largest is not None:
        levels = [largest]
    elif privacy.standard_error is not None:
        variance = known[0].variance
        assert shape is not None
        assert variance is not None  # `refusals` asks for it
        places = {name: draft.index(name) for name in privacy.standard_error}
        levels = [
            max(
                level_for_error(name, error, variance, float(shape[places[name], places[name]]))
                for name, error in privacy.standard_error.items()
            )
        ]
    else:
        levels = [_level(draft)]
    terms = replace(draft, columns=columns_of(model, levels, known))
    try:
        _ = terms.epsilon
    except InvalidInput as error:
        raise InvalidInput(f"privacy: the level {levels[0]:g} has no ε here: {error}") from None
    return terms


def _level(draft: Terms) -> float:
    """The level that keeps a level or an ε."""
    privacy = draft.privacy
    if privacy.level is not None:
        return privacy.level
    assert privacy.epsilon is not None
    sensitivity = draft.sensitivity(draft.column) or 0.0
    return draft.distribution.level_of(privacy.epsilon, privacy.delta, sensitivity)


def level_for_error(name: str, error: float, variance: float, shape: float) -> float:
    """s at which (σ² + a/s)·A_jj is the square of this standard error, a/s on the grid."""
    least = math.sqrt(variance * shape)
    with np.errstate(over="ignore", divide="ignore"):
        excess = float(np.square(np.float64(error) / least)) - 1
        added = Gaussian().variance(1.0, None)
        level = float(np.float64(added) / (variance * excess)) if excess > 0 else 0.0
    if not excess > 0:
        raise InvalidInput(
            f"privacy: {name!r} cannot have the standard error {error:g}: without any privacy it "
            f"is {least:.4g}. More rows are needed."
        )
    if not 0 < level < math.inf:
        raise InvalidInput(
            f"privacy: the level that gives {name!r} the standard error {error:g} is too small or "
            "too large for a number."
        )
    return level


# --- the promise of sums, divided -----------------------------------------------------------------

Promise = dict[str, float]  # {"mu": μ} or {"level": exposure} of one column


def splits_of(
    model: Model,
    privacy: Privacy,
    design: SumDesign,
    known: Sequence[Known],
    most: int | None = None,
) -> tuple[Split, ...]:
    """How the promise is divided, for each private column: μ² in equal parts."""
    promise = _promise(privacy, len(model.target))
    if promise is None:
        assert privacy.standard_error is not None
        variance, names = known[0].variance, tuple(model.design.names)
        assert variance is not None  # `refusals` asks for it
        wanted = {index_of(names, name): x for name, x in privacy.standard_error.items()}
        level = level_for_errors(design, variance, wanted)
        promise = {"level": level / (1 - FOR_SQUARES_OF_LEVEL)}
    ranges = [_range_of(model, privacy, target) for target in model.target]
    return tuple(split_of(model, privacy, limits, design, promise, most) for limits in ranges)


def split_of(
    model: Model,
    privacy: Privacy,
    limits: Range,
    design: SumDesign,
    promise: Promise,
    most: int | None = None,
) -> Split:
    """The same of one column, for this μ or exposure (`level`)."""

    def kind(summed: Range, **left: float) -> str:
        return "none" if model.family != "gaussian" else kind_of(design, summed, **left)

    return _divided(privacy, design.rows.n, limits, kind, promise, most)


def splits_of_kinds(
    model: Model,
    privacy: Privacy,
    sums: Sequence[tuple[str, float]],
    n: int,
    most: int | None = None,
) -> tuple[Split, ...]:
    """The same from a header, by the kind and level of its sums; that for an accuracy is kept."""
    found = []
    for target, (kind, level) in zip(model.target, sums, strict=True):
        limits, promise = _range_of(model, privacy, target), _promise(privacy, len(sums))
        if promise is None:
            ends = None if privacy.within is None else limits
            alike = split(kind, n, _summed(privacy, limits), level=level, ends=ends)
            promise = {"level": alike.promised_for(level)}
        kind_is = partial(_stated_kind, kind)
        found.append(_divided(privacy, n, limits, kind_is, promise, most))
    return tuple(found)


def _stated_kind(kind: str, _: Range, **__: float) -> str:
    return kind


def _summed(privacy: Privacy, limits: Range) -> Range:
    return limits if privacy.within is None else Range(-privacy.within, privacy.within)


def _divided(
    privacy: Privacy, n: int, limits: Range, kind: Callable[..., str], promise: Promise,
    most: int | None,
) -> Split:  # fmt: skip
    """The division of one column; a pilot takes its share of μ² first."""
    summed = _summed(privacy, limits)
    ends = None if privacy.within is None else limits
    if privacy.pilot is None:
        return split(kind(summed, **promise), n, summed, **promise, most=most, ends=ends)
    first = split("none", n, limits, mu=promise["mu"] * math.sqrt(privacy.pilot), most=most)
    left = promise["mu"] * math.sqrt(1 - privacy.pilot)
    second = split(kind(summed, mu=left), n, summed, mu=left, most=most, ends=ends)
    return replace(second, earlier=first)


def _promise(privacy: Privacy, columns: int) -> Promise | None:
    """The promised μ of each column, or its exposure; None: the promise is an accuracy."""
    if privacy.epsilon is not None:
        assert privacy.delta is not None
        return {"mu": gdp.mu_of(privacy.epsilon, privacy.delta) / math.sqrt(columns)}
    return None if privacy.level is None else {"level": privacy.level / columns}
