"""`thm:identifiable`: identifiable exactly when HᵀSH is invertible."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privest as pv
from strategies import KINDS, design, problems, psd_matrix

GAUSS = pv.noise.Gaussian(cov=1.0)


@st.composite
def hidden_cases(draw):
    """A design and a PSD level with S H v = 0 exactly for the directions v in `hidden`."""
    n = draw(st.integers(1, 4))
    m = draw(st.integers(n, 10))
    count = draw(st.integers(0, n))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    H = design(rng, m, n)
    hidden = np.linalg.qr(rng.standard_normal((n, n)))[0][:, :count]
    basis = np.linalg.qr(np.concatenate([H @ hidden, rng.standard_normal((m, m))], axis=1))[0]
    seen = basis[:, count:m]  # orthogonal to H v
    S = seen @ psd_matrix(rng, m - count) @ seen.T if m > count else np.zeros((m, m))
    return H, (S + S.T) / 2, hidden


@given(hidden_cases())
def test_verdict_rank_and_directions(case):
    H, S, hidden = case
    n, count = H.shape[1], hidden.shape[1]
    result = pv.identifiability(pv.LinearModel(H, noise=GAUSS), pv.PrivacyLevel(S))
    assert result.identifiable == (count == 0) == bool(result)
    assert result.rank == n - count
    assert result.hidden_directions.shape == (n, count)
    projection = hidden @ hidden.T
    found = result.hidden_directions @ result.hidden_directions.T
    assert np.abs(found - projection).max() < 1e-9
    assert result.unseen_directions.shape == (n, 0)
    assert len(result.measurements_to_reveal) == count


@given(hidden_cases(), st.sampled_from([1e-3, 1.0]))
def test_revealing_the_named_readings_is_enough_and_none_is_superfluous(case, amount):
    H, S, _hidden = case
    model = pv.LinearModel(H, noise=GAUSS)
    named = pv.identifiability(model, pv.PrivacyLevel(S)).measurements_to_reveal
    more = np.zeros(len(H))
    more[list(named)] = amount
    assert pv.identifiability(model, pv.PrivacyLevel(S + np.diag(more))).identifiable
    for k in named:
        less = more.copy()
        less[k] = 0
        assert not pv.identifiability(model, pv.PrivacyLevel(S + np.diag(less))).identifiable


@given(hidden_cases())
def test_bound_exists_exactly_when_identifiable(case):
    H, S, hidden = case
    b = pv.bound(pv.LinearModel(H, noise=GAUSS), pv.PrivacyLevel(S))
    assert b.identifiable == (hidden.shape[1] == 0)
    if b.identifiable:
        assert np.linalg.eigvalsh(b.covariance)[0] > 0
    else:
        for name in ("covariance", "cost", "cost_floor", "standard_error"):
            with pytest.raises(pv.errors.NotIdentifiable, match="rank") as caught:
                getattr(b, name)
            assert caught.value.hidden_directions.shape == hidden.shape
        assert b.to_dict()["covariance"] is None


@given(problems(level_kinds=KINDS))
def test_diagonal_and_dense_structures_agree(p):
    model = pv.LinearModel(p.H, noise=GAUSS)
    kept = pv.identifiability(model, pv.PrivacyLevel(p.level))
    dense = pv.identifiability(model, pv.PrivacyLevel(p.S))
    assert (kept.identifiable, kept.rank) == (dense.identifiable, dense.rank)


def test_a_repeated_row_compensates_a_hidden_reading():
    """The remark after the theorem: a reading that is not transmitted can be compensated."""
    H = [[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]]
    model = pv.LinearModel(H, noise=GAUSS)
    assert pv.identifiability(model, pv.PrivacyLevel([1.0, 0.0, 1.0]))
    assert not pv.identifiability(model, pv.PrivacyLevel([1.0, 0.0, 0.0]))


def test_what_h_never_sees_is_told_apart_from_what_the_level_hides():
    H = [[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    verdict = pv.identifiability(pv.LinearModel(H, noise=GAUSS), pv.PrivacyLevel([1, 1, 0, 1.0]))
    assert verdict.rank == 1
    assert verdict.unseen_directions.shape == (3, 1)
    assert np.abs(verdict.unseen_directions[:, 0]) == pytest.approx([0.5**0.5, 0.5**0.5, 0])
    assert verdict.measurements_to_reveal == (2,)
    assert list(verdict.helpful_measurements) == [2]
    assert "hidden even without privacy: θ[0], θ[1]" in verdict.explain()
    assert "revealing something of measurement 2 is enough" in verdict.explain()


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_units_do_not_decide(unit):
    """One parameter in nano-units: still identifiable; one hidden: still hidden."""
    rng = np.random.default_rng(1)
    H = rng.standard_normal((6, 3)) * [1.0, unit, 1.0]
    S = psd_matrix(rng, 6)
    model = pv.LinearModel(H, noise=GAUSS)
    assert pv.identifiability(model, pv.PrivacyLevel(S))
    assert pv.identifiability(model, pv.PrivacyLevel(S * unit))
    assert pv.identifiability(model, pv.PrivacyLevel([1, unit, 1, 1, 0, 0])).rank == 3
    assert pv.identifiability(model, pv.PrivacyLevel([1, unit, 0, 0, 0, 0])).rank == 2


def test_duplicate_readings_are_not_both_asked_for():
    """Two hidden directions; readings 0 and 1 show the same one."""
    H = [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    verdict = pv.identifiability(pv.LinearModel(H, noise=GAUSS), pv.PrivacyLevel([0, 0, 0, 1.0]))
    assert len(verdict.measurements_to_reveal) == 2
    assert 2 in verdict.measurements_to_reveal
    assert list(verdict.helpful_measurements) == [0, 1, 2]
    stored = pv.bound(pv.LinearModel(H, noise=GAUSS), pv.PrivacyLevel([0, 0, 0, 1.0])).to_dict()
    assert stored["identifiability"]["rank"] == 1


def test_a_hidden_parameter_in_a_small_unit_still_has_a_remedy():
    H = [[1.0, 0.0], [1.0, 1e-17]]
    verdict = pv.identifiability(pv.LinearModel(H, noise=GAUSS), pv.PrivacyLevel([1.0, 0.0]))
    assert verdict.rank == 1
    assert verdict.measurements_to_reveal == (1,)


def test_a_computed_singular_level_with_a_spread_diagonal_stays_singular():
    """The rounding of the small entry is 1e-12 of it: not information."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        v = rng.standard_normal(2) * [1.0, 10.0 ** rng.uniform(-2, 0)]
        S = np.outer(v, v)
        S[0, 0] = S[0, 0] * (1 + 1e-16)
        model = pv.LinearModel([[-v[1]], [v[0]]], noise=GAUSS)
        assert not pv.identifiability(model, pv.PrivacyLevel(S))


