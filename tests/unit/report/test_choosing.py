"""What a level means while one looks for it: the slider, headlines, errors, two pictures."""

import base64
import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.report import at_most, exposed_by, exposure
from privest.report.figures import BAND
from privest.report._choice_pictures import curve_sketch, intervals_sketch
from privest.report._choosing import (
    POSITIONS,
    TENTH,
    apart_meant,
    apart_text,
    choice_headlines,
    choice_table,
    choice_words,
    chosen_level,
    cost_words,
    halves,
    level_scale,
    level_text,
    takes_apart,
)
from privest.report._withdrawal_words import withdrawal_words
from privest.workflow import Noise, People, Privacy, make_plan
from privest.workflow._record import record_statement
from privest.workflow._withdrawing import withdrawn
from workflow_tables import LEVEL, people, spec

RANGE = (-2.0, 8.0)
RANGED = Privacy(LEVEL, range=RANGE, delta=1e-6)
KINDS = {
    "plain": {"privacy": RANGED},
    "no noise variance": {"privacy": RANGED, "noise": Noise()},
    "no range": {},
    "nothing public": {"noise": Noise()},
    "a condition": {"noise": Noise(), "privacy": Privacy(LEVEL, delta=1e-6, move=3.0)},
    "a logarithm": {"privacy": Privacy(LEVEL, range=(0.1, 50.0)), "transform": "log"},
    "persons": {"person": People("id"), "privacy": RANGED},
    "yes or no": {"target": "yes", "family": "binomial", "noise": Noise()},
    "Laplace noise": {"privacy": Privacy(LEVEL, law="laplace", range=RANGE), "noise": Noise()},
    "a record": {
        "target": ("ldl", "hdl"), "noise": Noise(),
        "privacy": Privacy(LEVEL, range={"ldl": RANGE, "hdl": (0.0, 4.0)}, delta=1e-6),
    },
}  # fmt: skip


