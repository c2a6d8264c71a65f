"""The aggregate form: a trusted data owner publishes estimates from n noisy sums, and no rows.

What leaves is one document: coefficients, their errors, the promise; with `publish = "matrix"`
also the sums and their weights.
"""

from __future__ import annotations

import contextlib
import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from privest.aggregate import (
    FeatureRows,
    RowPersons,
    Split,
    SumDesign,
    SumRelease,
    Way,
    person_rows,
    planned_errors,
    release_sums,
    solve_scores,
    sum_covariance,
    sum_design,
)
from privest.arrays import Array, Index, as_choice
from privest.data.features import Features
from privest.data.rows import read_rows
from privest.errors import InvalidInput, NotIdentifiable
from privest.linalg import RunningLeastSquares
from privest.mechanism.source import Source
from privest.model import LinearModel
from privest.noise import Gaussian as GaussianNoise
from privest.privacy import Range
from privest.reading import read_fields, read_number, read_numbers, read_text
from privest.records import plain, standard_errors
from privest.vault import Private
from privest.workflow.rows import Blocks, Leaving, PlannedErrors, Rows
from privest.workflow.spec import Spec
from privest.workflow.survey import CHANGED, Survey, survey
from privest.workflow.terms import Column, Terms, columns_of, modelled, splits_of

if TYPE_CHECKING:
    from privest.workflow.document import TableRelease
    from privest.workflow.plan import Plan
    from privest.workflow.result import TableEstimate

SCORES = "scores"  # the kind of yes/no: no squares, the variance is known
NO_ROOT = (
    "The noisy score equations have no solution: the noise is too large beside so few rows. It was "
    "charged; a second release would cost privacy again. Plan with a larger ε or fewer features."
)
SMALLER = (
    "The intervals of a smaller model take the coefficients that it lacks as 0. Where they are "
    "not, errors are larger: compare it with the whole model first."
)
SAME_VARIANCE = (
    "Means at rows, contrasts and joint tests of noisy sums assume that all residuals have the "
    "same variance (homoscedasticity); else these intervals and p-values can be wrong."
)
FEWEST = 10  # rows of a category, below which sums show the features of its members
NUMBERS = {"estimate": math.nan, "variance": math.inf, "freedom": math.inf}  # what null means
COVARIANCE = "covariance"
LARGEST = 1e50  # of a published number: products of six are doubles
METHODS = {
    "none": "noisy sums; the widest errors that the range allows",
    "squares": "noisy sums and squares of residuals",
    "free": "noisy sums and squares",
    "persons": "noisy sums, and squares of the sums of each person",
    SCORES: "noisy score equations",
}


