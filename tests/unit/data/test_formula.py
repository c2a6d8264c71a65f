"""Formulas: the matrices of patsy and formulaic, public lists of categories, and nothing is run."""

import itertools
import time

import formulaic
import hypothesis
import numpy as np
import pandas as pd
import patsy
import pytest
from hypothesis import strategies as st

from privest.data.features import Features
from privest.data.formula import read_formula
from privest.data.rows import read_rows
from privest.data.source import open_source
from privest.errors import InvalidInput
from privest.workflow import Spec
from privest.workflow.spec import Model, Privacy

LISTS = {"sex": ("f", "m"), "city": ("B", "K", "M"), "smoker": ("no", "yes")}
CELLS = list(itertools.product(*LISTS.values())) * 4
TABLE = pd.DataFrame(CELLS, columns=list(LISTS))
RNG = np.random.default_rng(0)
for _name in ("age", "bmi", "ldl"):
    TABLE[_name] = RNG.uniform(1, 9, len(TABLE))


def matrix(formula, lists=LISTS, table=TABLE):
    features = read_formula(formula, lists).features
    (block,) = read_rows(open_source(table), features)
    return features, block.H


def in_order(columns):
    return columns[:, np.lexsort(columns[::-1])]


FORMULAS = [
    "ldl ~ age + bmi",
    "ldl ~ age + C(sex) + bmi",
    "ldl ~ C(sex) + C(city) - 1",
    "ldl ~ 0 + C(city)",
    "ldl ~ C(sex)*C(city)",
    "ldl ~ C(sex)*C(city) - 1",
    "ldl ~ C(sex):C(city) - 1",
    "ldl ~ 0 + C(sex):C(city) + age",
    "ldl ~ C(sex)*C(city)*C(smoker)",
    "ldl ~ age + age:C(sex)",
    "ldl ~ age*C(sex) - 1",
    "ldl ~ age + age:C(sex) + C(city):age:bmi + age:bmi",
    "ldl ~ np.log(age) + np.sqrt(bmi) + I(age**2) + I((bmi - 4)/10)",
    "ldl ~ age + (age + bmi):C(sex) + (age + C(city))*bmi",
    "ldl ~ np.log(age)*C(sex) + np.exp(-age) + np.abs(bmi)",
    "ldl ~ 1",
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_matrix_is_that_of_patsy_and_of_formulaic(formula):
    features = read_formula(formula, _used(formula)).features
    (block,) = read_rows(open_source(TABLE), features, [] if features.columns else ["ldl"])
    H = block.H
    assert H.shape == (len(TABLE), len(set(features.names)))
    right = stated = formula.split("~")[1]
    for name, given in LISTS.items():
        stated = stated.replace(f"C({name})", f"C({name}, levels={list(given)})")
    by_patsy = np.asarray(patsy.dmatrix(stated, TABLE))
    np.testing.assert_allclose(in_order(H), in_order(by_patsy), rtol=1e-13)
    by_formulaic = formulaic.model_matrix(right, TABLE).to_numpy(float)
    np.testing.assert_allclose(in_order(H), in_order(by_formulaic), rtol=1e-13)


def _used(formula):
    return {name: given for name, given in LISTS.items() if name in formula}


def test_columns_are_where_their_names_say():
    features, H = matrix("ldl ~ age*sex + sex*city", _used("sex city"))
    place = {name: H[:, k] for k, name in enumerate(features.names)}
    assert features.names[:3] == ("intercept", "age", "sex=m")
    male, cologne = (TABLE["sex"] == "m"), (TABLE["city"] == "K")
    assert np.array_equal(place["age:sex=m"], TABLE["age"] * male)
    assert np.array_equal(place["sex=m:city=K"], male & cologne)


def test_the_same_as_named_columns():
    lists = {"sex": ("f", "m"), "city": ("B", "K", "M")}
    for intercept, end in ((True, ""), (False, " - 1")):
        named = Features(("age", "sex", "city"), lists, intercept)
        features = read_formula(f"y ~ age + sex + city{end}", lists).features
        assert features.names == named.names
        assert (features.columns, features.text) == (named.columns, named.text)
        (a,), (b,) = (read_rows(open_source(TABLE), one) for one in (features, named))
        assert np.array_equal(a.H, b.H)


def test_names_with_spaces_and_other_letters():
    table = {"body mass": [1.0, np.e], "年齢": [2.0, 3.0], "my sex": ["a, b", 'c"d']}
    formula = "y ~ log(`body mass`) + 年齢 + C(`my sex`, levels=['a, b', 'c\"d'])"
    features = read_formula(formula).features
    assert features.names == ("intercept", "log(body mass)", "年齢", 'my sex=c"d')
    (block,) = read_rows(open_source(table), features)
    assert block.H.tolist() == [[1, 0, 2, 0], [1, 1, 3, 1]]


def test_the_left_side():
    assert read_formula("log(ldl) ~ age").transform == "log"
    assert read_formula("np.log(`l dl`) ~ age").targets == ("l dl",)
    assert read_formula("a + b ~ age").targets == ("a", "b")
    for bad in ("exp(y) ~ x", "log(y, 2) ~ x", "log(a + b) ~ x", "a:b ~ x", "1 ~ x", "I(y) ~ x"):
        with pytest.raises(InvalidInput, match=r"left of ~|is not allowed"):
            read_formula(bad)
    with pytest.raises(InvalidInput, match="left of ~ stand the private columns"):
        read_formula("log(a) + b ~ x")
    with pytest.raises(InvalidInput, match="'y' is the target, which is private"):
        read_formula("y ~ log(y)")


def test_a_plan_may_be_of_one_of_several_targets():
    for given, found in (((), ("a", "b")), ("b", ("b",)), (["a", "b"], ("a", "b"))):
        model = Model(given, formula="a + b ~ age")
        assert model.target == found
        spec = Spec(
            "p.csv",
            model,
            Privacy(epsilon=2.0, range=dict.fromkeys(found, (0, 1)), form="aggregate"),
        )
        assert Spec.from_dict(spec.to_dict()) == spec
    for bad in ("c", 3, ["a", "c"], [["a"]], {"a": 1}):
        with pytest.raises(InvalidInput, match="target"):
            Model(bad, formula="a + b ~ age")


def test_baselines():
    for contrast in ("Treatment('m')", "Treatment(reference='m')"):
        found = read_formula(f"y ~ C(sex, {contrast})", {"sex": ("f", "m")})
        assert found.features.names == ("intercept", "sex=f")
    assert read_formula("y ~ C(k, levels=[1, 2, -3])").features.names[1:] == ("k=2", "k=-3")
    with pytest.raises(InvalidInput, match="against a baseline of the list f, m"):
        read_formula("y ~ C(sex, Treatment('x'))", {"sex": ("f", "m")})
    with pytest.raises(InvalidInput, match="against a baseline"):
        read_formula("y ~ C(sex, Sum)", {"sex": ("f", "m")})


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("y ~ C(sex)", "needs its public list of categories"),
        ("y ~ scale(x)", "is not allowed"),
        ("y ~ poly(x, 2)", "is not allowed"),
        ("y ~ bs(x, df=3)", "is not allowed"),
        ("y ~ I(center(x))", "is not allowed"),
        ("y ~ eval('1')", "is not allowed"),
        ("y ~ I(x.y)", "is not allowed"),
        ("y ~ I(x[0])", "is not allowed"),
        ("y ~ os.log(x)", "is not allowed"),
        ("y ~ np.load(x)", "is not allowed"),
        ("y ~ log(x, 2)", "is not allowed"),
        ("y ~ log(*x)", "is not allowed"),
        ("y ~ I(x if x else x)", "is not allowed"),
        ("y ~ I(lambda: x)", "is not allowed"),
        ("y ~ I(x @ x)", "is not allowed"),
        ("y ~ I('a')", "is not allowed"),
        ("y ~ {x := 3}", "cannot be read"),
        ("y ~ I(3)", "names no column"),
        ("y ~ C(I(x), levels=[1, 2])", "C takes the name of a column"),
        ("y ~ C(x, levels=x)", "levels is a list"),
        ("y ~ C(x, levels=[x, 1])", "levels is a list"),
        ("y ~ x + C(x, levels=[1, 2])", "as a number and as a category"),
        ("y ~ C(x, levels=[1, 2]) + C(x, levels=[2, 1])", "two lists"),
        ("y ~ z", "cannot be called 'z'"),
        ("y ~ a:C(x, levels=[1, 2])", "needs its parts"),
        ("y ~ a + C(x, levels=[1, 2]) + a:b:C(x, levels=[1, 2])", "needs its parts"),
        ("y ~ a | b", "cannot be read"),
        ("y ~ .", "cannot be read"),
        ("y ~ 0", "needs an intercept or at least one feature"),
        ("y ~ x + 2", "cannot be read"),
        ("y ~ 2:x", "cannot be read"),
        ("y ~ x ** 2", r"I\(x\*\*2\)"),
        ("y ~ a/b", r"I\(x\*\*2\)"),
        ("y ~ 0:x", "cannot be read"),
        ("~ x", "cannot be read"),
        ("x", "it has no ~"),
        ("y ~ (((", "cannot be read"),
        ("y ~ x\0", "cannot be read"),
        ("y ~ I(" + "(" * 400 + "x" + ")" * 400 + ")", "cannot be read|brackets"),
        ("y ~ I(" + "-" * 3000 + "x)", "cannot be read|brackets"),
        ("y ~ " + "a" * 30_000, "at most 20000 letters"),
        (3, "received int"),
    ],
)
def test_what_is_refused(formula, said):
    with pytest.raises(InvalidInput, match=said):
        read_formula(formula)


