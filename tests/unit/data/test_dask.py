"""A Dask frame as data: the plan and the release of rows are those of the frame in memory."""

import numpy as np
import pandas as pd
import pytest

import privest as pv
from privest.errors import InvalidInput

dd = pytest.importorskip("dask.dataframe", reason="needs the extra 'dask'")

TERMS = {
    "level": 4.0, "residual_variance": 0.25, "range": (0, 8), "categories": {"sex": ["f", "m"]}
}  # fmt: skip


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(20, 80, 3000), "sex": rng.choice(["f", "m"], 3000)})
    frame["y"] = 2 + 0.03 * frame["age"] + 0.5 * rng.standard_normal(3000)
    return frame


def test_rows_are_those_of_the_frame_in_memory(people):
    frame = dd.from_pandas(people, npartitions=5)
    plans = [pv.plan(data, "y ~ age + C(sex)", form="rows", **TERMS) for data in (frame, people)]
    there, here = (plan.simulate(rng=1) for plan in plans)
    assert np.allclose(plans[0].standard_error, plans[1].standard_error, rtol=1e-12)
    assert np.array_equal(there.values, here.values)


def test_sums_differ_by_their_noise_alone(people):
    frame = dd.from_pandas(people, npartitions=5)
    plans = [pv.plan(d, "y ~ age + C(sex)", form="aggregate", **TERMS) for d in (frame, people)]
    assert np.allclose(plans[0].standard_error, plans[1].standard_error, rtol=1e-9)
    there, here = (pv.estimate(plan.simulate(rng=1)) for plan in plans)
    away = np.abs(there.value - here.value) / there.standard_error
    assert away.max() < 6  # two draws of noise


def test_bad_frames_are_named_without_a_value(people):
    holed = people.copy()
    holed.loc[2500, "age"] = np.nan
    with pytest.raises(InvalidInput, match=r"age"):
        pv.plan(dd.from_pandas(holed, npartitions=5), "y ~ age + C(sex)", form="rows", **TERMS)
    with pytest.raises(InvalidInput, match="no column"):
        pv.plan(dd.from_pandas(people, npartitions=2), "y ~ height + C(sex)", form="rows", **TERMS)
    numbered = dd.from_pandas(people.rename(columns={"age": 1}), npartitions=2)
    with pytest.raises(InvalidInput, match="must be texts"):
        pv.plan(numbered, "y ~ C(sex)", form="rows", **TERMS)
