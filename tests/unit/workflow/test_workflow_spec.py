"""Plans as stated: TOML and YAML give the same one, and every malformed kind one clear message."""

import json
import tomllib
from dataclasses import replace

import numpy as np
import pytest
import yaml

from privest.errors import InvalidInput
from privest.workflow import (
    Public,
    Privacy,
    Spec,
    load_spec,
    make_plan,
    save_spec,
    simulate_release,
)
from privest.workflow import simulate_held
from workflow_tables import spec

FULL = {
    "data": "p.csv",
    "target": "y",
    "features": ["age", "body mass", "sex"],
    "categories": {"sex": ["female", "male"]},
    "noise": {"reference": "r.csv"},
    "privacy": {"epsilon": 0.5, "delta": 1e-6, "move": 2.0, "range": [0.5, 90.0]},
    "intercept": False,
    "missing": "drop",
    "transform": "log",
}


def test_toml_and_yaml_and_the_library_agree(tmp_path):
    stated = Spec.from_dict(FULL)
    files = {"plan.toml": stated.to_toml(), "plan.yaml": yaml.safe_dump(FULL, allow_unicode=True)}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        found = load_spec(tmp_path / name)
        assert found.data == str(tmp_path / "p.csv")
        assert found.noise.reference == str(tmp_path / "r.csv")
        for part in ("target", "features", "categories", "privacy", "intercept", "missing"):
            assert getattr(found, part) == getattr(stated, part)
        assert found.transform == "log"
    assert Spec.from_dict(json.loads(json.dumps(stated.to_dict()))) == stated


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
    assert (found.features, dict(found.categories)) == (odd.features, dict(odd.categories))
    assert found.target == "été"


def test_numbers_of_numpy_are_numbers_in_the_file(tmp_path):
    given = spec(
        public=Public(np.float64(1 / 3)),
        transform="log",
        privacy=Privacy(
            np.float32(0.25),
            delta=np.float64(1e-9),
            sensitivity=np.int64(3),
            range=(np.float32(0.5), np.int64(7)),
        ),
    )
    save_spec(given, tmp_path / "plan.toml")
    found = load_spec(tmp_path / "plan.toml")
    assert (found.noise, found.privacy) == (given.noise, given.privacy)
    assert found.noise.variance == 1 / 3  # every digit


def test_yaml_reads_a_power_of_ten_as_a_number(tmp_path):
    """PyYAML alone takes 1e-6 for a text."""
    file = tmp_path / "p.yml"
    file.write_text(
        "data: d.csv\ntarget: y\nfeatures: [a]\nnoise: {variance: 2E+1}\n"
        "privacy: {level: .5e1, delta: 1e-6, move: 1}\n"
    )
    found = load_spec(file)
    assert (found.noise.variance, found.privacy.level, found.privacy.delta) == (20.0, 5.0, 1e-6)


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
    "data": "p.csv",
    "target": "y",
    "features": ["age", "sex"],
    "noise": {"variance": 1.0},
    "privacy": {"level": 1.0},
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"noise": 3}, "[noise]"),
        ({"noise": {"variance": 1, "reference": "r.csv"}}, "not both"),
        ({"noise": {"variance": 0}}, "noise variance must be > 0"),
        ({"noise": {"variance": "much"}}, "noise variance"),
        ({"noise": {"variance": float("nan")}}, "noise variance"),
        ({"noise": {"reference": 5}}, "noise reference"),
        ({"noise": {"reference": "p.csv"}}, "both the data and the reference"),
        ({"noise": {"reference": "./q/../p.csv"}}, "both the data and the reference"),
        ({"privacy": {}}, "none of them"),
        ({"privacy": {"level": 1, "epsilon": 1}}, "level, epsilon"),
        ({"privacy": {"level": -1}}, "privacy level must be > 0"),
        ({"privacy": {"level": True, "eps": 1}}, "'eps' is not known"),
        ({"privacy": {"epsilon": 1}}, "needs delta and move"),
        ({"privacy": {"level": 1, "delta": 1e-6}}, "go together"),
        ({"privacy": {"level": 1, "delta": 1.0, "move": 1}}, "below 1"),
        ({"privacy": {"standard_error": 0.1}}, "`of`"),
        ({"privacy": {"standard_error": 0.1, "of": 3}}, "privacy of"),
        ({"features": "age"}, "features must be a list"),
        ({"features": 7}, "features must be a list"),
        ({"features": ["age", 7]}, "each of the features"),
        ({"features": ["age", "age"]}, "more than once"),
        ({"features": ["age", "y"]}, "'y' is the target"),
        ({"features": ["z"]}, "'z'"),
        ({"features": ["intercept"]}, "'intercept'"),
        ({"features": [], "intercept": False}, "intercept or at least one feature"),
        ({"categories": ["female"]}, "[categories]"),
        ({"categories": {"sex": "ab"}}, "categories of 'sex' must be a list"),
        ({"categories": {"sex": 2}}, "categories of 'sex' must be a list"),
        ({"categories": {"sex": ["a"]}}, "two or more"),
        ({"categories": {"job": ["a", "b"]}}, "'job'"),
        ({"missing": "ignore"}, "refuse"),
        ({"transform": "sqrt"}, "one of none, log"),
        (
            {"transform": "box-cox", "noise": {"exponent": 0.5}},
            "removed in version 0.2: use transform log",
        ),
        ({"intercept": "no"}, "true or false"),
        ({"target": ""}, "target"),
        ({"target": 3}, "target"),
        ({"data": ["p.csv"]}, "data"),
        ({"dta": "p.csv"}, "'dta' is not known"),
        ({3: "p.csv", "x": 1}, "'3' is not known"),
    ],
)
def test_each_mistake_has_one_message(change, words):
    record = {name: value for name, value in (GOOD | change).items() if value is not None}
    with pytest.raises(InvalidInput) as caught:
        Spec.from_dict(record)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("left_out", ["data", "target"])
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
        ("a.yaml", b"data: [", "is not YAML"),
        ("a.yaml", b"- a\n- b", "names with values"),
        ("a.yaml", b"", "names with values"),
        ("a.yaml", b"data: 2021-02-31", "is not YAML"),
        ("a.yaml", b"data: !!python/object/apply:os.getcwd []", "is not YAML"),
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
    (tmp_path / "p.toml").write_text(spec().to_toml(), encoding="utf-8-sig")
    assert load_spec(tmp_path / "p.toml").target == "ldl"


