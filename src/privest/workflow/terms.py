"""Terms of a release: the levels of its private columns, and what they promise. All public."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from privest.aggregate import Split
from privest.arrays import Array
from privest.data.cells import meant
from privest.errors import InvalidInput
from privest.lattice import GRID
from privest.ledger import Cost, cost_of
from privest.privacy import Adjacency, PrivacyLevel, Range, gdp
from privest.workflow.published import summed_range
from privest.workflow.spec import Model, Privacy, distribution_of, ends_of
from privest.workflow.strategies import Distribution, Ends, Gaussian, Person, Record, Row

if TYPE_CHECKING:
    from privest.workflow.aggregate import Aggregate
    from privest.workflow.rows import Rows

DELTA = 1e-6  # where none is stated: μ and ρ of a ledger's entry do not depend on it
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
    """Model, privacy and solved levels: everything that a mechanism and a promise need.

    most    the most rows that any person has, where persons have several.
    splits  of the aggregate form: how the promise of each column is divided; () of rows.
    """

    model: Model
    privacy: Privacy
    columns: tuple[Column, ...]
    most: int | None = None
    splits: tuple[Split, ...] = ()

    # --- strategies -------------------------------------------------------------------------------

    @property
    def distribution(self) -> Distribution:
        """The distribution of the privacy noise."""
        return distribution_of(self.model, self.privacy)

    @property
    def unit(self) -> Row:
        """The unit whose values change together."""
        return unit_of(self.model, self.most)

    @property
    def form(self) -> Rows | Aggregate:
        """What leaves."""
        from privest.workflow.aggregate import FORMS

        return FORMS[self.privacy.form]

    # --- columns ----------------------------------------------------------------------------------

    @property
    def column(self) -> Column:
        """The only private column."""
        if len(self.columns) != 1:
            listed = ", ".join(repr(one.target) for one in self.columns)
            raise InvalidInput(f"there are several private columns, {listed}: take one of them.")
        return self.columns[0]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the coefficients."""
        return tuple(self.model.design.names)

    def index(self, name: str) -> int:
        """The place of a coefficient."""
        return index_of(self.names, name)

    def ends(self, column: Column) -> Ends | None:
        """The range of a column in the units of the file."""
        return ends_of(self.model, self.privacy, column.target)

    def limits(self, column: Column) -> Range | None:
        """The range of a column in the units of the model."""
        return modelled_range(self.model.transform, self.ends(column))

    def summed(self, column: Column) -> Range:
        """The range of what the aggregate form sums."""
        limits = self.limits(column)
        assert limits is not None
        return summed_range(self.privacy, limits)

    def sensitivity(self, column: Column) -> float | None:
        """By how much one value differs at most, in the units of the model; None: unlimited."""
        return sensitivity_of(self.model, self.privacy, column.target)

    def unit_level(self, column: Column) -> float:
        """The level that z is in units of: 1 with a level column, whose rows have their own."""
        return column.level if self.privacy.level_column is None else 1.0

    @property
    def enforced(self) -> bool:
        """Whether ranges alone enforce the sensitivities."""
        for column in self.columns:
            limits = self.limits(column)
            if limits is None or (self.sensitivity(column) or 0.0) < limits.width:
                return False
        return True

    def z_name(self, column: Column) -> str:
        """The name of a column of noisy values: z, or z:TARGET of several."""
        return "z" if len(self.model.target) == 1 else f"z:{column.target}"

    # --- what is promised -------------------------------------------------------------------------

    @property
    def record(self) -> Record | None:
        """(level, sensitivity) of the values that change together; None: a sensitivity is open."""
        pairs = [(one.level, self.sensitivity(one)) for one in self.columns]
        return None if any(move is None for _, move in pairs) else pairs  # type: ignore[return-value]

    @cached_property
    def epsilon(self) -> float | None:
        """ε at the stated δ for one value, person or record; None where it is not defined."""
        record, delta = self.record, self.privacy.delta
        if self.splits:
            return None if delta is None else gdp.epsilon_of(self.mu, delta)
        if record is None or (delta is None and not self.distribution.pure):
            return None
        return self.unit.epsilon(self.distribution, record, delta, enforced=self.enforced)

    @property
    def mu(self) -> float:
        """μ of all sums together, over the ranges, with the grid."""
        return gdp.compose(*(one.stated for one in self.splits))

    def over_the_range(self, delta: float) -> Terms:
        """The same terms with a sensitivity of the whole range, at this δ (0: pure)."""
        privacy = replace(self.privacy, sensitivity=None, delta=delta or None)
        return Terms(
            model=self.model, privacy=privacy, columns=self.columns, most=self.most,
            splits=self.splits,
        )  # fmt: skip

    @property
    def information(self) -> Fraction:
        """Fisher information about a record in units of its columns: Σ_j u_j²·s_j, the budget."""
        levels = [one.exposure for one in self.splits] or [one.level for one in self.columns]
        if len(levels) == 1:
            return Fraction(levels[0])
        units = units_of(self.model, self.privacy)
        parts = [Fraction(level) * Fraction(u) ** 2 for level, u in zip(levels, units)]
        return sum(parts, Fraction(0)) * (1 - ROUNDING)

    @property
    def cost(self) -> Cost:
        """The charge of a ledger for one value, person or record."""
        record = self.record
        if self.splits:
            mu2, limits = Fraction(self.mu) ** 2, [self.limits(one) for one in self.columns]
            widths = [one.width for one in limits if one is not None]
            move = Adjacency.record(widths) if len(widths) > 1 else Adjacency.measurement(widths[0])
            return Cost(self.information, mu2=mu2, rho=mu2 / 2, sensitivity=move)
        if isinstance(self.unit, Person) or len(self.columns) > 1:
            if record is None:
                return Cost(self.information)
            if isinstance(self.unit, Person):
                delta = self.privacy.delta or DELTA
                said = self.unit.statement(record, delta, enforced=self.enforced)
                mu2 = said.squared_steps * Fraction(GRID) ** 2
                return Cost(self.column.level, mu2=mu2, rho=said.rho, sensitivity=said.about)
            levels, moves = zip(*record, strict=True)
            made = cost_of(PrivacyLevel(list(levels)), sensitivity=Adjacency.record(moves))
            return replace(made, information=self.information)
        column = self.column
        law = self.distribution.law(column.level, self.limits(column))
        return cost_of(column.level, sensitivity=self.sensitivity(column), law=law)

    def counted(self, unit: str) -> Fraction | None:
        """The same in a unit of an account: "level", or "mu2"; None: it has no μ."""
        return self.information if unit == "level" else self.cost.mu2

    @property
    def measure(self) -> str:
        """In which units the level of a release counts; ledgers of 0.2 have the same text."""
        several = len(self.columns) > 1
        units = units_of(self.model, self.privacy) if several else (None,)
        columns = [[self.model.transform, None, unit] for unit in units]
        names = [one.target for one in self.columns] if several else None
        person = None if self.model.person is None else [self.model.person, "A"]
        text = json.dumps([columns, names, person])
        return "m" + hashlib.sha256(text.encode()).hexdigest()[:16]


