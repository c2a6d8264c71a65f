"""Files turned into others that were never written: bytes, tokens of a text, nodes of JSON, arrays.

Every mutation is a function of a `random.Random`: the number of a case is enough to repeat it.
"""

import io
import json
import random
import re
import zipfile

import numpy as np

RAW = "@raw:"  # marks a text that stands in JSON as it is, without quotes
EXTREMES = (
    float("nan"), float("inf"), float("-inf"), RAW + "1e400@", RAW + "-1e400@", 10**400, -(10**30),
    10**30, 2**63, 2**31, -1, 0, 1, -0.0, 0.5, 1e308, -1e308, 1e160, 5e-324, 1e-300, True, False,
    None, "", "x", "0", "1e999", "\ud800", "\0", "é" * 40, "y" * 20_000, [], {}, [[]], [None],
    [1.0], [[1.0, 2.0], [3.0]], {"a": 1},
)  # fmt: skip
TOKENS = (
    "nan", "inf", "-inf", "NaN", "Infinity", "1e400", "-1e400", "1" + "0" * 400, "9" * 5000, "-1",
    "0", "1e308", "5e-324", "true", "false", "null", "none", "~", '""', "''", '"x', "[", "]", "{",
    "}", "[[[[", "[" * 60, "{a: " * 60, "a." * 60 + "a", ":", "=", ",", ",,", "\n", "\r", "\r\n",
    "#", "&a", "*a", "<<: *a", "!!python/object:os.system", "!!set", "- ", "1_000",
    "0x" + "f" * 300, "2024-02-30", "2024-01-01", "9999-12-31T23:59:59-23:59", "12:30:45",
    "1,5", "1;5", "\t", " ",
    "\\u0000", "\\ud800", "\u2028", "\ufeff", "é", "x" * 3000, "__proto__", "intercept", "z",
    "step",
)  # fmt: skip
BYTES = (
    b"\x00", b"\xff", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\x00" * 64, b"\xff" * 16, b"\n",
    b'"', b"PK\x03\x04", b"\x93NUMPY", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\xff\xff\xff\x7f",
)  # fmt: skip


