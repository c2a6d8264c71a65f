"""Arrays that numpy saved, one or many: as large as their file, whatever they say."""

from __future__ import annotations

import io
import math
import os
import re
import zipfile

import numpy as np

from privest.arrays import AnyArray
from privest.errors import InvalidInput
from privest.reading._files import Failure, read_bytes
from privest.reading._limits import ARCHIVE, DEEPEST

# What numpy writes; anything else is not ours.
NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<|]?(?:b1|[iu][1248]|f8|U\d{1,6}))', "
    rb"'fortran_order': (True|False), 'shape': \(((?:\d{1,18}, ?)*(?:\d{1,18})?)\), \} *\n",
    re.DOTALL,
)


class _Refused(Exception):
    """Arrays that are not as privest writes them."""


def read_arrays(
    path: str | os.PathLike[str], what: str, *, error: Failure = InvalidInput
) -> dict[str, AnyArray]:
    """The arrays of a file that numpy's `savez` wrote: numbers, flags and texts, not packed.

    Sizes in the directory, in the header of each array and of the file must agree before any
    memory is taken: what is read is as large as the file, whatever it says. `what` names the kind
    of file in the message.
    """
    data = read_bytes(path, ARCHIVE, b"PK\x03\x04", what=what, error=error)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if any(one.compress_type != zipfile.ZIP_STORED for one in members):
                raise _Refused("its parts are packed: privest writes them as they are")
            if sum(one.file_size for one in members) > len(data):
                raise _Refused("its parts are larger than it is")
            names = [one.filename.removesuffix(".npy") for one in members]
            if len(set(names)) < len(names):
                raise _Refused("two of its parts have one name")
            return {name: _array(archive.read(one)) for name, one in zip(names, members)}
    except _Refused as refused:
        raise error(f"{path} is not {what}: {refused}.") from None
    except MemoryError:  # of an honest file that is larger than the machine
        raise
    except Exception as failed:  # whatever a damaged archive makes its reader raise
        raise error(f"{path} is not {what}, or it is damaged ({type(failed).__name__}).") from None


def parse_array(data: bytes, where: str) -> AnyArray:
    """One array that numpy's `save` wrote."""
    try:
        return _array(data)
    except _Refused as refused:
        raise InvalidInput(f"{where}: {refused}.") from None


def _array(data: bytes) -> AnyArray:
    header = NPY.match(data)
    if header is None:
        raise _Refused("a part is not an array of numbers, flags or texts as numpy writes it")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(size) for size in re.findall(rb"\d+", header[3]))
    count = math.prod(shape)
    if len(shape) > DEEPEST or count * dtype.itemsize != len(data) - header.end():
        raise _Refused("the shape of an array is not that of its numbers")
    flat = np.frombuffer(data, dtype, count, header.end())
    return flat.reshape(shape, order="F" if header[2] == b"True" else "C").copy()