# --- pieces of terms ------------------------------------------------------------------------------


def index_of(names: tuple[str, ...], name: str) -> int:
    """The place of a coefficient."""
    if name not in names:
        raise InvalidInput(
            f"there is no coefficient {name!r}; there are {', '.join(names)}.{meant(name, names)}"
        )
    return names.index(name)


def unit_of(model: Model, most: int | None) -> Row:
    """The unit of privacy: rows, or persons with at most so many rows."""
    if model.person is None:
        return Row()
    assert most is not None
    return Person(most, capped=model.most_rows is not None)


def modelled(transform: str, y: Array) -> Array:
    """Values after the transform of the target."""
    return np.log(y) if transform == "log" else y


def modelled_range(transform: str, ends: Ends | None) -> Range | None:
    """A range after the transform of the target; the logarithm is increasing."""
    return None if ends is None else Range(*modelled(transform, np.array(ends)).tolist())


def sensitivity_of(model: Model, privacy: Privacy, target: str) -> float | None:
    """The stated sensitivity, and no more than the width of the range."""
    limits = modelled_range(model.transform, ends_of(model, privacy, target))
    stated = privacy.sensitivity
    if stated is not None and len(model.target) > 1:  # in units of each column
        stated *= units_of(model, privacy)[model.target.index(target)]
    if limits is None:
        return stated
    return limits.width if stated is None else min(stated, limits.width)


