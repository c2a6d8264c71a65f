"""`privest reproduce fig1` and `fig4`: many trials of simulated readings."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from privest.arrays import Array
from privest.paper import _drawing as draw
from privest.paper import fig1, fig4
from privest.paper._engine import Running
from privest.paper._first import paper_levels
from privest.paper.commands import options
from privest.report import printable
from privest.report.figures import require_files

QUICK_LEVELS = np.array([0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0])
QUICK_COUNTS = [10, 100, 1000]
QUICK_TRIALS = {"fig1": 200, "fig4": 300}


Device = StrEnum("Device", ["cpu", "gpu"])
Noise = StrEnum("Noise", ["laplace", "cauchy", "student-t", "logistic", "skewed"])


def first_figure(
    quick: Annotated[
        bool, typer.Option("--quick", help="8 levels and 200 trials, in about ten seconds.")
    ] = False,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Curves, separated by commas: {', '.join(fig1.METHODS)} (all but the last are "
            "the paper's, and drawn if nothing is said); any channel of the catalogue, also with "
            "-output or -least-squares behind it; your own as FILE.py:NAME, a function of "
            "(model, s) that returns a mechanism and an estimator.",
            metavar="NAME,…",
        ),
    ] = None,
    h: Annotated[
        str | None,
        typer.Option("--h", help="H as a CSV file; the paper's, if not given.", metavar="FILE"),
    ] = None,
    theta: Annotated[
        str | None,
        typer.Option(
            help="The true θ, one number for each column of H: 0.63,0.81,… or a CSV file.",
            metavar="NUMBERS|FILE",
        ),
    ] = None,
    sigma: Annotated[
        float, typer.Option(help="Standard deviation of the measurement noise.")
    ] = fig1.DEVIATION,
    levels: Annotated[
        str | None,
        typer.Option(
            help="Levels s: 0.1,1,10 or FIRST:LAST:STEP (0.1:10:0.1, the paper's).",
            metavar="NUMBERS",
        ),
    ] = None,
    data: options.Json = None,
    png: options.Png = None,
    trials: Annotated[
        int | None, typer.Option(help="Trials a point (2000, as in the paper).", min=2)
    ] = None,
    seed: options.Seed = fig1.SEED,
    workers: options.Workers = 2,
    scheduler: options.Scheduler = None,
    device: Annotated[
        Device,
        typer.Option(
            help="gpu: readings, releases and estimates are made on a graphics processor (extra "
            "gpu), 10⁶ trials a point; other random numbers than the processor's, and always the "
            "same for one seed. One process does the work, whatever --workers says."
        ),
    ] = Device.cpu,
) -> None:
    """Mechanisms and their estimators against the private bound (`fig:ppcr`).

    The paper's: θ has five entries, H is drawn from [−1, 1]^{10×5}, w ~ N(0, 0.2² I), S = sI with
    s = 0.1, 0.2, …, 10, seven mechanisms calibrated to the same level; only the Gaussian one
    attains the bound. Or with your own H, θ, σ, levels, mechanisms and estimators.
    """
    require_files(data, png)
    setting = options.setting(h, theta, sigma)
    chosen = options.names(methods) or list(fig1.PAPER)
    wanted = options.levels(levels) if levels is not None else _levels(quick)
    there = device is Device.gpu
    usual = fig1.DEVICE_TRIALS if there else fig1.TRIALS
    with options.running(1 if there else workers, scheduler) as running:
        points = fig1.figure_one(
            wanted,
            device=device.value,
            trials=trials or (QUICK_TRIALS["fig1"] if quick else usual),
            seed=seed,
            methods=chosen,
            setting=setting,
            **running,
        )
    _print_levels(Console(highlight=False), points, setting)
    options.write_points(data, points)
    options.write_figure(png, lambda path: fig1.save_figure(points, path))


def _levels(quick: bool) -> Array:
    return QUICK_LEVELS if quick else paper_levels()


def run_first(quick: bool, running: Running) -> list[fig1.Point]:
    """The paper's experiment, whole or in short."""
    count = QUICK_TRIALS["fig1"] if quick else fig1.TRIALS
    return fig1.figure_one(_levels(quick), trials=count, **running)