class Aggregate:
    """z = √c₁·Σ ℓ_i y_i + e, n numbers, and squares of residuals: cov θ̂ = b/c₁ + a·σ²."""

    def survey(self, spec: Spec, data: object) -> Survey:
        kept = FeatureRows(len(spec.design.names))
        found = survey(spec, data, kept)
        persons = None
        if found.strata is not None:
            persons = RowPersons(kept.parts(found.strata.numbers), found.strata.leaving)
        return replace(found, sums=_design(kept, found.triangle, persons))

    def solve(self, spec: Spec, found: Survey) -> Terms:
        model, privacy = spec.model, spec.privacy
        assert found.sums is not None
        most = found.most_rows(spec)
        splits = splits_of(model, privacy, found.sums, found.known, most)
        columns = columns_of(model, [own.level for own in splits], found.known)
        return Terms(model=model, privacy=privacy, columns=columns, most=most, splits=splits)

    def errors(self, plan: Plan, column: Column, level: float | None) -> PlannedErrors:
        design = plan.survey.sums
        assert design is not None
        variance, scale = column.residual_variance, 1.0
        if plan.model.family != "gaussian":
            variance = plan.mean * (1 - plan.mean)
            scale = 1 / variance
        own = plan.splits[plan.model.target.index(column.target)]
        correlation = plan.spec.public.within_person_correlation
        privacy, total, relative = planned_errors(design, own, variance, correlation, level)
        least = standard_errors(plan.shape) * math.sqrt(math.nan if variance is None else variance)
        if design.persons is not None:  # of the same sums, without noise
            least = np.sqrt(total**2 - privacy**2)
        return PlannedErrors(scale * least, scale * privacy, scale * total, relative)

    def require_name(self, table: Path) -> None:
        from privest.workflow.document import TABLES

        name = table.name.lower()
        if not name.endswith(".json") or name.endswith(tuple(f"{one}.json" for one in TABLES)):
            raise InvalidInput(f"{table}: an aggregate release is one document, NAME.json.")

    def leaving(self, plan: Plan, noise: Source, data: object) -> LeavingSums:
        return LeavingSums(plan, noise, data)

    def estimate(self, release: TableRelease, errors: str) -> TableEstimate:
        """As its owner computed it; correlations are NaN unless the matrix was published."""
        from privest.workflow.result import TableEstimate

        as_choice(errors, ("auto",), "errors of noisy sums (t, HC3 and HC2 are for rows)")
        own = next(one for one in release.sums if one.target == release.column.target)
        cautions = [] if np.isfinite(own.variance).all() else [NO_ROOT]
        if set(own.matrix) == {COVARIANCE}:  # of `within`
            cautions.append(SMALLER)
        note = SAME_VARIANCE if own.matrix and own.kind != SCORES else None
        return TableEstimate(
            cautions=tuple(cautions), note=note, value=own.estimate, covariance=own.covariance,
            names=release.names, simulated=release.simulated, method=METHODS[own.kind],
            rows=release.rows,
            degrees_of_freedom=None if np.isinf(own.freedom).all() else own.freedom,
            dropped=release.dropped, release=release, noise_found=own.residual_variance,
            r_squared=own.r_squared, noise_freedom=own.noise_freedom,
        )  # fmt: skip


FORMS: dict[str, Rows | Aggregate] = {"rows": Rows(), "aggregate": Aggregate()}


def _design(rows: FeatureRows, triangle: Array, persons: RowPersons | None) -> SumDesign:
    if persons is None:
        return sum_design(rows, triangle)
    scaled, inner = person_rows(rows, persons), np.zeros_like(triangle)
    for X in scaled:
        inner += X.T @ X
    return sum_design(scaled, np.linalg.cholesky(inner).T, persons)


# --- sums that leave ------------------------------------------------------------------------------


Leaves = Callable[[Column, Array], tuple[Private, Way]]  # sealed values of a column, and the way


