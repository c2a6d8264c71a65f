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
// ∫ e^{−t² − 2xt} dt·2/√π for x ≥ 0, in 80 bits: by erfc, and far out by the continued fraction
static inline double erfcx(double given) {
    long double x = given, s = given;
    if (x < 8.0L) return (double)(expl(x * x) * erfcl(x));
    for (int k = 80; k > 0; k--) s = x + 0.5L * k / s;
    return (double)(1.0L / (s * 1.7724538509055160272981674833411452L));
}
"""
CLIMB = r"""
extern "C" void climb(long long threads, long long problems, unsigned long long *next,
                      const double *H, const double *z, const double *sd, const double *own,
                      const double *begin, int starts, int iterations, double *theta,
                      double *height, unsigned char *found, long long *spent, double *size) {
    climb_many(next, problems, H, z, sd, own, begin, starts, iterations, theta, height, found,
               spent, size);
}
extern "C" void screen(long long trials, const double *H, const double *z, const double *centre,
                       const double *sd, const double *own, const int *rows,
                       const double *inverses, int fits, double *begin) {
    for (long long t = 0; t < trials; t++)
        screen_one(t, H, z, centre, sd, own, rows, inverses, fits, begin);
}
extern "C" void terms(long long count, const double *z, const double *eta, const double *sd,
                      const double *own, double *out) {
    for (long long k = 0; k < count; k++) {
        Terms t = terms_of(z[k], eta[k], sd[0], own);
        out[4 * k] = t.value; out[4 * k + 1] = t.slope;
        out[4 * k + 2] = t.curvature; out[4 * k + 3] = t.weight;
    }
}
"""
VOIGT = r"""
extern "C" void voigt(long long count, const double *x, const double *y, double *K, double *slope,
                      double *bend) {
    for (long long k = 0; k < count; k++) voigt_profile(x[k], y[k], K + k, slope + k, bend + k);
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
        library = compiled(HEAD + code + CLIMB)
        found = SimpleNamespace(library=library)
        found.get_function = lambda name: Kernel(getattr(library, name))
        return found

    def ElementwiseKernel(self, arguments, results, body, name, preamble):
        assert "voigt_profile(x, y, &height, &slope, &bend)" in body
        library = compiled(HEAD + preamble + VOIGT)

        def run(x, y):
            x, y = (np.ascontiguousarray(a) for a in np.broadcast_arrays(inside(x), inside(y)))
            made = [np.empty(x.shape) for _ in range(3)]
            called(library.voigt, (np.int64(x.size), x, y, *made))
            return tuple(Remote(a) for a in made)

        return run


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
    from privest.estimator._device import _cupy, _kernels

    for cached in (_cupy.cupy_backend, _kernels._module, _kernels.voigt_kernel):
        cached.cache_clear()
