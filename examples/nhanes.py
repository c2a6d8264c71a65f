"""NHANES 2011-12: private triglycerides on age, body mass index, sex and income.

    python examples/nhanes.py [FOLDER of the data] [FOLDER for the picture]

The first folder has nhanes_raw/ with the CDC's tables DEMO_G, BMX_G and TRIGLY_G (../shared/data,
where it is beside this project; the data are no part of it), the second is `out`. The noise is
simulated with a fixed seed, so that the numbers are those of docs/tutorials/survey.md:
nothing is protected.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

import privest as pv
from privest.report.describe import describe
from privest.report.figures import new_figure, save, tidy
from privest.workflow.result import TableEstimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DATA = Path(__file__).parents[2] / "shared" / "data"
TABLES = ("DEMO_G", "BMX_G", "TRIGLY_G")
FEATURES = ["age, 10 years", "BMI, 5 kg/m²", "sex", "income ratio"]
FACTORS = (4.0, 2.0, 1.25)  # two values that differ by it ...
SEED = 2012
EPSILON = 1.0  # of the estimates from noisy sums
CHANCE = 0.75  # ... are told apart with at most this probability; guessing: 0.5
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


def asked() -> dict[str, Any]:
    """The model and the public range."""
    return {
        "target": "triglycerides", "features": FEATURES, "transform": "log", "missing": "drop",
        "categories": {"sex": ["female", "male"]}, "range": RANGE,
    }  # fmt: skip


def plan_for(table: pd.DataFrame, factor: float) -> pv.workflow.Plan:
    """Noisy rows, at whose level values that differ by `factor` are told apart with `CHANCE`."""
    level = pv.PrivacyLevel.from_attacker(math.log(factor), CHANCE).number
    return pv.plan(table, form="rows", weights="weight", level=level, **asked())


def main(folder: Path = DATA, out: Path = Path("out")) -> dict[float, TableEstimate]:
    """The estimate at each level of rows, by its factor; printed is the one in the middle.

    Three simulations, to compare. Real releases add up: a data owner chooses one level.
    """
    table = people(folder)
    sums = pv.plan(table, epsilon=EPSILON, **asked())
    print(*describe(sums, keys=["exposure"]))
    print(pv.estimate(sums.simulate(rng=SEED)).summary())
    plans = {factor: plan_for(table, factor) for factor in FACTORS}
    found = {factor: pv.estimate(plan.simulate(rng=SEED)) for factor, plan in plans.items()}
    print(plans[FACTORS[1]].summary())
    print(*describe(plans[FACTORS[1]], keys=["exposure"]))
    print(found[FACTORS[1]].summary())
    draw(found, out / "nhanes.png")
    return found


def draw(found: dict[float, TableEstimate], path: Path) -> None:
    """Left the estimates at each level, right what a reader guesses about one person."""
    figure = new_figure(11, 4.6)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    draw_effects(left, found)
    draw_exposure(right, found)
    title = "Triglycerides in NHANES 2011-12 at three privacy levels s (a larger s reveals more)"
    figure.suptitle(title, fontsize=12)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)
    print(f"Picture: {path}")


def draw_effects(axes: Axes, found: dict[float, TableEstimate]) -> None:
    """Percent for one unit more, with 95% intervals."""
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
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+.0f}%" if value else "0%")
    axes.set_title("Change of triglycerides for one unit more,\n95% intervals",
                   fontsize=10)  # fmt: skip
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    tidy(axes, axis="x")


def draw_exposure(axes: Axes, found: dict[float, TableEstimate]) -> None:
    """What a reader who fits the regression and shrinks guesses about a person predicted at 100."""
    heights = range(len(found), -1, -1)
    sd = math.sqrt(found[FACTORS[1]].noise_found or 0.0)
    guesses = [sd, *(pv.privacy.exposure(one.level, sd=sd).after for one in found.values())]
    for height, guess, colour in zip(heights, guesses, ("0.6", *COLOURS)):
        for deviations, width in ((1.96, 5), (0.6745, 12)):
            ends = [100 * math.exp(sign * deviations * guess) for sign in (-1, 1)]
            axes.plot(ends, [height, height], color=colour, lw=width, solid_capstyle="butt")
        axes.plot(100, height, "|", color="white", ms=12, mew=2)
    for height, factor in zip(heights[1:], found):
        words = f"100 or {100 * factor:g}? An attacker is right at most {100 * CHANCE:g}%"
        axes.text(100, height + 0.2, words, ha="center", fontsize=8.5)
    axes.set_xscale("log")
    ticks = [20, 50, 100, 200, 500]
    axes.set_xticks(ticks, list(map(str, ticks)))
    axes.minorticks_off()
    axes.set_yticks(heights, ["without\nthe row", *map(level_text, found.values())])
    axes.set_ylim(-0.5, len(found) + 0.6)
    axes.set_xlabel("mg/dL")
    axes.set_title("How closely an ordinary reader guesses the value of\n"
                   "one person (thick 50%, thin 95% of the cases)", fontsize=10)  # fmt: skip
    tidy(axes, axis="x")


def level_text(found: TableEstimate) -> str:
    """`s = 3.79`."""
    return f"s = {found.level:.3g}"


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