def test_nothing_is_run(tmp_path, monkeypatch):
    """Neither when it is read nor when it is used; a name of Python is a column and no more."""
    made = tmp_path / "made"
    for text in (f"open({str(made)!r}, 'w')", f"__import__('os').mkdir({str(made)!r})"):
        for formula in (f"y ~ {text}", f"y ~ I({text})", f"{text} ~ x", f"y ~ C({text})"):
            with pytest.raises(InvalidInput):
                read_formula(formula)
    assert not made.exists()
    features = read_formula("y ~ __builtins__ + np").features
    with pytest.raises(InvalidInput, match="no column '__builtins__'"):
        list(read_rows(open_source({"np": [1.0]}), features))


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ " + ":".join(["(" + "+".join(f"x{k}" for k in range(50)) + ")"] * 9),
        "y ~ " + "*".join("abcdefghijklmnopq"),
    ],
)
def test_terms_do_not_grow_without_end(formula):
    start = time.process_time()
    with pytest.raises(InvalidInput, match="more than 10000 terms"):
        read_formula(formula)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("sign", [":", "*"])
def test_products_of_categories_do_not_grow_without_end(sign):
    listed = "levels=['x', 'y', 'z']"
    for count, said in (
        (9, "more than 8 categories"),
        (30, "categories|more than 10000 terms"),
    ):
        with pytest.raises(InvalidInput, match=said):
            read_formula("y ~ " + sign.join(f"C(a{k}, {listed})" for k in range(count)))
    long = f"levels={list(range(400))}"
    with pytest.raises(InvalidInput, match="more than 100000 columns"):
        read_formula("y ~ " + sign.join(f"C(a{k}, {long})" for k in range(3)))


