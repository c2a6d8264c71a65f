"""`privest reproduce fig4`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from privest.paper import _fig4 as fig4
from privest.paper._commands import common
from privest.paper._likelihood_figure import save_likelihood
from privest.report import require_files

QUICK_TRIALS = 300
QUICK_COUNTS = [10, 100, 1000]


class Noise(StrEnum):
    """The laws of the measurement noise."""

    laplace = "laplace"
    cauchy = "cauchy"
    student_t = "student-t"
    logistic = "logistic"
    skewed = "skewed"


def fourth_figure(
    noise: Annotated[
        Noise, typer.Option(help="Law of the measurement noise; the paper's is laplace.")
    ] = Noise.laplace,
    quick: Annotated[
        bool, typer.Option("--quick", help="Three K and 300 trials, in a few seconds.")
    ] = False,
    data: common.Json = None,
    png: common.Png = None,
    trials: Annotated[int | None, typer.Option(help="Trials a point (5000).", min=2)] = None,
    seed: common.Seed = fig4.SEED,
    workers: common.Workers = 2,
    scheduler: common.Scheduler = None,
    resume: common.Resume = None,
) -> None:
    """A private mean under non-Gaussian noise: estimate, then release (`fig:ml`).

    y = θ + w with θ = 0.53 and Laplacian w of variance 1, budget tr I_z(Y) = K, K from 10 to 10⁴.
    The paper's maximum likelihood (smoothed where its noise formula does not exist), the optimal
    private score, and averaging with Gaussian and Laplacian noise, next to the private bound.
    """
    require_files(data, png)
    counts = QUICK_COUNTS if quick else fig4.counts()
    with common.executor_of(scheduler) as executor, common.progress_bar(kept=resume) as progress:
        points = fig4.figure_four(
            noise.value,
            counts,
            trials=trials or (QUICK_TRIALS if quick else fig4.TRIALS),
            seed=seed,
            workers=workers,
            executor=executor,
            resume=resume,
            progress=progress,
        )
    _print(Console(highlight=False), points)
    common.write_points(data, fig4.as_records(points))
    common.write_figure(png, lambda path: save_likelihood(points, path))


def _print(console: Console, points: list[fig4.Point]) -> None:
    counts = sorted({p.count for p in points})
    shown = [counts[0], counts[len(counts) // 2], counts[-1]]
    by = {(p.method, p.count): p for p in points}
    table = Table(
        title="Mean-square error as a multiple of the private bound", title_justify="left"
    )
    table.add_column("method", overflow="fold", min_width=24)
    for k in shown:
        table.add_column(f"K = {k:,}", justify="right", no_wrap=True)
    for name, label in fig4.LABELS.items():
        if (name, shown[0]) not in by:
            continue
        cells = [by[name, k] for k in shown]
        table.add_row(label, *(f"{p.mse / p.bound:.3f}" for p in cells))
    table.add_section()
    own = [by["optimal", k] for k in shown]
    table.add_row(
        "floor of estimates with added noise",
        *(f"{p.floor / p.bound:.3f}" for p in own),
    )
    table.add_row("the private bound itself", *(f"{p.bound:.3g}" for p in own))
    console.print(table)
    smoothed = [by[name, k] for name, k in by if by[name, k].bandwidth is not None]
    if smoothed:
        widths = ", ".join(
            f"{p.bandwidth:.3g} (K = {p.count:,})" for p in smoothed if p.count in shown
        )
        console.print(
            Text(
                "E l''² is infinite for this law: the paper's release noise does not exist. Its "
                f"likelihood was smoothed by a Gaussian of standard deviation {widths}."
            )
        )
    if not any(p.method.startswith("averaging") for p in points):
        console.print(Text("This law has no mean: averages estimate nothing and are left out."))
    console.print(
        Text(
            "The budget is met in the limit: median of tr I/s over data sets "
            + ", ".join(f"{p.realised_median:.3f} (K = {p.count:,})" for p in own)
            + "; about half of all data sets lie above 1."
        )
    )
    for claim in fig4.claims(points):
        console.print(Text(str(claim)))
