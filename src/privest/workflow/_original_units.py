"""An estimate in the units of the file: percent for logarithms, means at a row, totals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from privest.arrays import CONFIDENCE, Array, as_array, as_number
from privest.data._features import category_place
from privest.data._names import MOST, meant
from privest.errors import InvalidInput
from privest.estimator._beyond_range import beyond_sentence
from privest.estimator.inference._original_scale import (
    OriginalMean,
    as_percent,
    likelihood_mean,
    lognormal_mean,
)
from privest.estimator.inference._totals import Total, total_of
from privest.estimator.inference._unknown import Scatter
from privest.linalg._running import RunningLeastSquares, tall_triangle
from privest.linalg.tolerances import rank_tolerance
from privest.records import quantile
from privest.workflow._header import TableRelease

if TYPE_CHECKING:
    from privest.workflow._estimate import Estimate

INTERCEPT = "intercept"
SMALL = 0.05  # standard errors: what clipping may do to an ordinary estimate
MANY_ROWS = "right on average with many rows"
NEXT_TO_NONE = 1e-5  # of the readings: a smaller share is not worth its digits


def share_text(share: float) -> str:
    """A share of the readings, for people."""
    small = 0 < share < NEXT_TO_NONE
    return f"less than {100 * NEXT_TO_NONE:g} %" if small else f"{100 * share:.2g} %"


def range_sentence(found: Estimate) -> str | None:
    """What the range did to the estimate, and what was done about it."""
    ends, share, off = found.release.range, found.clipped, found.clipping_bias
    if ends is not None and found.beyond is not None:
        return (
            f"Range {ends[0]:.6g} to {ends[1]:.6g}: {beyond_sentence(found.beyond)} (The estimates "
            "are least squares of the clipped readings, and say nothing of the true ones.)"
        )
    if ends is None or share is None or off is None:
        return None
    start = (
        f"Range {ends[0]:.6g} to {ends[1]:.6g}: {share_text(share)} of the readings were clipped, "
        "by the fit."
    )
    if found.likelihood is not None:
        return (
            f"{start} The estimate is maximum likelihood of clipped values. (Least squares would "
            f"be off by up to {off:.2g} standard errors if errors are normal.)"
        )
    if off < SMALL:
        return (
            f"{start} That moves no coefficient by more than {SMALL:g} of its standard error: "
            "least squares is used as it is."
        )
    return (
        f"{start} That moves least squares by up to {off:.2g} standard errors, which is not undone "
        f"here: {_why_not(found)}."
    )


def _why_not(found: Estimate) -> str:
    release = found.release
    if release.people is not None:
        return "the likelihood of clipped readings is for one row a person; a wider range avoids it"
    if str(release.column.law) != "gaussian":
        return "the likelihood of clipped readings is for Gaussian noise; a wider range avoids it"
    if release.weights is not None:
        return "the likelihood of clipped readings knows no survey weights; a wider range avoids it"
    return (
        "the release does not determine the maximum of the likelihood of clipped readings. A wider "
        "range or a higher level would"
    )


def percent_of(found: Estimate, confidence: float = CONFIDENCE) -> dict[str, Array]:
    """100(e^θ − 1) of every coefficient of a logarithm with its interval, (3,), by name.

    Without the intercept, which is no difference. Empty where the target is not a logarithm, or
    no interval is there.
    """
    if found.release.transform != "log" or not np.isfinite(found.standard_error).all():
        return {}
    ends = found.interval(confidence)
    return {
        name: as_percent([value, *pair])
        for name, value, pair in zip(found.names, found.estimate, ends)
        if name != INTERCEPT
    }


def is_category(name: str) -> bool:
    """Whether the coefficient is that of a category alone, which has no unit: sex=male."""
    return "=" in name and ":" not in name


def row_of(
    names: tuple[str, ...],
    given: Mapping[str, object],
    categories: Mapping[str, tuple[str, ...]],
) -> Array:
    """h for values by name: numbers, or a category of a column, one of its public list.

    {"age": 50, "sex": "male"} with the coefficients intercept, age, sex=male. A coefficient of a
    product, age:sex=male, is the product of its parts. Every feature must be there.

    >>> lists = {"sex": ("female", "male")}
    >>> row_of(("intercept", "age", "sex=male"), {"age": 50, "sex": "male"}, lists).tolist()
    [1.0, 50.0, 1.0]
    """
    known = {part for one in names for part in (one, *one.split(":"))} - {INTERCEPT}
    cells = {INTERCEPT: 1.0}
    for name, value in given.items():
        if name in categories:
            cells |= _indicators(name, value, categories[name])
        elif name in known:
            cells[name] = as_number(value, f"the value of {name!r}")  # type: ignore[arg-type]
        else:
            listed = ", ".join(dict.fromkeys(one for one in names if one != INTERCEPT))
            raise InvalidInput(
                f"there is no feature {name!r}; coefficients are {listed}."
                f"{meant(name, (*names, *categories))}"
            )
    return np.array([_cell(name, cells) for name in names])


def _indicators(name: str, value: object, listed: tuple[str, ...]) -> dict[str, float]:
    """1 for the category that is meant, 0 for the others of its column."""
    place = category_place(value, listed)
    if place is None:
        shown = ", ".join(listed[:MOST]) + (", …" if len(listed) > MOST else "")
        raise InvalidInput(
            f"{value!r} is not in the public list of categories of {name!r}, which are {shown}."
            f"{meant(str(value), listed)}"
        )
    return {f"{name}={one}": float(k == place) for k, one in enumerate(listed)}


def _cell(name: str, cells: Mapping[str, float]) -> float:
    """The value of a coefficient's column, or the product of those that it is made of."""
    if name in cells:
        return cells[name]
    parts = name.split(":")
    if not all(part in cells for part in parts):
        absent = next(part for part in parts if part not in cells)
        raise InvalidInput(f"a mean at a row needs a value for every feature; {absent!r} has none.")
    return math.prod(cells[part] for part in parts)


