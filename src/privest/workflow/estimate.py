"""The estimate: coefficients from a release alone, with errors that include the privacy noise."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import overload

import numpy as np

from privest.arrays import Array, ArrayLike, as_kind
from privest.bounds import bound as model_bound
from privest.data.cells import meant
from privest.errors import InvalidInput
from privest.estimator import Estimate, estimate_release, posterior
from privest.estimator.likelihood import Backend
from privest.model import LinearModel
from privest.release import ReleaseRecord
from privest.workflow.document import TableRelease, read_release
from privest.workflow.fit import (
    estimate_family,
    estimate_levels,
    estimate_rows,
    estimate_weighted,
    tell_clipping,
)
from privest.workflow.result import TableEstimate
from privest.workflow.spec import as_names
from privest.workflow.terms import Column

SHRUNK = (
    "Estimates are drawn towards the mean of the prior. Their intervals hold on average over the "
    "prior, and not for coefficients that are far from its mean."
)


@overload
def estimate(
    release: TableRelease | str | os.PathLike[str],
    model: None = None,
    *,
    cov_type: str = "auto",
    features: str | Sequence[str] | None = None,
    prior: ArrayLike | None = None,
    prior_mean: ArrayLike = 0.0,
) -> TableEstimate: ...
@overload
def estimate(
    release: Estimate, *, prior: ArrayLike | None = None, prior_mean: ArrayLike = 0.0
) -> Estimate: ...
@overload
def estimate(
    release: ReleaseRecord | ArrayLike, model: LinearModel, *, mechanism: object = None,
    backend: Backend | str = "numpy", prior: ArrayLike | None = None, prior_mean: ArrayLike = 0.0,
) -> Estimate: ...  # fmt: skip
def estimate(
    release: TableRelease | str | os.PathLike[str] | ReleaseRecord | Estimate | ArrayLike,
    model: LinearModel | None = None,
    *,
    cov_type: str = "auto",
    features: str | Sequence[str] | None = None,
    mechanism: object = None,
    backend: Backend | str = "numpy",
    prior: ArrayLike | None = None,
    prior_mean: ArrayLike = 0.0,
) -> Estimate:
    """θ̂ from a release alone, with errors that include the privacy noise (`optEst`).

    release    of a table: what `plan.release` returned, or its path. With a `model`: a stream
               release, or what `mechanism.simulate` and `release` return. An `Estimate`, which
               `OutputPerturbation` releases, is returned as it is.
    model      y = Hθ + w of a release that is not a table: generalised least squares for Gaussian
               noise, maximum likelihood for any other, the clipped likelihood with a range.
    cov_type   of a table: "auto", "t", "HC3" or "HC2"; of yes/no
               and counts "model" or "HC3".
    features   of an aggregate release with its matrix: the coefficients of a smaller model, with
               errors as if those that it lacks were 0 (`compare` tests that).
    mechanism  that made a bare array z (q,) or (trials, q).
    backend    "numpy", or "cupy" for a maximum likelihood fit.
    prior      public P of θ ~ N(prior_mean, P): a variance, n variances or (n, n). The result is
               the posterior: biased towards `prior_mean`, with intervals that hold on average over
               the prior. Its `bound` is Σ_BPPCR (`pv.bound`) where Σ_PPCR is known: with a model,
               and for noisy sums whose matrix and residual variance are published.

    >>> import numpy as np, privest as pv
    >>> one = Estimate(value=np.array([3.0]), covariance=np.array([[2.0]]))
    >>> pv.estimate(one, prior=1.0).value.round(6)
    array([1.])
    """
    if isinstance(release, TableRelease | str | os.PathLike):
        if model is not None:
            raise InvalidInput("the release of a table has its model: leave `model` out.")
        found = release if isinstance(release, TableRelease) else read_release(Path(release))
        if features is not None:
            found = _within(found, as_names(features, "features"))
        fit = _of_table(found, cov_type)
        return fit if prior is None else _with_prior(fit, prior, prior_mean)
    if isinstance(release, Estimate):
        fitted = release
    else:
        needed = "a release that is not a table needs its LinearModel (model.at(theta) of another)"
        linear = as_kind(model, LinearModel, needed)
        fitted = estimate_release(release, linear, mechanism, backend=backend)
    return fitted if prior is None else posterior(fitted, prior, prior_mean)


def _with_prior(fit: TableEstimate, prior: ArrayLike, prior_mean: ArrayLike) -> TableEstimate:
    if fit.parts:
        raise InvalidInput("a prior is of one private column: release the columns one by one.")
    bound = None
    for sums in fit.release.sums:
        model = sums.model(fit.residual_variance)
        if model is not None:
            bound = model_bound(model, 1.0, prior=prior).covariance
    found = posterior(fit, prior, prior_mean)
    return replace(found, bound=bound, cautions=(*fit.cautions, SHRUNK))


def _within(release: TableRelease, features: tuple[str, ...]) -> TableRelease:
    if not release.sums:
        raise InvalidInput(
            "rows leave with all their features: estimate from the columns that you want."
        )
    known = [name.partition("=")[0] for name in release.names]
    for name in features:
        if name not in known:
            raise InvalidInput(
                f"{name!r} is not in the model of the release: that is a new release, which spends "
                f"privacy again.{meant(name, known)}"
            )
    places = [k for k, name in enumerate(known) if name in {"intercept", *features}]
    names = tuple(release.names[k] for k in places)
    if names == release.names:
        return release
    sums = tuple(one.within(places) for one in release.sums)
    columns = tuple(replace(one, residual_variance=None) for one in release.columns)
    lists = {k: v for k, v in release.categories.items() if any(f"{k}=" in one for one in names)}
    return replace(release, sums=sums, coefficients=names, columns=columns, categories=lists)


def _of_table(release: TableRelease, errors: str) -> TableEstimate:
    if len(release.columns) > 1:
        return _of_columns(release, errors)
    found = release.form.estimate(release.remembered(), errors)
    return replace(found, release=release)


def fit_rows(release: TableRelease, errors: str) -> TableEstimate:
    model, limits = release.model, release.limits(release.column)
    if model.family != "gaussian":
        return estimate_family(release, errors)
    if release.privacy.level_column is not None:
        found = estimate_levels(release, errors)
    elif model.weights is not None:
        found = estimate_weighted(release, errors)
    else:
        found = estimate_rows(release, errors)
    return found if limits is None else tell_clipping(found, limits)


def _of_columns(release: TableRelease, errors: str) -> TableEstimate:
    """All columns of an aggregate release, one by one."""
    parts = tuple(_of_table(one_column(release, column), errors) for column in release.columns)
    first = parts[0]
    named = [(part, part.release.column.target) for part in parts]
    return TableEstimate(
        value=np.concatenate([part.value for part in parts]),
        covariance=_covariance(parts),
        names=tuple(f"{target}: {name}" for part, target in named for name in part.names),
        simulated=first.simulated,
        degrees_of_freedom=np.concatenate([_freedom(part) for part in parts]),
        method="; ".join(dict.fromkeys(str(part.method) for part in parts)),
        note=first.note,
        rows=first.rows,
        dropped=first.dropped,
        cautions=tuple(f"{target}: {text}" for part, target in named for text in part.cautions),
        release=release,
        parts=parts,
    )


def _covariance(parts: Sequence[TableEstimate]) -> Array:
    blocks = [part.covariance for part in parts]
    found, n = np.full((sum(map(len, blocks)),) * 2, np.nan), len(blocks[0])
    for at, block in enumerate(blocks):
        own = slice(at * n, (at + 1) * n)
        found[own, own] = block
    return found


def _freedom(part: TableEstimate) -> Array:
    known = np.inf if part.degrees_of_freedom is None else part.degrees_of_freedom
    return np.broadcast_to(np.asarray(known, dtype=np.float64), len(part.names))


def one_column(release: TableRelease, column: Column) -> TableRelease:
    return replace(release, columns=(column,))
