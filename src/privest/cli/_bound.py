"""`privest bound`: the least error under a privacy level, for people and for programs."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from rich.console import Console

import privest as pv
from privest.cli import _options as common
from privest.cli._console import echo_json, new_table, shown, to_people, to_stderr
from privest.cli._options import grouped, option
from privest.errors import InvalidInput
from privest.noise import Gaussian, GaussianLaw, MultivariateGaussian
from privest.reading import require_parameters


@grouped
def bound(
    h: Annotated[
        Path,
        option(
            "CSV file of H: one row per reading, one column per parameter; a first line may "
            "name the parameters. A minus reads standard input.",
            "FILE",
            panel=common.MODEL,
            names=("--h",),
        ),
    ],
    privacy: common.Privacy,
    noise_variance: Annotated[
        str | None,
        option(
            "Covariance of the measurement noise: a number (variance of every reading), or a "
            "CSV file with a vector of variances or a matrix.",
            "NUMBER|FILE",
            panel=common.NOISE,
        ),
    ] = None,
    noise_cov: Annotated[
        str | None, option("The old name of --noise-variance.", hidden=True)
    ] = None,
    json: common.Json = False,
) -> None:
    """The least error of an estimate of θ in y = Hθ + w that is right on average (unbiased).

    Under a privacy level S (a larger S reveals more): for every mechanism that keeps it. Nothing is
    released and no reading is needed: H, the noise and the level are enough. State the privacy as
    --level, or as --epsilon with --delta and --move; --level with --delta and --move also prints
    the ε that the level amounts to. CSV files use commas and decimal points.

    Examples:

    privest bound --h H.csv --noise-variance 0.04 --level 1.0

    privest bound --h H.csv --noise-variance cov.csv --epsilon 1 --delta 1e-6 --move 0.5 --json
    """
    level = privacy.read()
    noise = _noise(noise_variance, noise_cov)
    with common.about(f"--h {h}"):
        matrix, names = common.read_table(str(h))
        require_parameters(matrix.shape[1], "H")
        model = pv.LinearModel(matrix, noise=noise, names=names)
    answer = Answer(pv.bound(model, level), model, level, privacy.spent(level))
    if json:
        echo_json(as_json(answer))
    else:
        print_bound(to_people(), answer)


def _noise(noise_variance: str | None, noise_cov: str | None) -> GaussianLaw | MultivariateGaussian:
    if noise_cov is not None:
        to_stderr().print("privest: --noise-cov is called --noise-variance now; it still works.")
    given = noise_cov if noise_variance is None else noise_variance
    if given is None or (noise_cov is not None and noise_variance is not None):
        raise InvalidInput("--noise-variance is needed, once.")
    with common.about(f"--noise-variance {given}"):
        return Gaussian(cov=common.read_value(given))


class Answer(NamedTuple):
    """A bound and what it was asked about."""

    result: pv.Bound
    model: pv.LinearModel
    level: pv.PrivacyLevel
    spent: common.Spent | None


def as_json(answer: Answer) -> str:
    """The attributes of the bound by name, and what was asked; one matrix row a line."""
    result, model, level, spent = answer
    record: dict[str, Any] = {
        "privest": pv.__version__,
        "readings": model.readings,
        "parameters": model.parameters,
        "level": level.number if level.number is not None else repr(level),
        "differential_privacy": None if spent is None else spent._asdict(),
        **result.to_dict(),
    }
    return "{\n" + ",\n".join(f'  "{k}": {_value(v)}' for k, v in record.items()) + "\n}"


def _value(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n" + ",\n".join(f"    {json_module.dumps(row)}" for row in value) + "\n  ]"
    return json_module.dumps(value, ensure_ascii=False)


def print_bound(console: Console, answer: Answer) -> None:
    """Standard errors parameter by parameter, then the sums."""
    result, model, level, spent = answer
    console.print(shown(f"{model!r}"), soft_wrap=True)
    console.print(shown(f"{level!r}"), soft_wrap=True)
    if spent is not None:
        console.print(
            f"The Gaussian release at this level is (ε, δ)-differentially private with "
            f"ε = {spent.epsilon:.4g}, δ = {spent.delta:g}, comparing readings of which one "
            f"differs by at most {spent.move:g}."
        )
    if not result.identifiable:
        console.print()
        console.print(shown(result.identifiability.explain(), style="bold"))
        console.print("There is no finite bound under this level.")
        return
    table = new_table(
        "Least standard error of an unbiased estimate",
        *("parameter", "without privacy", "with privacy", "ratio"),
    )
    errors = zip(result.names, result.classical_error, result.standard_error)
    for label, open_error, private_error in errors:
        ratio = f"{private_error / open_error:.3g}" if open_error > 0 else "∞"
        table.add_row(shown(label), f"{open_error:.5g}", f"{private_error:.5g}", ratio)
    console.print()
    console.print(table)
    console.print()
    sums = new_table("Mean-square error, summed", "quantity", "trace")
    for name, matrix in (
        ("private bound", result.ppcrlb),
        ("without privacy", result.classical),
        ("cost of privacy", result.privacy_cost),
        ("floor of that cost", result.cost_floor),
    ):
        sums.add_row(name, f"{np.trace(matrix):.6g}")
    console.print(sums)