@pytest.mark.parametrize(
    ("more", "codes"),
    [
        ({"family": "binomial", "privacy": {"epsilon": 1.0}}, ["0"]),
        ({"privacy": {"level": 1.0, "range": [0, 10]}}, ["7"]),
        ({"privacy": {"level": 1.0, "range": [0, 10]}}, ["y=7"]),
    ],
)
def test_a_missing_code_that_a_reading_can_be(more, codes):
    """Rows would be left out for what their reading is: public facts are enough to refuse that."""
    record = {name: value for name, value in GOOD.items() if name != "noise"} | more
    with pytest.raises(InvalidInput, match="a value that 'y' can have"):
        Spec.from_dict(record | {"reading": {"missing_codes": codes}})
    Spec.from_dict(record | {"reading": {"missing_codes": ["77777", "age=0"]}})


def test_a_saved_plan_holds_what_was_stated_and_nothing_else(tmp_path):
    """A default that is written down would be stated from then on: law = "gaussian" is another
    wish than none, and what is usual may change."""
    plan = spec("people.csv", person="name")
    save_spec(plan, tmp_path / "plan.toml")
    text = (tmp_path / "plan.toml").read_text(encoding="utf-8")
    unstated = ("law", "intercept", "missing", "transform", "family", "design", "most")
    assert not [name for name in unstated if f"{name} =" in text]
    assert load_spec(tmp_path / "plan.toml").person == plan.person
    other = spec("people.csv", intercept=False, missing="drop")
    other = replace(other, privacy=replace(other.privacy, distribution="gaussian"))
    text = other.to_toml()
    assert all(said in text for said in ("intercept = false", 'missing = "drop"', "law = "))
    assert Spec.from_dict(tomllib.loads(text)) == other


def test_a_trial_without_a_file_is_the_same_trial(tmp_path):
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=30), "y": rng.normal(size=30)}
    plan = make_plan(Spec(data="t", target="y", features=("x",), privacy=Privacy(level=4.0)), data)
    written = simulate_release(plan, tmp_path / "z.csv", np.random.default_rng(1), data)
    held = simulate_held(plan, data, np.random.default_rng(1))
    assert (held.rows, held.dropped, held.persons) == (30, 0, None)
    assert not (tmp_path / "release.csv").exists()
    for ours, theirs in zip(held.blocks(), written.blocks(), strict=True):
        np.testing.assert_allclose(ours.z, theirs.z, rtol=1e-12)
        np.testing.assert_array_equal(ours.H, theirs.H)
    with pytest.raises(InvalidInput, match="without a file cannot be saved"):
        held.save(tmp_path)
