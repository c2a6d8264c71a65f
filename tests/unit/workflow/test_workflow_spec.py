"""Plans as stated: TOML and the library give the same one, every malformed kind one message."""

import json
import tomllib
from dataclasses import replace

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.workflow import Spec
from privest.workflow.plan import make_plan
from privest.workflow.release import simulate_release
from privest.workflow.spec import Model, Privacy, Public, load_spec, save_spec, to_toml
from workflow_tables import spec

FULL = {
    "version": 4,
    "data": "p.csv",
    "model": {
        "target": ["y"],
        "features": ["age", "body mass", "sex"],
        "categories": {"sex": ["female", "male"]},
        "intercept": False,
        "missing": "drop",
        "transform": "log",
    },
    "privacy": {"epsilon": 0.5, "delta": 1e-6, "sensitivity": 2.0, "range": {"y": [0.5, 90.0]}},
    "public": {"reference": "r.csv"},
    "format": {"separator": ";", "missing_codes": ["sex=9"]},
}


def test_toml_and_plain_values_agree(tmp_path):
    stated = Spec.from_dict(FULL)
    assert stated.to_dict() == FULL
    assert Spec.from_dict(json.loads(json.dumps(stated.to_dict()))) == stated
    (tmp_path / "plan.toml").write_text(to_toml(stated), encoding="utf-8")
    found = load_spec(tmp_path / "plan.toml")
    assert found.data == str(tmp_path / "p.csv")
    assert found.public.reference == str(tmp_path / "r.csv")
    assert (found.model, found.privacy, found.format) == (
        stated.model, stated.privacy, stated.format
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "categories"),
    [
        ('a "quoted" \\ name', ("ä", "'", '"')),
        ("a=b.c", ("1", "2.5", "x y")),
        ("tab\tname", ("new\nline", "ok")),
    ],
)
def test_toml_keeps_odd_names(tmp_path, name, categories):
    odd = spec(features=("age", name), categories={name: categories}, target="été")
    save_spec(odd, tmp_path / "plan.toml")
    found = load_spec(tmp_path / "plan.toml")
    assert found.model == odd.model
    assert found.targets == ("été",)


def test_numbers_of_numpy_are_numbers_in_the_file(tmp_path):
    given = spec(
        public=Public(np.float64(1 / 3)),
        transform="log",
        privacy=Privacy(
            np.float32(0.25),
            delta=np.float64(1e-9),
            sensitivity=np.int64(3),
            range={"ldl": (np.float32(0.5), np.int64(7))},
        ),
    )
    save_spec(given, tmp_path / "plan.toml")
    found = load_spec(tmp_path / "plan.toml")
    assert (found.public, found.privacy) == (given.public, given.privacy)
    assert found.public.residual_variance == 1 / 3  # every digit


def test_plans_in_yaml_say_what_to_do(tmp_path):
    (tmp_path / "p.yml").write_text("data: d.csv")
    with pytest.raises(InvalidInput, match=r"p\.yml.*TOML"):
        load_spec(tmp_path / "p.yml")


def test_paths_are_those_of_the_plan_file(tmp_path, monkeypatch):
    """Saved from one folder, read from another: the same files, and no other of that name."""
    (tmp_path / "here").mkdir()
    (tmp_path / "plans").mkdir()
    for folder in ("here", "plans"):
        (tmp_path / folder / "people.csv").write_text(folder)
    monkeypatch.chdir(tmp_path / "here")
    save_spec(spec("people.csv"), "../plans/plan.toml")
    monkeypatch.chdir(tmp_path)
    with open(load_spec("plans/plan.toml").data) as file:
        assert file.read() == "here"
    save_spec(spec(tmp_path / "here" / "people.csv"), "absolute.toml")
    assert load_spec("absolute.toml").data == str(tmp_path / "here" / "people.csv")
    (tmp_path / "diabetes").mkdir()  # the embedded table is no path
    save_spec(spec("diabetes"), "plans/embedded.toml")
    assert load_spec("plans/embedded.toml").data == "diabetes"


