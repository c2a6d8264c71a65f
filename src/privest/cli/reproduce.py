"""`privest reproduce`: the paper's experiments, one command a figure."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import privest as pv
from privest.arrays import Array
from privest.cli.console import tell_file, to_people, to_stderr
from privest.cli.options import command, group
from privest.data.cells import is_number
from privest.data.frames import Table
from privest.data.lines import open_lines, read_matrix
from privest.errors import InvalidInput
from privest.files import atomic_write
from privest.paper import (
    PAPER,
    Figure,
    Running,
    cluster_executor,
    fig1,
    fig2,
    fig3,
    fig4,
    setting_of,
)
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


@group()
class Output:
    """What is written.

    json FILE  Write the points.
    png FILE  Write the figure.
    """

    json: Path | None = None
    png: Path | None = None


@group(workers={"min": 1})
class Workers:
    """Who does the work.

    workers N  Processes. The result does not depend on it.
    scheduler ADDRESS  Run on a Dask cluster: the address of its scheduler. The result does not
        depend on it.
    """

    workers: int = 2
    scheduler: str | None = None


@group()
class People:
    """The table of people.

    data  diabetes: scikit-learn's table, no file needed. nhanes: the paper's 2704 people.
    folder DIR  Folder with the CDC's tables DEMO_G, BMX_G and TRIGLY_G (XPT, CSV or CSV.xz).
        Without one they are downloaded and kept.
    """

    data: Source = Source.diabetes
    folder: Path | None = None

    def load(self) -> Table:
        if self.data is Source.nhanes:
            return pv.data.load_nhanes(self.folder)
        return pv.data.load_diabetes()


@group(repetitions={"min": 2}, seed={"min": 0})
class Repetitions:
    """Repetitions of a stream of people.

    quick  5 repetitions.
    repetitions N  Repetitions of every block (nhanes 20, as in the paper; diabetes 100).
    seed N  Seed of all random numbers.
    """

    quick: bool = False
    repetitions: int | None = None
    seed: int = 1

    @property
    def count(self) -> int | None:
        return self.repetitions or (QUICK_REPETITIONS if self.quick else None)


@group(trials={"min": 2}, seed={"min": 0})
class Trials:
    """Trials of a point.

    quick  Fewer points and trials, in a few seconds.
    trials N  Trials a point (fig1 2000, as in the paper; fig4 5000).
    seed N  Seed of all random numbers (fig1 1, fig4 4).
    """

    quick: bool = False
    trials: int | None = None
    seed: int | None = None


@group(h={"names": ("--h",)})
class Problem:
    """The model y = Hθ + w and its levels.

    h FILE  H as a CSV file; the paper's, if not given.
    theta NUMBERS|FILE  The true θ, one number for each column of H: 0.63,0.81,… or a CSV file.
    sigma SD  Standard deviation of the measurement noise.
    levels NUMBERS  Levels s: 0.1,1,10 or FIRST:LAST:STEP (0.1:10:0.1, the paper's).
    """

    h: str | None = None
    theta: str | None = None
    sigma: float = 0.2
    levels: str | None = None


@app.command(name="fig1")
@command()
def first_figure(
    runs: Trials, problem: Problem, output: Output, work: Workers,
    methods: list[str] | None = None, device: Device = Device.cpu,
) -> None:  # fmt: skip
    """Mechanisms and their estimators against the private bound (`fig:ppcr`).

    The paper's: θ has five entries, H is drawn from [−1, 1]^{10×5}, w ~ N(0, 0.2² I), S = sI with
    s = 0.1, 0.2, …, 10, seven mechanisms calibrated to the same level; only the Gaussian one
    attains the bound. Or with your own H, θ, σ, levels, mechanisms and estimators.

    Options:
    methods NAME,…  Curves, separated by commas: gaussian, laplace, laplace-output, cauchy,
        cos2-output, truncated-inverse-gaussian, triangular-quantiser-output (the paper's, and
        drawn if nothing is said); any channel of the catalogue, also with -output or
        -least-squares behind it; your own as FILE.py:NAME, a function of (model, s) that returns a
        mechanism and an estimator.
    device  gpu: everything is computed on a graphics processor (extra gpu), 10⁶ trials a point;
        other random numbers than the processor's, always the same for one seed. One process does
        the work, whatever --workers says.
    """
    require_files(output.json, output.png)
    there = device is Device.gpu
    model, truth = _setting(problem)
    quick = QUICK_LEVELS if runs.quick else None
    with running(1 if there else work.workers, work.scheduler) as who:
        found = fig1(
            quick if problem.levels is None else _levels(problem.levels),
            methods=_names(methods) or tuple(PAPER),
            trials=runs.trials or (QUICK_TRIALS["fig1"] if runs.quick else None),
            rng=1 if runs.seed is None else runs.seed,
            model=model,
            theta=truth,
            backend="cupy" if there else "numpy",
            **who,
        )
    _show(found, output)


@app.command(name="fig2")
@command()
def second_figure(people: People, runs: Repetitions, output: Output) -> None:
    """The private RLS on streams of real people (`fig:pprls-non-syms`).

    A reference set gives the Box-Cox exponent, the units, the parameter that counts as true and the
    noise variance; the others are streams of one person a step. S_k is uniform in [0.2, 2],
    U_k = 0.1 √S_k ξ_k. The error must stay within its chance band around the bound.
    """
    require_files(output.json, output.png)
    _show(fig2(people.load(), trials=runs.count, rng=runs.seed), output)


@app.command(name="fig3")
@command()
def third_figure(
    people: People, runs: Repetitions, output: Output, synthetic: bool = False
) -> None:
    """The private RLS against Laplace noise and one bit, all at level 1 (`fig:pprls-syms`).

    Rivals: y + Laplace noise with recursive least squares; 1{y + noise ≤ C} with a recursive
    quasi-Newton estimate, ours of the kind that the paper cites. Same people as fig2.

    Options:
    synthetic  Measurements drawn from the model, same people.
    """
    require_files(output.json, output.png)
    _show(fig3(people.load(), trials=runs.count, rng=runs.seed, synthetic=synthetic), output)


@app.command(name="fig4")
@command()
def fourth_figure(
    runs: Trials, output: Output, work: Workers, noise: Noise = Noise.laplace
) -> None:
    """A private mean under non-Gaussian noise: estimate, then release (`fig:ml`).

    y = θ + w with θ = 0.53 and Laplacian w of variance 1, budget tr I_z(Y) = K, K from 10 to 10⁴.
    The paper's maximum likelihood (smoothed where its noise formula does not exist), the optimal
    private score, and averaging with Gaussian and Laplacian noise, next to the private bound.

    Options:
    noise  Distribution of the measurement noise; the paper's is laplace.
    """
    require_files(output.json, output.png)
    counts, seed = QUICK_COUNTS if runs.quick else None, 4 if runs.seed is None else runs.seed
    with running(work.workers, work.scheduler) as who:
        count = runs.trials or (QUICK_TRIALS["fig4"] if runs.quick else None)
        found = fig4(noise.value, counts, trials=count, rng=seed, **who)
    _show(found, output)


@app.command(name="all")
@command()
def all_figures(
    people: People, work: Workers, out: Path = Path("out/reproduce"), quick: bool = False
) -> None:
    """The four figures of the paper, and whether what it says of them holds.

    Options:
    out DIR  Folder for figures, points and claims.
    quick  Fewer trials: half a minute.
    """
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is a file.", param_hint="--out")
    out.mkdir(parents=True, exist_ok=True)
    table = people.load()
    count = QUICK_REPETITIONS if quick else None
    found: dict[str, Figure[Any]] = {}
    with running(work.workers, work.scheduler, "fig1") as who:
        trials = QUICK_TRIALS["fig1"] if quick else None
        found["fig1"] = fig1(QUICK_LEVELS if quick else None, trials=trials, **who)
    found |= {"fig2": fig2(table, trials=count), "fig3": fig3(table, trials=count)}
    with running(work.workers, work.scheduler, "fig4") as who:
        fewer = QUICK_TRIALS["fig4"] if quick else None
        found["fig4"] = fig4(counts=QUICK_COUNTS if quick else None, trials=fewer, **who)
    claims = [claim for one in found.values() for claim in one.claims]
    for name, one in found.items():
        one.save(out / f"{name}.png")
        write_json(out / f"{name}.json", one.points)
    write_json(out / "claims.json", claims)
    for claim in claims:
        to_people().print(str(claim))
    tell_file("Figures and numbers", out)


def _show(found: Figure[Any], output: Output) -> None:
    to_people().print(found.summary(), soft_wrap=True)
    if output.json is not None:
        write_json(output.json, found.points)
        tell_file("Points", output.json)
    if output.png is not None:
        found.save(output.png)
        tell_file("Figure", output.png)


def write_json(path: Path, records: Sequence[Any]) -> None:
    text = json.dumps([record.to_dict() for record in records], indent=1, ensure_ascii=False)
    atomic_write(path, text + "\n")


# --- who does the work ----------------------------------------------------------------------------


@contextmanager
def running(workers: int, scheduler: str | None, what: str = "simulating") -> Iterator[Running]:
    """The workers of an experiment, with a bar; a Dask cluster where one is named."""
    with ExitStack() as stack:
        executor = None
        if scheduler is not None:
            executor = stack.enter_context(cluster_executor(scheduler))
        progress = stack.enter_context(progress_bar(what))
        yield Running(workers=workers, executor=executor, progress=progress)


@contextmanager
def progress_bar(what: str = "simulating") -> Iterator[Callable[[int, int], None]]:
    """A bar on the error channel; Ctrl-C ends the command without a traceback."""
    report = to_stderr()
    words = TextColumn("{task.description}")
    shown = (words, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    hidden = not report.is_terminal
    try:
        with Progress(*shown, console=report, transient=True, disable=hidden) as bars:
            bar = bars.add_task(what, total=None)
            yield lambda done, total: bars.update(bar, completed=done, total=total)
    except KeyboardInterrupt:
        report.print("Stopped; nothing was written.")
        raise typer.Exit(130) from None


# --- what was typed -------------------------------------------------------------------------------


def _names(given: Sequence[str] | None) -> list[str]:
    """Names separated by commas, in one option or several."""
    return [name.strip() for text in given or () for name in text.split(",") if name.strip()]


def _setting(given: Problem) -> tuple[pv.LinearModel, Array]:
    paper, h, theta = setting_of(), given.h, given.theta
    matrix = paper.model.matrix if h is None else _table("--h", h)
    if theta is None and matrix.shape[1] != len(paper.theta):
        raise InvalidInput(
            f"--h {h}: H has {matrix.shape[1]} columns, so --theta with as many numbers is needed."
        )
    truth = paper.theta if theta is None else _numbers("--theta", theta)
    return pv.LinearModel(matrix, noise=given.sigma**2), truth


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