def mean_at(
    found: Estimate, row: Mapping[str, object], confidence: float = CONFIDENCE
) -> OriginalMean:
    """The mean and the median of the target at a row, in the units of the file.

    For a logarithm exactly unbiased (`lognormal_mean`); after maximum
    likelihood of clipped readings from θ̂ and σ̂² together. One more pass over the release.
    """
    release = found.release
    if release.family != "gaussian":
        raise InvalidInput(
            f"a mean at a row is for readings that are numbers; this release is {release.family}."
        )
    if found.likelihood is None and (found.clipping_bias or 0.0) >= SMALL:
        raise InvalidInput(
            f"a mean at a row is not there: {range_sentence(found)} The mean of what was clipped "
            "is not that of the readings."
        )
    h = row_of(found.names, row, release.categories)
    eta, own = float(h @ found.estimate), float(np.sqrt(h @ found.covariance @ h))
    if release.transform == "none":
        return _linear(found, h, eta, own, confidence)
    if found.likelihood is not None:
        return _by_likelihood(found, h, eta, confidence)
    unequal = release.column.level_column is not None
    if release.people is not None or release.weights is not None or unequal:
        return _by_residuals(found, h, eta, own, confidence)
    mean = _by_scatter(found, h, eta, own, confidence)
    if release.column.law == "gaussian" and "Huber" not in (found.method or ""):
        return mean
    return replace(mean, method=f"{MANY_ROWS}; exact only for Gaussian noise and least squares")


def _by_scatter(
    found: Estimate, h: Array, eta: float, own: float, confidence: float
) -> OriginalMean:
    """From least squares and what it leaves, by the formulas of Gaussian noise."""
    release = found.release
    inverse, scatter = _least_squares(release)
    if scatter is None:
        raise InvalidInput(
            "there are as many coefficients as rows: a mean on the original scale needs the "
            "scatter of the readings, and nothing is left to see it by."
        )
    leverage = float(h @ inverse @ h)
    facts = eta, leverage, scatter.total, scatter.freedom, scatter.added
    return lognormal_mean(*facts, error=own, confidence=confidence)


def _added(release: TableRelease) -> float:
    return release.column.added(simulated=release.simulated)


def _least_squares(release: TableRelease) -> tuple[Array, Scatter | None]:
    """(HᵀH)⁻¹ and what least squares leaves, by one pass over the rows."""
    n, rows = len(release.names), 0
    sums = RunningLeastSquares(n, rank_tolerance(n))
    for part in release.blocks():
        sums.add(tall_triangle(part.H, part.z[:, 0], 1.0, 1.0, 0.0, compiled=False))
        rows += len(part)
    left = rows - n
    return sums.inverse(), Scatter(sums.misfit, left, _added(release)) if left > 0 else None


def _linear(found: Estimate, h: Array, eta: float, own: float, confidence: float) -> OriginalMean:
    """Without a transform the mean is hᵀθ̂, and so is the median."""
    half = quantile(confidence, _freedom(found, h)) * own
    ends = np.array([eta - half, eta + half])
    return OriginalMean(
        mean=eta, interval=ends, median=eta, median_interval=ends, method="least squares"
    )


