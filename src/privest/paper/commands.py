"""`privest reproduce`: the paper's experiments, one command a figure."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

import privest as pv
from privest.arrays import Array
from privest.data.cells import is_number
from privest.data.frames import Table
from privest.data.lines import open_lines, read_matrix
from privest.errors import InvalidInput
from privest.files import atomic_write
from privest.paper import _fig4
from privest.paper._engine import Running
from privest.paper._fig1 import fig1
from privest.paper._fig2 import fig2
from privest.paper._fig3 import fig3
from privest.paper._fig4 import fig4
from privest.paper._figure import Figure
from privest.paper._methods import DEVIATION, PAPER, setting_of
from privest.report.figures import require_files

app = typer.Typer(
    help="The paper's experiments, with figures and data.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
MOST_LEVELS = 10_000
QUICK_LEVELS = [0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0]
QUICK_COUNTS = [10, 100, 1000]
QUICK_REPETITIONS = 5
QUICK_TRIALS = {"fig1": 200, "fig4": 300}

Device = StrEnum("Device", ["cpu", "gpu"])
Noise = StrEnum("Noise", ["laplace", "cauchy", "student-t", "logistic", "skewed"])
Source = StrEnum("Source", ["nhanes", "diabetes"])

Json = Annotated[Path | None, typer.Option("--json", help="Write the points.", metavar="FILE")]
Png = Annotated[Path | None, typer.Option("--png", help="Write the figure.", metavar="FILE")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.", min=0)]
Workers = Annotated[int, typer.Option(help="Processes. The result does not depend on it.", min=1)]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="Run on a Dask cluster: the address of its scheduler. The result does not depend on "
        "it.",
        metavar="ADDRESS",
    ),
]
Data = Annotated[
    Source,
    typer.Option(
        help="diabetes: scikit-learn's table, no file needed. nhanes: the paper's 2704 people."
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        help="Folder with the CDC's tables DEMO_G, BMX_G and TRIGLY_G (XPT, CSV or CSV.xz). "
        "Without one they are downloaded and kept.",
        metavar="DIR",
    ),
]
Repetitions = Annotated[
    int | None,
    typer.Option(
        help="Repetitions of every block (nhanes 20, as in the paper; diabetes 100).", min=2
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help=f"{QUICK_REPETITIONS} repetitions.")]


@app.command(name="fig1")
def first_figure(
    quick: Annotated[
        bool, typer.Option("--quick", help="8 levels and 200 trials, in about ten seconds.")
    ] = False,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Curves, separated by commas: {', '.join(PAPER)} (the paper's, and drawn if "
            "nothing is said); any channel of the catalogue, also with -output or -least-squares "
            "behind it; your own as FILE.py:NAME, a function of (model, s) that returns a "
            "mechanism and an estimator.",
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
    ] = DEVIATION,
    levels: Annotated[
        str | None,
        typer.Option(
            help="Levels s: 0.1,1,10 or FIRST:LAST:STEP (0.1:10:0.1, the paper's).",
            metavar="NUMBERS",
        ),
    ] = None,
    data: Json = None,
    png: Png = None,
    trials: Annotated[
        int | None, typer.Option(help="Trials a point (2000, as in the paper).", min=2)
    ] = None,
    seed: Seed = 1,
    workers: Workers = 2,
    scheduler: Scheduler = None,
    device: Annotated[
        Device,
        typer.Option(
            help="gpu: measurements, releases and estimates are made on a graphics processor "
            "(extra gpu), 10⁶ trials a point; other random numbers than the processor's, and "
            "always the same for one seed. One process does the work, whatever --workers says."
        ),
    ] = Device.cpu,
) -> None:
    """Mechanisms and their estimators against the private bound (`fig:ppcr`).

    The paper's: θ has five entries, H is drawn from [−1, 1]^{10×5}, w ~ N(0, 0.2² I), S = sI with
    s = 0.1, 0.2, …, 10, seven mechanisms calibrated to the same level; only the Gaussian one
    attains the bound. Or with your own H, θ, σ, levels, mechanisms and estimators.
    """
    require_files(data, png)
    there = device is Device.gpu
    model, truth = _setting(h, theta, sigma)
    with running(1 if there else workers, scheduler) as who:
        found = fig1(
            (QUICK_LEVELS if quick else None) if levels is None else _levels(levels),
            methods=_names(methods) or tuple(PAPER),
            trials=trials or (QUICK_TRIALS["fig1"] if quick else None),
            rng=seed,
            model=model,
            theta=truth,
            backend="cupy" if there else "numpy",
            **who,
        )
    _show(found, data, png)


@app.command(name="fig2")
def second_figure(
    data: Data = Source.diabetes,
    folder: Folder = None,
    quick: Quick = False,
    repetitions: Repetitions = None,
    points_to: Json = None,
    png: Png = None,
    seed: Seed = 1,
) -> None:
    """The private RLS on streams of real people (`fig:pprls-non-syms`).

    A reference set gives the Box-Cox exponent, the units, the parameter that counts as true and the
    noise variance; the others are streams of one person a step. S_k is uniform in [0.2, 2],
    U_k = 0.1 √S_k ξ_k. The error must stay within its chance band around the bound.
    """
    require_files(points_to, png)
    count = repetitions or (QUICK_REPETITIONS if quick else None)
    _show(fig2(_people(data, folder), trials=count, rng=seed), points_to, png)


@app.command(name="fig3")
def third_figure(
    data: Data = Source.diabetes,
    folder: Folder = None,
    quick: Quick = False,
    repetitions: Repetitions = None,
    synthetic: Annotated[
        bool, typer.Option("--synthetic", help="Measurements drawn from the model, same people.")
    ] = False,
    points_to: Json = None,
    png: Png = None,
    seed: Seed = 1,
) -> None:
    """The private RLS against Laplace noise and one bit, all at level 1 (`fig:pprls-syms`).

    Rivals: y + Laplace noise with recursive least squares; 1{y + noise ≤ C} with a recursive
    quasi-Newton estimate, ours of the kind that the paper cites. Same people as fig2.
    """
    require_files(points_to, png)
    count = repetitions or (QUICK_REPETITIONS if quick else None)
    found = fig3(_people(data, folder), trials=count, rng=seed, synthetic=synthetic)
    _show(found, points_to, png)


@app.command(name="fig4")
def fourth_figure(
    noise: Annotated[
        Noise, typer.Option(help="Distribution of the measurement noise; the paper's is laplace.")
    ] = Noise.laplace,
    quick: Annotated[
        bool, typer.Option("--quick", help="Three K and 300 trials, in a few seconds.")
    ] = False,
    data: Json = None,
    png: Png = None,
    trials: Annotated[int | None, typer.Option(help="Trials a point (5000).", min=2)] = None,
    seed: Seed = 4,
    workers: Workers = 2,
    scheduler: Scheduler = None,
) -> None:
    """A private mean under non-Gaussian noise: estimate, then release (`fig:ml`).

    y = θ + w with θ = 0.53 and Laplacian w of variance 1, budget tr I_z(Y) = K, K from 10 to 10⁴.
    The paper's maximum likelihood (smoothed where its noise formula does not exist), the optimal
    private score, and averaging with Gaussian and Laplacian noise, next to the private bound.
    """
    require_files(data, png)
    with running(workers, scheduler) as who:
        count = trials or (QUICK_TRIALS["fig4"] if quick else _fig4.TRIALS)
        found = fig4(noise.value, QUICK_COUNTS if quick else None, trials=count, rng=seed, **who)
    _show(found, data, png)


@app.command(name="all")
def all_figures(
    out: Annotated[
        Path, typer.Option(help="Folder for figures, points and claims.", metavar="DIR")
    ] = Path("out/reproduce"),
    quick: Annotated[bool, typer.Option("--quick", help="Fewer trials: half a minute.")] = False,
    data: Data = Source.diabetes,
    folder: Folder = None,
    workers: Workers = 2,
    scheduler: Scheduler = None,
) -> None:
    """The four figures of the paper, and whether what it says of them holds."""
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is a file.", param_hint="--out")
    out.mkdir(parents=True, exist_ok=True)
    people = _people(data, folder)
    count = QUICK_REPETITIONS if quick else None
    found: dict[str, Figure[Any]] = {}
    with running(workers, scheduler, "fig1") as who:
        trials = QUICK_TRIALS["fig1"] if quick else None
        found["fig1"] = fig1(QUICK_LEVELS if quick else None, trials=trials, **who)
    found |= {"fig2": fig2(people, trials=count), "fig3": fig3(people, trials=count)}
    with running(workers, scheduler, "fig4") as who:
        fewer = QUICK_TRIALS["fig4"] if quick else _fig4.TRIALS
        found["fig4"] = fig4(counts=QUICK_COUNTS if quick else None, trials=fewer, **who)
    claims = [claim for one in found.values() for claim in one.claims]
    for name, one in found.items():
        one.save(out / f"{name}.png")
        write_json(out / f"{name}.json", one.points)
    write_json(out / "claims.json", claims)
    for claim in claims:
        Console(highlight=False).print(Text(str(claim)))
    tell(f"Figures and numbers: {out}")


def _show(found: Figure[Any], points_to: Path | None, png: Path | None) -> None:
    Console(highlight=False).print(Text(found.summary()), soft_wrap=True)
    if points_to is not None:
        write_json(points_to, found.points)
        tell(f"Points: {points_to}")
    if png is not None:
        found.save(png)
        tell(f"Figure: {png}")


def write_json(path: Path, records: Sequence[Any]) -> None:
    text = json.dumps([record.to_dict() for record in records], indent=1, ensure_ascii=False)
    atomic_write(path, text + "\n")


def tell(text: str) -> None:
    Console(stderr=True, highlight=False).print(Text(text))


# --- who does the work ----------------------------------------------------------------------------


@contextmanager
def running(workers: int, scheduler: str | None, what: str = "simulating") -> Iterator[Running]:
    """The workers of an experiment, with a bar; a Dask cluster where one is named."""
    with ExitStack() as stack:
        executor = None
        if scheduler is not None:
            from privest.paper._cluster import cluster_executor

            executor = stack.enter_context(cluster_executor(scheduler))
        progress = stack.enter_context(progress_bar(what))
        yield Running(workers=workers, executor=executor, progress=progress)


@contextmanager
def progress_bar(what: str = "simulating") -> Iterator[Callable[[int, int], None]]:
    """A bar on the error channel; Ctrl-C ends the command without a traceback."""
    report = Console(stderr=True, highlight=False)
    words = TextColumn("{task.description}")
    shown = (words, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = not report.is_terminal
    try:
        with Progress(*shown, console=report, transient=True, disable=hidden) as bars:
            bar = bars.add_task(what, total=None)
            yield lambda done, total: bars.update(bar, completed=done, total=total)
    except KeyboardInterrupt:
        report.print(Text("Stopped; nothing was written."))
        raise typer.Exit(130) from None


# --- what was typed -------------------------------------------------------------------------------


def _people(data: Source, folder: Path | None) -> Table:
    if data is Source.nhanes:
        return pv.data.load_nhanes(folder)
    return pv.data.load_diabetes()


def _names(given: Sequence[str] | None) -> list[str]:
    """Names separated by commas, in one option or several."""
    return [name.strip() for text in given or () for name in text.split(",") if name.strip()]


def _setting(h: str | None, theta: str | None, sigma: float) -> tuple[pv.LinearModel, Array]:
    paper = setting_of()
    matrix = paper.model.matrix if h is None else _table("--h", h)
    if theta is None and matrix.shape[1] != len(paper.theta):
        raise InvalidInput(
            f"--h {h}: H has {matrix.shape[1]} columns, so --theta with as many numbers is needed."
        )
    truth = paper.theta if theta is None else _numbers("--theta", theta)
    return pv.LinearModel(matrix, noise=sigma**2), truth


def _levels(text: str) -> Array:
    """Numbers separated by commas, or FIRST:LAST:STEP with both ends."""
    if ":" not in text:
        return _numbers("--levels", text)
    parts = [part.strip() for part in text.split(":")]
    if len(parts) != 3 or not all(map(is_number, parts)):
        raise InvalidInput(f"--levels {text}: a range is FIRST:LAST:STEP, as in 0.1:10:0.1.")
    first, last, step = map(float, parts)
    if not (0 < first <= last and step > 0 and (last - first) / step < MOST_LEVELS):
        raise InvalidInput(
            f"--levels {text}: a range needs 0 < FIRST ≤ LAST, STEP > 0 and fewer than "
            f"{MOST_LEVELS:,} levels."
        )
    count = math.floor((last - first) / step + 1e-9) + 1
    # Rounded as they were typed: 0.1:10:0.1 has 0.3 and not 0.30000000000000004.
    return np.array([float(f"{first + step * k:.12g}") for k in range(count)])


def _numbers(option: str, text: str) -> Array:
    """Numbers separated by commas, or those of a CSV file with one row or column."""
    cells = [cell.strip() for cell in text.split(",")]
    if all(map(is_number, cells)):
        return np.array([float(cell) for cell in cells])
    if not os.path.exists(text):
        raise InvalidInput(f"{option} {text}: neither numbers with commas nor an existing file.")
    table = _table(option, text)
    if 1 not in table.shape:
        raise InvalidInput(f"{option} {text}: one row or one column is needed, not {table.shape}.")
    return table.ravel()


def _table(option: str, path: str) -> Array:
    try:
        with open_lines(path, name="") as lines:
            return read_matrix(lines)[0]
    except InvalidInput as error:
        raise InvalidInput(f"{option} {path}: {error}") from None