class LeavingSums(Leaving):
    """Sums of a table: `blocks` reads it once, `released` draws the noise."""

    rows: int

    def __init__(self, plan: Plan, noise: Source, data: object) -> None:
        super().__init__(plan, noise, data)
        self.rows, self._features = 0, 0
        self._values: list[Array] = []
        self._numbers: list[Index] = []

    def blocks(self) -> Blocks:
        for H, values, numbers in self._read():
            self._values.append(values)
            self._numbers.append(numbers)
            self._features = zlib.crc32(H.tobytes(), self._features)
            self.rows += len(values)
            if len(H):
                yield [*H.T[int(self.spec.design.intercept) :], np.zeros(len(H))]
        self.require_rows(self.rows)

    def write(
        self, release: TableRelease, file: BinaryIO, blocks: Blocks
    ) -> tuple[int, tuple[Published, ...]]:
        for _ in blocks:
            pass
        found = self.released()
        file.write(payload(found))
        return self.rows, found

    def _read(self) -> Iterator[tuple[Array, Array, Index]]:
        """H, private values and their persons from 0; the same rows in every pass.

        The values alone are read where the file is as it was planned with, without gaps.
        """
        spec, found = self.spec, self.plan.survey
        assert found.sums is not None
        same = self.table.stamp is not None and self.table.stamp == found.stamp
        if not same or spec.model.person is not None or spec.model.missing != "refuse":
            for H, values, numbers, _ in self.private():
                yield H, values, numbers - 1
            return
        rows, none = found.sums.rows, np.zeros(0, dtype=np.intp)
        infinite = not self.noise.simulated
        for block in read_rows(self.table, Features(()), spec.targets, infinite=infinite):
            yield np.zeros((0, rows.n)), block.targets, none
        for X in rows:
            yield X, np.zeros((0, len(spec.targets))), none

    def released(self, leaving: Leaves | None = None) -> tuple[Published, ...]:
        """What leaves of every column; `leaving`: how, else by the source of noise."""
        plan, design = self.plan, self._design()
        if plan.privacy.publish == "matrix":
            _require_common(plan, design)
        found, y = [], np.concatenate(self._values)
        self._values.clear()
        for column, own, values in zip(plan.columns, plan.splits, y.T, strict=True):
            limits, ends = plan.limits(column), plan.ends(column)
            assert limits is not None
            assert ends is not None
            clipped = modelled(plan.model.transform, np.clip(values, *ends))
            kept: Sequence[Array] | Private = design.rows.parts(clipped)
            way: Way | Source = self.noise
            if leaving is not None:
                kept, way = leaving(column, clipped)
            centre = self._centre(design, kept, limits, own, way)
            drawn = release_sums(design, kept, plan.summed(column), own, way, centre=centre)
            found.append(_published(plan, column, design, own, drawn))
        return tuple(found)

    def _centre(
        self, design: SumDesign, values: Sequence[Array] | Private, limits: Range, own: Split,
        way: Way | Source,
    ) -> Array | None:  # fmt: skip
        """θ₀ of the prediction that values are counted from: public, or released by a pilot."""
        if own.earlier is not None:
            pilot = release_sums(design, values, limits, own.earlier, way, what="pilot")
            return pilot.estimate
        if self.plan.privacy.within is None:
            return None
        expected = self.spec.public.expected
        return np.array([expected.get(name, 0.0) for name in self.plan.names])

    def _design(self) -> SumDesign:
        """That of the plan where every planned row has its values; else of the rows that have."""
        found, names = self.plan.survey, self.plan.names
        design, planned = found.sums, found.strata
        assert design is not None
        numbers = np.concatenate(self._numbers)
        same = planned is None or np.array_equal(numbers, planned.numbers)
        if self.rows == design.rows.count and same:
            if self._features != found.features:
                raise InvalidInput(f"{self.table.name} {CHANGED}")
            return design
        rows, sums = FeatureRows(len(names)), RunningLeastSquares(len(names))
        for H, _, _ in self._read():
            rows.add(H)
            sums.add_matrix(H)
        sums.require_full(names, self.table.name, rows.count)
        persons = None
        if planned is not None:
            persons = RowPersons(rows.parts(numbers), np.bincount(numbers))
            if persons.rows.max() > (self.plan.most or 0):
                raise InvalidInput(f"{self.table.name} {CHANGED}")
        return _design(rows, sums.upper, persons)


def _require_common(plan: Plan, design: SumDesign) -> None:
    sizes = dict(zip(plan.names, np.diagonal(design.sums.features)))
    for column, listed in plan.spec.design.categories.items():
        first, *others = (f"{column}={one}" for one in listed)
        sizes.setdefault(first, design.rows.count - sum(sizes.get(one, 0) for one in others))
    for name, size in sizes.items():
        if "=" in name and size < FEWEST:
            raise InvalidInput(
                f"{name!r} has fewer than {FEWEST} rows: the matrix would show their features. "
                'Merge categories, publish estimates only, or state "matrix of small groups".'
            )


def _published(
    plan: Plan, column: Column, design: SumDesign, own: Split, drawn: SumRelease
) -> Published:
    """What leaves of a column: a function of the released sums and of H."""
    n, shown = design.rows.n, dict[str, Array]()
    if plan.model.family != "gaussian":
        theta, variance = np.full(n, np.nan), np.full(n, np.inf)
        with contextlib.suppress(NotIdentifiable):  # it leaves, and is charged, without a root too
            theta, covariance = solve_scores(design, drawn.sums, own.level)
            variance, shown = np.diagonal(covariance).copy(), {COVARIANCE: covariance}
        freedom, kind = np.full(n, np.inf), SCORES
    else:
        theta, kind = drawn.estimate, own.kind
        variance = drawn.variance
        freedom = drawn.freedom
    if plan.privacy.publish == "estimates":
        shown = {}
    else:
        shown |= {"sums": drawn.sums, "cross": design.sums.cross, "gram": design.sums.gram}
        shown |= {} if drawn.squares is None else {"squares": drawn.squares}
    return Published(
        column.target, kind, own.level, theta, variance, freedom,
        **_fit(plan, design, own, drawn, theta), matrix=shown,
    )  # fmt: skip


