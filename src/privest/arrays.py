"""Float arrays from outside: converted once, checked once, one clear error each."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike as ArrayLike
from numpy.typing import NDArray

from privest.errors import InvalidInput

Array = NDArray[np.floating[Any]]
Index = NDArray[np.intp]
Flags = NDArray[np.bool_]
AnyArray = NDArray[Any]
T = TypeVar("T")
EPS = float(np.finfo(np.float64).eps)
TOO_LARGE = "a whole number beyond double precision (1.8e308): choose other units."
SMALLEST = 1e-50  # of budgets, costs, widths; 1/SMALLEST is the most: fourth powers are doubles
MOST = 2**53  # up to which doubles hold every whole number
CONFIDENCE = 0.95  # of every interval, unless another is asked for


def as_array(
    value: ArrayLike,
    name: str,
    *,
    ndim: int | tuple[int, ...] | None = None,
    infinite: bool = False,
) -> Array:
    """Return `value` as a finite float64 array, or raise InvalidInput naming `name`.

    `infinite`: entries may be ±∞, not NaN.
    The message gives shapes and positions, never an entry: the array may be private.
    """
    raw = _numbers(value, name)
    array = raw.astype(np.float64, copy=False)
    allowed = (ndim,) if isinstance(ndim, int) else ndim
    if allowed is not None and array.ndim not in allowed:
        wanted = " or ".join(f"{d}-dimensional" for d in allowed)
        raise InvalidInput(f"{name} must be {wanted}; received an array of shape {array.shape}.")
    require_finite(np.where(np.isinf(array), 0.0, array) if infinite else array, name)
    return array


def _numbers(value: ArrayLike, name: str) -> AnyArray:
    """The given numbers as an array of at most double precision."""
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidInput(
            f"{name} is a masked array: say what the masked entries mean (fill or drop)."
        )
    if hasattr(value, "toarray"):  # a sparse matrix: NumPy would make one object of it
        raise InvalidInput(f"{name} is a sparse matrix: take a dense array, .toarray().")
    try:
        raw: NDArray[Any] = np.asarray(value)
    except ValueError:
        raise InvalidInput(
            f"{name} must be a rectangular array of numbers; its rows have different lengths."
        ) from None
    except OverflowError:  # a whole number beyond the doubles beside one within, in some versions
        raise InvalidInput(f"{name} has {TOO_LARGE}") from None
    if raw.dtype.kind == "O" and any(_beyond(entry) for entry in raw.flat):
        raise InvalidInput(f"{name} has {TOO_LARGE}")
    if raw.dtype.kind not in "biuf":
        raise InvalidInput(f"{name} must hold real numbers; received {_described(value, raw)}.")
    if raw.dtype.kind == "f" and raw.dtype.itemsize > 8:
        raise InvalidInput(f"{name} must be at most double precision; received {raw.dtype}.")
    return raw


def _beyond(entry: object) -> bool:
    """Whether it is a whole number that no double is near to."""
    return isinstance(entry, int) and math.isinf(as_double(entry))


def _described(value: object, raw: AnyArray) -> str:
    """The kind of a given object that is no number, by its own name."""
    if raw.ndim:
        kind = {"U": "texts", "S": "bytes", "M": "dates", "m": "durations", "O": "objects"}
        return f"an array of {kind.get(raw.dtype.kind, f'type {raw.dtype}')}"
    return "None" if value is None else f"a {type(value).__name__}"


def require_finite(array: Array, name: str) -> None:
    """Raise if `array` has a NaN or an infinity, naming the first position.

    A finite sum has finite terms: one pass when all is well; a second look where a sum overflows.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum()):
            return
    bad = ~np.isfinite(array)
    if not bad.any():
        return
    first = tuple(int(i) for i in np.argwhere(bad)[0])
    kind = "NaN" if np.isnan(array[first]) else "an infinity"
    where = f" at index {first if len(first) > 1 else first[0]}" if first else ""
    count = int(bad.sum())
    more = f" and {count - 1} more such entries" if count > 1 else ""
    raise InvalidInput(f"{name} must be finite; it has {kind}{where}{more}.")


def read_only(array: AnyArray) -> AnyArray:
    """The same numbers, which nobody can write to through it."""
    view = array.view()
    view.setflags(write=False)
    return view


def as_number(value: ArrayLike, name: str) -> float:
    """Return `value` as a finite float."""
    given: object = value
    if isinstance(given, float) and math.isfinite(given):
        return float(given)
    if isinstance(given, bool | np.bool_):  # NumPy takes True for 1
        raise InvalidInput(f"{name} must be a number; received a truth value.")
    array = as_array(value, name)
    if array.ndim:
        raise InvalidInput(
            f"{name} must be a single number; received an array of shape {array.shape}."
        )
    return float(array)


def as_positive(value: ArrayLike, name: str) -> float:
    """Return `value` as a finite float > 0."""
    number = as_number(value, name)
    if number <= 0:
        raise InvalidInput(f"{name} must be > 0; received {number:g}.")
    return number


