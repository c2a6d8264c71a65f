"""A response and its features, complete cases only."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from privest.arrays import Array, as_array
from privest.errors import InvalidInput


@dataclass(frozen=True, eq=False)
class Table:
    """One row a person: a response (N,), features (N, p), and what they are called.

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
