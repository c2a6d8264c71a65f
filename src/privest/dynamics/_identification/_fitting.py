"""The door: a family, a level and a release in, a Fit out."""

from __future__ import annotations

import numpy as np

from privest.arrays import ArrayLike, as_array
from privest.dynamics._identification._climbing import climb
from privest.dynamics._releases import Data, data_of
from privest.dynamics._identification._exposure import exposure, require_level
from privest.dynamics._identification._family import Family
from privest.dynamics._identification._fit import Fit
from privest.dynamics._identification._floors import estimate_covariance
from privest.dynamics._identification._objective import Objective
from privest.dynamics._identification._parsing import as_family
from privest.dynamics._releases import Level
from privest.dynamics._releases import SeriesRelease
from privest.errors import InvalidInput
from privest.release import StreamRelease


def fit(
    family: str | Family, level: Level, release: StreamRelease | SeriesRelease,
    *, inputs: ArrayLike | None = None, start: ArrayLike | None = None,
) -> Fit:  # fmt: skip
    """The parameters of a state-space family, by maximum likelihood from releases alone.

        θ̂ = argmax ℓ(z̃; θ) ,   z̃_k = L_kᵀ y_k + e_k ,   cov e = I known

    Post-processing: it costs no further privacy. `family` is one, or a text as "ar2" (see
    `as_family`); `level` is that of the mechanism, `inputs` (K, p) are public, `start` is a θ to
    begin from, besides those that the family finds.
    Numerics: ℓ by the square-root filter, its gradient by the adjoint recursion (any rank of Q, R,
    cov0), L-BFGS on a scale on which every model is stable, Newton's steps at the end.
    """
    width = 0 if inputs is None or np.ndim(inputs) == 0 else (*np.shape(inputs), 1)[1]
    family = as_family(family, inputs=width)
    given = data_of(level, release, inputs, family.readings)
    data = [family.regressors(own) for own in given]
    _require_steps(family, data)
    shown = exposure(data[0].level, data[0].steps)
    require_level(shown)
    family = family.prepared(data)
    objective = Objective(family, data)
    count = sum(own.shown for own in data)
    limits, starts = family.limits(data), family.starts(data)
    if start is not None:
        theta = as_array(start, "start", ndim=1)
        if theta.shape != (family.size,):
            raise InvalidInput(
                f"start must hold {', '.join(family.names)}; received shape {theta.shape}."
            )
        starts = [family.working(theta), *starts]
    top = climb(objective, starts, limits, count, family.climbs)
    spread = estimate_covariance(
        top.curvature, family.natural_slopes(top.t), top.at_limit, family.bent
    )
    return Fit(
        estimate=family.natural(top.t), covariance=spread,
        names=family.names, simulated=any(own.simulated for own in data), family=family,
        log_likelihood=top.height, working=top.t, curvature=top.curvature,
        steps=max(own.steps for own in data), observations=count, converged=top.converged,
        evaluations=objective.evaluations,
        exposure=shown, at_limit=top.at_limit,
        _objective=objective, _limits=limits, _inputs=given[0].inputs, _release=release,
    )  # fmt: skip


def _require_steps(family: Family, data: list[Data]) -> None:
    seen = max(int((~np.atleast_2d(own.missing.T).all(axis=0)).sum()) for own in data)
    if seen < family.least_steps():
        raise InvalidInput(
            f"{family!r} has {family.size} parameters: it needs at least {family.least_steps()} "
            f"steps that show something; the release has {seen}."
        )
