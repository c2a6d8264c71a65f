"""What a release would cost, before anything is spent: nothing depends on the private readings.
(The first of them are looked at, to see that they are numbers.)

For S = sI, y = Hθ + w, cov w = σ²I, `bounds.bound` gives (`thm:crbound`), A = (HᵀH)⁻¹:

    standard error of θ̂_j:  σ√A_jj without privacy,  √((σ² + 1/s)A_jj) with it .

The grid of a real release makes of 1/s up to UNIT/s, and errors are those of the level s/UNIT.
It depends on H through HᵀH alone: H is read in blocks, and a triangle R with RᵀR = HᵀH takes its
place in the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privest.arrays import Array, as_number, as_positive
from privest.bounds import Bound, bound, bound_sweep, classical_bound
from privest.data import Source, Stamp, open_source, read_rows
from privest.errors import InvalidInput, PrivestError
from privest.estimator import (
    ClippingCost,
    CostByShare,
    clipping_cost,
    clipping_cost_by_share,
)
from privest.model import LinearModel
from privest.privacy import Range
from privest.records import Record, plain, standard_errors
from privest.workflow._column import UNIT
from privest.workflow._modelled import modelled_range
from privest.workflow._plan_calls import PlanCalls
from privest.workflow._planning_people import PeopleReader, PlannedPeople
from privest.workflow._planning_weights import WeightReader
from privest.workflow._sections import Privacy
from privest.workflow._spec import Spec
from privest.workflow._terms import (
    Terms,
    add_rows,
    columns_of,
    index_of,
    new_sums,
    noise_of,
    require_full,
)

if TYPE_CHECKING:
    from privest.workflow._planning_levels import LevelReader

CURVE = (1e-2, 1e2, 41)  # levels of the curve: around the chosen one
MOST_ROWS = 2.0**53  # whole numbers are exact up to here
GUESSED = (1 / 3, 1.0, 3.0)  # σ² in units of 1/s, where nobody states it


@dataclass(frozen=True, eq=False)
class Guess(Record):
    """Errors to expect if the noise variance of the readings is this."""

    noise_variance: float
    classical_error: Array
    standard_error: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class Plan(PlanCalls, Terms):
    """What is known before a release: its terms, and what the features add.

    rows, dropped   rows of H used, and left out because something was missing in the features.
    triangle        R with RᵀR = HᵀH, which takes the place of H; with weights as
                    `_planning_weights` says.
    people          where persons have several rows: who has how many, and what that allows. The
                    errors are then those of generalised least squares if half of the stated noise
                    variance is between persons; without one they are what privacy alone adds.
    """

    rows: int
    dropped: int
    triangle: Array
    people: PlannedPeople | None = None
    _cost: ClippingCost | None = field(default=None, repr=False)  # of the range, as expected
    _data: object = field(default=None, repr=False)  # a frame, of this process only
    _stamp: Stamp | None = field(default=None, repr=False)  # of the file that it was made for

    DERIVED: ClassVar[tuple[str, ...]] = (
        "epsilon", "standard_error", "classical_error", "privacy_error", "privacy_share",
        "reading_error", "informed_error", "guesses", "clipping",
    )  # fmt: skip

    # --- accuracy ---------------------------------------------------------------------------------

    @cached_property
    def model(self) -> LinearModel:
        """The linear model of the readings, with R in place of H; it needs their noise variance."""
        return self._model_with(self._known_noise)

    def _model_with(self, noise_variance: float) -> LinearModel:
        return LinearModel(self.triangle, noise_variance, names=self.names)

    @property
    def _known_noise(self) -> float:
        if self.noise_variance is None:
            raise InvalidInput(
                "the noise variance of the readings is not stated: what they would show without "
                "privacy is not known before the release. State a guess (--noise-variance), or a "
                "reference set (--reference). The release and its estimate do not need it."
            )
        return self.noise_variance

    @property
    def privacy_error(self) -> Array:
        """√(A_jj/s): what privacy alone adds, whatever the noise of the readings is."""
        if self.people is not None:
            return self.people.errors(self.level, 0.0, 0.0)
        return standard_errors(self._unit_covariance) * math.sqrt(UNIT / self.level)

    @cached_property
    def _unit_covariance(self) -> Array:
        """A = (HᵀH)⁻¹."""
        return classical_bound(LinearModel(self.triangle, 1.0, names=self.names))

    @property
    def guesses(self) -> tuple[Guess, ...]:
        """What errors are if σ² is ⅓, 1 or 3 times the release noise 1/s; () where it is stated."""
        if self.noise_variance is not None or self.people is not None:
            return ()
        found = []
        for variance in (times / self.level for times in GUESSED):
            limit = bound(self._model_with(variance), self.level / UNIT)
            found.append(Guess(variance, limit.classical_error, limit.standard_error))
        return tuple(found)

    @cached_property
    def bound(self) -> Bound:
        """Of the plan's level."""
        return bound(self.model, self.level)

    @property
    def classical_error(self) -> Array:
        """Standard errors without privacy, σ√A_jj; NaN where σ² is not stated."""
        if self.people is not None:
            return self._person_errors(math.inf)
        if self.noise_variance is None:
            return np.full(len(self.names), np.nan)
        return self.bound.classical_error

    def _person_errors(self, level: float) -> Array:
        """Of persons, with half of the noise variance between them."""
        assert self.people is not None
        half = (self.noise_variance or 0.0) / 2
        if not half and math.isinf(level):
            return np.full(len(self.names), np.nan)
        return self.people.errors(level, half, half)

    @property
    def standard_error(self) -> Array:
        """Standard errors at the plan's level, √((σ² + 1/s)A_jj); NaN where σ² is not stated."""
        return self.errors_at(self.level)

    @property
    def attained_error(self) -> Array:
        """Standard errors at the plan's level and with its range, where its cost is known."""
        return self.standard_error if self._cost is None else self._cost.standard_error

    @cached_property
    def clipping(self) -> ClippingCost | CostByShare | None:
        """What the range costs.

        With coefficients to expect, of the reference set or as stated, a `ClippingCost`; where
        nothing public tells them what it costs by the share that is clipped, a `CostByShare`; None
        without a range, and of persons, level columns, other laws and families.
        """
        if self._cost is not None or len(self.columns) > 1 or self.people is not None:
            return self._cost
        plain = self.column.law == self.spec.family == "gaussian"
        if self.limits is None or not plain:
            return None
        return clipping_cost_by_share(self.noise_variance, self.level / UNIT, self.limits)

    @property
    def privacy_share(self) -> float:
        """The part of the variance that privacy costs, the same for all coefficients.

        Where persons have several rows it differs: of the first of them.
        """
        if self.people is not None:
            return float(1 - (self.classical_error[0] / self.standard_error[0]) ** 2)
        if self.noise_variance is None:
            return math.nan
        return 1 / (1 + self.level / UNIT * self.noise_variance)

    def errors_at(self, level: float) -> Array:
        """Standard errors at another level."""
        level = as_positive(level, "level")
        if self.people is not None:
            return self._person_errors(level)
        if self.noise_variance is None:
            return np.full(len(self.names), np.nan)
        return bound(self.model, level / UNIT).standard_error

    def curve(self) -> tuple[Array, Array]:
        """Levels around the chosen one, and the standard errors (levels, n) there."""
        low, high, count = CURVE
        levels = self.level * np.geomspace(low, high, int(count))
        if self.people is not None or self.noise_variance is None:
            return levels, np.array([self.errors_at(float(level)) for level in levels])
        return levels, bound_sweep(self.model, levels / UNIT).standard_error

    def rows_for(self, standard_error: float, of: str) -> int:
        """How many rows like these the coefficient needs for this error at this level and range.

        Variances go down as 1/rows; fewer rows than coefficients say nothing. Rounded up, but for
        the rounding of the error itself: to ask for the error that these rows give must return
        their number. Raises InvalidInput beyond 2⁵³ rows, which nobody has.
        """
        wanted = as_positive(standard_error, "standard_error")
        _ = self._known_noise  # what privacy alone adds is not all of the error
        times = float(self.attained_error[self.index(of)]) / wanted
        if times > math.sqrt(MOST_ROWS / self.rows):
            raise InvalidInput(
                f"no number of rows gives {of!r} the standard error {wanted:g} at this level: more "
                f"than {MOST_ROWS:.0e} would be needed."
            )
        return max(len(self.names), math.ceil(self.rows * times**2 * (1 - 1e-12)))

    def level_for(
        self, error: float, of: str, confidence: float | None = None, *, alone: bool = False
    ) -> float:
        """The level at which a coefficient has this standard error; the data are not read.

        With a `confidence` (0.95) `error` is the ± of that interval. `alone`: the error that
        privacy alone adds, which needs no noise variance (of other laws and families: all of it).
        Raises InvalidInput where no level gives it, with the rows that are needed.
        """
        from privest.workflow._replanning import level_for  # which is made of plans

        return level_for(self, error, of, confidence, alone=alone)

    def index(self, name: str) -> int:
        """Which coefficient."""
        return index_of(self.names, name)

    # --- other levels -----------------------------------------------------------------------------

    def at(self, level: float) -> Plan:
        """The same plan at another level, as `make_plan` would give it; the data are not read.

        Of several private columns it is the budget of the record. What a range costs with
        coefficients to expect would need the features: `clipping` then says it by the share that is
        clipped, a `CostByShare`.
        """
        from privest.workflow._replanning import at_level, replanned  # which is made of plans

        return replanned(self, at_level(self, level))

    def under(self, privacy: Privacy) -> Plan:
        """The same plan with another section on privacy; the data are not read, as with `at`."""
        from privest.workflow._replanning import replanned

        return replanned(self, privacy)

    # --- privacy ----------------------------------------------------------------------------------

    @property
    def reading_error(self) -> float:
        """1/√s: no guess of one reading that is right on average is better, in its units."""
        return 1 / math.sqrt(self.level)

    @property
    def informed_error(self) -> float:
        """1/√(s + 1/σ²): of one who knows θ and the features, and so each reading to ±σ."""
        if self.noise_variance is None:  # nobody knows how well they would know it
            return self.reading_error
        return 1 / math.sqrt(self.level + 1 / self._known_noise)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, for JSON."""
        levels, errors = self.curve()
        record = super().to_dict()
        del record["triangle"]
        curve = {"level": plain(levels), "standard_error": plain(errors)}
        return record | {"curve": curve}


def make_plan(
    spec: Spec, data: object = None, *, expected: Mapping[str, float] | None = None
) -> Plan:
    """The plan for a spec; `data` (a frame, a file) replaces the one that the spec names.

    expected: coefficients from public knowledge, by name (those left out are 0), for what a range
    will clip; without them those of the reference set are taken.
    Reads the features only, in blocks; the noise comes from the spec or from its reference set.
    (Without any feature, for a mean, rows are counted by the target: whether it is there.)
    Raises InvalidInput for bad files, NotIdentifiable for constant or collinear features.
    """
    design = spec.design
    source = open_source(spec.data if data is None else data, spec.reading)
    source.require(spec.targets)
    sums = new_sums(design)
    rows = dropped = 0
    counted_by = None if design.columns else spec.targets
    people = None if spec.person is None else PeopleReader(spec, source)
    weights = None if spec.weights is None else WeightReader(spec, source, counted_by)
    known, levels = noise_of(spec, design), None
    if spec.privacy.level_column is not None:
        from privest.workflow._planning_levels import LevelReader  # which makes a plan

        limits = modelled_range(spec.transform, spec.privacy.range_of(spec.targets[0]))
        levels = LevelReader(spec, source, counted_by, known[0].variance or 0.0, limits)
    for H, gaps in _blocks(spec, source, counted_by, people or weights or levels):
        add_rows(sums, H)
        rows, dropped = rows + len(H), dropped + gaps
    require_full(sums, design.names, source.name, rows)
    triangle = np.triu(sums.triangle[:-1, :-1]) if weights is None else weights.triangle()
    unit = classical_bound(LinearModel(triangle, 1.0, names=design.names))
    spec = spec if levels is None else levels.at_most()
    found = Plan(
        spec=spec,
        names=design.names,
        rows=rows,
        dropped=dropped,
        triangle=triangle,
        people=None if people is None else people.facts(),
        _stamp=source.stamp,
        **columns_of(
            spec, design.names, known, unit,
            None if people is None else people.person,
        ),
    )  # fmt: skip

    def features() -> Iterator[Array]:
        again = open_source(spec.data if data is None else data, spec.reading)
        for block in read_rows(again, design, counted_by, missing=spec.missing):
            yield block.H

    if levels is not None:
        _require_finite(found)
        return levels.plan(found)
    if len(found.columns) == 1:
        return finished(found, expected, features)
    from privest.workflow._record_plan import record_plan  # which is made of plans

    return record_plan(found, expected, lambda plan: finished(plan, None, features))


def _blocks(
    spec: Spec,
    source: Source,
    counted_by: tuple[str, ...] | None,
    reader: PeopleReader | WeightReader | LevelReader | None,
) -> Iterator[tuple[Array, int]]:
    """The rows of each block, and how many were dropped."""
    if reader is not None:
        yield from reader.blocks()
        return
    for block in read_rows(source, spec.design, counted_by, missing=spec.missing):
        yield block.H, block.dropped


def finished(
    plan: Plan,
    expected: Mapping[str, float] | None,
    features: Callable[[], Iterable[Array]] | None,
) -> Plan:
    """The plan of one column with what its range costs; refused where it has no numbers.

    features  None: they are not read again.
    """
    if plan.spec.family != "gaussian" or plan.column.law != "gaussian":
        from privest.workflow._law_plan import law_plan  # which is made of a plan

        return law_plan(plan, expected)
    _require_finite(plan)
    if plan.limits is None or plan.people is not None:
        return plan
    return replace(plan, _cost=_clipping(plan, plan.limits, expected, features))


def _clipping(
    plan: Plan,
    limits: Range,
    expected: Mapping[str, float] | None,
    features: Callable[[], Iterable[Array]] | None,
) -> ClippingCost | None:
    """What the range costs, by another look at the features; None where nothing is expected.

    The estimate will take the noise variance from the release, and that is part of the cost. Where
    nobody states one beforehand the share that is clipped cannot be told, expected or not.
    """
    theta = plan.expected[0] if plan.expected else None
    if expected is not None:
        stated = np.zeros(len(plan.names))
        for name, value in expected.items():
            stated[plan.index(name)] = as_number(value, f"the expected coefficient of {name!r}")
        theta = tuple(stated.tolist())
    variance = plan.noise_variance
    if theta is None or variance is None or features is None:
        return None
    level = plan.level / UNIT
    return clipping_cost(features, theta, variance, level, limits, variance_known=False)


def _require_finite(plan: Plan) -> None:
    """Refuse a level at which, or near which, errors and ε are no numbers any more."""
    _ = plan.epsilon
    try:
        with np.errstate(over="ignore"):
            levels = plan.level * np.array([CURVE[0], 1.0, CURVE[1]])
            errors = (
                bound_sweep(_model(plan), levels).standard_error
                if plan.people is None
                else np.array([plan.errors_at(float(level)) for level in levels])
            )
        good = bool(np.isfinite(errors).all() and (errors > 0).all())
    except PrivestError:  # it overflows, or vanishes beside the noise
        good = False
    if not good:
        raise InvalidInput(
            f"privacy: at the level {plan.level:g}, or at {CURVE[0]:g} to {CURVE[1]:g} times it, "
            "the standard errors are too large or too small for numbers. State another level."
        )


def _model(plan: Plan) -> LinearModel:
    """The model of the plan; where σ² is not stated with that of the middle guess, 1/s."""
    if plan.noise_variance is not None:
        return plan.model
    return plan._model_with(1 / plan.level)