def of_bytes(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """A few flipped bits; a part cut off, left out, repeated, overwritten, or from elsewhere."""
    kind = rng.randrange(7)
    out = bytearray(data)
    at = rng.randrange(len(out) + 1)
    end = min(len(out), at + rng.choice((1, 2, 4, 8, 64, 500)))
    if kind == 0:
        for _ in range(rng.choice((1, 1, 2, 8))):
            out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del out[at:]
    elif kind == 2:
        del out[at:end]
    elif kind == 3:
        out[at:at] = out[at:end] * rng.choice((1, 2, 50))
    elif kind == 4:
        part = rng.choice(BYTES)
        out[at : at + rng.choice((0, len(part)))] = part
    elif kind == 5:
        other = rng.choice(others)
        start = rng.randrange(len(other) + 1)
        out[at:end] = other[start : start + rng.choice((4, 40, 400))]
    else:
        out += rng.choice((data, rng.choice(BYTES), rng.choice(others)))
    return bytes(out)


def of_text(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """A token for another, a line gone, twice or from elsewhere; sometimes the bytes themselves."""
    kind = rng.randrange(6)
    if kind == 0:
        return of_bytes(data, rng, others)
    text = data.decode()
    if kind == 1:
        lines = text.splitlines(keepends=True)
        at = rng.randrange(len(lines))
        other = rng.choice(others).decode().splitlines(keepends=True)
        lines[at : at + rng.randrange(3)] = rng.choice(([], [lines[at]] * 3, [rng.choice(other)]))
        return "".join(lines).encode()
    for _ in range(rng.choice((1, 1, 2))):
        found = list(re.finditer(r'"[^"\n]*"|[\w.+-]+|[\[\]{}=:,]', text))
        if found:
            one = rng.choice(found)
            text = text[: one.start()] + rng.choice(TOKENS) + text[one.end() :]
    return text.encode("utf-8", errors="surrogatepass")


def of_json(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """A node for another; sometimes as text or bytes."""
    if rng.random() < 0.25:
        return of_text(data, rng, others)
    return written(of_node(json.loads(data), rng)).encode("utf-8", errors="surrogatepass")


def written(record: object) -> str:
    """JSON, with what it cannot hold where it is marked."""
    text = json.dumps(record)
    return re.sub(rf'"{RAW}([^"@]*)@"', r"\1", text)


def of_node(record: object, rng: random.Random) -> object:
    """The same with one to three places changed."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(record))
        if not places:
            return rng.choice(EXTREMES)
        holder, key = rng.choice(places)
        _change(holder, key, rng)
    return record


def _places(record: object):
    if isinstance(record, dict):
        items = record.items()
    elif isinstance(record, list):
        items = enumerate(record[:50])
    else:
        return
    for key, value in items:
        yield record, key
        yield from _places(value)


def _change(holder, key, rng: random.Random) -> None:
    kind, value = rng.randrange(8), holder[key]
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(value, list):
        holder[key] = rng.choice((value * 2, value[:-1], [value], value[::-1]))
    elif kind == 2 and isinstance(value, int | float | None):
        holder[key] = [value]
    elif kind == 3 and isinstance(holder, dict):
        holder[rng.choice(("extra", "", key.upper()))] = holder.pop(key)
    elif kind == 4:
        deep: object = value
        for _ in range(rng.choice((1, 3, 60, 400))):
            deep = [deep]
        holder[key] = deep
    elif kind == 5 and isinstance(value, str):
        holder[key] = rng.choice((value[:-1], value + "x", value.upper(), value[::-1]))
    else:
        holder[key] = rng.choice(EXTREMES)


def of_archive(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """An array for another, written as numpy writes; the words of a header; the bytes."""
    kind = rng.randrange(5)
    if kind == 0:
        return of_bytes(data, rng, others)
    with np.load(io.BytesIO(data)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    if kind == 1:
        return _edited(arrays, rng)
    name = rng.choice(list(arrays))
    if name == "header" and rng.random() < 0.8:
        record = of_node(json.loads(arrays[name].tobytes()), rng)
        text = written(record).encode("utf-8", errors="surrogatepass")
        arrays[name] = np.frombuffer(text, dtype=np.uint8)
    elif kind == 2 and rng.random() < 0.3:
        array = arrays.pop(name)
        if rng.random() < 0.5:
            arrays[rng.choice(("extra", "", "../x", "endless", "sizes"))] = array
    else:
        arrays[name] = _array(arrays[name], rng)
    out = io.BytesIO()
    (np.savez_compressed if rng.random() < 0.1 else np.savez)(out, **arrays)
    return out.getvalue()


def _array(array: np.ndarray, rng: random.Random) -> np.ndarray:
    """Other values, another shape, another type."""
    kind = rng.randrange(4)
    if kind == 0 and array.size and array.dtype.kind in "fiub":
        values = array.astype(float)
        values.flat[rng.randrange(array.size)] = rng.choice(
            (np.nan, np.inf, -np.inf, -1.0, 0.0, 1e300, -1e300, 1e160, 5e-324, 1e12, 0.5, 1e16)
        )
        if array.dtype.kind == "f":
            return values
        with np.errstate(all="ignore"):
            return np.nan_to_num(values, posinf=2**62, neginf=-(2**62)).astype(array.dtype)
    if kind == 1:
        shape = list(array.shape)
        shapes = [(), (0,), (array.size,), (1, *shape), (*shape, 1), tuple(shape[::-1])]
        shape = rng.choice(shapes)
        return np.resize(array, shape)
    if kind == 2:
        longer = [size + rng.choice((-1, 0, 1, 2)) for size in array.shape]
        return np.resize(array, [max(0, size) for size in longer])
    target = rng.choice(
        ("f4", "f2", "i8", "i4", "u8", "?", "U3", "S3", "c16", ">f8", "f16", "M8[s]")
    )
    with np.errstate(all="ignore"):
        try:
            return array.astype(target)
        except (TypeError, ValueError):
            return np.zeros(array.shape, dtype=target)


def _edited(arrays: dict[str, np.ndarray], rng: random.Random) -> bytes:
    """The text of an npy header changed, under a right checksum of the archive."""
    out, name = io.BytesIO(), rng.choice(list(arrays))
    with zipfile.ZipFile(out, "w") as archive:
        for one, array in arrays.items():
            part = io.BytesIO()
            np.save(part, array)
            data = part.getvalue()
            if one == name:
                data = _header(data, rng)
            archive.writestr(one + rng.choice((".npy",) * 9 + ("",)), data)
    return out.getvalue()


def _header(data: bytes, rng: random.Random) -> bytes:
    shape = rng.choice(
        ("()", "(0,)", "(1000000000000,)", "(-1,)", "(1, 1)", "(2, 2, 2)",
         "(99999999999999999999,)", "(1,)" * 9, "(" * 90, "(True,)", "(0, 1000000000000)", "[1]")
    )  # fmt: skip
    kind = rng.choice(
        ("<f8", "|O", "<U9999999", "|V8", "<c16", "<f8', 'x': '", ">f8", "<i8", "|S0")
    )
    if rng.random() < 0.5:
        return re.sub(rb"'shape': \([^)]*\)", b"'shape': " + shape.encode(), data, count=1)
    if rng.random() < 0.5:
        return re.sub(rb"'descr': '[^']*'", b"'descr': '" + kind.encode() + b"'", data, count=1)
    return data[:8] + rng.choice(BYTES) + data[8 + rng.randrange(40) :]
