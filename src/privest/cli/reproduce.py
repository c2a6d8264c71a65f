"""`privest reproduce`: the paper's experiments, one command a figure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import privest as pv
from privest.arrays import Array
from privest.cli.console import tell_file, to_people, to_stderr
from privest.cli.options import about, command, group, listed
from privest.data.cells import is_number
from privest.data.frames import Table
from privest.data.lines import open_lines, read_matrix
from privest.errors import InvalidInput
from privest.files import atomic_write
from privest.paper import PAPER, Figure, fig1, fig2, fig3, fig4, setting_of
from privest.report.figures import require_files

app: typer.Typer = typer.Typer(
    help="The paper's experiments, with figures and data.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
QUICK_LEVELS = [0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0]
QUICK_COUNTS = [10, 100, 1000]
QUICK = {"fig1": 200, "fig2": 5, "fig3": 5, "fig4": 300}  # trials

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

    def show(self, found: Figure[Any]) -> None:
        to_people().print(found.summary(), soft_wrap=True)
        if self.json is not None:
            write_json(self.json, found.points)
            tell_file("Points", self.json)
        if self.png is not None:
            found.save(self.png)
            tell_file("Figure", self.png)


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


@group(trials={"min": 2}, seed={"min": 0})
class Trials:
    """How often it is done.

    quick  Fewer points and trials, in a few seconds.
    trials N  Trials of a point (fig1 2000, as in the paper; fig4 5000), or of a block of people
        (nhanes 20, as in the paper; diabetes 100).
    seed N  Seed of all random numbers (1; fig4: 4).
    """

    quick: bool = False
    trials: int | None = None
    seed: int | None = None

    def of(self, figure: str) -> dict[str, Any]:
        """The stated options, as a figure takes them."""
        count = self.trials or (QUICK[figure] if self.quick else None)
        stated = {"trials": count, "rng": self.seed}
        return {name: value for name, value in stated.items() if value is not None}


@group(h={"names": ("--h",)})
class Problem:
    """The model y = Hθ + w and its levels.

    h FILE  H as a CSV file; the paper's, if not given.
    theta NUMBERS  The true θ, one number for each column of H: 0.63,0.81,…
    sigma SD  Standard deviation of the measurement noise.
    levels NUMBERS  Levels s: 0.1,1,10. Left out: 0.1, 0.2, …, 10, the paper's.
    """

    h: str | None = None
    theta: str | None = None
    sigma: float = 0.2
    levels: str | None = None

    def setting(self) -> tuple[pv.LinearModel, Array]:
        """The model and the true θ."""
        paper = setting_of()
        matrix, truth = paper.model.matrix, paper.theta
        if self.h is not None:
            with about(f"--h {self.h}"), open_lines(self.h, name="") as lines:
                matrix = read_matrix(lines)[0]
        if self.theta is not None:
            truth = _numbers("--theta", self.theta)
        elif matrix.shape[1] != len(truth):
            raise InvalidInput(
                f"--h {self.h}: H has {matrix.shape[1]} columns, so --theta with as many numbers "
                "is needed."
            )
        return pv.LinearModel(matrix, noise=self.sigma**2), truth


def _numbers(option: str, text: str) -> Array:
    cells = listed(text)
    if not cells or not all(map(is_number, cells)):
        raise InvalidInput(f"{option} {text}: numbers with commas between them are needed.")
    return np.array([float(cell) for cell in cells])


@app.command(name="fig1")
@command(workers={"min": 1})
def first_figure(
    runs: Trials, problem: Problem, output: Output, workers: int = 2,
    methods: str | None = None, device: Device = Device.cpu,
) -> None:  # fmt: skip
    """Mechanisms and their estimators against the private bound (`fig:ppcr`).

    The paper's: θ has five entries, H is drawn from [−1, 1]^{10×5}, w ~ N(0, 0.2² I), S = sI with
    s = 0.1, 0.2, …, 10, seven mechanisms calibrated to the same level; only the Gaussian one
    attains the bound. Or with your own H, θ, σ, levels, mechanisms and estimators.

    Options:
    workers N  Processes. The result does not depend on it.
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
    model, theta = problem.setting()
    levels = QUICK_LEVELS if runs.quick else None
    if problem.levels is not None:
        levels = _numbers("--levels", problem.levels).tolist()
    with progress_bar() as progress:
        found = fig1(
            levels, methods=listed(methods) or tuple(PAPER), model=model, theta=theta,
            backend="cupy" if there else "numpy", workers=1 if there else workers,
            progress=progress, **runs.of("fig1"),
        )  # fmt: skip
    output.show(found)


