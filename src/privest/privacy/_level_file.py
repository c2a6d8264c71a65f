"""A stream level that travels: both sides of a stream then use the same numbers, bit by bit."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path

import numpy as np

from privest.arrays import AnyArray
from privest.errors import InvalidInput
from privest.linalg import Blocks, Diagonal
from privest.linalg._sequential import BandedRows, DenseRows, IndependentRows
from privest.privacy._endless import EndlessLevel
from privest.privacy._stream import SequentialLevel, StreamLevel

FORMAT = "privest stream level 1"


def save_level(level: SequentialLevel, path: str | os.PathLike[str]) -> None:
    """Plain arrays in a NumPy archive; nothing in it is secret."""
    arrays: dict[str, AnyArray] = {}
    if isinstance(level, EndlessLevel):
        arrays = {"endless": level._constant}
    elif isinstance(level, StreamLevel):
        arrays = {"sizes": np.array(level.sizes)}
        rows = level.rows
        if isinstance(rows, BandedRows):
            arrays["banded"] = rows.blocks
        elif isinstance(rows, DenseRows):
            arrays["dense"] = rows.matrix
        elif isinstance(rows, IndependentRows) and rows.level.pointwise is not None:
            arrays["diagonal"] = rows.level.diagonal()
        elif isinstance(rows, IndependentRows):
            lowers = rows.level.blocks(level.sizes).lowers()
            arrays["lowers"] = np.concatenate([lower.ravel() for lower in lowers])
    with open(path, "wb") as file:
        np.savez(file, allow_pickle=False, format=np.array(FORMAT), **arrays)


def load_level(path: str | os.PathLike[str]) -> SequentialLevel:
    """The level that `save` wrote: an `EndlessLevel` or a `StreamLevel`.

    >>> import tempfile
    >>> path, level = tempfile.mkdtemp() + "/level", EndlessLevel([[2.0, 1.0], [1.0, 2.0]])
    >>> level.save(path)
    >>> load_level(path).fingerprint == level.fingerprint
    True
    """
    try:
        with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        if str(arrays.pop("format")) != FORMAT:
            raise KeyError("format")
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, EOFError) as error:
        raise InvalidInput(f"{path} is not a stream level ({type(error).__name__}).") from None
    if "endless" in arrays:
        return EndlessLevel._of(arrays["endless"])
    sizes = tuple(int(m) for m in arrays["sizes"])
    if "banded" in arrays:
        return StreamLevel._of(BandedRows(arrays["banded"]), sizes)
    if "dense" in arrays:
        return StreamLevel._of(DenseRows(arrays["dense"], max(sizes)), sizes)
    if "diagonal" in arrays:
        return StreamLevel._of(IndependentRows(Diagonal(arrays["diagonal"])), sizes)
    ends = np.cumsum([m * m for m in sizes])
    lowers = [part.reshape(m, m) for part, m in zip(np.split(arrays["lowers"], ends[:-1]), sizes)]
    own = Blocks([lower @ lower.T for lower in lowers], lowers)
    return StreamLevel._of(IndependentRows(own), sizes)
