"""The embedded example: blood fat of 442 diabetes patients, no file and no network."""

from __future__ import annotations

import numpy as np

from privest.data._table import Table
from privest.errors import MissingDependency

FEATURES = ("age", "sex", "bmi", "bp")
RESPONSE = "s5"


def load_diabetes() -> Table:
    """Log-triglycerides (`s5`) on age, sex, body mass index and blood pressure, 442 people.

    The same question as with NHANES on other people. `s5` is already a logarithm ("possibly", says
    its description). Sex is 0 or 1; which is which the source does not say.
    Source: Efron, Hastie, Johnstone, Tibshirani (2004), as scikit-learn brings it.
    """
    try:
        from sklearn.datasets import load_diabetes as load
    except ImportError as missing:
        raise MissingDependency(
            "The diabetes data come with scikit-learn: install the extra 'learn', for example with "
            'pip install ".[learn]" in the source folder.'
        ) from missing
    found = load(scaled=False)
    columns = dict(zip(found.feature_names, np.asarray(found.data, dtype=float).T))
    columns["sex"] = columns["sex"] - 1.0
    return Table(
        response=columns[RESPONSE],
        features=np.column_stack([columns[name] for name in FEATURES]),
        response_name="log triglycerides (s5)",
        feature_names=("age, years", "sex", "body mass index, kg/m²", "blood pressure, mmHg"),
        source="scikit-learn diabetes",
        logarithm=True,
    )
