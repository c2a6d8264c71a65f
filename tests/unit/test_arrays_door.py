"""The door for arrays: a sparse matrix is told what to do."""

import numpy as np
import pytest
import scipy.sparse

import privest as pv
from privest.arrays import as_array, as_choice, as_confidence
from privest.workflow.spec import Privacy


@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_a_sparse_matrix_is_told_what_to_do(make):
    H = make(np.eye(3))
    with pytest.raises(pv.errors.InvalidInput, match=r"H is a sparse matrix.*\.toarray\(\)"):
        pv.LinearModel(H, noise=1.0)
    assert pv.LinearModel(H.toarray(), noise=1.0).measurements == 3


def test_a_confidence_that_is_one_after_rounding_is_refused():
    assert as_confidence(1 - 1e-12) == 1 - 1e-12
    for value in (0.0, 1.0, 1 - 2**-53):
        with pytest.raises(pv.errors.InvalidInput, match="between 0 and 1"):
            as_confidence(value)


@pytest.mark.parametrize(
    "value", [[10**400, 1.5], [1.5, -(10**400)], 10**400, [[1, 2], [3, 10**400]]]
)
def test_a_whole_number_beyond_the_doubles_is_said_to_be_that(value):
    with pytest.raises(pv.errors.InvalidInput, match="H has a whole number beyond double") as told:
        as_array(value, "H")
    assert "000" not in str(told.value)  # never an entry
    with pytest.raises(pv.errors.InvalidInput, match="real numbers; received an array of obj"):
        as_array([2**70, None], "H")


def test_a_choice_is_one_of_its_list_letter_for_letter():
    assert as_choice("laplace", ("gaussian", "laplace"), "law") == "laplace"
    with pytest.raises(pv.errors.InvalidInput, match="law must be one of gaussian, laplace; recei"):
        as_choice("Laplace", ("gaussian", "laplace"), "law")
    for value in (None, 3.25, ["laplace"], np.array(["laplace"]), b"laplace", {}):
        with pytest.raises(pv.errors.InvalidInput) as told:
            as_choice(value, ("gaussian", "laplace"), "law")
        assert "3.25" not in str(told.value)  # an object may be private


@pytest.mark.parametrize("truth", [True, np.True_])
@pytest.mark.parametrize(
    "call",
    [
        lambda truth: Privacy(epsilon=truth),
        lambda truth: Privacy(1.0, range={"y": (False, truth)}),
        lambda truth: Privacy(standard_error={"age": truth}),
        lambda truth: pv.privacy.grid_statement(2.0, sensitivity=0.5, delta=truth),
        lambda truth: pv.ledger.Budget(level=truth),
    ],
    ids=["epsilon", "range", "standard error", "delta", "budget"],
)
def test_a_truth_value_is_no_number(call, truth):
    with pytest.raises(pv.errors.InvalidInput, match="must be a number"):
        call(truth)
