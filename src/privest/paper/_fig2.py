"""The private RLS on real people against its bound (`fig:pprls-non-syms`).

S_k is uniform in [0.2, 2], U_k = 0.1 √S_k ξ_k. As in the paper a repetition repeats the privacy
noise only: the blocks are fixed draws of the measurements, and the expected error lies above the
bound by that of the reference, tr Σ_ref. "synthetic" has the same rows, θ_ref true and w drawn
afresh: there the bound itself is the expected value.

**The band.** B blocks, R repetitions each, θ̂ − θ_ref = a_b + d_br − c: a_b from the measurements
of the block, d_br from the privacy noise, c the error of the reference. With x̄_b the mean over the
repetitions of a block, the mean of all ‖θ̂ − θ_ref‖² is a sum of squares of normal numbers,

    M = (1/B) Σ_b [ ‖x̄_b − c‖² + (1/R) Σ_r ‖d_br − d̄_b‖² ] ,

with cumulants κ_s = 2^{s−1}(s − 1)! [tr Q^s + (R − 1) Σ_b tr(Σ_d/BR)^s], Q the covariance of all
(x̄_b − c)/√B: blocks (Σ_a + Σ_d/R)/B on the diagonal, plus Σ_c/B everywhere. A block whose first
rows are nearly dependent can rule M: the band uses three cumulants.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import Array
from privest.data.frames import Table as People
from privest.paper import _figure as draw
from privest.paper._engine import generator, seed_of
from privest.paper._figure import Claim, Figure, Table
from privest.paper._people import (
    START,
    Streams,
    by_step,
    drawn_level,
    people_of,
    sampling_error,
    split,
)
from privest.records import Record

LABEL = "fig:pprls-non-syms"
FALSE_ALARM = 1e-3  # chance, over all steps, that a method that attains the bound is said not to
OUTSIDE = 0.05  # of the drawn band
STYLES = {"data": ("#1b9e77", "o"), "synthetic": ("#7570b3", "^")}


@dataclass(frozen=True)
class Point(Record):
    """After k measurements: the mean of ‖θ̂_k − θ_ref‖² and what it is compared with.

    series           "data" or "synthetic".
    bound            mean over blocks of tr Σ_PPCR,k.
    expected         the bound, and for data the reference's own error.
    deviation        its standard deviation by chance, and skewness, from the model.
    standard_error   the same from the spread of the blocks or repetitions, given the reference.
    """

    series: str
    k: int
    mse: float
    standard_error: float
    bound: float
    expected: float
    deviation: float
    skewness: float
    repetitions: int
    blocks: int


def fig2(
    data: str | People = "diabetes",
    *,
    methods: Sequence[str] | None = None,
    trials: int | None = None,
    rng: int | np.random.Generator = 1,
) -> Figure[Point]:
    """`fig:pprls-non-syms`: the private RLS (`algo:PP_RLS`) on streams of people, and its bound.

    data     "diabetes", "nhanes" (the paper's, downloaded), or a table (`pv.data.load_nhanes`).
    methods  "data" and "synthetic", or one of them.
    trials   repetitions of every block: nhanes 20, as in the paper; diabetes 100.
    """
    names, seed = draw.chosen(methods, STYLES), seed_of(rng)
    table, plan = people_of(data, trials)
    level = drawn_level(plan.length, generator("level", 0, seed))
    streams = Streams.of(split(table, plan, generator("split", 0, seed)), level)
    points: list[Point] = []
    for name in names:
        own = generator(f"fig2 {name}", 0, seed)
        points += _points(name, streams, plan.repetitions, own)
    labels = {"data": table.source, "synthetic": "synthetic measurements, same people"}
    drawn = partial(_draw, source=table.source, labels=labels)
    return Figure(LABEL, points, _claims, partial(ratios, labels=labels), drawn)


def _points(name: str, streams: Streams, count: int, rng: np.random.Generator) -> list[Point]:
    """Real measurements with fresh privacy noise; or fresh measurements with θ_ref true."""
    real = name == "data"
    y = streams.measurements(count) if real else streams.synthetic(count, rng)
    errors = streams.squared_errors(y, rng.standard_normal(y.shape))
    reference, bound = streams.split.reference_covariance, streams.bound
    parts = (np.zeros_like(bound), bound, np.zeros_like(reference))
    if real:
        parts = streams.measured, streams.noise, reference
    chance = mean_square_moments(*parts, count)
    found = {
        "mse": errors.mean(axis=(0, 1)),
        "standard_error": sampling_error(errors, streams.floors, fresh=not real),
        "bound": streams.floors.mean(axis=0),
        "expected": chance.mean,
        "deviation": chance.deviation,
        "skewness": chance.skewness,
    }
    same = {"repetitions": count, "blocks": len(streams.floors)}
    return by_step(Point, streams.first, found, series=name, **same)


class Moments(NamedTuple):
    """Mean, standard deviation and skewness of M, at every step, (K,)."""

    mean: Array
    deviation: Array
    skewness: Array

    def band(self, outside: float) -> tuple[Array, Array]:
        """The interval that M leaves with probability `outside`, or less, half on each side.

        Above: a shifted multiple of χ² with these three moments (Pearson 1959, Imhof 1961). Below,
        where that distribution ends too early when one square rules the sum: it or χ² with two
        moments, whichever reaches lower.
        """
        freedom = 8.0 / self.skewness**2
        unit = self.deviation / np.sqrt(2.0 * freedom)
        low = self.mean + unit * (scipy.stats.chi2.ppf(outside / 2.0, freedom) - freedom)
        high = self.mean + unit * (scipy.stats.chi2.isf(outside / 2.0, freedom) - freedom)
        plain = 2.0 * (self.mean / self.deviation) ** 2
        other = self.mean / plain * scipy.stats.chi2.ppf(outside / 2.0, plain)
        return np.minimum(low, other), np.asarray(high)


def mean_square_moments(shared: Array, fresh: Array, reference: Array, repetitions: int) -> Moments:
    """The moments of M: Σ_a and Σ_d are (B, K, n, n), Σ_c (n, n). Exact for normal errors."""
    blocks = len(shared)
    own = (shared + fresh / repetitions) / blocks
    noise, rest = fresh / (blocks * repetitions), repetitions - 1
    common = np.broadcast_to(reference / blocks, own.shape[1:])  # Σ_c/B, in all B² places
    first = _trace(own).sum(0) + rest * _trace(noise).sum(0) + blocks * _trace(common)
    own2, common2 = own @ own, common @ common
    second = _trace(own2).sum(0) + rest * _trace(noise @ noise).sum(0)
    second = second + 2.0 * _trace(own @ common).sum(0) + blocks**2 * _trace(common2)
    third = _trace(own2 @ own).sum(0) + rest * _trace(noise @ noise @ noise).sum(0)
    third = third + 3.0 * _trace(own2 @ common).sum(0) + 3.0 * blocks * _trace(own @ common2).sum(0)
    third = third + blocks**3 * _trace(common2 @ common)
    deviation = np.sqrt(2.0 * second)
    return Moments(first, deviation, 8.0 * third / deviation**3)


def _trace(matrices: Array) -> Array:
    return np.asarray(np.trace(matrices, axis1=-2, axis2=-1))


# --- claim, table, picture ------------------------------------------------------------------------


def _claims(points: Sequence[Point]) -> list[Claim]:
    names = dict.fromkeys(p.series for p in points)
    return [_claim([p for p in points if p.series == name and p.k >= START]) for name in names]


def _claim(own: Sequence[Point]) -> Claim:
    mse, bound = draw.columns(own, "mse", "bound")
    chance = chance_of(own)
    low, high = chance.band(FALSE_ALARM / len(own))
    outside = (mse < low) | (mse > high)
    ratio = mse / bound
    real = own[0].series == "data"
    where = "on the data" if real else "on synthetic data of the same design"
    return Claim(
        label=LABEL,
        claim=f"The private RLS matches the private bound for k ≥ {own[0].k}, {where}.",
        holds=not outside.any(),
        numbers={
            "steps": len(own),
            "outside the chance band": int(outside.sum()),
            "largest deviation": float(np.max(np.abs(mse - chance.mean) / chance.deviation)),
            "least MSE/bound": float(ratio.min()),
            "mean MSE/bound": float(ratio.mean()),
            "largest MSE/bound": float(ratio.max()),
            "mean expected/bound": float((chance.mean / bound).mean()),
            "repetitions": own[0].repetitions,
            "blocks": own[0].blocks,
        },
    )


def chance_of(points: Sequence[Point]) -> Moments:
    return Moments(*draw.columns(points, "expected", "deviation", "skewness"))


def ratios(points: Sequence[Record], labels: dict[str, str]) -> Table:
    """Errors of each series over the bound: at k = 10 or a little later, in the middle, at last."""
    by = {(p.series, p.k): p for p in points}  # type: ignore[attr-defined]
    steps = sorted({k for _, k in by if k >= START})
    shown = sorted({steps[0], steps[len(steps) // 2], steps[-1]})
    rows = {
        label: [f"{by[name, k].mse / by[name, k].bound:.3f}" for k in shown]  # type: ignore[attr-defined]
        for name, label in labels.items()
        if (name, shown[0]) in by
    }
    first = next(iter(by))[0]
    rows["the private bound itself"] = [f"{by[first, k].bound:.3g}" for k in shown]  # type: ignore[attr-defined]
    title = "Mean-square error as a multiple of the private bound"
    return Table(title, [f"k = {k}" for k in shown], rows)


def _draw(points: Sequence[Point], source: str, labels: dict[str, str]) -> draw.Picture:
    figure = draw.new_figure(8.6, 7.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for name, own in draw.curves(points, STYLES, by="series", along="k"):
        colour, mark = STYLES[name]
        k, mse, bound, expected = draw.columns(own, "k", "mse", "bound", "expected")
        low, high = chance_of(own).band(OUTSIDE)
        below.fill_between(k, low / bound, high / bound, color=colour, alpha=0.18, lw=0)
        for axes, values in ((above, mse), (below, mse / bound)):
            axes.plot(
                k, values, color=colour, lw=1.3, marker=mark, ms=4.5,
                markevery=max(1, len(k) // 16), label=f"private RLS, {labels[name]}",
            )  # fmt: skip
        if name == "data":
            reference = "bound + error of the reference estimate"
            below.plot(k, expected / bound, color=colour, lw=1.2, ls=":", label=reference)
    draw.floor(above, points, "k", "private bound tr Σ_PPCR")
    draw.steps_and_ratios(above, below)
    one = points[0]
    above.set_title(
        f"Private recursive least squares against its bound\n{source}: {one.blocks} streams, "
        f"{one.repetitions} repetitions",
        loc="left",
    )
    below.set_title("shaded: 95% of chance if the bound is attained", loc="left", fontsize=9)
    below.legend(frameon=False, fontsize=9, loc="upper right")
    return figure