def _fit(
    plan: Plan, design: SumDesign, own: Split, drawn: SumRelease, theta: Array
) -> dict[str, float]:
    """σ̂² that the squares show, and R², where there is an intercept; approximate."""
    if own.kind not in ("squares", "free"):
        return {}
    assert drawn.shown is not None
    sigma2 = float(np.mean(np.maximum(drawn.shown, 0.0) / design.sampling))
    found = {"residual_variance": sigma2}
    if plan.names[0] != "intercept":
        return found
    mean = design.sums.features[0] / design.rows.count
    spread = design.sums.features / design.rows.count - np.outer(mean, mean)
    inner = np.eye(len(theta)) / own.level + sigma2 * design.sums.gram
    error = design.inverse @ inner @ design.inverse.T
    explained = max(0.0, float(theta @ spread @ theta) - float(np.sum(spread * error)))
    return found | {"r_squared": explained / (explained + sigma2)} if sigma2 > 0 else found


# --- the document ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Published:
    """What leaves of one private column.

    kind      of squares that were released (`aggregate.Split`), or "scores".
    level     c₁, the Fisher information of the sums about one value.
    estimate  θ̂; NaN, with infinite variance, where score equations have no root.
    freedom   of Student's t; infinite where normal.
    matrix    with publish = "matrix": z and t as they were drawn, B = Σ ℓxᵀ and Σ ℓℓᵀ; of score
              equations the covariance of θ̂ too.
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
        if COVARIANCE in self.matrix:
            return np.asarray(self.matrix[COVARIANCE])
        if self.matrix and self.kind != SCORES:
            cross, gram = self.matrix["cross"], self.matrix["gram"]
            return sum_covariance(cross, gram, self.level, self.variance)
        found = np.full((len(self.estimate),) * 2, np.nan)
        np.fill_diagonal(found, self.variance)
        return found

    @property
    def noise_freedom(self) -> float:
        """Degrees of freedom of σ̂², of which a·σ̂² is a part of the variances; 0: not known.

        Where squares are noisy, the rest of a variance is more than a·σ̂²: that lowers them.
        """
        if not self.residual_variance or "cross" not in self.matrix:
            return 0.0
        known = np.isfinite(self.freedom)
        with np.errstate(all="ignore"):  # of a document with wild numbers: not known
            inverse = np.linalg.inv(self.matrix["cross"])
            noise = (inverse**2).sum(axis=1) / self.level
            sampling = np.diagonal(inverse @ self.matrix["gram"] @ inverse.T)
            shown = np.minimum(self.residual_variance * sampling, self.variance - noise)
            own = self.freedom[known] * (np.maximum(shown, 0.0) / self.variance)[known] ** 2
            found = float(len(own) / np.sum(1 / own))
        return found if np.isfinite(found) else 0.0

    def model(self, variance: float | None) -> LinearModel | None:
        """z = √c₁·Bθ + w, w ~ N(0, c₁·σ²·Σℓℓᵀ), under privacy noise of level 1.

        σ²: as stated, or as the squares show it. None: no σ², or no published matrix.
        """
        sigma2 = variance or self.residual_variance
        if not sigma2 or "cross" not in self.matrix or self.kind == SCORES:
            return None
        noise = GaussianNoise(cov=self.level * sigma2 * self.matrix["gram"])
        return LinearModel(math.sqrt(self.level) * self.matrix["cross"], noise=noise)

    def within(self, places: Sequence[int]) -> Published:
        """The submodel of some coefficients, the others 0: generalised least squares of z.

        E z = √c₁·B·Cθ, cov z = I + c₁·σ²·Σℓℓᵀ, with the mean σ² that the release shows. That σ²
        and R² are of the whole model: the smaller one has none.
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
            matrix={COVARIANCE: covariance}, residual_variance=None, r_squared=None,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {one.name: plain(getattr(self, one.name)) for one in fields(self)}
        for name in NUMBERS:
            own = getattr(self, name).tolist()
            found[name] = [x if math.isfinite(x) else None for x in own]
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def from_dict(cls, given: object, n: int) -> Published:
        shown = [name for name in SHOWN if isinstance(given, Mapping) and name in given]
        record = read_fields(given, FIELDS | dict.fromkeys(shown, read_number), "sums")
        for name, unknown in NUMBERS.items():
            numbers = _numbers(record[name], (n,), name)
            record[name] = np.where(np.isnan(numbers), unknown, numbers)
        found = cls(**record | {"matrix": _matrix(record["matrix"], n)})
        found._require()
        return found

    def _require(self) -> None:
        if self.kind not in METHODS or not 1 / LARGEST < self.level < LARGEST:
            raise InvalidInput("sums: kind or level is not one of an aggregate release.")
        none = np.isnan(self.estimate).all() and np.isinf(self.variance).all()
        known = all((np.abs(x) < LARGEST).all() for x in (self.estimate, self.variance))
        good = ((self.variance > 0) & (self.freedom >= 1)).all()
        if not (good and (known or (none and self.kind == SCORES))):
            raise InvalidInput("sums: variances are above 0, and degrees of freedom at least 1.")
        own = self.matrix.get(COVARIANCE)
        if own is not None and not (self.kind == SCORES and (np.diag(own) == self.variance).all()):
            raise InvalidInput("sums: the covariance is not that of these variances.")