@app.command(name="fig2")
@command()
def second_figure(people: People, runs: Trials, output: Output) -> None:
    """The private RLS on streams of real people (`fig:pprls-non-syms`).

    A reference set gives the Box-Cox exponent, the units, the parameter that counts as true and the
    noise variance; the others are streams of one person a step. S_k is uniform in [0.2, 2],
    U_k = 0.1 √S_k ξ_k. The error must stay within its chance band around the bound.
    """
    require_files(output.json, output.png)
    output.show(fig2(people.load(), **runs.of("fig2")))


@app.command(name="fig3")
@command()
def third_figure(people: People, runs: Trials, output: Output, synthetic: bool = False) -> None:
    """The private RLS against Laplace noise and one bit, all at level 1 (`fig:pprls-syms`).

    Rivals: y + Laplace noise with recursive least squares; 1{y + noise ≤ C} with a recursive
    quasi-Newton estimate, ours of the kind that the paper cites. Same people as fig2.

    Options:
    synthetic  Measurements drawn from the model, same people.
    """
    require_files(output.json, output.png)
    output.show(fig3(people.load(), synthetic=synthetic, **runs.of("fig3")))


@app.command(name="fig4")
@command(workers={"min": 1})
def fourth_figure(
    runs: Trials, output: Output, workers: int = 2, noise: Noise = Noise.laplace
) -> None:
    """A private mean under non-Gaussian noise: estimate, then release (`fig:ml`).

    y = θ + w with θ = 0.53 and Laplacian w of variance 1, budget tr I_z(Y) = K, K from 10 to 10⁴.
    The paper's maximum likelihood (smoothed where its noise formula does not exist), the optimal
    private score, and averaging with Gaussian and Laplacian noise, next to the private bound.

    Options:
    workers N  Processes. The result does not depend on it.
    noise  Distribution of the measurement noise; the paper's is laplace.
    """
    require_files(output.json, output.png)
    counts = QUICK_COUNTS if runs.quick else None
    with progress_bar() as progress:
        more = runs.of("fig4")
        found = fig4(noise.value, counts, workers=workers, progress=progress, **more)
    output.show(found)


@app.command(name="all")
@command(workers={"min": 1})
def all_figures(
    people: People, out: Path = Path("out/reproduce"), quick: bool = False, workers: int = 2
) -> None:
    """The four figures of the paper, and whether what it says of them holds.

    Options:
    out DIR  Folder for figures, points and claims.
    quick  Fewer trials: half a minute.
    workers N  Processes. The result does not depend on it.
    """
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is a file.", param_hint="--out")
    out.mkdir(parents=True, exist_ok=True)
    table, runs = people.load(), Trials(quick=quick)
    levels, counts = (QUICK_LEVELS, QUICK_COUNTS) if quick else (None, None)
    found: dict[str, Figure[Any]] = {}
    with progress_bar("fig1") as progress:
        found["fig1"] = fig1(levels, workers=workers, progress=progress, **runs.of("fig1"))
    found["fig2"] = fig2(table, **runs.of("fig2"))
    found["fig3"] = fig3(table, **runs.of("fig3"))
    with progress_bar("fig4") as progress:
        more = runs.of("fig4")
        found["fig4"] = fig4(counts=counts, workers=workers, progress=progress, **more)
    claims = [claim for one in found.values() for claim in one.claims]
    for name, one in found.items():
        one.save(out / f"{name}.png")
        write_json(out / f"{name}.json", one.points)
    write_json(out / "claims.json", claims)
    for claim in claims:
        to_people().print(str(claim))
    tell_file("Figures and numbers", out)


def write_json(path: Path, records: Sequence[Any]) -> None:
    text = json.dumps([record.to_dict() for record in records], indent=1, ensure_ascii=False)
    atomic_write(path, text + "\n")


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
