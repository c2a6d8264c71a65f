"""The door for arrays: a sparse matrix is told what to do."""

import numpy as np
import pytest
import scipy.sparse

import privest as pv
from privest.arrays import as_confidence


@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_a_sparse_matrix_is_told_what_to_do(make):
    H = make(np.eye(3))
    with pytest.raises(pv.errors.InvalidInput, match=r"H is a sparse matrix.*\.toarray\(\)"):
        pv.LinearModel(H, noise=1.0)
    assert pv.LinearModel(H.toarray(), noise=1.0).readings == 3


def test_a_confidence_that_is_one_after_rounding_is_refused():
    assert as_confidence(1 - 1e-12) == 1 - 1e-12
    for value in (0.0, 1.0, 1 - 2**-53):
        with pytest.raises(pv.errors.InvalidInput, match="between 0 and 1"):
            as_confidence(value)
