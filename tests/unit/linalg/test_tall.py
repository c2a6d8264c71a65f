"""The triangle of very many rows: Gram matrix or QR; one result."""

import numpy as np
import pytest

from privest.linalg.running import CHUNK, tall_triangle
from strategies import relative_error


def gram_of(triangle):
    upper = np.triu(triangle)
    return upper.T @ upper


@pytest.mark.parametrize("kind", ["numbers", "vectors", "shifted", "strided"])
@pytest.mark.parametrize("rows", [1, CHUNK + 3])
def test_gram_of_the_triangle(kind, rows):
    rng = np.random.default_rng(0)
    H, z = rng.standard_normal((rows, 4)), rng.standard_normal(rows)
    g, u, v = 0.5, 0.3, 0.0
    if kind == "vectors":
        g, u, v = rng.uniform(0, 1, (3, rows))
    if kind == "shifted":
        v = 0.7
    if kind == "strided":
        H = np.asfortranarray(rng.standard_normal((2 * rows, 4)))[::2]
    found = tall_triangle(H, z, g, u, v)
    dense = np.column_stack([np.reshape(g, (-1, 1)) * H, u * z - v])
    assert relative_error(gram_of(found), dense.T @ dense) < 1e-12


@pytest.mark.parametrize("scale", [1e-180, 1e180])
def test_ill_conditioned_and_extreme_rows_keep_their_digits(scale):
    """Columns that agree to 1e-7: a Gram matrix would keep two digits of the difference."""
    rng = np.random.default_rng(1)
    base = rng.standard_normal(40_000)
    H = scale * np.column_stack([base, base + 1e-7 * rng.standard_normal(40_000)])
    found = tall_triangle(H, rng.standard_normal(40_000), 1.0, 1.0, 0.0)
    expected = abs(np.linalg.qr(H / scale, mode="r")[1, 1]) * scale
    assert abs(found[1, 1]) == pytest.approx(expected, rel=1e-7)
