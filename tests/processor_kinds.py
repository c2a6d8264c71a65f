"""Processors that this one can stand in for: core types of OpenBLAS, and NumPy without its newest.

    python tests/processor_kinds.py    two core types for CI: one older, one newer than our own

OPENBLAS_CORETYPE chooses the kernels of OpenBLAS. A core type whose instructions the processor
lacks would crash: none is offered. Elsewhere than on Linux and x86 there is none to offer.
"""

import platform
from pathlib import Path

import numpy as np
import scipy.linalg  # its OpenBLAS is loaded, and seen, too
from threadpoolctl import threadpool_info

CPUINFO = Path("/proc/cpuinfo")
# Core types, the oldest first, and what the flags of a processor must have.
CORES = {
    "Prescott": {"pni"},
    "Nehalem": {"sse4_2"},
    "Sandybridge": {"avx"},
    "Haswell": {"avx2", "fma"},
    "Zen": {"avx2", "fma"},  # other sizes of blocks than Haswell
    "SkylakeX": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}


def runnable() -> list[str]:
    """The core types that this machine can run, the oldest first."""
    x86 = platform.machine() in ("x86_64", "AMD64")
    found = threadpool_info()
    if not x86 or not CPUINFO.is_file() or not any("architecture" in one for one in found):
        return []
    line = next(one for one in CPUINFO.read_text().splitlines() if one.startswith("flags"))
    flags = set(line.split())
    return [core for core, needed in CORES.items() if needed <= flags]


def own() -> str:
    """The core type that OpenBLAS takes for this machine; call it without OPENBLAS_CORETYPE."""
    assert scipy.linalg is not None
    return next(one["architecture"] for one in threadpool_info() if "architecture" in one)


def without_features() -> dict[str, str]:
    """NPY_DISABLE_CPU_FEATURES without AVX-512, and without AVX2 and FMA3 too; {} for none.

    Only what NumPy dispatches, and this processor has, can be named: NumPy warns of others.
    """
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    wide = [one for one in found if "AVX512" in one or one == "X86_V4"]
    named = {"no AVX-512": wide, "no AVX2": found}
    return {name: " ".join(features) for name, features in named.items() if features}


def neighbours() -> list[str]:
    """The next older and the next newer core type; two older ones where there is none newer."""
    cores = [core for core in runnable() if core != "Zen"]
    if len(cores) < 2:
        return cores
    here = "Haswell" if own() == "Zen" else own()
    at = cores.index(here) if here in cores else len(cores)  # others: the two newest
    older, newer = cores[:at], cores[at + 1 :]
    return [*older[-1:], newer[0]] if newer else older[-2:]


if __name__ == "__main__":
    print(*neighbours())
