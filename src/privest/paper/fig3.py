"""The private RLS against two other mechanisms at the same level (`fig:pprls-syms`).

S̄_k = sI, s = 1: every person shows the same, nothing looks back. Three pairs of mechanism and
estimator, all calibrated to I_z(y) ≤ s:

- gaussian: y + N(0, 1/s), private RLS (`algo:PP_RLS`), which attains the bound;
- laplace: y + Laplace(1/√s), recursive least squares;
- binary: 1{y + N(0, 2/πs) ≤ C}, a quasi-Newton estimate that is efficient in the limit: our own
  recursion of the cited type (`paper/_quantised.py` says why). C is the mean response of the
  reference, where bits say most.

The quasi-Newton estimate needs a start, of which the paper says nothing. Ours knows little, as the
two others know nothing: from the threshold (intercept C, slopes 0), P_0 = spread² I, in a ball; its
radius and the spread are 2 standard deviations of one private reading, √(σ² + 1/s): the start is
worth a quarter of a reading in each direction. It matters: with a narrow spread it is a prior and
beats, early, the bound for *unbiased* estimates; in a wide ball it gets lost for 100 steps. The
ball is a prior as well where the first rows of a block hardly identify θ, or with raw features,
whose coefficients have very different sizes: the claim is about standard units and no prior.
Blocks, splits and repetitions as in `fig2`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

import privest as pv
from privest.arrays import Array, as_positive
from privest.estimator.likelihood import BinaryLikelihood
from privest.paper import _drawing as draw
from privest.paper._engine import Claim, Record, generator
from privest.paper._people import Plan
from privest.paper._quantised import QuasiNewton
from privest.paper._streams import Streams, by_step, rounds, sampling_error
from privest.paper.fig2 import SEED, START

LABEL = "fig:pprls-syms"
OURS = "gaussian"
SERIES = {
    OURS: "Gaussian, private RLS (optimal)",
    "laplace": "Laplace, recursive least squares",
    "binary": "one bit, quasi-Newton",
}
RIVALS = [name for name in SERIES if name != OURS]
RADIUS = SPREAD = 2.0  # in standard deviations of one private reading


@dataclass(frozen=True)
class Point(Record):
    """After k readings: the mean of ‖θ̂_k − θ_ref‖² of one pair.

    bound    mean over blocks of tr Σ_PPCR,k, the same for all three.
    theory   what the pair should have: exact for gaussian (the bound) and laplace, for binary the
             limit for large k, the Cramér-Rao bound of its bits. The reference's error comes on
             top.
    over_ours, over_ours_error   mean of its error less that of `gaussian` on the same readings,
             and its standard error over blocks (with `resplit`: over splits).
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


def figure_three(
    table: pv.data.Table,
    plan: Plan,
    *,
    repetitions: int | None = None,
    seed: int = SEED,
    resplit: bool = False,
    synthetic: bool = False,
    s: float = 1.0,
    radius: float = RADIUS,
    spread: float = SPREAD,
) -> list[Point]:
    """The three pairs at every step from the first at which all blocks identify θ.

    `synthetic`: the same rows, θ_ref true, w drawn afresh in every repetition.
    """
    count = plan.repetitions if repetitions is None else repetitions
    level = as_positive(s, "s")
    found = {name: _Collected() for name in SERIES}
    first = 0
    floors: list[Array] = []
    stream_level = pv.StreamLevel.constant(level, plan.length)
    for r, (streams, each) in enumerate(rounds(table, plan, stream_level, count, seed, resplit)):
        pairs = Pairs(streams, level, radius, spread)
        readings = (
            streams.synthetic(each, generator("fig3 readings", r, seed))
            if synthetic
            else streams.readings(each)
        )
        for name, collected in found.items():
            errors = pairs.errors(name, readings, generator(f"fig3 {name}", r, seed))
            collected.errors.append(errors)
            collected.theory.append(pairs.theory(name))
        first = max(first, streams.first)
        floors.append(streams.floors)
    bound, ours = np.stack(floors), np.stack(found[OURS].errors)
    return [
        point
        for name, collected in found.items()
        for point in collected.points(name, ours, bound, first, count, synthetic)
    ]


