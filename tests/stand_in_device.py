"""A stand-in for CuPy where there is no device: arrays that refuse every implicit copy.

`Remote` behaves as cupy.ndarray does towards NumPy: operations with NumPy's arrays raise TypeError,
and so does np.asarray of it; only `asarray` brings numbers in and `asnumpy` or `get` take them out,
both counted in `copied`. Kernels are the same CUDA text, compiled for the processor by g++.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import scipy.special

COMPILER = shutil.which("g++")
ROOM = Path(tempfile.gettempdir()) / f"privest-stand-in-{os.getuid()}"

HEAD = r"""
#include <cmath>
#define __device__
#define __constant__ static const
using std::fmin; using std::fmax; using std::fabs;
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
"""
PHILOX = r"""
extern "C" void philox(long long counters, unsigned long long first, unsigned long long key0,
                       unsigned long long key1, unsigned long long *words) {
    for (long long k = 0; k < counters; k++) philox_one(k, first, key0, key1, words);
}
"""


def compiled(text):
    """A shared library of C++ text, made once."""
    ROOM.mkdir(mode=0o700, exist_ok=True)
    assert ROOM.stat().st_uid == os.getuid()
    name = hashlib.sha256(text.encode()).hexdigest()[:20]
    library = ROOM / f"{name}.so"
    if not library.exists():
        source = ROOM / f"{name}.cpp"
        source.write_text(text, "utf-8")
        part = ROOM / f"{name}.{np.random.default_rng().integers(2**62)}.part"
        options = ["-O1", "-std=c++17", "-Wno-unknown-pragmas", "-shared", "-fPIC"]
        subprocess.run([COMPILER, *options, "-o", str(part), str(source)], check=True)
        part.rename(library)
    return ctypes.CDLL(str(library))


def called(function, arguments):
    """Call C with arrays as pointers."""
    kinds = {np.int64: ctypes.c_longlong, np.uint64: ctypes.c_ulonglong, np.int32: ctypes.c_int}
    given = []
    for one in arguments:
        array = one.own if isinstance(one, Remote) else one
        if isinstance(array, np.ndarray):
            assert array.flags.c_contiguous
            given.append(ctypes.c_void_p(array.ctypes.data))
        else:
            given.append(kinds[type(array)](int(array)))
    function.restype = None
    function(*given)


def inside(value):
    """What is in it, for an operation; NumPy's own arrays are refused, as CuPy does."""
    if isinstance(value, Remote):
        return value.own
    if isinstance(value, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    if isinstance(value, tuple | list):
        return type(value)(inside(one) for one in value)
    return value


def outside(value):
    if isinstance(value, np.ndarray | np.generic):
        return Remote(np.asarray(value))
    if isinstance(value, tuple):
        return tuple(outside(one) for one in value)
    return value


def index(key):
    """Indices may be NumPy's: CuPy brings them over."""
    if isinstance(key, tuple):
        return tuple(index(one) for one in key)
    return key.own if isinstance(key, Remote) else key


class Remote(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of the stand-in."""

    def __init__(self, own):
        self.own = own

    __cuda_array_interface__ = {}  # noqa: RUF012 - what `holds` looks for

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __array_ufunc__(self, ufunc, method, *arguments, out=None, **options):
        if out is not None:
            options["out"] = tuple(inside(one) for one in out)
        return outside(getattr(ufunc, method)(*(inside(one) for one in arguments), **options))

    def __getitem__(self, key):
        return Remote(np.asarray(self.own[index(key)]))

    def __setitem__(self, key, value):
        self.own[index(key)] = inside(value)

    def __len__(self):
        return len(self.own)

    def __bool__(self):
        return bool(self.own)

    def __float__(self):
        return float(self.own)

    def __int__(self):
        return int(self.own)

    def __getattr__(self, name):
        found = getattr(self.own, name)
        if not callable(found):
            return outside(found) if isinstance(found, np.ndarray) else found

        def method(*arguments, **options):
            return outside(found(*(inside(one) for one in arguments), **options))

        return method

    def get(self):
        StandIn.copied["out"] += self.own.size
        return self.own.copy()


class Kernel:
    """A function of a library, called as a raw kernel is."""

    def __init__(self, function):
        self.function = function

    def __call__(self, grid, block, arguments):
        assert grid[0] * block[0] >= int(arguments[0])
        called(self.function, arguments)


class StandIn:
    """The module: functions of NumPy on `Remote` arrays."""

    copied = {"in": 0, "out": 0}  # noqa: RUF012
    used = set()  # noqa: RUF012
    __version__ = "stand-in"
    bool_, int64, uint64, float64 = np.bool_, np.int64, np.uint64, np.float64

    def __init__(self, free=2**30):
        class CUDARuntimeError(RuntimeError):
            pass

        runtime = SimpleNamespace(
            CUDARuntimeError=CUDARuntimeError,
            getDeviceCount=lambda: 1,
            memGetInfo=lambda: (free, 2 * free),
            getDeviceProperties=lambda k: {"name": b"stand-in", "multiProcessorCount": 1},
            runtimeGetVersion=lambda: 0,
        )
        device = SimpleNamespace(synchronize=lambda: None)
        self.cuda = SimpleNamespace(runtime=runtime, Device=lambda: device)
        self.get_default_memory_pool = lambda: SimpleNamespace(free_bytes=lambda: 0)

    def __getattr__(self, name):
        function = getattr(np, name)
        if not callable(function) or isinstance(function, type):
            return function
        StandIn.used.add(name)

        def run(*arguments, **options):
            given = [inside(one) for one in arguments]
            return outside(function(*given, **{k: inside(v) for k, v in options.items()}))

        return run

    def asarray(self, value, dtype=None):
        if isinstance(value, Remote):
            return value if dtype is None else Remote(np.asarray(value.own, dtype=dtype))
        StandIn.copied["in"] += np.size(value)
        return Remote(np.array(value, dtype=dtype))

    def asnumpy(self, value):
        return value.get() if isinstance(value, Remote) else np.asarray(value)

    def argsort(self, array, axis=-1):
        return Remote(np.argsort(array.own, axis=axis, kind="stable"))

    def RawModule(self, code):
        library = compiled(HEAD + code + PHILOX)
        found = SimpleNamespace(library=library)
        found.get_function = lambda name: Kernel(getattr(library, name))
        return found


class Special:
    """cupyx.scipy.special."""

    def __getattr__(self, name):
        function = getattr(scipy.special, name)
        return lambda *arguments: outside(function(*(inside(one) for one in arguments)))


def installed(monkeypatch, free=2**30):
    """Put the stand-in where CuPy would be; `forgotten` when the test is over."""
    module = StandIn(free)
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setitem(sys.modules, "cupyx.scipy.special", Special())
    forgotten()
    StandIn.copied.update({"in": 0, "out": 0})
    return module


def forgotten():
    """No kernel or backend of the stand-in outlives a test."""
    from privest.estimator import _device
    from privest.paper import _counter

    for cached in (_device.cupy_backend, _counter._kernel):
        cached.cache_clear()
