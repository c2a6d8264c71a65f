"""Frames of pandas, polars and Dask, mappings of names to vectors; an example."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privest.arrays import AnyArray, Array, ArrayLike, as_array, as_double
from privest.data.cells import DAYS, Texts, is_date, is_missing, not_numbers, number
from privest.data.format import Format
from privest.data.source import Columns, Source
from privest.errors import InvalidInput
from privest.lazy import needed

# Of the embedded example.
FEATURES = ("age", "sex", "bmi", "bp")
RESPONSE = "s5"


class FrameSource(Source):
    """Columns in memory, as arrays of numpy; None, NaN, NA and null are missing."""

    rows: int

    @abstractmethod
    def _part(self, place: int, start: int, stop: int, text: bool) -> AnyArray: ...

    def _blocks(
        self, columns: tuple[str, ...], text: frozenset[str], size: int
    ) -> Iterator[Columns]:
        for start in range(0, self.rows, size):
            stop = min(start + size, self.rows)
            found: Columns = {}
            for name in columns:
                part = self._part(self.columns.index(name), start, stop, name in text)
                where = self._where(name)
                found[name] = (
                    object_texts(part, where)
                    if name in text
                    else object_numbers(part, where, start)
                )
            yield found


class PandasSource(FrameSource):
    """A pandas frame; the index is ignored."""

    name: str
    rows: int

    frame: Any

    def __init__(self, frame: Any, name: str = "pandas frame") -> None:  # noqa: ANN401
        self.frame, self.name, self.rows = frame, name, len(frame)
        self.columns: tuple[str, ...] = tuple(str(name) for name in frame.columns)

    def _part(self, place: int, start: int, stop: int, text: bool) -> Any:  # noqa: ANN401
        part = self.frame.iloc[start:stop, place]
        if text:
            return part
        if part.dtype.kind in "biuf":
            found: AnyArray = part.to_numpy(dtype=np.float64, na_value=np.nan)
            return found
        return np.asarray(part.astype(object) if part.dtype.name == "category" else part)


class DaskSource(Source):
    """A Dask frame by partitions; every pass must give the same rows in the same order."""

    name: str

    frame: Any

    def __init__(self, frame: Any) -> None:  # noqa: ANN401
        self.frame, self.name = frame, "dask frame"
        self.columns: tuple[str, ...] = tuple(frame.columns)
        if not all(isinstance(name, str) for name in self.columns):
            raise InvalidInput("column names must be texts: frame.rename(columns=str).")

    def _blocks(
        self, columns: tuple[str, ...], text: frozenset[str], size: int
    ) -> Iterator[Columns]:
        for at, part in enumerate(self.frame[list(columns)].to_delayed()):
            source = PandasSource(part.compute(), f"{self.name}, partition {at}")
            yield from source.blocks(columns, text=text, size=size)


class PolarsSource(FrameSource):
    name: str
    rows: int
    frame: Any

    def __init__(self, frame: Any) -> None:  # noqa: ANN401
        self.frame, self.name, self.rows = frame, "polars frame", frame.height
        self.columns: tuple[str, ...] = tuple(frame.columns)

    def _part(self, place: int, start: int, stop: int, text: bool) -> AnyArray:
        part = self.frame.to_series(place).slice(start, stop - start)
        plain = part.dtype.is_numeric() or part.dtype.is_temporal()
        found: AnyArray = part.to_numpy() if plain else np.array([*part.to_list()], dtype=object)
        return found


class ArraySource(FrameSource):
    def __init__(self, columns: Mapping[Any, ArrayLike], name: str) -> None:
        self.name = name
        self.columns: tuple[str, ...] = tuple(str(key) for key in columns)
        try:
            self._vectors = [np.asarray(column) for column in columns.values()]
        except ValueError:  # of lists of different lengths
            raise InvalidInput(
                f"{name} has a column that holds lists, not one value a row."
            ) from None
        shapes = {vector.shape for vector in self._vectors}
        if any(isinstance(column, np.ma.MaskedArray) for column in columns.values()):
            raise InvalidInput(f"{name} has a masked array: write NaN where a value is missing.")
        if len(shapes) != 1 or any(len(shape) != 1 for shape in shapes):
            raise InvalidInput(
                f"{name} must have one or more columns that are vectors of one length; received "
                f"shapes {sorted(shapes)}."
            )
        self.rows: int = len(self._vectors[0])

    def _part(self, place: int, start: int, stop: int, text: bool) -> AnyArray:
        return self._vectors[place][start:stop]


def object_numbers(
    column: AnyArray, where: str, before: int, form: Format | None = None, codes: Sequence[str] = ()
) -> Array:
    """An array of any type as float64; objects must be numbers, booleans or missing.

    `form`: texts are numbers in this format; `codes` of them are missing.
    """
    if column.dtype.kind in "biuf":
        with np.errstate(all="ignore"):  # longer doubles, signalling NaN: no word of a value
            return column.astype(np.float64, copy=False)
    if column.dtype.kind != "O":
        raise not_numbers(where, column.dtype)
    found = np.empty(len(column))
    for row, value in enumerate(column):  # objects allow nothing faster
        text = value.strip() if isinstance(value, str) and form is not None else None
        try:
            if text is not None and form is not None:
                found[row] = np.nan if text in codes else number(form.with_point(text))
            elif isinstance(value, (str, bytes)):
                raise TypeError
            else:
                found[row] = np.nan if is_missing(value) else as_double(value)
        except (TypeError, ValueError):
            todo = "convert the column, or give it a public list of categories"
            said = f"not a number but {type(value).__name__}; {DAYS if is_date(value) else todo}"
            if text is not None and form is not None:
                said = form.not_a_number(text)
            raise InvalidInput(f"{where}, row {before + row + 1}: {said}.") from None
    return found


def object_texts(column: Any, where: str) -> Texts:  # noqa: ANN401
    try:
        if hasattr(column, "factorize"):
            codes, distinct = column.factorize()
            return Texts.of(list(distinct), codes)
        if column.dtype.kind in "biuf":
            values, codes = np.unique(column, return_inverse=True)
            return Texts.of(values.tolist(), codes)
        return Texts.encode((column.astype(str) if column.dtype.kind == "S" else column).tolist())
    except TypeError:
        raise InvalidInput(f"{where} holds lists or other containers, not texts.") from None


# --- a response and its features ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Table:
    """One row per person: a response (N,), features (N, p), and their names.

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

    Sex is 0 or 1; the source does not say which is which. Efron, Hastie, Johnstone, Tibshirani
    (2004), as scikit-learn brings it.
    """
    sets = needed("sklearn.datasets", "The diabetes data come with scikit-learn", "learn")
    found = sets.load_diabetes(scaled=False)
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
