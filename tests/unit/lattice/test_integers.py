"""Integers of the grid's laws."""

import os
import subprocess
import sys

import numpy as np
import pytest

from privest import lattice
from privest.errors import InvalidInput, NotReleasable


def test_moments():
    """10^5 draws: the mean within 5 and the variance within 5 deviations (√2, √5 of kurtosis)."""
    words = np.random.default_rng(1).bit_generator.random_raw
    for draw, variance, kurtosis in (
        (lattice.gaussian_integers, 4**10 + 0.5, 3.0),
        (lattice.laplace_integers, 2 * 4.0**10, 6.0),
    ):
        drawn = draw(10**5, lambda n: words(n).astype(np.uint64))
        assert abs(drawn.mean()) < 5 * (variance / 1e5) ** 0.5
        assert drawn.var() / variance == pytest.approx(1, abs=5 * ((kurtosis - 1) / 1e5) ** 0.5)


def test_an_error_of_the_system_stops_the_release(monkeypatch):
    def none(count):
        raise OSError("no entropy")

    monkeypatch.setattr(os, "urandom", none)
    for draw in (lattice.os_words, lattice.gaussian_integers, lattice.laplace_integers):
        with pytest.raises(NotReleasable, match="nothing was released"):
            draw(3)


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.uint32])
def test_words_of_another_type_are_refused(dtype):
    with pytest.raises(InvalidInput, match="uint64"):
        lattice.gaussian_integers(3, lambda n: np.zeros(n, dtype=dtype))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_draws_other_noise():
    """Nothing is kept that parent and child could both use."""
    code = (
        "import os\n"
        "from privest import lattice\n"
        "lattice.gaussian_integers(5)\n"
        "child = os.fork()\n"
        "line = ' '.join(map(str, lattice.gaussian_integers(20))) + '\\n'\n"
        "os.write(1, line.encode())\n"
        "child and os.waitpid(child, 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first != second
