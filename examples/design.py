"""Who gives up how much: the best level for each person, beside equal ones, on a health survey.

    python examples/design.py [FOLDER for the picture] [FOLDER of NHANES]

How do triglycerides (a fat in the blood, private) go with body mass index, if age, sex and blood
pressure (or income) are held? 442 people that come with scikit-learn; with the second folder
(nhanes_raw/ in it, see examples/nhanes.py) those of NHANES 2011-12. Four ways to choose levels,
each tried 10,000 times with simulated noise of a fixed seed, so that the numbers are those of
docs/explanation/fairness.md; one real release, which is another one in every run.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import privest as pv
from privest.report.figures import new_figure, save, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVEL = 1.0  # of everybody, on average
CAP = 4.0  # what nobody should exceed, in the third way: ± 0.5, a factor of 1.65
TRIALS = 10_000
SEED = 2012
BMI = "BMI, 5 kg/m²"
COLOURS = {"equal": "0.45", "best": "#1b4f8f", "capped": "#4f8fcf", "equalised": "#c25b1e"}


class People(NamedTuple):
    """Public features (with an intercept), private values, and what the people are called."""

    model: pv.LinearModel
    measurements: np.ndarray
    words: str

    @property
    def bmi(self) -> np.ndarray:
        return 5 * self.model.matrix[:, self.model.names.index(BMI)]


class Way(NamedTuple):
    """One way to choose levels: what theory says of the error of the effect, and the trials."""

    words: str
    level: pv.PrivacyLevel
    levels: np.ndarray
    error: float
    found: float  # standard deviation of the estimates in the trials

    @property
    def doubt(self) -> float:
        """The relative standard error of `found`: that of an sd over the trials."""
        return 1 / math.sqrt(2 * TRIALS)


def embedded() -> People:
    """442 people, as scikit-learn brings them."""
    table = pv.data.load_diabetes()
    age, sex, bmi, pressure = table.features.T
    columns = {"age, 10 years": age / 10, BMI: bmi / 5, "sex": sex, "pressure": pressure / 10}
    return People(_model(columns, 0.2), table.response, "442 people (scikit-learn's diabetes data)")


def survey(folder: Path) -> People:
    """NHANES 2011-12, complete cases."""
    sys.path.insert(0, str(Path(__file__).parent))
    from nhanes import people

    table = people(folder).dropna()
    columns = {name: table[name].to_numpy() for name in ("age, 10 years", BMI, "income ratio")}
    columns["sex"] = (table["sex"] == "male").to_numpy(dtype=float)
    words = f"{len(table):,} people (NHANES 2011-12)"
    return People(_model(columns, 0.27), np.log(table["triglycerides"].to_numpy()), words)


def _model(columns: dict[str, np.ndarray], variance: float) -> pv.LinearModel:
    """Variance of log triglycerides among like people: public, from earlier studies."""
    H = np.column_stack([np.ones(len(columns[BMI])), *columns.values()])
    return pv.LinearModel(H, noise=variance, names=["intercept", *columns])


def ways(people: People) -> dict[str, Way]:
    """Equal levels; the best for the same total; the same below a cap; equal for that error."""
    model = people.model
    total = LEVEL * model.measurements
    wanted = [float(name == BMI) for name in model.names]
    best = pv.design.allocate(model, total, criterion=wanted)
    capped = pv.design.allocate(model, total, criterion=wanted, cap=CAP)
    fair = pv.design.least_loss(model, best.value, criterion=wanted, loss="largest")
    levels = {
        "equal": ("equal levels", pv.PrivacyLevel(np.full(model.measurements, LEVEL))),
        "best": ("best levels, same total", best.level),
        "capped": (f"best levels, nobody above {CAP:g}", capped.level),
        "equalised": ("equalised, error of the best", fair.level),
    }  # fmt: skip
    return {name: tried(people, words, level) for name, (words, level) in levels.items()}


def tried(people: People, words: str, level: pv.PrivacyLevel) -> Way:
    """Readings of a known truth, released and estimated, many times over."""
    model, rng = people.model, np.random.default_rng(SEED)
    j = model.names.index(BMI)
    truth = np.linalg.lstsq(model.matrix, people.measurements, rcond=None)[0]
    mechanism = pv.mechanism.GaussianMechanism(level, model.measurements)
    y = model.sample(truth, rng, trials=TRIALS)
    found = pv.estimate(mechanism.simulate(y, rng), model, mechanism=mechanism)
    errors = found.value[:, j] - truth[j]
    return Way(
        words,
        level,
        level.for_size(model.measurements).diagonal(),
        float(pv.bound(model, level).standard_error[j]),
        float(np.sqrt(np.mean(errors**2))),
    )


def real(people: People, level: pv.PrivacyLevel) -> tuple[float, float]:
    """The BMI effect and its error from one real release: protected noise, no seed."""
    mechanism = pv.mechanism.GaussianMechanism(level, people.model.measurements)
    z = mechanism.release(people.measurements)
    found = pv.estimate(z, people.model, mechanism=mechanism)
    j = people.model.names.index(BMI)
    return float(found.value[j]), float(pv.bound(people.model, level).standard_error[j])


def main(out: Path = Path("out"), folder: Path | None = None) -> dict[str, Way]:
    people = embedded() if folder is None else survey(folder)
    found = ways(people)
    print(f"{people.words}: the effect of BMI on log triglycerides")
    print(f"{'':32}  error   in trials   total  largest  level 0")
    for way in found.values():
        print(
            f"{way.words:32} {way.error:.4f}  {way.found:.4f} ± {way.doubt * way.error:.4f} "
            f"{way.levels.sum():6.0f} {way.levels.max():8.2f} {np.mean(way.levels == 0):8.0%}"
        )
    saved = (found["equal"].error / found["best"].error) ** 2
    print(f"Equal levels would need {saved:.2f} times as many people for the error of the best.")
    effect, error = real(people, found["best"].level)
    print(f"One real release at the best levels: {effect:.3f} ± {error:.3f}")
    draw(people, found, out / "design.png")
    return found


def draw(people: People, found: dict[str, Way], path: Path) -> None:
    """Left the standard errors, right the level of each person."""
    figure = new_figure(11, 4.6)
    left, right = figure.subplots(1, 2, width_ratios=(4, 5))
    draw_errors(left, found)
    draw_levels(right, people, found)
    figure.suptitle(
        f"Triglycerides and body mass index, {people.words}: levels by design",
        fontsize=12,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)
    print(f"Picture: {path}")


def draw_errors(axes: Axes, found: dict[str, Way]) -> None:
    """The error of the effect by each way: a bar by theory, a dot from the trials."""
    heights = range(len(found) - 1, -1, -1)
    before = found["equal"].error
    for height, (name, way) in zip(heights, found.items()):
        axes.barh(height, way.error, color=COLOURS[name], height=0.6, alpha=0.85)
        label = f"{TRIALS:,} trials, 95%" if height == 0 else None
        axes.errorbar(way.found, height, xerr=1.96 * way.doubt * way.error, fmt="o", color="black",
                      ms=4, capsize=3, label=label)  # fmt: skip
        total = f"total {way.levels.sum():,.0f}, nobody above {way.levels.max():.3g}"
        axes.text(0.02 * before, height, total, va="center", color="white", fontsize=9)
        if name != "equal":
            less = f"{100 * (way.error / before - 1):.0f}%".replace("-", "−")
            axes.text(way.error + 0.04 * before, height, less, va="center", fontsize=9)
    axes.set_yticks(heights, [way.words.replace(", ", ",\n") for way in found.values()])
    axes.set_xlabel("standard error of the BMI effect (bars: theory)")
    axes.set_title("Standard error", fontsize=10)
    axes.set_xlim(0, 1.1 * before)
    axes.set_ylim(-0.85, len(found) - 0.55)
    axes.legend(fontsize=8, frameon=False, loc="lower right")
    tidy(axes, axis="x")


def draw_levels(axes: Axes, people: People, found: dict[str, Way]) -> None:
    """The level of each person against BMI; the sd of an unbiased guess on the right."""
    ends = [people.bmi.min(), people.bmi.max()]
    for name, way in found.items():
        if np.ptp(way.levels):
            axes.plot(people.bmi, way.levels, ".", ms=5, alpha=0.7, color=COLOURS[name],
                      label=way.words)  # fmt: skip
        else:
            axes.plot(ends, way.levels[:2], color=COLOURS[name], lw=2, label=way.words,
                      ls="--" if name == "equal" else "-")  # fmt: skip
    top = max(way.levels.max() for way in found.values())
    axes.set_ylim(-0.03 * top, 1.05 * top)
    nothing = np.mean(found["best"].levels == 0)
    words = f"{nothing:.0%} of the people have\nlevel 0 in the best design"
    middle, colour = float(np.median(people.bmi)), COLOURS["best"]
    axes.annotate(words, (middle, 0), (middle, 0.55 * top), ha="center", fontsize=8.5,
                  color=colour, arrowprops={"arrowstyle": "->", "color": colour})  # fmt: skip
    axes.set_xlabel("body mass index, kg/m²")
    axes.set_ylabel("privacy level s (a larger s reveals more)")
    axes.set_title("Level of each person", fontsize=10)
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    tidy(axes)
    other = axes.twinx()
    other.set_ylim(*axes.get_ylim())
    ticks = [s for s in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0) if s < 1.05 * top]
    other.set_yticks(ticks, [f"{math.exp(s**-0.5):.2f}" for s in ticks])
    other.set_ylabel("least sd of an unbiased guess, as a factor", fontsize=9)
    other.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
