"""The door to numba: loops that call functions, and the cache file that knows when they change."""

import importlib.util
import sys

import numpy as np
import pytest

pytest.importorskip("numba")

from privest.linalg.compiling import machine_code

SOURCE = """
def twice(x):
    return {factor} * x

def plus(x, y):
    return twice(x) + y

def loop(values, at, found, marks):
    for k in range(len(values)):
        found[k] = plus(values[k], at[k])
        marks[k] = found[k] > 3.0
    return len(values)
"""


def loaded(path, factor):
    path.write_text(SOURCE.format(factor=factor))
    spec = importlib.util.spec_from_file_location("numba_loops_of_a_test", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module, machine_code(
        module.loop, "in1 index out1 outflags", uses=(module.twice, module.plus)
    )


def test_loops_call_functions_and_are_kept_until_their_file_changes(tmp_path):
    path, at = tmp_path / "numba_loops_of_a_test.py", np.array([0, 1, 2])
    values = np.array([1.0, 1.5, 2.0])
    values.setflags(write=False)
    for factor, kept in ((2.0, False), (2.0, True), (3.25, False)):
        if not kept:
            module, loop = loaded(path, factor)
        else:  # the same file again, as another process would find it
            machine_code.cache_clear()
            loop = machine_code(
                module.loop, "in1 index out1 outflags", uses=(module.twice, module.plus)
            )
        found, marks = np.empty(3), np.empty(3, dtype=bool)
        assert loop(values, at, found, marks) == 3
        assert found.tolist() == (factor * values + at).tolist()
        assert marks.tolist() == (found > 3.0).tolist()
        assert bool(loop.stats.cache_hits) == kept
    assert module.twice(1.0) == 3.25  # the plain functions stay plain
    sys.modules.pop("numba_loops_of_a_test")


def test_no_place_for_the_cache_is_no_failure(monkeypatch):
    import numba

    njit, asked = numba.njit, []

    def without_cache(*args, cache=None, **options):
        if cache is not None:
            asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(*args, **options)

    def first(values):
        return values[0]

    monkeypatch.setattr(numba, "njit", without_cache)
    assert machine_code(first, "in1")(np.ones(3)) == 1.0
    assert asked == [True, False]
