"""NHANES 2011-12: triglycerides on age, body mass index, sex and income, no reading shown as it is.

    python examples/nhanes.py [FOLDER of the data] [FOLDER for the picture]

The first folder has nhanes_raw/ with the CDC's tables DEMO_G, BMX_G and TRIGLY_G (../shared/data,
where it is beside this project; the data are no part of it), the second is `out`. The noise is
simulated with a fixed seed, so that the numbers are those of docs/nhanes.md: nothing is protected.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

import privest as pv
from privest.report import as_text, describe
from privest.report.figures import new_figure, save, tidy
from privest.report.numbers import down

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DATA = Path(__file__).parents[2] / "shared" / "data"
TABLES = ("DEMO_G", "BMX_G", "TRIGLY_G")
FEATURES = ["age, 10 years", "BMI, 5 kg/m²", "sex", "income ratio"]
FACTORS = (4.0, 2.0, 1.25)  # two readings that differ by it ...
SEED = 2012
CHANCE = 0.75  # ... are told from each other so often; a coin is right in half of the cases
RANGE = (20.0, 2000.0)  # mg/dL, public: what laboratories report; not taken from the data
COLOURS = ("#1b4f8f", "#4f8fcf", "#c25b1e")


def people(folder: Path) -> pd.DataFrame:
    """The people who came fasting, one row each. Gaps stay: the plan leaves out their rows."""
    raw = folder / "nhanes_raw"
    absent = [name for name in TABLES if not (raw / f"{name}.csv.xz").is_file()]
    if absent:
        raise SystemExit(
            f"{raw} has no {', '.join(f'{name}.csv.xz' for name in absent)}. Name the folder that "
            "holds nhanes_raw/: python examples/nhanes.py FOLDER"
        )
    demo, body, blood = (pd.read_csv(raw / f"{name}.csv.xz") for name in TABLES)
    table = blood.merge(body, on="SEQN").merge(demo, on="SEQN")
    table = table[table["WTSAF2YR"] > 0]  # 0: did not fast, stands for nobody
    return pd.DataFrame(
        {
            "triglycerides": table["LBXTR"],
            "age, 10 years": table["RIDAGEYR"] / 10,
            "BMI, 5 kg/m²": table["BMXBMI"] / 5,
            "sex": table["RIAGENDR"].map({1: "male", 2: "female"}),
            "income ratio": table["INDFMPIR"],
            "weight": table["WTSAF2YR"],
        }
    )


def plan_for(table: pd.DataFrame, factor: float) -> pv.workflow.Plan:
    """The plan whose level tells readings that differ by `factor` apart with chance `CHANCE`."""
    return pv.plan(
        table,
        target="triglycerides",
        features=FEATURES,
        categories={"sex": ["female", "male"]},
        transform="log",
        missing="drop",
        weights="weight",
        range=RANGE,
        tolerance=math.log(factor),
        attacker=CHANCE,
    )


def main(folder: Path = DATA, out: Path = Path("out")) -> dict[float, pv.workflow.Estimate]:
    """The estimate at each level, by its factor. Everything is printed for the one in the middle.

    Three trials, to compare. Three real releases would add up: a data owner chooses one level.
    """
    table = people(folder)
    plans = {factor: plan_for(table, factor) for factor in FACTORS}
    found = {factor: pv.estimate(plan.simulate(rng=SEED)) for factor, plan in plans.items()}
    print(plans[FACTORS[1]].summary())
    print(as_text(describe(plans[FACTORS[1]]), ("exposure",)))
    print(found[FACTORS[1]].summary())
    draw(found, out / "nhanes.png")
    return found


def draw(found: dict[float, pv.workflow.Estimate], path: Path) -> None:
    """Left what was found, at each level; right what it shows of one person."""
    figure = new_figure(11, 4.6)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    draw_effects(left, found)
    draw_exposure(right, found)
    title = "Triglycerides in NHANES 2011-12 at three privacy levels s (a larger s reveals more)"
    figure.suptitle(title, fontsize=12)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)
    print(f"Picture: {path}")


def draw_effects(axes: Axes, found: dict[float, pv.workflow.Estimate]) -> None:
    """Per cent for one unit more, with 95 % intervals."""
    names = list(next(iter(found.values())).percent())
    for k, one in enumerate(found.values()):
        for j, (value, low, high) in enumerate(one.percent().values()):
            height = len(names) - 1 - j + 0.22 * (1 - k)
            label = level_text(one) if j == 0 else None
            axes.plot([low, high], [height, height], color=COLOURS[k], lw=2.2)
            axes.plot(value, height, "o", color=COLOURS[k], ms=6, label=label)
    axes.axvline(0, color="0.4", lw=1)
    labels = [name.replace("sex=male", "sex: male\nagainst female") for name in names]
    axes.set_yticks(range(len(names) - 1, -1, -1), labels)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+.0f} %" if value else "0 %")
    axes.set_title("What was found: change of triglycerides for one unit more,\n95 % intervals",
                   fontsize=10)  # fmt: skip
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    tidy(axes, axis="x")


def draw_exposure(axes: Axes, found: dict[float, pv.workflow.Estimate]) -> None:
    """What the release tells of a person whose reading is 100 mg/dL."""
    heights = range(len(found) - 1, -1, -1)
    for height, (factor, one), colour in zip(heights, found.items(), COLOURS):
        error = one.level**-0.5
        for deviations, width in ((1.96, 5), (1.0, 12)):
            ends = [100 * math.exp(sign * deviations * error) for sign in (-1, 1)]
            axes.plot(ends, [height, height], color=colour, lw=width, solid_capstyle="butt")
        axes.plot(100, height, "|", color="white", ms=12, mew=2)
        words = f"100 or {100 * factor:g}? A guess is right in {100 * CHANCE:g} %"
        axes.text(100, height + 0.2, words, ha="center", fontsize=8.5)
    axes.set_xscale("log")
    ticks = [10, 20, 50, 100, 200, 500, 1000]
    axes.set_xticks(ticks, list(map(str, ticks)))
    axes.minorticks_off()
    axes.set_yticks(heights, [f"s = {one.level:.3g}" for one in found.values()])
    axes.set_ylim(-0.5, len(found) - 0.4)
    axes.set_xlabel("mg/dL")
    axes.set_title("What one person is exposed to: how a release\n"
                   "tells a reading of 100 (thick 68 %, thin 95 %)", fontsize=10)  # fmt: skip
    tidy(axes, axis="x")


def level_text(found: pv.workflow.Estimate) -> str:
    """`s = 3.79: an unbiased guess has sd ≥ a factor of 1.67`."""
    least = down(math.exp(found.level**-0.5))
    return f"s = {found.level:.3g}: an unbiased guess has sd ≥ a factor of {least}"


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
