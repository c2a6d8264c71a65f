"""A response and its features, complete cases only; and the embedded example of one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from privest.arrays import Array, as_array
from privest.errors import InvalidInput, MissingDependency

# Of the embedded example.
FEATURES = ("age", "sex", "bmi", "bp")
RESPONSE = "s5"


@dataclass(frozen=True, eq=False)
class Table:
    """One row a person: a response (N,), features (N, p), and their names.

    `logarithm`: the response is already a logarithm; else it is positive and as measured.
    """

    response: Array = field(repr=False)
    features: Array = field(repr=False)
    response_name: str
    feature_names: tuple[str, ...]
    source: str
    logarithm: bool = False

    def __post_init__(self) -> None:
        response = as_array(self.response, "the response", ndim=1)
        features = as_array(self.features, "the features", ndim=2)
        if features.shape != (len(response), len(self.feature_names)):
            raise InvalidInput(
                f"the features must have shape {(len(response), len(self.feature_names))}, one row "
                f"a person and one column a name; received {features.shape}."
            )
        if not self.logarithm and not (response > 0).all():
            raise InvalidInput(
                f"the response ({self.response_name}) must be > 0 for every person; "
                f"{int(np.sum(response <= 0))} are not."
            )
        object.__setattr__(self, "response", response)
        object.__setattr__(self, "features", features)

    def __len__(self) -> int:
        return len(self.response)


def load_diabetes() -> Table:
    """Log-triglycerides (`s5`) on age, sex, body mass index and blood pressure, 442 people.

    `s5` is already a logarithm ("possibly", says its description). Sex is 0 or 1; the source does
    not say which is which. Source: Efron, Hastie, Johnstone, Tibshirani (2004), as scikit-learn
    brings it.
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