def as_scale(value: ArrayLike, name: str) -> float:
    """Return `value` as a float > 0 between 1e-50 and 1e50."""
    number = as_positive(value, name)
    require_scales(np.asarray(number), name)
    return number


def require_scales(values: Array, name: str) -> None:
    """Refuse numbers > 0 whose fourth powers are no doubles; 0 and inf pass."""
    sizes = values[(values > 0) & (values < np.inf)]
    if ((sizes < SMALLEST) | (sizes > 1 / SMALLEST)).any():
        raise InvalidInput(
            f"{name} must lie between {SMALLEST:g} and {1 / SMALLEST:g}: choose other units."
        )


def as_nonnegative(value: ArrayLike, name: str) -> float:
    """Return `value` as a finite float ≥ 0."""
    number = as_number(value, name)
    if number < 0:
        raise InvalidInput(f"{name} must be ≥ 0; received {number:g}.")
    return number


def as_confidence(value: ArrayLike, name: str = "confidence") -> float:
    """Return `value` as a number strictly between 0 and 1, and not so near to 1 that both are one.

    The rest on either side, (1 − value)/2, must change (1 + value)/2.
    """
    number = as_number(value, name)
    if not (number > 0 and (1 + number) / 2 < 1):
        raise InvalidInput(f"{name} must lie between 0 and 1; received {number!r}.")
    return number


def as_count(value: int, name: str, *, least: int) -> int:
    """Return `value` as a whole number of at least `least` that a double holds exactly."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInput(f"{name} must be a whole number ≥ {least}; received {value!r}.")
    if value > MOST:
        raise InvalidInput(f"{name} must be at most {MOST:.3g}; it is larger.")
    return int(value)


def as_flag(value: bool, name: str) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{name} must be True or False; received a {type(value).__name__}.")
    return bool(value)


def as_flags(value: ArrayLike, name: str, shapes: tuple[tuple[int, ...], ...]) -> Flags:
    """Return `value` as an array of truth values of one of the shapes."""
    flags = _rectangular(value)
    if flags.dtype != np.bool_ or flags.shape not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise InvalidInput(f"{name} must be truth values of shape {wanted}.")
    return flags


def _rectangular(value: ArrayLike) -> AnyArray:
    try:
        return np.asarray(value)
    except ValueError:  # rows of different lengths
        return np.zeros(0)


def as_counts(value: ArrayLike, name: str) -> tuple[int, ...]:
    """Return `value` as whole numbers ≥ 1, one or more of them."""
    listed = _rectangular(value)
    if listed.ndim != 1 or listed.dtype.kind not in "iu" or not listed.size or listed.min() < 1:
        raise InvalidInput(f"{name} must be a list of whole numbers ≥ 1, and not empty.")
    return tuple(listed.tolist())


def as_choice(value: T, choices: Iterable[str], name: str) -> T:
    """Return `value` if it is one of `choices`, letter for letter.

    The message repeats a wrong text, never an object: that may be private.
    """
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        received = repr(value[:40]) if isinstance(value, str) else type(value).__name__
        listed = f"one of {', '.join(known)}" if len(known) > 1 else known[0]
        raise InvalidInput(f"{name} must be {listed}; received {received}.")
    return value


def as_kind(value: object, kind: type[T], what: str) -> T:
    """Return `value` if it is of this class; `what` says what it must be."""
    if not isinstance(value, kind):
        raise InvalidInput(f"{what}; received {type(value).__name__}.")
    return value


def frame_columns(frame: object) -> Iterable[object] | None:
    """The names of the columns of a frame; None: it has none."""
    arrow = type(frame).__module__.startswith("pyarrow")  # its `columns` are their contents
    return getattr(frame, "column_names" if arrow else "columns", None)


def plural(count: int, one: str) -> str:
    """`1 row`, `442 rows`."""
    return f"{count:,} {one}" + ("" if count == 1 else "s")


def as_double(number: Any) -> float:  # noqa: ANN401 - whatever float takes
    """A number as the nearest double; integers and fractions beyond the doubles are ±∞."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def fingerprint_of(kind: str, *arrays: Array) -> str:
    """Sixteen hex digits of SHA-256 over the numbers, rounded to 32 bits.

    What two processors compute differs in the 53rd bit: it is the same fingerprint but for about
    one number in 10⁶. In a row of a matrix what is below 2⁻⁴⁴ of its largest is rounding of 0.
    """
    digest = hashlib.sha256(kind.encode())
    for array in arrays:
        mantissa, exponent = np.frexp(array)
        rounded = np.ldexp(np.rint(mantissa * 2.0**32), exponent - 32)
        if array.ndim > 1 and array.size:
            size = np.abs(rounded)
            rounded[size <= 2.0**-44 * size.max(axis=-1, keepdims=True)] = 0.0
        digest.update(str(array.shape).encode())
        digest.update(np.ascontiguousarray(rounded, dtype="<f8").data)
    return digest.hexdigest()[:16]


def as_generator(rng: np.random.Generator) -> np.random.Generator:
    """Return `rng` if it is a numpy Generator, else say how to make one."""
    needed = "rng must be a numpy.random.Generator, such as numpy.random.default_rng()"
    return as_kind(rng, np.random.Generator, needed)
