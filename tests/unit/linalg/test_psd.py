"""Structured PSD matrices: every structure answers like the dense matrix it stands for."""

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from privest.errors import InvalidInput
from privest.linalg import (
    Diagonal,
    Scalar,
    batched,
    psd,
    psd_blocks,
    whitening,
)
from strategies import KINDS, dense, psd_matrix, structured


@st.composite
def values(draw, sizes=(1, 2, 4, 6, 9)):
    m = draw(st.sampled_from(sizes))
    kind = draw(st.sampled_from(KINDS))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return m, structured(rng, kind, m, 1), rng


def close(found, expected):
    return np.abs(found - expected).max() <= 1e-12 * max(np.abs(expected).max(), 1e-300)


@given(values())
def test_answers_like_the_dense_matrix(case):
    m, value, rng = case
    matrix, expected = psd(value, "S", size=m), dense(value, m)
    assert matrix.size == m
    assert close(matrix.dense(), expected)
    assert close(matrix.diagonal(), np.diagonal(expected))
    assert matrix.trace() == pytest.approx(np.trace(expected))
    assert matrix.norm() == pytest.approx(np.linalg.eigvalsh(expected)[-1])
    assert matrix.rank == np.linalg.matrix_rank(expected, hermitian=True)
    assert close(matrix.scaled(2.5).dense(), 2.5 * expected)
    X = rng.standard_normal((m, 3))
    L = matrix.times_factor(np.eye(m))
    assert close(L @ L.T, expected)
    assert close(matrix.factor_rows(X), L.T @ X)
    assert (L != 0).any(0).sum() == matrix.rank


@given(values(), values())
def test_sums_keep_structure_and_value(first, second):
    m = 12
    rng = first[2]
    kinds = [KINDS[int(rng.integers(len(KINDS)))] for _ in range(2)]
    a, b = (structured(rng, kind, m, 1) for kind in kinds)
    total = psd(a, "S", size=m).plus(psd(b, "S", size=m))
    assert close(total.dense(), dense(a, m) + dense(b, m))
    if kinds == ["number", "number"]:
        assert isinstance(total, Scalar)


@given(values(sizes=(4, 6, 9)))
def test_restriction_is_the_submatrix(case):
    m, value, rng = case
    index = np.flatnonzero(rng.random(m) < 0.6)
    if len(index) == 0:
        index = np.array([m - 1])
    part = psd(value, "S", size=m).restrict(index)
    assert close(part.dense(), dense(value, m)[np.ix_(index, index)])


def test_different_partitions_are_brought_together():
    rng = np.random.default_rng(0)
    sizes = [(2, 4, 1, 5), (6, 6), (1,) * 12, (3, 3, 3, 3), (12,)]
    parts = [psd_blocks([psd_matrix(rng, b) for b in split], "S") for split in sizes]
    for a in parts:
        for b in parts:
            assert close(a.plus(b).dense(), a.dense() + b.dense())
            # the kernel: C⁻¹Lᵀ with L of S alone, whatever the partition of Σ
            kernel, L = whitening(a, b), a.times_factor(np.eye(12))
            V = L.T @ b.dense() @ L + np.eye(12)
            C = kernel.whiten(np.eye(12))
            assert np.abs(C @ V @ C.T - np.eye(12)).max() < 1e-12
            assert np.abs(kernel.rows(np.eye(12)) - C @ L.T).max() < 1e-12
    assert isinstance(parts[2], Diagonal)


@pytest.mark.parametrize("unit", [1e-150, 1e8])
def test_rank_does_not_depend_on_units(unit):
    rng = np.random.default_rng(2)
    scale = np.array([unit, 1, 1, 1 / unit, 1, unit])
    for rank in (6, 4, 1):
        S = psd_matrix(rng, 6, rank) * scale * scale[:, None]
        assert psd(S, "S").rank == rank


