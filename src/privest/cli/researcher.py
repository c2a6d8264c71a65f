"""`privest bound` and `privest levels`: what a privacy level costs and permits; no data."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console

import privest as pv
from privest.arrays import as_positive
from privest.cli.console import new_table, print_json, shown, to_people
from privest.cli.options import PRIVACY, about, command, group
from privest.noise import Gaussian
from privest.privacy import grid_statement
from privest.privacy.exposures import DELTA, chance_of_side, informed_error
from privest.reading import require_parameters
from privest.report.describe import levels_section, one_level
from privest.report.terminal import print_sections
from privest.streaming import Privacy, read_table, read_value

group(PRIVACY)(Privacy)
RATES = (0.51, 0.55, 0.60, 0.65, 0.70, 0.75, 0.80, 0.90, 0.99)  # of `privest levels`


@command()
def bound(privacy: Privacy, h: Path, noise_variance: str, json: bool = False) -> None:
    """Least error of an unbiased estimate of θ in y = Hθ + w under a privacy level S.

    It holds for every mechanism that keeps the level (a larger S reveals more). No measurement is
    needed. State the privacy as --level, or as --epsilon with --delta and --sensitivity; --level
    with these two also prints the ε that the level amounts to. CSV files use commas and points.

    Examples:

    privest bound --h H.csv --noise-variance 0.04 --level 1.0

    privest bound --h H.csv --noise-variance cov.csv --epsilon 1 --delta 1e-6 --sensitivity 0.5

    Options:
    h FILE                      CSV file of H: one row per measurement, one column per parameter; a
                                first line may name the parameters. A minus reads standard input.
    noise_variance NUMBER|FILE  Covariance of the measurement noise: a number (variance of every
                                measurement), or a CSV file with a vector of variances or a matrix.
    """
    level = privacy.read()
    with about(f"--noise-variance {noise_variance}"):
        noise = Gaussian(cov=read_value(noise_variance))
    with about(f"--h {h}"):
        matrix, names = read_table(str(h))
        require_parameters(matrix.shape[1], "H")
        model = pv.LinearModel(matrix, noise=noise, names=names)
    found, spent = pv.bound(model, level), privacy.spent(level)
    _ = found.classical  # refused, with the reason, where H itself does not determine θ
    if json:
        facts = {
            "privest": pv.__version__,
            "measurements": model.measurements,
            "parameters": model.parameters,
            "level": level.number if level.number is not None else repr(level),
            "differential_privacy": None if spent is None else spent._asdict(),
        }
        print_json(facts | found.to_dict())
        return
    console = to_people()
    console.print(shown(f"{model!r}"), soft_wrap=True)
    console.print(shown(f"{level!r}"), soft_wrap=True)
    if spent is not None:
        console.print(
            f"The Gaussian release at this level is (ε, δ)-differentially private with "
            f"ε = {spent.epsilon:.4g}, δ = {spent.delta:g}, for data in which one measurement "
            f"differs by at most {spent.sensitivity:g}."
        )
    _print_bound(console, found)


def _print_bound(console: Console, found: pv.Bound) -> None:
    console.print()
    if not found.identifiable:
        console.print(shown(found.identifiability.explain(), style="bold"))
        console.print("There is no finite bound under this level.")
        return
    table = new_table(
        "Least standard error of an unbiased estimate",
        *("parameter", "without privacy", "with privacy", "ratio"),
    )
    for label, free, private in zip(found.names, found.classical_error, found.standard_error):
        ratio = f"{private / free:.3g}" if free > 0 else "∞"
        table.add_row(shown(label), f"{free:.5g}", f"{private:.5g}", ratio)
    sums = new_table("Mean-square error, summed", "quantity", "trace")
    for name, matrix in (
        ("private bound", found.covariance),
        ("without privacy", found.classical),
        ("cost of privacy", found.cost),
        ("floor of that cost", found.cost_floor),
    ):
        sums.add_row(name, f"{np.trace(matrix):.6g}")
    console.print(table, "", sums, sep="\n")


# --- levels ---------------------------------------------------------------------------------------


class Choice(NamedTuple):
    """The largest level at which an attacker tells two values apart with at most `chance`."""

    chance: float
    level: float
    measurement_error: float  # 1/√s, the least sd of an unbiased guess
    informed_error: float | None  # sd of a reader's guess, where values vary with a known sd
    chance_of_side: float | None  # how often that reader guesses above or below the median
    epsilon: float  # of a real release, where a range is as wide as the values are apart


def _choice(apart: float, chance: float, spread: float | None, delta: float) -> Choice:
    level = pv.PrivacyLevel.from_attacker(apart, chance).number
    assert level is not None
    informed: tuple[float | None, float | None] = (None, None)
    if spread is not None:
        informed = informed_error(level, spread), chance_of_side(level, spread)
    epsilon = grid_statement(level, sensitivity=apart, delta=delta).epsilon
    return Choice(chance, level, 1 / math.sqrt(level), *informed, epsilon)


@command()
def levels(
    tolerance: float = 1.0, attacker: float | None = None, spread: float | None = None,
    delta: float = DELTA, json: bool = False,
) -> None:  # fmt: skip
    """Privacy levels by what an attacker can do with a release; no data are needed.

    For Gaussian noise, one value per person. With --attacker: the one level of that success rate.

    Examples:

    privest levels --tolerance 0.5

    privest levels --tolerance 0.5 --attacker 0.75 --spread 1

    Options:
    tolerance C  Difference between two values that matters, in their units: the width of a range,
                 or what a clinic cannot tell apart.
    attacker P   Success rate that an attacker may have between two such values (> 0.5).
    spread SD    Residual sd: how much values vary around the prediction.
    delta δ      δ of the column ε.
    """
    apart = as_positive(tolerance, "--tolerance")
    if spread is not None:
        as_positive(spread, "--spread")
    rates = RATES if attacker is None else (attacker,)
    found = [_choice(apart, rate, spread, delta) for rate in rates]
    if json:
        record = {"tolerance": apart, "spread": spread, "delta": delta}
        print_json(record | {"levels": [one._asdict() for one in found]})
    elif attacker is None:
        print_sections(to_people(), [levels_section(found, apart, spread, delta)])
    else:
        one = found[0]
        print_sections(to_people(), one_level(one.level, apart, spread, one.epsilon, delta))
