"""`privest plan … estimate` on files as they are, with a formula, of a mean, of means of groups."""

import json

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from privest.workflow import Spec
from privest.workflow.plan import make_plan
from privest.workflow.spec import Model, Privacy, Public, load_spec, save_spec
from workflow_command import runner
from workflow_tables import people

NOISE = ("--residual-variance", 0.3)
LISTS = ("--category", "sex=female,male")


@pytest.fixture
def privest(capsys, monkeypatch):
    return runner(capsys, monkeypatch)


@pytest.fixture
def frame():
    found = pd.DataFrame(people(300)).rename(columns={"bmi": "body mass"})
    found["ward"] = np.resize(["a", "b", "c"], len(found))
    return found


def german(frame, path):
    """As Excel saves it in Germany, with a code where a value is missing."""
    coded = frame.copy()
    coded.loc[[5, 9], "body mass"] = 77777
    coded.to_csv(path, sep=";", decimal=",", index=False, encoding="cp1252")
    return path


def exact(privest, folder, *plan):
    """Estimates of a release that shows everything: at its level the noise is nothing."""
    done = privest(
        "plan", "--form", "rows", *plan, *NOISE, "--level", 1e12, "--save", folder / "plan.toml"
    )
    assert done.code == 0, done.err
    done = privest(
        "release", folder / "plan.toml", "-o", folder / "z.csv", "--simulate", "--seed", 1
    )
    assert done.code == 0, done.err
    found = json.loads(privest("estimate", folder / "z.csv", "--json").out)
    return dict(zip(found["names"], found["value"]))


def test_a_formula_on_a_german_file_is_what_statsmodels_finds(privest, frame, tmp_path):
    path = german(frame, tmp_path / "people.csv")
    formula = "ldl ~ np.log(age)*C(sex) + Q('body mass') + I(age**2)"
    mine = formula.replace("Q('body mass')", "`body mass`")
    found = exact(
        privest, tmp_path, path, "--formula", mine, *LISTS, "--format", "decimal=,", "--format",
        "encoding=cp1252", "--format", "missing_codes=77777", "--missing", "drop",
    )  # fmt: skip
    peer = smf.ols(formula, frame.drop([5, 9])).fit().params
    names = {
        "Intercept": "intercept", "C(sex)[T.male]": "sex=male", "np.log(age)": "log(age)",
        "np.log(age):C(sex)[T.male]": "log(age):sex=male", "Q('body mass')": "body mass",
        "I(age ** 2)": "I(age ** 2)",
    }  # fmt: skip
    assert set(found) == set(names.values())
    for theirs, ours in names.items():
        assert found[ours] == pytest.approx(peer[theirs], rel=1e-4), ours


def test_means_of_groups_are_the_means(privest, frame, tmp_path):
    path = tmp_path / "people.xlsx"
    frame.to_excel(path, index=False, sheet_name="people")
    wards = ("--category", "ward=a,b,c")
    assert exact(privest, tmp_path, path, "--target", "ldl") == pytest.approx(
        {"intercept": frame["ldl"].mean()}, abs=1e-5
    )
    for by, named in ((["sex"], "sex={}"), (["sex", "ward"], "sex={}:ward={}")):
        folder = tmp_path / str(len(by))
        folder.mkdir()
        options = ("--target", "ldl", "--by", ",".join(by), *LISTS)
        found = exact(privest, folder, path, *options, *(wards if len(by) > 1 else ()))
        means = frame.groupby(by)["ldl"].mean()
        wanted = {named.format(*np.atleast_1d(key)): value for key, value in means.items()}
        assert found == pytest.approx(wanted, abs=1e-5)


def test_a_plan_file_holds_the_formula_and_how_to_read(privest, frame, tmp_path):
    path = german(frame, tmp_path / "people.csv")
    stated = Spec(
        str(path),
        Model(
            formula="log(ldl) ~ C(sex)*age", categories={"sex": ("female", "male")},
            missing="drop",
        ),
        Privacy(4.0, range={"ldl": (0.5, 9.0)}),
        Public(0.1),
        {"decimal": ",", "encoding": "cp1252", "missing_codes": [77777]},
    )  # fmt: skip
    model = stated.model
    assert (model.target, model.transform, model.features) == (("ldl",), "log", ("sex", "age"))
    save_spec(stated, tmp_path / "plan.toml")
    again = load_spec(tmp_path / "plan.toml")
    assert again == stated
    assert make_plan(again).names == ("intercept", "sex=male", "age", "sex=male:age")
    assert Spec.from_dict(again.to_dict()) == again


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--target", "ldl", "--features", "aeg"], "Did you mean 'age'?"),
        (["--target", "lld", "--features", "age"], "Did you mean 'ldl'?"),
        (["--formula", "ldl ~ age + C(sex)"], "needs its public list of categories"),
        (["--formula", "ldl ~ aeg"], "Did you mean 'age'?"),
        (["--formula", "ldl ~ age", "--features", "age"], "state two models"),
        (["--formula", "ldl ~ age", "--target", "bmi"], "the formula states the target"),
        (["--formula", "ldl ~ age", "--set", "model.intercept=false"], "`- 1`"),
        (["--target", "ldl", "--by", "sex"], "the public list of its groups"),
        (["--target", "ldl", "--format", "missing_codes=lld=9"], "Did you mean 'ldl'?"),
        (["--target", "ldl", "--features", "sex", "--category", "sexe=a,b"], "Did you mean 'sex'?"),
        (["--target", "ldl", "--features", '"age'], "a quote is not closed"),
        (["--target", "ldl", "--features", '"a, b"=5'], "Quote all that is between two commas"),
        (["--features", "age"], "--target is needed"),
        (["--target", "ldl", "--set", "model.wieghts=a"], "'wieghts' is not known"),
        (["--target", "ldl", "--set", "weights=a"], "write SECTION.NAME=VALUE"),
        (["--target", "ldl", "--set", "privacy.level=3"], "stated twice"),
    ],
)
def test_wrong_uses(privest, frame, tmp_path, given, said):
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    done = privest("plan", path, "--form", "rows", *given, *NOISE, "--level", 2)
    assert done.code == 2
    assert said in " ".join(done.err.split())


def test_decimal_commas_and_dates_in_the_target_say_what_to_do(privest, tmp_path):
    path = tmp_path / "p.csv"
    for cell, said in (
        ("1,5", "state the `decimal` mark"),
        ("2024-03-01", "give the year"),
        ("x", "not a number"),
    ):
        path.write_text(f"y;a\n{cell};1\n{cell};2\n")
        plan, given = tmp_path / "p.toml", ("--target", "y", "--features", "a", *NOISE)
        done = privest(
            "plan", path, "--form", "rows", *given, "--level", 2, "--save", plan, "--overwrite"
        )
        assert done.code == 0, done.err  # a plan does not read the private column
        done = privest("release", plan, "-o", tmp_path / "z.csv", "--simulate")
        assert done.code == 2
        assert said in " ".join(done.err.split())
        assert not (tmp_path / "z.csv").exists()