def _print_levels(console: Console, points: Sequence[fig1.Point], setting: fig1.Setting) -> None:
    """A table at the first, the middle and the last level, and what holds at all of them."""
    levels: Array = np.array(sorted({p.s for p in points}))
    wanted = np.geomspace(levels[0], levels[-1], 3)
    shown = sorted({float(levels[np.abs(levels - s).argmin()]) for s in wanted})
    table = options.grid(
        "Mean-square error (median)", "mechanism and estimator", [f"s = {s:g}" for s in shown]
    )
    by = {(p.mechanism, p.s): p for p in points}
    for name in dict.fromkeys(p.mechanism for p in points):
        cells = [by[name, s] for s in shown]
        label = Text(printable(cells[0].label))
        table.add_row(label, *(f"{p.mse:.3g} ({p.median:.2g})" for p in cells))
    table.add_section()
    bounds = {p.s: p.bound for p in points}
    table.add_row("private bound", *(f"{bounds[s]:.3g}" for s in shown))
    console.print(table)
    console.print(Text(str(fig1.attains(points, fig1.FALSE_ALARM, setting))))


def fourth_figure(
    noise: Annotated[
        Noise, typer.Option(help="Law of the measurement noise; the paper's is laplace.")
    ] = Noise.laplace,
    quick: Annotated[
        bool, typer.Option("--quick", help="Three K and 300 trials, in a few seconds.")
    ] = False,
    data: options.Json = None,
    png: options.Png = None,
    trials: Annotated[int | None, typer.Option(help="Trials a point (5000).", min=2)] = None,
    seed: options.Seed = fig4.SEED,
    workers: options.Workers = 2,
    scheduler: options.Scheduler = None,
) -> None:
    """A private mean under non-Gaussian noise: estimate, then release (`fig:ml`).

    y = θ + w with θ = 0.53 and Laplacian w of variance 1, budget tr I_z(Y) = K, K from 10 to 10⁴.
    The paper's maximum likelihood (smoothed where its noise formula does not exist), the optimal
    private score, and averaging with Gaussian and Laplacian noise, next to the private bound.
    """
    require_files(data, png)
    with options.running(workers, scheduler) as running:
        points = run_fourth(quick, running, noise=noise.value, trials=trials, seed=seed)
    _print_counts(Console(highlight=False), points)
    options.write_points(data, points)
    options.write_figure(png, lambda path: fig4.save_figure(points, path))


def run_fourth(
    quick: bool,
    running: Running,
    *,
    noise: str = "laplace",
    trials: int | None = None,
    seed: int = fig4.SEED,
) -> list[fig4.Point]:
    """The experiment, whole or in short."""
    count = trials or (QUICK_TRIALS["fig4"] if quick else fig4.TRIALS)
    counts = QUICK_COUNTS if quick else fig4.counts()
    return fig4.figure_four(noise, counts, trials=count, seed=seed, **running)


def _print_counts(console: Console, points: Sequence[fig4.Point]) -> None:
    """A table at a few K, what was smoothed or left out, and what holds."""
    counts = sorted({p.count for p in points})
    wanted = [counts[0], counts[len(counts) // 2], counts[-1]]
    shown = [p for k in wanted for p in points if p.count == k]
    own = [p for p in shown if p.method == "optimal"]
    table = options.grid(
        "Mean-square error as a multiple of the private bound",
        "method",
        [f"K = {p.count:,}" for p in own],
    )
    for name, some in draw.curves(shown, fig4.LABELS, by="method", along="count"):
        table.add_row(fig4.LABELS[name], *(f"{p.mse / p.bound:.3f}" for p in some))
    table.add_section()
    bound, floor = draw.columns(own, "bound", "floor")
    floors = map("{:.3f}".format, floor / bound)
    table.add_row("floor of estimates with added noise", *floors)
    table.add_row("the private bound itself", *map("{:.3g}".format, bound))
    console.print(table)
    for line in [*_remarks(shown, own), *map(str, fig4.claims(points))]:
        console.print(Text(line))


def _remarks(shown: Sequence[fig4.Point], own: Sequence[fig4.Point]) -> list[str]:
    """What has to be known to read the table."""
    lines = []
    widths = [f"{p.bandwidth:.3g} (K = {p.count:,})" for p in shown if p.bandwidth is not None]
    if widths:
        lines.append(
            "E l''² is infinite for this law: the paper's release noise does not exist. Its "
            f"likelihood was smoothed by a Gaussian of standard deviation {', '.join(widths)}."
        )
    if not any(p.method.startswith("averaging") for p in shown):
        lines.append("This law has no mean: averages estimate nothing and are left out.")
    medians = ", ".join(f"{p.realised_median:.3f} (K = {p.count:,})" for p in own)
    lines.append(
        f"The budget is met in the limit: median of tr I/s over data sets {medians}; about half "
        "of all data sets lie above 1."
    )
    return lines