def table():
    found, rng = people(), np.random.default_rng(1)
    rows = len(found["age"])
    return found | {
        "hdl": rng.normal(2, 0.5, rows), "yes": rng.integers(0, 2, rows),
        "id": np.repeat(np.arange(rows // 4), 4),
    }  # fmt: skip


@pytest.fixture(scope="module")
def plans():
    return {kind: make_plan(spec(**given), table()) for kind, given in KINDS.items()}


def test_the_slider_goes_from_nothing_seen_to_a_small_part_of_the_range(plans):
    """± 1/√s: a hundred times the range, 10, and a thousandth of it."""
    scale = level_scale(plans["plain"])
    assert scale.at(0) ** -0.5 == pytest.approx(1000.0, rel=5e-3)
    assert scale.at(POSITIONS) ** -0.5 == pytest.approx(0.01, rel=5e-3)
    middle = scale.at(POSITIONS / 2)
    assert middle == pytest.approx(math.sqrt(scale.low * scale.high), rel=5e-3)
    for position in (0, 1, 250, 499, 999, POSITIONS):
        assert scale.position(scale.at(position)) == position
    assert (scale.at(-5), scale.position(1e-300)) == (scale.at(0), 0)


@pytest.mark.parametrize("kind", KINDS)
def test_every_plan_has_a_scale_words_a_table_and_pictures(kind, plans):
    plan = plans[kind]
    scale = level_scale(plan)
    assert scale.low <= chosen_level(plan) <= scale.high
    assert scale.high / scale.low > 1e6
    assert choice_headlines(plan, None)
    assert isinstance(choice_words(plan, None), list)
    assert cost_words(plan).endswith(".")
    block = choice_table(plan)
    assert len(block.rows) == len(plan.names) * len(plan.columns)
    assert all(len(row) == len(block.header) for row in block.rows)
    pictures = [intervals_sketch(plan)]
    if kind != "levels per row":
        pictures.append(curve_sketch(plan, scale))
    for found in pictures:
        assert found.alt
        assert found.caption
        for address in (found.drawn.light, found.drawn.dark):
            assert b"NaN" not in _svg(address)
            assert b"nan" not in _svg(address)
            ElementTree.fromstring(_svg(address))  # a whole drawing
    assert "nan" not in str(block.rows)


def _svg(address):
    return base64.b64decode(address.removeprefix("data:image/svg+xml;base64,"))


def test_what_plan_at_takes_is_the_chosen_level(plans):
    for plan in plans.values():
        assert chosen_level(plan.at(0.7)) == 0.7
    record = make_plan(
        spec(target=("ldl", "hdl"), noise=Noise(), privacy=Privacy(
            epsilon=1.0, delta=1e-6, range={"ldl": RANGE, "hdl": (0.0, 4.0)})),
        table(),
    )  # fmt: skip
    budget = chosen_level(record)
    np.testing.assert_allclose(
        [c.level for c in record.at(budget).columns], [c.level for c in record.columns], rtol=1e-9
    )


def test_headlines_say_what_the_sentences_say(plans):
    """Digit by digit the same, rounded to the safe side."""
    plan = plans["plain"]
    (one,) = exposed_by(plan)
    said = exposure(one)
    first, second, third = choice_headlines(plan, None)
    assert first.number in said[0]
    assert first.number == "± 0.707"
    assert second.number in said[1]
    assert third.number == f"ε = {at_most(plan.epsilon)}"
    assert third.after.startswith("at δ = 1e-06, for any two values that one reading may have")
    assert choice_words(plan, None) == said[2:]
    near = choice_headlines(plan, 0.5)[1]
    assert "0.5 apart" in near.before
    assert near.number == "at most 63.9 % of cases"  # Φ(0.5·√2/2), up


def test_a_large_epsilon_says_of_what_it_speaks(plans):
    """At the ends of the range; of values that are nearer it is what the plan for them says."""
    plan = plans["plain"].at(20.0)
    assert plan.epsilon > 10
    near = plan.under(replace(plan.spec.privacy, move=0.5)).epsilon
    assert near < plan.epsilon / 3
    third = choice_headlines(plan, 0.5)[2]
    assert third.after.endswith(
        "So large an ε speaks of values at the two ends of the range; for two that are 0.5 apart "
        f"it is {at_most(near)}."
    )
    assert "So large" not in choice_headlines(plan, None)[2].after
    assert "So large" not in choice_headlines(plan, plan.move)[2].after
    assert "So large" not in choice_headlines(plan.at(0.01), 0.5)[2].after
    stated = plan.under(replace(plan.spec.privacy, move=2.0))
    assert "speaks of values that are 2 apart; for two" in choice_headlines(stated, 0.5)[2].after
    laplace = plan.under(Privacy(20.0, law="laplace", range=RANGE))
    said = choice_headlines(laplace, 0.5)[1].after
    assert said.endswith(f"it is {at_most(0.5 * 20**0.5)}.")


def test_a_large_epsilon_of_records_speaks_of_the_ends_of_all_ranges():
    ranges = {"ldl": RANGE, "hdl": (0.0, 4.0)}
    stated = Privacy(40.0, delta=1e-6, range=ranges)
    record = make_plan(spec(target=("ldl", "hdl"), noise=Noise(), privacy=stated), table())
    moves = [TENTH * column.limits.width for column in record.columns]
    near = record_statement(
        [replace(c, move=m) for c, m in zip(record.columns, moves, strict=True)]
    )
    assert record.epsilon > 10 > near.epsilon
    assert choice_headlines(record, None)[-1].after.endswith(
        f"for two that are a tenth of each range apart it is {at_most(near.epsilon)}."
    )


def test_two_values_are_told_apart_in_the_units_of_the_file(plans):
    assert apart_text(plans["plain"]) == "1"  # a tenth of the range
    assert apart_text(plans["no range"]) == ""
    logarithm = plans["a logarithm"]
    factor = float(apart_text(logarithm))
    assert apart_meant(logarithm, factor) == pytest.approx(0.1 * math.log(500.0), rel=5e-3)
    assert "a factor of 2" in choice_headlines(logarithm, math.log(2.0))[1].before
    for wrong in (0.0, -1.0):
        with pytest.raises(InvalidInput):
            apart_meant(plans["plain"], wrong)
    with pytest.raises(InvalidInput, match="above 1"):
        apart_meant(logarithm, 0.9)
    kinds = ("plain", "yes or no", "a record")
    assert [takes_apart(plans[k]) for k in kinds] == [True, False, False]


def test_a_level_can_be_typed_again_and_is_never_below():
    for level in (0.1234564999, 4.0, 2.5e-9, 12345678.9, 1e-5, 7e22):
        text = level_text(level)
        assert level <= float(text) <= level * (1 + 1.1e-5)
        assert len(text) <= 12


def test_the_errors_are_those_of_the_plan(plans):
    for name in ("plain", "persons", "a logarithm"):
        plan, found = plans[name], halves(plans[name])
        np.testing.assert_allclose([one.private for one in found], BAND * plan.standard_error)
        np.testing.assert_allclose([one.open for one in found], BAND * plan.classical_error)
    alone = halves(plans["no noise variance"])
    np.testing.assert_allclose(
        [one.private for one in alone], BAND * plans["no noise variance"].privacy_error
    )
    assert all(one.open is None and one.alone for one in alone)
    guesses = choice_table(plans["no noise variance"])
    assert len(guesses.header) == 5  # name, privacy alone, three guesses


def test_what_privacy_adds_is_not_said_to_hold_the_truth(plans):
    """± by privacy alone leaves out how much readings vary: no 95 of 100 studies lie within it."""
    known, not_known = (
        choice_table(plans[kind]).caption for kind in ("plain", "no noise variance")
    )
    assert "in 95 of 100" in known
    assert "in 95 of 100" not in not_known
    assert "comes on top, as in the guesses" in not_known


def test_the_bars_are_as_long_as_the_errors_say(plans):
    """Widths of the drawn rectangles, with over without privacy: 1.63 = √(1 + 1/(sσ²)) by hand."""
    drawing = _svg(intervals_sketch(plans["plain"]).drawn.light).decode()
    bars = [
        float(one)
        for one in re.findall(
            r'<rect [^>]*width="([0-9.]+)" height="[^"]*" fill="#(?:e08214|1f5fa8)"', drawing
        )
    ]
    open_, private = bars[0], bars[1]
    assert private / open_ == pytest.approx(math.sqrt(1 + 1 / (LEVEL * 0.3)), abs=2e-3)


def test_the_curve_holds_the_chosen_point(plans):
    """The dot is where level and error say, on log axes; it moves with the level."""
    places = []
    scale = level_scale(plans["plain"])
    for level in (0.01, 1.0, 100.0):
        drawing = _svg(curve_sketch(plans["plain"].at(level), scale).drawn.light).decode()
        places.append(re.search(r'<circle cx="([0-9.]+)" cy="([0-9.]+)"', drawing).groups())
    x = [float(one) for one, _ in places]
    assert x[1] - x[0] == pytest.approx(x[2] - x[1], abs=0.2)  # by multiplying
    assert float(places[0][1]) < float(places[1][1]) < float(places[2][1])  # errors come down


def test_a_level_beyond_the_slider_is_drawn_too_and_one_far_off_is_refused(plans):
    scale = level_scale(plans["plain"])
    found = curve_sketch(plans["plain"].at(scale.high * 100), scale)
    x = re.search(r'<circle cx="([0-9.]+)"', _svg(found.drawn.light).decode())[1]
    assert float(x) <= found.drawn.width
    assert scale.require(scale.high * 100) == scale.high * 100
    for wrong in (scale.high * 1e7, scale.low / 1e7, 0.0, -1.0):
        with pytest.raises(InvalidInput):
            scale.require(wrong)


def test_names_cannot_leave_a_drawing():
    rude = table() | {'<b x="1">&\x1b': table()["age"]}
    plan = make_plan(spec(features=('<b x="1">&\x1b', "bmi"), categories={}), rude)
    drawing = _svg(intervals_sketch(plan).drawn.light)
    ElementTree.fromstring(drawing)
    assert b"<b" not in drawing
    assert b"\x1b" not in drawing


# --- what if a group says no ----------------------------------------------------------------------


def test_a_group_that_says_no_hides_its_own_coefficient():
    """Nobody of the men is shown: `sex=male` cannot be told, and only men would show it."""
    plan = make_plan(spec(), table())
    found = withdrawn(plan, "sex", ["male"], table())
    men = int((table()["sex"] == "male").sum())
    assert (found.rows, found.left) == (men, 200 - men)
    assert found.hidden == ("sex=male",)
    assert found.needed == found.helpful == ("male",)
    assert found.standard_error is None
    said = " ".join(withdrawal_words(found, plan))
    assert "“sex=male”" in said
    assert "Something of the readings of “male”" in said
    assert found.to_dict()["hidden"] == ["sex=male"]


def test_a_group_that_is_no_part_of_the_model_costs_accuracy_only():
    """By hand: the bound of the rows that stay."""
    group = {"ward": np.where(np.arange(200) % 4 == 0, "north", "south")}
    rows = table() | group
    plan = make_plan(spec(), rows)
    found = withdrawn(plan, "ward", ["north"], rows)
    assert found.hidden == ()
    kept = {name: column[np.asarray(rows["ward"]) == "south"] for name, column in rows.items()}
    np.testing.assert_allclose(
        found.standard_error, make_plan(spec(), kept).standard_error, rtol=1e-9
    )
    assert "can still be told, from the other 150 rows" in withdrawal_words(found, plan)[0]


def test_everybody_says_no_and_groups_that_are_not_there():
    plan = make_plan(spec(), table())
    found = withdrawn(plan, "sex", ["male", "female"], table())
    assert found.left == 0
    assert "that is everybody" in withdrawal_words(found, plan)[0]
    with pytest.raises(InvalidInput, match="no group 'mail'"):
        withdrawn(plan, "sex", ["mail"], table())
    with pytest.raises(InvalidInput, match="at least one"):
        withdrawn(plan, "sex", [], table())
    with pytest.raises(InvalidInput, match="which is private"):
        withdrawn(plan, "ldl", ["1"], table())