@dataclass(frozen=True, eq=False)
class Pairs:
    """What the three pairs make of the readings of one split."""

    streams: Streams
    s: float
    radius: float
    spread: float

    def errors(self, name: str, readings: Array, rng: np.random.Generator) -> Array:
        """‖θ̂_k − θ_ref‖² after every step, (count, B, K); NaN before θ is identifiable."""
        own = self.streams.split
        if name == "binary":
            bits = self.quantiser.sample(readings, rng).reshape(-1, own.length)
            rows = np.broadcast_to(own.rows, (len(readings), *own.rows.shape))
            estimates = self.quasi_newton.follow(bits, rows.reshape(*bits.shape, -1))
            squares = ((estimates - own.theta) ** 2).sum(axis=-1)
            return np.asarray(squares.reshape(readings.shape))
        if name == "laplace":
            # Equal noise at every step: unweighted least squares, the weights of z̃ = √s z.
            shown = pv.mechanism.Additive.calibrated(self.s, law=pv.noise.Laplace()).sample(
                readings, rng
            )
            return self.streams.squared_errors(readings, math.sqrt(self.s) * (shown - readings))
        return self.streams.squared_errors(readings, rng.standard_normal(readings.shape))

    def theory(self, name: str) -> Array:
        """What the pair should have after every step, (B, K), with θ_ref for θ."""
        own = self.streams.split
        if name == OURS:
            return self.streams.floors
        if name == "laplace":  # cov = (σ² + 2/s)(HᵀH)⁻¹
            more = (own.variance + 2.0 / self.s) / (own.variance + 1.0 / self.s)
            return more * self.streams.floors
        found = np.full(own.readings.shape, np.nan)
        for b, (rows, path) in enumerate(zip(own.rows, self.streams.paths)):
            weight = self.quasi_newton.information(rows @ own.theta)
            terms = weight[:, None, None] * rows[:, :, None] * rows[:, None, :]
            covariances = np.linalg.inv(np.cumsum(terms, axis=0)[path.first :])
            found[b, path.first :] = np.trace(covariances, axis1=1, axis2=2)
        return found

    @cached_property
    def quantiser(self) -> pv.mechanism.BinaryQuantiser:
        """The bit at level s, its threshold in the middle of the reference."""
        law = pv.noise.GaussianLaw(variance=1.0)
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
        return QuasiNewton(
            likelihood,
            len(centre),
            centre=centre,
            radius=self.radius * unit,
            spread=self.spread * unit,
        )


@dataclass(eq=False)
class _Collected:
    """What the splits gave for one pair, one entry a split."""

    errors: list[Array] = field(default_factory=list)  # (repetitions, B, K)
    theory: list[Array] = field(default_factory=list)  # (B, K)

    def points(
        self, name: str, ours: Array, floors: Array, first: int, count: int, fresh: bool
    ) -> list[Point]:
        own = np.stack(self.errors)
        more = own - ours
        found = {
            "mse": own.mean(axis=(0, 1, 2)),
            "standard_error": sampling_error(own, floors, fresh=fresh),
            "bound": floors.mean(axis=(0, 1)),
            "theory": np.stack(self.theory).mean(axis=(0, 1)),
            "over_ours": more.mean(axis=(0, 1, 2)),
            "over_ours_error": sampling_error(more, floors, fresh=fresh),
        }
        blocks = floors.shape[1]
        return by_step(Point, first, found, series=name, repetitions=count, blocks=blocks)


def claim_three(points: Sequence[Point], *, start: int = START) -> Claim:
    """Is our error below those of both rivals at every k ≥ start?"""
    judged = [p for p in points if p.k >= start]
    own = {p.k: p for p in judged if p.series == OURS}
    rivals = [p for p in judged if p.series != OURS]
    if not own or not rivals:
        raise pv.errors.InvalidInput(f"there are no points of all pairs with k ≥ {start}.")
    numbers: dict[str, float | int | str] = {"steps": len(own)}
    ratios: list[float] = []
    for name, some in draw.curves(rivals, RIVALS, by="series", along="k"):
        ratio = [p.mse / own[p.k].mse for p in some]
        ratios += ratio
        numbers |= {f"least {name}/ours": min(ratio), f"last {name}/ours": ratio[-1]}
    numbers["least lead in standard errors"] = min(p.over_ours / p.over_ours_error for p in rivals)
    one = own[min(own)]
    numbers |= {"repetitions": one.repetitions, "blocks": one.blocks}
    return Claim(
        label=LABEL,
        figure="fig3",
        claim=f"The private RLS has a smaller error than both rivals at every k ≥ {min(own)}.",
        holds=min(ratios) > 1.0,
        numbers=numbers,
    )


def claims(points: Sequence[Point]) -> list[Claim]:
    """What the paper says of the figure."""
    return [claim_three(points)]


STYLES = {"gaussian": ("#1b9e77", "o"), "laplace": ("#d95f02", "s"), "binary": ("#7570b3", "^")}


def save_figure(points: Sequence[Point], path: Path, source: str) -> None:
    """Write the figure: three pairs on a log scale with 95 % bands, and their ratios."""
    figure = draw.new_figure(8.6, 7.4)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for name, own in draw.curves(points, SERIES, by="series", along="k"):
        colour, mark = STYLES[name]
        k, mse, error, bound, theory = draw.columns(
            own, "k", "mse", "standard_error", "bound", "theory"
        )
        for axes, unit in ((above, np.ones_like(bound)), (below, bound)):
            draw.mean(
                axes, k, mse, error, unit=unit, colour=colour, shade=0.18, lw=1.3, marker=mark,
                ms=4.5, markevery=max(1, len(k) // 16), label=SERIES[name],
            )  # fmt: skip
        if name != OURS:
            below.plot(k, theory / bound, color=colour, lw=1.2, ls=":")
    draw.floor(above, points, "k", "private bound, for unbiased estimates")
    draw.steps_and_ratios(above, below)
    one = points[0]
    above.set_title(
        f"Three mechanisms at the same privacy level\n{source}: {one.blocks} streams, "
        f"{one.repetitions} repetitions, 95 % bands",
        loc="left",
    )
    below.set_yscale("log")
    ticks = [1, 1.5, 2, 3, 5, 10]
    below.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    below.set_yticks([], minor=True)
    below.set_title("dotted: theory of each (one bit: for many readings)", loc="left", fontsize=9)
    draw.save(figure, path)