def units_of(model: Model, privacy: Privacy) -> tuple[float, ...]:
    """What counts as one unit of each column: as stated, or the width of its range."""
    found = []
    for target in model.target:
        limits = modelled_range(model.transform, ends_of(model, privacy, target))
        unit = privacy.units.get(target, None if limits is None else limits.width)
        assert unit is not None  # `refusals` asks for it
        found.append(unit)
    return tuple(found)


@dataclass(frozen=True)
class Known:
    """The residual variance of a target, where it is public; `rows` of the reference."""

    variance: float | None = None
    rows: int | None = None


def solve(
    model: Model,
    privacy: Privacy,
    known: tuple[Known, ...],
    *,
    most: int | None,
    shape: Array,
    largest: float | None = None,
) -> Terms:
    """The levels that keep the stated promise.

    shape  (HᵀH)⁻¹, for a wanted accuracy. largest: of a level column.
    """
    if largest is not None:
        levels = [largest]
    elif privacy.standard_error is not None:
        levels = [_level_for_errors(model, privacy.standard_error, known[0].variance, shape)]
    else:
        units = units_of(model, privacy) if len(model.target) > 1 else (1.0,)
        shares = _equal_shares(units)
        factor = _factor(model, privacy, unit_of(model, most), shares, units)
        levels = [share * factor for share in shares]
    columns = tuple(
        Column(target, level, one.variance, one.rows)
        for target, level, one in zip(model.target, levels, known, strict=True)
    )
    terms = Terms(model=model, privacy=privacy, columns=columns, most=most)
    try:
        _ = terms.epsilon
    except InvalidInput as error:
        raise InvalidInput(f"privacy: the level {levels[0]:g} has no ε here: {error}") from None
    return terms


def _equal_shares(units: tuple[float, ...]) -> list[float]:
    """S_jj = 1/(q u_j²): each of q columns has the same part of one budget Σ_j u_j²S_jj ≤ 1."""
    return [1.0 / (len(units) * u * u) for u in units]


def _factor(
    model: Model, privacy: Privacy, unit: Row, shares: list[float], units: tuple[float, ...]
) -> float:
    """The budget of a record that keeps a level, an attacker's chance or an ε."""
    if privacy.level is not None:
        return privacy.level
    if privacy.tolerance is not None:
        assert privacy.attacker is not None
        record = [(share, privacy.tolerance * own) for share, own in zip(shares, units)]
        return Gaussian().factor_for_chance(privacy.attacker, record)
    assert privacy.epsilon is not None
    moves = [sensitivity_of(model, privacy, target) or 0.0 for target in model.target]
    limits = modelled_range(model.transform, ends_of(model, privacy, model.target[0]))
    return unit.factor(
        distribution_of(model, privacy), privacy.epsilon, privacy.delta,
        list(zip(shares, moves)), enforced=limits is not None and moves[0] >= limits.width,
    )  # fmt: skip


def _level_for_errors(
    model: Model, errors: Mapping[str, float], variance: float | None, shape: Array
) -> float:
    """The level at which all of these standard errors are met."""
    assert variance is not None  # `refusals` asks for it
    names = tuple(model.design.names)
    places = {name: index_of(names, name) for name in errors}
    return max(
        level_for_error(name, error, variance, float(shape[places[name], places[name]]))
        for name, error in errors.items()
    )


def level_for_error(name: str, error: float, variance: float, shape: float) -> float:
    """s at which (σ² + a/s)·A_jj is the square of this standard error, a/s on the grid."""
    least = math.sqrt(variance * shape)
    with np.errstate(over="ignore", divide="ignore"):
        excess = float(np.square(np.float64(error) / least)) - 1
        added = Gaussian().variance(1.0, None, simulated=False)
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