def test_no_reading_is_asked_for_what_h_never_sees():
    """θ₀ − θ₁ is unseen, θ₂ is hidden by the level: one reading is enough, of two that would do."""
    H = [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 2.0]]
    verdict = pv.identifiability(pv.LinearModel(H, noise=GAUSS), pv.PrivacyLevel([1.0, 0.0, 0.0]))
    assert verdict.rank == 1
    assert verdict.unseen_directions.shape == (3, 1)
    assert list(verdict.helpful_measurements) == [1, 2]
    assert len(verdict.measurements_to_reveal) == 1


# --- in exact arithmetic ---


def exact_rank(matrix):
    """Of integers, by elimination with fractions."""
    rows, rank = [[Fraction(int(x)) for x in row] for row in matrix], 0
    for column in range(matrix.shape[1]):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for i in range(rank + 1, len(rows)):
            part = rows[i][column] / rows[rank][column]
            rows[i] = [a - part * b for a, b in zip(rows[i], rows[rank])]
        rank += 1
    return rank


def test_helpful_measurements_are_those_that_raise_the_exact_rank():
    """Integer H and singular integer S, whose factor is rounding: 1200 problems, no exception.

    A reading helps if raising its level raises the rank of HᵀSH; the readings to reveal are as many
    as are needed and make it that of H.
    """
    hidden = 0
    for trial in range(1200):
        rng = np.random.default_rng(trial)
        m, n = int(rng.integers(2, 7)), int(rng.integers(1, 4))
        H = rng.integers(-2, 3, (m, n))
        L = rng.integers(-2, 3, (m, int(rng.integers(1, m + 1)))) * (rng.random((m, 1)) < 0.8)
        S = L @ L.T

        def raised(measurements, H=H, S=S):
            higher = S.copy()
            higher[measurements, measurements] += 1
            return exact_rank(H.T @ higher @ H)

        model = pv.LinearModel(H.astype(float), noise=pv.noise.Gaussian(cov=1.0))
        found = pv.identifiability(model, S.astype(float))
        rank = raised([])
        assert found.rank == rank, trial
        if found:
            continue
        hidden += 1
        helpful = [k for k in range(m) if raised([k]) > rank]
        assert found.helpful_measurements.tolist() == helpful, trial
        assert len(found.measurements_to_reveal) == exact_rank(H) - rank, trial
        assert raised(list(found.measurements_to_reveal)) == exact_rank(H), trial
    assert hidden > 400


def test_a_reading_that_sees_nothing_hidden_is_not_named():
    """HᵀSH = diag(1, 0): reading 2 sees θ[0] only, which the level shows already."""
    H = np.array([[0.0, -1.0], [-1.0, 1.0], [1.0, 0.0], [2.0, -2.0]])
    S = np.outer([2.0, 2.0, 1.0, 0.0], [2.0, 2.0, 1.0, 0.0])
    found = pv.identifiability(pv.LinearModel(H, noise=pv.noise.Gaussian(cov=1.0)), S)
    assert found.helpful_measurements.tolist() == [0, 1, 3]


def test_the_level_is_not_blamed_for_what_no_reading_sees():
    H = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    model = pv.LinearModel(H, noise=pv.noise.Gaussian(cov=1.0), names=["a", "b", "c"])
    words = pv.identifiability(model, pv.PrivacyLevel([1.0, 0.0])).explain()
    assert "hidden even without privacy: c (" in words
    assert "hidden by the level: b; revealing" in words