def _freedom(found: Estimate, h: Array) -> float | None:
    """Of hᵀθ̂: the least of those of the coefficients that take part."""
    freedom = found.degrees_of_freedom
    if freedom is None:
        return None
    return float(np.min(np.broadcast_to(as_array(freedom, "freedom"), h.shape)[h != 0]))


def _by_likelihood(found: Estimate, h: Array, eta: float, confidence: float) -> OriginalMean:
    """From θ̂ and σ̂² of the likelihood of clipped readings."""
    fit = found.likelihood
    assert fit is not None
    units = np.zeros((2, len(h) + 1))
    units[0, :-1], units[1, -1] = h, 1.0
    joint = fit.joint
    if joint is None:  # σ² was stated
        joint = np.zeros((len(h) + 1, len(h) + 1))
        joint[:-1, :-1] = fit.covariance
    variance = fit.noise_variance
    if variance is None:
        assert found.noise is not None
        variance = float(found.noise)
    return likelihood_mean(
        eta, variance, units @ joint @ units.T, freedom=_freedom(found, h), confidence=confidence
    )


def _by_residuals(
    found: Estimate, h: Array, eta: float, own: float, confidence: float
) -> OriginalMean:
    """With survey weights or persons: σ² of single readings by their squared residuals.

    Its error is that of a mean of rows, or of persons, whatever their law.
    """
    variance, error = _row_spread(found) if found.release.people is None else _person_spread(found)
    return likelihood_mean(
        eta, variance, np.diag([own**2, error]), freedom=_freedom(found, h), confidence=confidence
    )


def _row_spread(found: Estimate) -> tuple[float, float]:
    """σ̂² = Σw(e²K/(K − n) − 1/s)/Σw over rows, and the variance of it."""
    release, sums = found.release, np.zeros(5)
    rows = found.rows
    if release.column.level_column is not None:
        rows = sum(len(part) for part in release.shown_blocks())
    more = rows / max(rows - len(found.names), 1)
    for part in release.shown_blocks():
        w = np.ones(len(part)) if part.weights is None else part.weights
        added: float | Array = _added(release)
        if part.levels is not None:  # a square counts by how little noise is in it
            added = release.column.row_added(part.levels, simulated=release.simulated)
            w = 1 / np.square((found.noise_found or 0.0) + added)
        d = more * np.square(part.z[:, 0] - part.H @ found.estimate) - added
        sums += [w.sum(), w @ d, w @ w, (w * w) @ d, (w * w) @ (d * d)]
    return _ratio(sums)


def _person_spread(found: Estimate) -> tuple[float, float]:
    """The same over persons, from the sums of each: rows of a person are not independent."""
    from privest.workflow._route_people import persons_of  # which imports this

    more, sums = found.rows / max(found.rows - len(found.names), 1), np.zeros(5)
    turn = np.append(found.estimate, [-1.0, 0.0])
    for part, counts, noise in persons_of(found.release):
        d = more * (part @ turn @ turn) - counts * noise
        r = counts.astype(float)
        sums += [r.sum(), d.sum(), r @ r, r @ d, d @ d]
    return _ratio(sums)


def _ratio(sums: Array) -> tuple[float, float]:
    """σ̂² = Σd/Σr and Σ(d − rσ̂²)²/(Σr)² from Σr, Σd, Σr², Σrd, Σd²."""
    whole, total, squares, crossed, own = sums.tolist()
    found = total / whole
    return found, max(own - 2 * found * crossed + found**2 * squares, 0.0) / whole**2


def total_in_units(found: Estimate, confidence: float = CONFIDENCE) -> Total:
    """Σ x_k of the people of the release, in the units of the file (`total_of`).

    Readings that the range clipped count as what they were clipped to; survey weights count for
    nothing: it is the total of these rows, not of those that they stand for. One pass.
    """
    release = found.release
    if release.people is not None or len(release.columns) != 1 or release.family != "gaussian":
        raise InvalidInput(
            "a total is for tables with one private column and one row a person, whose readings "
            "are numbers: rows of one person share their noise."
        )
    if release.column.level_column is not None:
        raise InvalidInput(
            "a total needs every reading at one level: the rows of this release have levels of "
            "their own, and of some of them next to nothing is shown."
        )
    return total_of(
        (part.z[:, 0] for part in release.blocks()),
        _added(release),
        logarithm=release.transform == "log",
        law=release.column.law,
        confidence=confidence,
    )
