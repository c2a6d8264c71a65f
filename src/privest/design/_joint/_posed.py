"""From what the user asks for to the limits of a full S."""

from __future__ import annotations

import numpy as np

from privest.arrays import Array, ArrayLike, Index, as_choice
from privest.bounds._classical import in_range, local_model, require_seen
from privest.design._constraints import Labels, Persons, labels_of, per_reading
from privest.design._joint._problem import JointLimits
from privest.errors import InvalidInput
from privest.model import LinearModel
from privest.noise import Gaussian


def joint_posed(
    model: LinearModel, shape: str, cost: ArrayLike, cap: ArrayLike, groups: Labels | None,
    persons: Persons | Labels | None,
) -> tuple[LinearModel, Index, JointLimits]:  # fmt: skip
    """The model of the readings that may be shown at all, and the limits of their S."""
    persons = _persons_of(shape, groups, persons)
    m = in_range(local_model(model)).readings
    costs = per_reading(cost, m, "cost", least_open=True)
    caps = per_reading(cap, m, "cap", least_open=False)
    shown = np.flatnonzero(caps > 0)
    if not len(shown):
        raise InvalidInput("every cap is 0: nothing may be shown.")
    small = _of_readings(model, shown)
    require_seen(small)
    whose = None if persons is None else labels_of(persons.labels, m, "labels of persons")[shown]
    blocks = [np.arange(len(shown))]
    if shape == "persons" and whose is not None:
        blocks = [np.flatnonzero(whose == k) for k in np.unique(whose)]
    limits = JointLimits(costs[shown], caps[shown], blocks)
    if persons is not None and whose is not None and np.isfinite(persons.most):
        most = np.full(int(whose.max()) + 1, float(persons.most))
        limits = JointLimits(costs[shown], caps[shown], blocks, whose, most)
    return small, shown, limits


def _persons_of(
    shape: str, groups: Labels | None, persons: Persons | Labels | None
) -> Persons | None:
    """Whose traces are limited; what a full S cannot mean is refused."""
    as_choice(shape, ("diagonal", "full", "persons"), "shape")
    if groups is not None:
        raise InvalidInput("a full S has no groups that share a level: leave groups out.")
    if persons is not None and not isinstance(persons, Persons):
        persons = Persons(persons, measure="trace" if shape == "persons" else "largest")
    if persons is not None and persons.measure == "largest":
        raise InvalidInput(
            'persons measured by their "largest" level get one level each, also among full '
            "matrices (S_P = t·I is best): use the diagonal shape."
        )
    if shape == "persons" and persons is None:
        raise InvalidInput("shape='persons' needs persons: a label for each reading.")
    return persons


def _of_readings(model: LinearModel, shown: Index) -> LinearModel:
    """The model of some readings, with the Σ of the bounds as Gaussian covariance."""
    sigma = model.inverse_information.restrict(shown)
    given = sigma.diagonal() if sigma.pointwise is not None else sigma.dense()
    return LinearModel(
        model.matrix[shown], Gaussian(cov=given), names=model.names, accuracy=model.accuracy
    )


def unit_of(limits: JointLimits, levels: Array) -> Array:
    """Levels to count in: those given, within the limits."""
    unit = np.minimum(levels, limits.caps)
    if limits.person is not None and limits.most is not None:
        count = np.bincount(limits.person, minlength=len(limits.most))
        unit = np.minimum(unit, (limits.most / np.maximum(count, 1))[limits.person])
    return np.asarray(unit)
