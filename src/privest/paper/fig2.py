"""The private RLS on real people against its bound (`fig:pprls-non-syms`).

S_k is uniform in [0.2, 2], U_k = 0.1 √S_k ξ_k: releases look back to all earlier readings. The mean
of ‖θ̂_k − θ_ref‖² over blocks and repetitions stands beside the mean of tr Σ_PPCR,k over blocks.

What a repetition repeats: in the paper the privacy noise only. The blocks are then 20 fixed draws
of the measurements and the reference one draw of the "truth", and the band around the bound has
to allow for both (`paper/_band.py`). `resplit` draws a new split, and so a new reference and
new blocks, for every repetition: the sharper comparison. Either way the expected value lies above
the bound by the error of the reference, tr Σ_ref. The third way is `synthetic`: the same rows,
θ_ref true, w drawn afresh: there the bound itself is the expected value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import privest as pv
from privest.arrays import Array
from privest.paper import _drawing as draw
from privest.paper._band import Moments, average_moments, mean_square_moments
from privest.paper._engine import Claim, Record, generator
from privest.paper._people import Plan, drawn_level
from privest.paper._streams import Streams, by_step, rounds, sampling_error

LABEL = "fig:pprls-non-syms"
SEED = 1
START = 10  # readings from which the claim is judged
FALSE_ALARM = 1e-3


@dataclass(frozen=True)
class Point(Record):
    """After k readings: the mean of ‖θ̂_k − θ_ref‖² and what it is compared with.

    series           "data" or "synthetic".
    bound            mean over blocks of tr Σ_PPCR,k.
    expected         what the mean should be: the bound, and for data the reference's own error.
    deviation        its standard deviation by chance, and skewness, from the model
                     (`paper/_band.py`).
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


def figure_two(
    table: pv.data.Table,
    plan: Plan,
    *,
    repetitions: int | None = None,
    seed: int = SEED,
    resplit: bool = False,
    series: Sequence[str] = ("data", "synthetic"),
) -> list[Point]:
    """Every series at every step from the first at which all blocks identify θ."""
    count = plan.repetitions if repetitions is None else repetitions
    runs = {"data": _on_data, "synthetic": _on_synthetic}
    if unknown := set(series) - set(runs):
        raise pv.errors.InvalidInput(
            f"series are {', '.join(runs)}; received {', '.join(sorted(unknown))}."
        )
    level = drawn_level(plan.length, generator("level", 0, seed))
    found = {name: _Collected() for name in series}
    for r, (streams, each) in enumerate(rounds(table, plan, level, count, seed, resplit)):
        for name, collected in found.items():
            if name == "data" or r == 0:  # synthetic: the rows of the first split
                own = each if name == "data" else count
                runs[name](collected, streams, own, generator(f"fig2 {name}", r, seed))
    return [point for name, one in found.items() for point in one.points(name, count)]


@dataclass(eq=False)
class _Collected:
    """What the splits of a series gave, one entry a split."""

    errors: list[Array] = field(default_factory=list)  # (repetitions, B, K)
    floors: list[Array] = field(default_factory=list)  # (B, K)
    chances: list[Moments] = field(default_factory=list)
    first: int = 0

    def add(self, streams: Streams, errors: Array, chance: Moments) -> None:
        self.errors.append(errors)
        self.floors.append(streams.floors)
        self.chances.append(chance)
        self.first = max(self.first, streams.first)

    def points(self, name: str, repetitions: int) -> list[Point]:
        errors, floors = np.stack(self.errors), np.stack(self.floors)
        # Splits are counted as independent draws; they share people, which leaves the mean as
        # it is.
        chance = average_moments(self.chances)
        found = {
            "mse": errors.mean(axis=(0, 1, 2)),
            "standard_error": sampling_error(errors, floors, fresh=name == "synthetic"),
            "bound": floors.mean(axis=(0, 1)),
            "expected": chance.mean,
            "deviation": chance.deviation,
            "skewness": chance.skewness,
        }
        same = {"repetitions": repetitions, "blocks": floors.shape[1]}
        return by_step(Point, self.first, found, series=name, **same)


def _on_data(found: _Collected, streams: Streams, count: int, rng: np.random.Generator) -> None:
    readings = streams.readings(count)
    errors = streams.squared_errors(readings, rng.standard_normal(readings.shape))
    measured, noise = streams.covariances("measured"), streams.covariances("noise")
    reference = streams.split.reference_covariance
    found.add(streams, errors, mean_square_moments(measured, noise, reference, count))


def _on_synthetic(
    found: _Collected, streams: Streams, count: int, rng: np.random.Generator
) -> None:
    """θ_ref true, fresh measurements in every repetition."""
    readings = streams.synthetic(count, rng)
    errors = streams.squared_errors(readings, rng.standard_normal(readings.shape))
    bound = streams.covariances("bound")
    nothing = np.zeros_like(streams.split.reference_covariance)
    chance = mean_square_moments(np.zeros_like(bound), bound, nothing, count)
    found.add(streams, errors, chance)


def claim_two(
    points: Sequence[Point],
    series: str = "data",
    *,
    false_alarm: float = FALSE_ALARM,
    start: int = START,
) -> Claim:
    """Does the error stay within its chance band at every k ≥ start?

    `false_alarm` is the chance, over all those steps (Bonferroni), that a method that attains the
    bound is said not to; steps are strongly correlated, so it is really smaller.
    """
    own = [p for p in points if p.series == series and p.k >= start]
    if not own:
        raise pv.errors.InvalidInput(f"there is no point of series {series!r} with k ≥ {start}.")
    mse, bound = draw.columns(own, "mse", "bound")
    chance = chance_of(own)
    low, high = chance.band(false_alarm / len(own))
    outside = (mse < low) | (mse > high)
    ratio = mse / bound
    where = {"data": "on the data", "synthetic": "on synthetic data of the same design"}[series]
    return Claim(
        label=LABEL,
        figure="fig2",
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


def claims(points: Sequence[Point]) -> list[Claim]:
    """The claim on the data, and on synthetic readings."""
    return [claim_two(points, "data"), claim_two(points, "synthetic")]


def chance_of(points: Sequence[Point]) -> Moments:
    """What the errors of these points may do by chance."""
    return Moments(*draw.columns(points, "expected", "deviation", "skewness"))


OUTSIDE = 0.05
STYLES = {"data": ("#1b9e77", "o"), "synthetic": ("#7570b3", "^")}


def labels(source: str) -> dict[str, str]:
    """What the series are called."""
    return {"data": source, "synthetic": "synthetic readings, same people"}


def save_figure(points: Sequence[Point], path: Path, source: str) -> None:
    """Write the figure: the error on a log scale, and its ratio to the bound with bands.

    A band is where the mean lies in 95 of 100 cases, at one k, if the bound is attained.
    """
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
                markevery=max(1, len(k) // 16), label=f"private RLS, {labels(source)[name]}",
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
    below.set_title("shaded: 95 % of chance if the bound is attained", loc="left", fontsize=9)
    below.legend(frameon=False, fontsize=9, loc="upper right")
    draw.save(figure, path)