def test_the_matrix_is_copied():
    S = np.array([[2.0, 1.0], [1.0, 2.0]])
    vector = np.array([1.0, 2.0])
    kept, diagonal = psd(S, "S"), psd(vector, "S")
    S[0, 0] = vector[0] = -5
    assert kept.dense()[0, 0] == 2.0
    assert diagonal.dense()[0, 0] == 1.0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1.0, "eigenvalue -1"),
        ([1.0, -2.0], "eigenvalue -2 at index 1"),
        ([[1.0, 2.0], [2.0, 1.0]], "eigenvalue -1"),
        ([[1.0, 0.5], [0.2, 1.0]], r"entries \(0, 1\) and \(1, 0\) differ by 0.3"),
        ([[1.0, 0.5]], "must be square"),
        ([[np.nan, 0.0], [0.0, 1.0]], r"NaN at index \(0, 0\)"),
        ([1.0, np.inf], "an infinity at index 1"),
        ([], "is empty"),
        ("high", "must hold real numbers"),
        ([[1.0, 2.0], [3.0]], "different lengths"),
        (np.zeros((1, 1, 1, 1)), "0-dimensional or 1-dimensional"),
        (np.array([[[1.0, 0], [0, 1]], [[1, 3], [3, 1]]]), "eigenvalue -2"),
    ],
)
def test_refusals_name_the_problem(value, message):
    with pytest.raises(InvalidInput, match=message):
        psd(value, "S", size=1 if isinstance(value, float | str | complex) else None)


def test_refusals_of_blocks_and_sizes():
    with pytest.raises(InvalidInput, match="block 1 of S must be 2-dimensional"):
        psd_blocks([np.eye(2), [1.0]], "S")
    with pytest.raises(InvalidInput, match="no blocks"):
        psd_blocks([], "S")
    with pytest.raises(InvalidInput, match="size 3; received an array of shape"):
        psd([1.0, 2.0], "S", size=3)
    with pytest.raises(InvalidInput, match="its size must be given"):
        psd(1.0, "S")


def test_rounding_is_not_an_error():
    """A Gram matrix with eigenvalues of −1e-17 is accepted, as what it is: rank 2."""
    A = np.random.default_rng(3).standard_normal((40, 2))
    S = A @ A.T
    assert np.linalg.eigvalsh(S)[0] < 0
    assert psd(S, "S").rank == 2
    inverse = np.linalg.inv(psd_matrix(np.random.default_rng(4), 30))
    assert psd(inverse, "S").rank == 30  # asymmetric in the last digits only


def test_large_matrices_are_factored_by_halves(monkeypatch):
    """OpenBLAS crashes in dpotrf near 16 000 rows: the same code path, at a small size."""
    monkeypatch.setattr(batched, "LAPACK_LIMIT", 7)
    S = psd_matrix(np.random.default_rng(5), 50)
    lower = batched.cholesky(S[None])[0]
    assert np.abs(lower @ lower.T - S).max() < 1e-13
    assert np.array_equal(lower, np.tril(lower))
    indefinite = S - 2 * np.linalg.eigvalsh(S)[0] * np.eye(50)
    assert batched.cholesky(indefinite[None]) is None
    indefinite = np.diag(np.r_[np.ones(49), -1.0]) + 0.0
    assert batched.cholesky(indefinite[None]) is None


@pytest.mark.parametrize("rank", [7, 8])
def test_rounding_in_small_pivots_is_not_taken_for_rank(rank):
    """A singular matrix whose leading block is ill-conditioned has pivots far above eps; the
    condition number tells."""
    rng = np.random.default_rng(6)
    for _ in range(50):
        q = np.linalg.qr(rng.standard_normal((8, 8)))[0]
        values = np.logspace(0, -7, 8)
        values[rank:] = 0
        S = (q * values) @ q.T
        assert psd((S + S.T) / 2, "S").rank == rank


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
def test_substitution_is_scipys(order, lower, transposed):
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((5, 5)) + 5 * np.eye(5)
    triangle = np.asarray(np.tril(whole) if lower else np.triu(whole), order=order)
    for right in (rng.standard_normal((5, 3)), rng.standard_normal(5), np.zeros((5, 0))):
        expected = scipy.linalg.solve_triangular(triangle, right, lower=lower, trans=transposed)
        found = batched.substitute(triangle, right, lower=lower, transposed=transposed)
        # Two routines for one triangle of condition below 10: n·cond·2⁻⁵² = 1.1e-14 of the largest.
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    triangle[2, 2] = 0.0
    with pytest.raises(np.linalg.LinAlgError, match="zero on its diagonal, at 2"):
        batched.substitute(triangle, np.ones(5), lower=lower, transposed=transposed)
