"""Every kind of plan: a small table, the options of `privest plan`, and how it is estimated."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

ROWS = 60
SEX = "--category sex=female,male"
FEATURES = f"--features age,bmi,sex {SEX}"
LINEAR = f"--target ldl {FEATURES}"
RANGE = "--range=-4,6 --delta 1e-6"
STATED = "--residual-variance 0.3"
COUNTS = f"--target visits {FEATURES} --family poisson --range 0,30"
LOG = f"--target income {FEATURES} --transform log --range 0.1,50"
TWO = f"--target ldl,hdl {FEATURES} --range ldl=-4,6 --range hdl=-4,4"


@dataclass(frozen=True)
class Kind:
    """Options of `privest plan`, and those of each call of `privest estimate`."""

    plan: str
    estimates: tuple[str, ...] = ("",)
    table: str = "people.csv"


def tables() -> dict[str, pd.DataFrame]:
    """Of people, of their visits, and a public reference; the same on every machine."""
    rng = np.random.default_rng(28)
    people = pd.DataFrame(
        {
            "age": rng.uniform(20, 80, ROWS).round(1),
            "bmi": rng.normal(27, 4, ROWS).round(1),
            "sex": rng.choice(["female", "male"], ROWS),
            "weight": rng.integers(1, 9, ROWS),
            "level": rng.choice([0.5, 1.0, 2.0, 4.0], ROWS),
        }
    )
    mean = 1 + 0.02 * people.age - 0.05 * people.bmi + 0.4 * (people.sex == "male")
    people["ldl"] = (mean + np.sqrt(0.3) * rng.standard_normal(ROWS)).round(3)
    people["hdl"] = (0.5 * mean + 0.4 * rng.standard_normal(ROWS)).round(3)
    people["income"] = np.exp(people.ldl).round(3)
    people["smokes"] = (rng.random(ROWS) < 0.3).astype(int)
    people["visits"] = rng.poisson(np.exp(0.2 + 0.02 * people.age))
    gaps = people.copy()
    gaps.loc[[3, 17], "ldl"] = np.nan
    gaps.loc[[5], "bmi"] = np.nan
    persons = people.assign(person=[f"p{i // 3}" for i in range(ROWS)])
    reference = people.assign(ldl=(mean + 0.5 * rng.standard_normal(ROWS)).round(3))
    return {
        "people.csv": people,
        "gaps.csv": gaps,
        "visits.csv": persons,
        "reference.csv": reference[["age", "bmi", "sex", "ldl"]],
    }


KINDS = {
    "level": Kind(
        f"{LINEAR} {STATED} --level 2",
        ("", "--errors t", "--errors HC2"),
    ),
    "level-unknown-variance": Kind(f"{LINEAR} --level 2"),
    "range": Kind(f"{LINEAR} {STATED} {RANGE} --level 2"),
    "range-clips": Kind(f"{LINEAR} {STATED} --range 0,2 --delta 1e-6 --level 4"),
    "range-clips-unknown-variance": Kind(f"{LINEAR} --range 0,2 --delta 1e-6 --level 4"),
    "move": Kind(f"{LINEAR} {STATED} --level 2 --delta 1e-6 --set privacy.sensitivity=0.5"),
    "epsilon": Kind(f"{LINEAR} {STATED} {RANGE} --epsilon 20"),
    "accuracy": Kind(f"{LINEAR} {STATED} {RANGE} --standard-error age=0.01"),
    "reference": Kind(f"{LINEAR} {RANGE} --reference reference.csv --level 2"),
    "formula": Kind(
        f"--formula 'ldl ~ age*C(sex) + I(bmi**2)' {SEX} {STATED} {RANGE} --level 2",
    ),
    "logarithm": Kind(
        f"{LOG} {STATED} --delta 1e-6 --level 4",
        ("", "--at age=50,bmi=27,sex=male"),
    ),
    "mean": Kind(f"--target ldl {RANGE} --level 2"),
    "means-of-groups": Kind(f"--target ldl --by sex {SEX} {RANGE} --level 2"),
    "no-intercept": Kind(f"{LINEAR} {STATED} {RANGE} --level 2 --set model.intercept=false"),
    "missing": Kind(f"{LINEAR} {STATED} {RANGE} --level 2 --missing drop", table="gaps.csv"),
    "weights": Kind(f"{LINEAR} {STATED} {RANGE} --level 2 --set model.weights=weight"),
    "laplace": Kind(f"{LINEAR} {STATED} --range=-4,6 --distribution laplace --level 2"),
    "laplace-epsilon": Kind(f"{LINEAR} {STATED} --range=-4,6 --distribution laplace --epsilon 5"),
    "yes-no": Kind(f"--target smokes {FEATURES} --family binomial --epsilon 2"),
    "counts": Kind(f"{COUNTS} --delta 1e-6 --level 1"),
    "counts-laplace": Kind(f"{COUNTS} --distribution laplace --epsilon 10"),
    "level-column": Kind(f"{LINEAR} {STATED} {RANGE} --level-column level"),
}

SUMS = "--form aggregate --epsilon 8"
AGGREGATE = {
    "aggregate": Kind(f"{LINEAR} {STATED} --range=-4,6 {SUMS}"),
    "aggregate-unknown-variance": Kind(f"{LINEAR} --range=-4,6 {SUMS}"),
    "aggregate-mean": Kind(f"--target ldl --range=-4,6 {SUMS}"),
    "aggregate-groups": Kind(f"--target ldl --by sex {SEX} --range=-4,6 {SUMS}"),
    "aggregate-few-sums": Kind(f"{LINEAR} --range=-4,6 --form aggregate --epsilon 0.3"),
    "aggregate-formula": Kind(
        f"--formula 'ldl ~ age*C(sex) + I(bmi**2)' {SEX} --range=-4,6 {SUMS}",
    ),
    "aggregate-logarithm": Kind(f"{LOG} {STATED} {SUMS}"),
    "aggregate-missing": Kind(f"{LINEAR} --range=-4,6 {SUMS} --missing drop", table="gaps.csv"),
    "aggregate-exposure": Kind(f"{LINEAR} {STATED} --range=-4,6 --form aggregate --level 2"),
    "aggregate-accuracy": Kind(
        f"{LINEAR} {STATED} --range=-4,6 --form aggregate --standard-error age=0.01"
    ),
    "aggregate-persons": Kind(
        f"{LINEAR} --range=-4,6 {SUMS} --person person --set model.most_rows=2", table="visits.csv"
    ),
    "aggregate-yes-no": Kind(f"--target smokes {FEATURES} --family binomial {SUMS}"),
    "aggregate-two-columns": Kind(f"{TWO} {SUMS}"),
    "aggregate-matrix": Kind(
        f"{LINEAR} --range=-4,6 {SUMS} --set privacy.publish=matrix",
        ("", "--features age,sex", "--at age=50,bmi=27,sex=male"),
    ),
}

STREAM = "--target ldl --features age,bmi --seed 7 --simulate --block 20 --output-format jsonl"
STREAMS = {
    "estimates": f"{STREAM} --level 2 {STATED} --intercept",
    "unknown-variance": f"{STREAM} --level 2 --intercept",
    "range": f"{STREAM} --level 2 {RANGE} --intercept",
    "lags": f"{STREAM} --level 2 --lags 0.5,0.25 {STATED} --intercept",
    "releases": f"{STREAM} --level 2 {RANGE} --emit releases",
}
