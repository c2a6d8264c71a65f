"""The private RLS against two other mechanisms at the same level (`fig:pprls-syms`).

S̄_k = I. Three pairs of mechanism and estimator, calibrated to I_z(y) ≤ s = 1:

- gaussian: y + N(0, 1/s), private RLS (`algo:PP_RLS`), which attains the bound;
- laplace: y + Laplace(1/√s), recursive least squares;
- binary: 1{y + N(0, 2/πs) ≤ C}, a quasi-Newton estimate (`_quasi_newton.py`). C is the mean
  response of the reference, where bits say most.

The paper does not say where the quasi-Newton estimate starts. Ours: from the threshold (intercept
C, slopes 0), P_0 = spread² I, in a ball; radius and spread are 2 standard deviations of one private
measurement, √(σ² + 1/s). A narrow spread is a prior and beats, early, the bound for *unbiased*
estimates; in a wide ball the estimate gets lost for 100 steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

import privest as pv
from privest.arrays import Array
from privest.data.frames import Table as People
from privest.estimator.likelihood import BinaryLikelihood
from privest.paper import _figure as draw
from privest.paper._engine import generator, seed_of
from privest.paper._fig2 import ratios
from privest.paper._figure import Claim, Figure
from privest.paper._people import START, Streams, by_step, people_of, sampling_error, split
from privest.paper._quasi_newton import QuasiNewton
from privest.records import Record

LABEL = "fig:pprls-syms"
OURS = "gaussian"
SERIES = {
    OURS: "Gaussian, private RLS (optimal)",
    "laplace": "Laplace, recursive least squares",
    "binary": "one bit, quasi-Newton",
}
STYLES = {"gaussian": ("#1b9e77", "o"), "laplace": ("#d95f02", "s"), "binary": ("#7570b3", "^")}
LEVEL = 1.0  # s
SPREAD = 2.0  # of the start of "binary", and its radius, in deviations of one private measurement


@dataclass(frozen=True)
class Point(Record):
    """After k measurements: the mean of ‖θ̂_k − θ_ref‖² of one pair.

    bound    mean over blocks of tr Σ_PPCR,k, the same for all three.
    theory   exact for gaussian (the bound) and laplace, for binary the limit for large k, the
             Cramér-Rao bound of its bits.
    over_ours, over_ours_error   mean error less that of `gaussian` on the same measurements, and
             its standard error over blocks.
    """

    series: str
    k: int
    mse: float
    standard_error: float
    bound: float
    theory: float
    over_ours: float
    over_ours_error: float
    repetitions: int
    blocks: int


def fig3(
    data: str | People = "diabetes",
    *,
    methods: Sequence[str] | None = None,
    trials: int | None = None,
    rng: int | np.random.Generator = 1,
    synthetic: bool = False,
) -> Figure[Point]:
    """`fig:pprls-syms`: the private RLS against Laplace noise and one bit, all at level 1.

    data, trials  as in `fig2`.
    methods       "laplace" and "binary", or one of them, beside "gaussian".
    synthetic     measurements of the same rows with θ_ref true and w drawn afresh.
    """
    names, seed = [OURS, *draw.chosen(methods, [m for m in SERIES if m != OURS])], seed_of(rng)
    table, plan = people_of(data, trials)
    count = plan.repetitions
    level = pv.StreamLevel.constant(LEVEL, steps=plan.length)
    streams = Streams.of(split(table, plan, generator("split", 0, seed)), level)
    pairs, y, bound = Pairs(streams), streams.measurements(count), streams.floors
    if synthetic:
        y = streams.synthetic(count, generator("fig3 readings", 0, seed))
    points: list[Point] = []
    errors = {name: pairs.errors(name, y, generator(f"fig3 {name}", 0, seed)) for name in names}
    for name, own in errors.items():
        over = own - errors[OURS]
        found = {
            "mse": own.mean(axis=(0, 1)),
            "standard_error": sampling_error(own, bound, fresh=synthetic),
            "bound": bound.mean(axis=0),
            "theory": pairs.theory(name).mean(axis=0),
            "over_ours": over.mean(axis=(0, 1)),
            "over_ours_error": sampling_error(over, bound, fresh=synthetic),
        }
        same = {"repetitions": count, "blocks": len(bound)}
        points += by_step(Point, streams.first, found, series=name, **same)
    drawn = partial(_draw, source=table.source)
    return Figure(LABEL, points, _claims, partial(ratios, labels=SERIES), drawn)


@dataclass(frozen=True, eq=False)
class Pairs:
    """The estimates of the three pairs from the measurements of one split."""

    streams: Streams
    s: float = LEVEL
    spread: float = SPREAD

    def errors(self, name: str, y: Array, rng: np.random.Generator) -> Array:
        """‖θ̂_k − θ_ref‖² after every step, (count, B, K); NaN before θ is identifiable."""
        own = self.streams.split
        if name == "binary":
            bits = self.quantiser.sample(y, rng).reshape(-1, y.shape[-1])
            rows = np.broadcast_to(own.rows, (len(y), *own.rows.shape))
            estimates = self.quasi_newton.follow(bits, rows.reshape(*bits.shape, -1))
            squares = ((estimates - own.theta) ** 2).sum(axis=-1)
            return np.asarray(squares.reshape(y.shape))
        if name == "laplace":
            # Equal noise at every step: unweighted least squares, the weights of z̃ = √s z.
            channel = pv.mechanism.Additive.calibrated(self.s, law=pv.noise.Laplace())
            return self.streams.squared_errors(y, math.sqrt(self.s) * (channel.sample(y, rng) - y))
        return self.streams.squared_errors(y, rng.standard_normal(y.shape))

    def theory(self, name: str) -> Array:
        """The expected value of the pair after every step, (B, K), with θ_ref for θ."""
        own = self.streams.split
        if name == OURS:
            return self.streams.floors
        if name == "laplace":  # cov = (σ² + 2/s)(HᵀH)⁻¹
            more = (own.variance + 2.0 / self.s) / (own.variance + 1.0 / self.s)
            return more * self.streams.floors
        weight = self.quasi_newton.information(own.rows @ own.theta)[..., None, None]
        terms = weight * own.rows[..., :, None] * own.rows[..., None, :]
        found, known = np.full(own.measurements.shape, np.nan), np.isfinite(self.streams.floors)
        covariances = np.linalg.inv(np.cumsum(terms, axis=1)[known])
        found[known] = np.trace(covariances, axis1=1, axis2=2)
        return found

    @cached_property
    def quantiser(self) -> pv.mechanism.BinaryQuantiser:
        """The bit at level s, its threshold in the middle of the reference."""
        law = pv.noise.Gaussian(cov=1.0)
        return pv.mechanism.BinaryQuantiser.calibrated(
            self.s, law=law, threshold=self.streams.split.centre
        )

    @cached_property
    def quasi_newton(self) -> QuasiNewton:
        """Its estimator, from a start that knows little."""
        bit, own = self.quantiser, self.streams.split
        likelihood = BinaryLikelihood(own.variance, law=bit.law, threshold=bit.threshold)
        centre = np.zeros(len(own.theta))
        centre[0] = bit.threshold
        unit = math.sqrt(own.variance + 1.0 / self.s)
        return QuasiNewton(likelihood, centre, radius=SPREAD * unit, spread=self.spread * unit)


def _claims(points: Sequence[Point]) -> list[Claim]:
    """Is our error below those of the rivals at every k ≥ 10?"""
    own = {p.k: p for p in points if p.series == OURS and p.k >= START}
    rivals = [p for p in points if p.series != OURS and p.k >= START]
    numbers: dict[str, float | int | str] = {"steps": len(own)}
    ratio_of = {(p.series, p.k): p.mse / own[p.k].mse for p in rivals}
    for name, some in draw.curves(rivals, SERIES, by="series", along="k"):
        ratio = [ratio_of[name, p.k] for p in some]
        numbers |= {f"least {name}/ours": min(ratio), f"last {name}/ours": ratio[-1]}
    numbers["least lead in standard errors"] = min(p.over_ours / p.over_ours_error for p in rivals)
    one = own[min(own)]
    numbers |= {"repetitions": one.repetitions, "blocks": one.blocks}
    sentence = f"The private RLS has a smaller error than its rivals at every k ≥ {min(own)}."
    return [Claim(LABEL, sentence, min(ratio_of.values()) > 1.0, numbers)]


def _draw(points: Sequence[Point], source: str) -> draw.Picture:
    figure = draw.new_figure(8.6, 7.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for name, own in draw.curves(points, SERIES, by="series", along="k"):
        colour, mark = STYLES[name]
        k, mse, error, bound, theory = draw.columns(
            own, "k", "mse", "standard_error", "bound", "theory"
        )
        for axes, unit in ((above, np.ones_like(bound)), (below, bound)):
            draw.mean(
                axes, k, mse, error, unit=unit, colour=colour, lw=1.3, marker=mark,
                ms=4.5, markevery=max(1, len(k) // 16), label=SERIES[name],
            )  # fmt: skip
        if name != OURS:
            below.plot(k, theory / bound, color=colour, lw=1.2, ls=":")
    draw.floor(above, points, "k", "private bound, for unbiased estimates")
    draw.steps_and_ratios(above, below)
    one = points[0]
    above.set_title(
        f"Mechanisms at the same privacy level\n{source}: {one.blocks} streams, "
        f"{one.repetitions} repetitions, 95% bands",
        loc="left",
    )
    below.set_yscale("log")
    ticks = [1, 1.5, 2, 3, 5, 10]
    below.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    below.set_yticks([], minor=True)
    title = "dotted: theory of each (one bit: for many measurements)"
    below.set_title(title, loc="left", fontsize=9)
    return figure
