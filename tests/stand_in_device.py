"""A stand-in for CuPy where there is no device: arrays that refuse every implicit copy.

`Remote` behaves as cupy.ndarray does towards NumPy: operations with NumPy's arrays raise TypeError,
and so does np.asarray of it; only `asarray` brings numbers in and `asnumpy` or `get` take them out,
both counted in `copied`.
"""

import sys
from types import SimpleNamespace

import numpy as np
import scipy.special


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
    """No backend of the stand-in outlives a test."""
    from privest.estimator import device

    device.cupy_backend.cache_clear()