def test_powers_of_numbers_do_not_grow_without_end():
    features = read_formula("y ~ I(x*9**9**9**9)").features
    with pytest.raises(InvalidInput, match=r"row 1: missing or infinite"):
        list(read_rows(open_source({"x": [1.0]}), features))


def test_a_row_where_a_function_has_no_value():
    features = read_formula("y ~ log(x)").features
    with pytest.raises(InvalidInput, match=r"column 'log\(x\)', row 2: missing or infinite"):
        list(read_rows(open_source({"x": [1.0, 0.0]}), features))


def test_mistyped_categories():
    with pytest.raises(
        InvalidInput, match=r"for 'sexe', which it does not name. Did you mean 'sex'"
    ):
        read_formula("y ~ sex", {"sexe": ("a", "b")})
    with pytest.raises(InvalidInput, match="states another list"):
        read_formula("y ~ C(sex, levels=['a', 'b'])", {"sex": ("b", "a")})
    with pytest.raises(InvalidInput, match="has a list of categories, and so is no number"):
        read_formula("y ~ log(sex)", {"sex": ("a", "b")})


NAMES = st.sampled_from(["a", "b", "c", "d", "log(e)"])
SUMS = st.recursive(
    NAMES,
    lambda inner: st.tuples(inner, st.sampled_from([" + ", " - ", ":", "*"]), inner).map(
        lambda one: f"({one[0]}{one[1]}{one[2]})"
    ),
    max_leaves=6,
)


@hypothesis.given(
    parts=st.lists(SUMS, min_size=1, max_size=4),
    signs=st.lists(st.sampled_from([" + ", " - ", ":", "*"]), min_size=3, max_size=3),
    end=st.sampled_from(["", " - 1", " + 0"]),
)
def test_terms_are_those_of_formulaic(parts, signs, end):
    """Random formulas, also without brackets, against an independent parser."""
    right = parts[0] + "".join(f"{sign}{part}" for sign, part in zip(signs, parts[1:])) + end
    try:
        names = read_formula(f"y ~ {right}").features.names
    except InvalidInput as refused:
        hypothesis.assume("intercept or at least" not in str(refused))
        raise
    try:
        terms = formulaic.Formula(right)
    except (TypeError, formulaic.errors.FormulaicError):  # nothing is left of (a - a)
        hypothesis.assume(False)
    expected = sorted((term for term in terms), key=lambda term: len(_factors(term)))
    assert [":".join(_factors(term)) or "intercept" for term in expected] == list(names)


def _factors(term):
    return [str(one.expr) for one in term.factors if str(one.expr) != "1"]