def _any(given: object, name: str) -> Any:  # noqa: ANN401 - checked later
    return given


SHOWN = ("residual_variance", "r_squared")  # where squares were released
FIELDS: dict[str, Any] = {
    "target": read_text, "kind": read_text, "level": read_number, "estimate": _any,
    "variance": _any, "freedom": _any, "matrix": _any,
}  # fmt: skip


def _matrix(given: object, n: int) -> dict[str, Array]:
    shapes = {"sums": (n,), "squares": None, **dict.fromkeys(("cross", "gram", COVARIANCE), (n, n))}
    if given == {}:
        return {}
    least = set(shapes) - {"squares", COVARIANCE}
    if not isinstance(given, Mapping) or not least <= set(given) <= set(shapes):
        raise InvalidInput("sums: matrix holds sums, squares, cross, gram and covariance.")
    found = {name: _numbers(value, shapes[name], name) for name, value in given.items()}
    if not _estimable(**found):
        raise InvalidInput("sums: the matrix is not one that coefficients follow from.")
    return found


def _numbers(given: object, shape: tuple[int, ...] | None, name: str) -> Array:
    found = read_numbers(given, f"sums: {name}")
    if (shape is not None and found.shape != shape) or found.ndim > 2:
        raise InvalidInput(f"sums: {name} has not the shape of the coefficients.")
    return found


def _estimable(sums: Array, cross: Array, gram: Array, **more: Array) -> bool:
    """Whether numbers are of a usual size, B is regular and Σ ℓℓᵀ positive definite."""
    if not all((np.abs(x) < LARGEST).all() for x in (sums, cross, gram, *more.values())):
        return False
    own = more.get(COVARIANCE)
    if own is not None and not (np.allclose(own, own.T) and np.linalg.eigvalsh(own)[0] > 0):
        return False
    size = np.linalg.norm(cross, axis=0)
    if not (size > 1 / LARGEST).all() or not np.linalg.eigvalsh(gram)[0] > 1 / LARGEST:
        return False
    return bool(np.linalg.matrix_rank(cross / size) == len(cross))


def payload(found: Sequence[Published]) -> bytes:
    listed = [one.to_dict() for one in found]
    return json.dumps(listed, sort_keys=True, separators=(",", ":")).encode()
