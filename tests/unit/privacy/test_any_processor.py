"""Levels are the same level on every processor: what is released, and the name it is released by.

LAPACK may return an eigenvector with the other sign, another basis of equal eigenvalues, and other
last bits. That is emulated here, so that the test needs no other processor.
"""

import numpy as np
import pytest

import privest as pv

EIGH, CHOLESKY = np.linalg.eigh, np.linalg.cholesky
SINGULAR = {
    "rank one": np.outer([1.0, 2.0, -1.0], [1.0, 2.0, -1.0]),
    "contrasts": np.eye(4) - 0.25,  # its three eigenvalues are equal
    "units": np.diag([1e6, 1.0, 1e-6]) @ (np.ones((3, 3)) + np.diag([0, 1, 1])) @ np.diag(
        [1e6, 1.0, 1e-6]
    ),
    "a measurement that is hidden": np.array([[2.0, 0, 1], [0, 0, 0], [1, 0, 0.5]]),
}  # fmt: skip
SINGULAR["units"][0] = SINGULAR["units"][:, 0] = 0.0
REGULAR = np.array([[4.0, 1.0, 0.3], [1.0, 3.0, 0.7], [0.3, 0.7, 2.0]])


def other_eigh(stack):
    """Equal eigenvalues turned among each other, all signs changed."""
    values, vectors = EIGH(stack)
    result = -vectors
    for block, own in enumerate(values.reshape(-1, values.shape[-1])):
        where = np.flatnonzero(np.isclose(own, own[-1], rtol=1e-9, atol=0))
        turn = np.linalg.qr(np.random.default_rng(1).standard_normal((len(where),) * 2))[0]
        flat = result.reshape(-1, *vectors.shape[-2:])[block]
        flat[:, where] = flat[:, where] @ turn
    return values, result


def both(monkeypatch, make):
    """What is made here, and where LAPACK decides otherwise."""
    here = make()
    with monkeypatch.context() as patch:
        patch.setattr(np.linalg, "eigh", other_eigh)
        return here, make()


@pytest.mark.parametrize("name", SINGULAR)
def test_a_singular_level_has_one_root(name, monkeypatch):
    """Else an analyst on another machine reads z̃ = Lᵀy + e by another L: a wrong estimate.

    The root of a matrix of norm 1 that is known to 10·2⁻⁵² is known to its square root where
    eigenvalues end; here they are 0 or at least .1.
    """
    S = SINGULAR[name]
    values, names = zip(
        *both(
            monkeypatch,
            lambda: (
                pv.StreamMechanism(pv.StreamLevel([S, S]))
                .simulate(np.arange(1.0, 1 + 2 * len(S)), np.random.default_rng(1))
                .values,
                (pv.PrivacyLevel(S).fingerprint, pv.StreamLevel.constant(S).fingerprint),
            ),
        )
    )
    np.testing.assert_allclose(values[0], values[1], rtol=1e-12, atol=1e-12 * np.sqrt(S.max()))
    assert names[0] == names[1]


def test_a_level_that_is_zero_at_some_steps_has_one_root(monkeypatch):
    level = [REGULAR, np.zeros((3, 3)), REGULAR]
    here, there = both(monkeypatch, lambda: pv.StreamLevel(level).fingerprint)
    assert here == there


@pytest.mark.parametrize("S", [4.1, [1.0, 2.3], REGULAR])
def test_last_bits_do_not_make_another_level(S):
    S = np.asarray(S)
    near = S * (1 + 4 * np.finfo(float).eps)
    assert pv.PrivacyLevel(S).fingerprint == pv.PrivacyLevel(near).fingerprint
    assert pv.PrivacyLevel(S).fingerprint != pv.PrivacyLevel(S * (1 + 1e-6)).fingerprint


def test_a_small_level_beside_a_large_one_still_has_a_name():
    one, other = (pv.PrivacyLevel([1e15, small]).fingerprint for small in (1.0, 1.001))
    assert one != other