GOOD = {
    "version": 4,
    "data": "p.csv",
    "model": {"target": "y", "features": ["age", "sex"]},
    "privacy": {"level": 1.0},
    "public": {"residual_variance": 1.0},
}
MISTAKES = {
    "public": [
        (3, "[public]"),
        ({"residual_variance": 1, "reference": "r.csv"}, "not both"),
        ({"residual_variance": 0}, "residual_variance must be > 0"),
        ({"residual_variance": "much"}, "residual_variance"),
        ({"residual_variance": float("nan")}, "residual_variance"),
        ({"reference": 5}, "reference"),
        ({"reference": "p.csv"}, "both the data and the reference"),
        ({"reference": "./q/../p.csv"}, "both the data and the reference"),
        ({"expected": {"age": "much"}}, "expected"),
        ({"expected": 3}, "expected"),
    ],
    "privacy": [
        ({}, "none of them"),
        ({"level": 1, "epsilon": 1}, "level, epsilon"),
        ({"level": -1}, "level must be > 1e-50"),
        ({"level": True, "eps": 1}, "'eps' is not known"),
        ({"level": 1, "move": 1}, "'move' is not known"),
        ({"epsilon": 1}, "ε needs"),
        ({"epsilon": 1, "delta": 1e-6}, "ε needs"),
        ({"epsilon": 1, "range": {"y": [0, 1]}}, "delta"),
        ({"level": 1, "delta": 1e-6}, "A delta needs a range"),
        ({"level": 1, "sensitivity": 1.0}, "A sensitivity needs a delta"),
        ({"level": 1, "delta": 1.0, "sensitivity": 1}, "< 1"),
        ({"level": 1, "range": {"y": [3, 2]}}, "range"),
        ({"level": 1, "range": [3, 2]}, "range"),
        ({"level": 1, "range": {"x": [0, 2]}}, "'x' is no target"),
        ({"standard_error": 0.1}, "standard_error"),
        ({"standard_error": {"age": 0}}, "standard_error"),
        ({"level": 1, "tolerance": 1.0}, "'tolerance' is not known"),
        ({"level": 1, "distribution": "coin"}, "distribution"),
        ({"level_column": "y"}, "level column"),
        ({"level_column": "age"}, "level column"),
        ({"level_column": "z"}, "level column"),
    ],
    "model": [
        ({"features": 7}, "features must be a list"),
        ({"features": ["age", 7]}, "each name of features"),
        ({"features": ["age", "age"]}, "more than once"),
        ({"features": ["age", "y"]}, "'y' is a private target"),
        ({"features": ["z"]}, "'z'"),
        ({"features": ["intercept"]}, "'intercept'"),
        ({"features": [], "intercept": False}, "intercept or at least one feature"),
        ({"categories": ["female"]}, "categories"),
        ({"categories": {"sex": "ab"}}, "categories of 'sex' must be a list"),
        ({"categories": {"sex": 2}}, "categories of 'sex' must be a list"),
        ({"categories": {"sex": ["a"]}}, "two or more"),
        ({"categories": {"job": ["a", "b"]}}, "'job'"),
        ({"missing": "ignore"}, "refuse"),
        ({"transform": "sqrt"}, "none, log"),
        ({"family": "gamma"}, "family"),
        ({"intercept": "no"}, "true or false"),
        ({"target": ""}, "target"),
        ({"target": 3}, "target"),
        ({"target": []}, "target"),
        ({"target": ["y", "y"]}, "different"),
        ({"person": "y"}, "'y' is a private target"),
        ({"weights": "y"}, "'y' is a private target"),
        ({"person": "age"}, "'age'"),
        ({"person": "id", "most_rows": 0}, "most_rows"),
        ({"most_rows": 3}, "whose row it is"),
        ({"formula": "y ~ age"}, "the formula states the features"),
    ],
}


@pytest.mark.parametrize(
    ("part", "change", "words"),
    [(part, *one) for part, listed in MISTAKES.items() for one in listed],
)
def test_each_mistake_has_one_message(part, change, words):
    whole = GOOD[part] | change if part == "model" else change
    with pytest.raises(InvalidInput) as caught:
        Spec.from_dict(GOOD | {part: whole})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": ["p.csv"]}, "data"),
        ({"dta": "p.csv"}, "'dta' is not known"),
        ({3: "p.csv", "x": 1}, "'3' is not known"),
        ({"version": 5}, "version 5"),
        ({"version": 3}, "privest 0.2"),
        ({"version": True}, "version"),
        ({"format": {"separator": 3}}, "separator"),
    ],
)
def test_each_mistake_outside_the_sections(change, words):
    with pytest.raises(InvalidInput) as caught:
        Spec.from_dict(GOOD | change)
    assert words in str(caught.value)


