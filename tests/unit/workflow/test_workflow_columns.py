"""Several private columns: noisy sums only."""

import pytest

from privest.errors import InvalidInput
from privest.workflow.plan import make_plan
from privest.workflow.spec import Model, Privacy, Public, Spec
from workflow_tables import people

RANGES = {"a": (0.0, 9.0), "b": (0.0, 4.0)}
SUMS = Privacy(epsilon=1.0, range=RANGES, form="aggregate")


def spec(privacy=SUMS, public=None, **changes):
    model = {"target": ("a", "b"), "features": ("age",)} | changes
    return Spec("people.csv", Model(**model), privacy, public or Public())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"privacy": Privacy(level=1.0, range=RANGES)}, "need the aggregate form"),
        ({"privacy": Privacy(epsilon=1.0, delta=1e-6, range=RANGES)}, "need the aggregate form"),
        (
            {"privacy": Privacy(epsilon=1.0, range={"a": (0, 1)}, form="aggregate")},
            "the public range",
        ),
        ({"public": Public(1.0)}, "residual variance each"),
        ({"person": "id"}, "one row per person"),
        ({"target": ("a", "a")}, "different"),
        ({"target": ("a", "age")}, "cannot be"),
    ],
)
def test_what_several_columns_cannot_have(changes, said):
    with pytest.raises(InvalidInput, match=said):
        spec(**changes)


def test_rows_for_an_accuracy_are_of_one_target():
    table = people()
    table |= {"a": table["ldl"], "b": table["bmi"]}
    with pytest.raises(InvalidInput, match="several private columns, 'a', 'b'"):
        make_plan(spec(), table).rows_for(0.1, "age")