@pytest.mark.parametrize("left_out", ["data", "model", "privacy"])
def test_what_is_needed(left_out):
    record = {name: value for name, value in GOOD.items() if name != left_out}
    with pytest.raises(InvalidInput, match=left_out):
        Spec.from_dict(record)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.toml", b"data = ", "is not TOML"),
        ("a.toml", b"data = 'x'\ndata = 'y'", "is not TOML"),
        ("a.toml", "data = 'é'".encode("latin-1"), "not UTF-8"),
        ("a.toml", b"", "without a version"),
        ("a.json", b"{}", "ends with .toml"),
    ],
)
def test_files_that_hold_no_plan(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInput) as caught:
        load_spec(tmp_path / name)
    assert words in str(caught.value)
    assert name in str(caught.value)


def test_files_that_cannot_be_read_or_written(tmp_path):
    with pytest.raises(InvalidInput, match="No such file"):
        load_spec(tmp_path / "none.toml")
    with pytest.raises(InvalidInput, match="cannot read"):
        load_spec(tmp_path)
    with pytest.raises(InvalidInput, match=r"\.toml"):
        save_spec(spec(), tmp_path / "plan.yaml")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot be written"):
        save_spec(spec(), tmp_path / "file" / "plan.toml")


def test_the_byte_order_mark_of_an_editor_is_no_mistake(tmp_path):
    (tmp_path / "p.toml").write_text(to_toml(spec()), encoding="utf-8-sig")
    assert load_spec(tmp_path / "p.toml").targets == ("ldl",)


@pytest.mark.parametrize(
    ("model", "privacy", "codes"),
    [
        ({"family": "binomial"}, {"epsilon": 1.0}, ["0"]),
        ({}, {"level": 1.0, "range": {"y": [0, 10]}}, ["7"]),
        ({}, {"level": 1.0, "range": {"y": [0, 10]}}, ["y=7"]),
    ],
)
def test_a_missing_code_that_a_value_can_be(model, privacy, codes):
    """Rows would be left out for what their value is: public facts are enough to refuse that."""
    record = GOOD | {"model": GOOD["model"] | model, "privacy": privacy, "public": {}}
    with pytest.raises(InvalidInput, match="a value that 'y' can have"):
        Spec.from_dict(record | {"format": {"missing_codes": codes}})
    Spec.from_dict(record | {"format": {"missing_codes": ["77777", "age=0"]}})


def test_a_saved_plan_holds_what_was_stated_and_nothing_else(tmp_path):
    """A default that is written down would be stated from then on: distribution = "gaussian" is
    another wish than none, and what is usual may change."""
    plan = spec("people.csv", weights="w")
    save_spec(plan, tmp_path / "plan.toml")
    text = (tmp_path / "plan.toml").read_text(encoding="utf-8")
    unstated = ("distribution", "intercept", "missing", "transform", "family", "most_rows")
    assert not [name for name in unstated if f"{name} =" in text]
    assert load_spec(tmp_path / "plan.toml").model.weights == "w"
    other = spec("people.csv", intercept=False, missing="drop")
    other = replace(other, privacy=replace(other.privacy, distribution="gaussian"))
    text = to_toml(other)
    assert all(one in text for one in ("intercept = false", 'missing = "drop"', "distribution = "))
    assert Spec.from_dict(tomllib.loads(text)) == other


def test_a_formula_is_written_once(tmp_path):
    given = Model(formula="log(y) ~ age*C(sex) - 1", categories={"sex": ("f", "m")})
    stated = Spec("p.csv", given, Privacy(1.0, range={"y": (0.5, 9.0)}))
    assert set(stated.to_dict()["model"]) == {"formula", "categories"}
    save_spec(stated, tmp_path / "plan.toml")
    found = load_spec(tmp_path / "plan.toml").model
    assert found == given
    assert (found.target, found.transform, found.features) == (("y",), "log", ("age", "sex"))


def test_a_simulation_without_a_file_is_the_same_simulation(tmp_path):
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=30), "y": rng.normal(size=30)}
    plan = make_plan(Spec("t", Model("y", ("x",)), Privacy(level=4.0), Public()), data)
    written = simulate_release(plan, tmp_path / "z.csv", np.random.default_rng(1), data)
    held = replace(plan, data=data).simulate(rng=np.random.default_rng(1))
    assert (held.rows, held.dropped, held.persons) == (30, 0, None)
    assert not (tmp_path / "release.csv").exists()
    for ours, theirs in zip(held.blocks(), written.blocks(), strict=True):
        np.testing.assert_allclose(ours.z, theirs.z, rtol=1e-12)
        np.testing.assert_array_equal(ours.H, theirs.H)
