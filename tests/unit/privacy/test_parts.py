"""Vector readings of which a part is missing: the level of the rest, and what is shown of it."""

import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privest as pv
from dynamic_systems import random_psd
from privest import lattice
from privest.audit import certify
from privest.errors import InvalidInput
from privest.linalg.shorted import shorted_root
from privest.mechanism.affine import RunningMechanism
from privest.mechanism.stream_terms import stream_terms
from privest.privacy._grid import Entries, one_measurement
from privest.privacy.parts import rows_of_parts
from protected_double import Wide
from rationals import positive

S3 = np.array([[2.0, 0.6, 0.1], [0.6, 1.5, -0.3], [0.1, -0.3, 1.0]])
NAN = float("nan")


def exactly(rows):
    return [[Fraction(float(x)) for x in row] for row in rows]


def gram(rows):
    """AᵀA in rationals."""
    A = exactly(rows)
    m = len(A[0])
    return [[sum(row[i] * row[j] for row in A) for j in range(m)] for i in range(m)]


def schur(S, kept):
    """S_OO − S_OM S_MM⁺ S_MO in rationals: eliminate the entries that are not kept."""
    rows = [list(row) for row in S]
    for k in np.flatnonzero(~kept):
        if rows[k][k] == 0:
            continue
        for i in range(len(rows)):
            if i != k:
                share = rows[i][k] / rows[k][k]
                rows[i] = [a - share * b for a, b in zip(rows[i], rows[k])]
    there = np.flatnonzero(kept)
    return [[rows[i][j] for j in there] for i in there]


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=60)
def test_what_a_part_shows_is_below_the_level_and_the_most_there_is(seed, rotated):
    """Decided in rationals for the doubles A and B: E BᵀB Eᵀ ≤ AᵀA; and BᵀB is the complement."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 6))
    root = np.linalg.cholesky(random_psd(rng, m, m)).T * 10.0 ** rng.integers(-3, 4, m)
    if rotated:
        root = np.linalg.qr(rng.standard_normal((m, m)))[0] @ root
    level = pv.StreamLevel.from_arrays({"endless": root[None]})
    kept = rng.random(m) < 0.6
    A, B = level.blocks(0, 1)[0, 0], rows_of_parts(level, 0, ~kept[None])[0]
    assert not B[~kept].any()
    assert not B[:, ~kept].any()
    whole, own = gram(A), gram(B)
    assert positive([[a - b for a, b in zip(*rows)] for rows in zip(whole, own)])
    if kept.all():
        assert np.array_equal(A, B)
    elif kept.any():
        expected = np.array(schur(whole, kept), dtype=float)
        unit = np.sqrt(expected.diagonal())
        found = (B.T @ B)[np.ix_(kept, kept)]
        # Twice what is taken off of BᵀB for rounding, 2·10m^1.5·eps/σ.
        least = np.linalg.svd(A / np.linalg.norm(A, axis=0), compute_uv=False)[-1]
        limit = 40 * m**1.5 * np.finfo(float).eps / least
        assert np.abs((found - expected) / np.outer(unit, unit)).max() < limit


@given(st.integers(0, 10**6))
@settings(max_examples=60)
def test_singular_levels_too(seed):
    """Integers: the complement is exact, and what is 0 is 0, not the rounding of something."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 6))
    G = np.zeros((m, m))
    G[: int(rng.integers(1, m))] = rng.integers(-3, 4, (m,))
    rank = int(rng.integers(1, m))
    G[:rank] = rng.integers(-3, 4, (rank, m))
    kept = np.arange(m) != rng.integers(m)
    B = shorted_root(G, kept)
    expected = np.array(schur(gram(G), kept), dtype=float)
    found = (B.T @ B)[np.ix_(kept, kept)]
    np.testing.assert_allclose(found, expected, atol=1e-11 * max(np.square(G).sum(), 1.0))
    assert np.array_equal(B.any(), expected.any())
    assert np.linalg.matrix_rank(B) == np.linalg.matrix_rank(expected)


def test_a_diagonal_level_keeps_the_levels_of_what_is_there():
    """Literal roots, to the last bit, in every form in which such a level comes."""
    s = np.array([2.0, 3.0, 0.0, 7.0])
    absent = np.array([[False, True, False, False]])
    for level in (pv.StreamLevel.constant(np.diag(s)), pv.StreamLevel(np.diag(s)[None])):
        B = rows_of_parts(level, 0, absent)[0]
        assert np.array_equal(B, np.diag(np.where(absent[0], 0.0, lattice.literal_root(s))))


def test_a_level_of_one_direction_shows_nothing_without_all_of_it():
    """S = 11ᵀ: only the sum may be known, and it is not there. The step counts as missing."""
    level = pv.StreamLevel.constant(np.ones((3, 3)))
    release = pv.StreamMechanism(level).release([[1.0, 2.0, 3.0], [1.0, NAN, 3.0]])
    assert release.missing.tolist() == [False, True]
    assert np.isnan(release.values).tolist() == [False] * 3 + [True] * 3


@pytest.mark.parametrize("kind", ["lags", "dense", "range", "whole"])
def test_where_sums_of_more_than_what_is_there_are_promised_nothing_is_shown(kind):
    mechanism = {
        "lags": lambda: pv.StreamMechanism(pv.StreamLevel.constant(S3, lags=[0.5])),
        "dense": lambda: pv.StreamMechanism(
            pv.StreamLevel.from_cumulative(np.eye(6) + 0.3, sizes=[3, 3])
        ),
        "range": lambda: pv.StreamMechanism(pv.StreamLevel.constant(S3), range=(-9.0, 9.0)),
        "whole": lambda: pv.StreamMechanism(pv.StreamLevel.constant(S3), parts=False),
    }[kind]
    y = [[1.0, NAN, 2.0], [0.1, 0.2, 0.3]]
    rng = np.random.default_rng(0)
    for release in (mechanism().release(y), mechanism().simulate(y, rng)):
        assert release.missing.tolist() == [True, False]


def test_a_range_clips_single_readings_and_keeps_the_others():
    level = pv.StreamLevel.constant(np.diag([4.0, 1.0]))
    release = pv.StreamMechanism(level, range=(0.0, 1.0)).release([[1e9, NAN]] * 50)
    assert np.array_equal(release.missing, np.tile([[False, True]], (50, 1)))
    assert np.nanmax(np.abs(release.values - 2.0)) < 9.0  # at the end of the range, and noise


@given(st.integers(0, 10**6))
@settings(max_examples=30)
def test_the_protected_path_shows_exactly_B_times_what_is_there(seed):
    """The number before noise as a fraction: Σ B_ij y_j, and no other reading is in it."""
    rng = np.random.default_rng(seed)
    m, steps = int(rng.integers(2, 5)), 3
    level = pv.StreamLevel(np.stack([random_psd(rng, m, m) for _ in range(steps)]))
    y, absent = rng.standard_normal((steps, m)), rng.random((steps, m)) < 0.4
    values = np.where(absent, 0.0, y).ravel()
    terms = stream_terms(level, np.zeros(0), values, 0, steps, absent.ravel())[0]
    shown = lattice.sum_of_products(terms)
    rows = rows_of_parts(level, 0, absent)
    for k, i in itertools.product(range(steps), range(m)):
        wanted = sum(
            (Fraction(float(rows[k, i, j])) * Fraction(float(y[k, j])) for j in range(m)),
            Fraction(0),
        )
        assert shown.exact(k * m + i) == wanted


@pytest.mark.parametrize("sizes", [(3, 3), (3, 2)])
def test_no_value_of_a_reading_decides_what_is_shown_and_it_stays_where_it_was(sizes):
    """Infinite readings are clipped; those of a part do not touch the places of the others."""
    blocks = [random_psd(np.random.default_rng(k), size, size) for k, size in enumerate(sizes)]
    level = pv.StreamLevel(blocks if len(set(sizes)) > 1 else np.stack(blocks))
    y = np.full(sum(sizes), 0.5)
    y[1], y[-1] = np.nan, np.inf
    release = pv.StreamMechanism(level).release(y)
    assert np.array_equal(np.isnan(release.values), np.isnan(y))
    assert release.missing.shape == ((2, 3) if sizes[0] == sizes[1] else (1, 5))
    assert np.array_equal(release.missing.ravel(), np.isnan(y))
    both = [release.part(k, k + 1, sizes) for k in (0, 1)]
    assert both[0].missing.tolist() == [[False, True, False]]
    assert both[1].missing is None
    again = pv.Release.from_dict(json.loads(json.dumps(release.to_dict())))
    assert np.array_equal(again.missing, release.missing)
    assert again.missing.shape == release.missing.shape


def test_whole_steps_are_what_they_were():
    """Missing whole or not at all: flags of steps, and the numbers of a trial to the last bit."""
    level = pv.StreamLevel.constant(S3)
    y = np.random.default_rng(1).standard_normal((6, 3))
    plain = pv.StreamMechanism(level).simulate(y, np.random.default_rng(2))
    y[2] = np.nan
    gap = pv.StreamMechanism(level).simulate(y, np.random.default_rng(2))
    assert plain.missing is None
    assert gap.missing.tolist() == [False, False, True, False, False, False]
    y[4, 1] = np.nan
    part = pv.StreamMechanism(level).simulate(y, np.random.default_rng(2))
    rows = np.repeat(np.arange(6), 3)
    for k in (0, 1, 3, 5):
        assert np.array_equal(plain.values[rows == k], gap.values[rows == k])
        assert np.array_equal(plain.values[rows == k], part.values[rows == k])


@pytest.mark.parametrize(
    "missing",
    [
        [[False, True], [False, False], [False, False]],
        [[False, True, False], [False, False]],
        [[False, True, False, False, False, False]] * 2,
        [[False, False, True], [False, False, False]],
        [[0, 1, 0], [0, 0, 0]],
        [[[False, True, False]], [[False, False, False]]],
        [False, True, False, False, False, False],
        [False, False],
        None,
    ],
)
def test_flags_that_do_not_go_with_the_values_are_refused(missing):
    release = pv.StreamMechanism(pv.StreamLevel.constant(S3)).release(
        [[1.0, NAN, 2.0], [0.1, 0.2, 0.3]]
    )
    record = release.to_dict()
    assert pv.Release.from_dict(record).missing.tolist() == record["missing"]
    with pytest.raises(InvalidInput):
        pv.Release.from_dict(record | {"missing": missing})


def test_a_release_that_was_written_before_is_read():
    """As an earlier version wrote it: flags of steps, all of a step missing."""
    level = pv.StreamLevel.constant(S3)
    record = {
        "kind": "stream release", "start": 0, "steps": 2, "fingerprint": level.fingerprint,
        "values": [None, None, None, 0.5, 0.25, -1.0], "missing": [True, False],
        "simulated": False, "grid": 2.0**-10,
    }  # fmt: skip
    release = pv.Release.from_dict(record)
    assert release.missing.tolist() == [True, False]
    assert release.to_dict() == record


@pytest.mark.parametrize("kept", [(0, 2), (1,), (0, 1)])
def test_the_audit_finds_no_more_than_the_level_in_a_part(kept):
    """`certify` runs the code of trials with a gap, against the level S of the whole reading."""
    level, there = pv.StreamLevel.constant(S3), list(kept)
    absent = ~np.isin(np.arange(3), there)
    rows = rows_of_parts(level, 0, absent[None])[0][there]

    def draw(y, rng):
        gap = np.where(absent, np.nan, y)
        return pv.StreamMechanism(level).simulate(gap, rng).values[there]

    found = certify(
        RunningMechanism(rows, draw, "a part of a step"), S3, samples=2000,
        rng=np.random.default_rng(5),
    )  # fmt: skip
    assert found.verdict == "holds", str(found)
    more = certify(  # S_OO, which is what is left of S if the others are left out without more
        RunningMechanism(np.linalg.cholesky(S3[np.ix_(there, there)]).T @ np.eye(3)[there],
                         draw, "too much"), S3, samples=2000, rng=np.random.default_rng(5),
    )  # fmt: skip
    assert more.verdict != "holds"


@given(st.integers(0, 10**6))
@settings(max_examples=25)
def test_what_is_promised_of_a_move_holds_for_every_part(seed):
    """Σ⌈|B_ij c|/g⌉² of all patterns is within the statement; of whole steps it is as it was."""
    rng = np.random.default_rng(seed)
    m, by = int(rng.integers(2, 5)), float(10.0 ** rng.uniform(-3, 1))
    level = pv.StreamLevel.constant(random_psd(rng, m, m))
    said = pv.StreamMechanism(level).statement(by)
    whole = pv.StreamMechanism(level, parts=False).statement(by)
    assert whole == pv.privacy.grid_statement(level, sensitivity=by)
    assert whole.squared_steps <= said.squared_steps
    where = np.divmod(np.arange(m * m), m)
    for pattern in itertools.product([False, True], repeat=m):
        B = rows_of_parts(level, 0, np.array([pattern]))[0]
        assert one_measurement(Entries(B.ravel(), *where), by=by).squared <= said.squared_steps
    cost = pv.ledger.cost_of(level, sensitivity=by)
    assert cost.mu2 == said.squared_steps * Fraction(lattice.GRID) ** 2
    v = rng.standard_normal(m)
    along = pv.StreamMechanism(level).statement(pv.privacy.Adjacency.direction(v))
    for pattern in itertools.product([False, True], repeat=m):
        B = rows_of_parts(level, 0, np.array([pattern]))[0]
        steps = np.ceil(np.abs(B @ v) / lattice.GRID)
        assert (steps**2).sum() <= along.squared_steps


def test_least_squares_count_the_noise_of_a_real_release_in_a_part():
    """Sizes that change and a gap in a part, against dense matrices: test_rls_noise_variance."""
    level = pv.StreamLevel([S3, np.eye(1), S3])
    y = np.array([0.3, NAN, 0.1, 0.7, NAN, NAN, 0.2])
    release = pv.StreamMechanism(level).release(y, Wide(1))
    rls = pv.PrivateRLS(level, 1, pv.noise.Gaussian(cov=0.5))
    rls.update(release, np.ones((7, 1)))
    information = 0.0
    for own in ([0, 2], None, [2]):
        noise = np.eye(1) if own is None else np.linalg.inv(S3)[np.ix_(own, own)]
        V = release.unit_variance * noise + 0.5 * np.eye(len(noise))
        information += np.linalg.inv(V).sum()
    # condition numbers below 10: some rounding of the roots, 1e-12
    assert rls.covariance.item() == pytest.approx(1 / information, rel=1e-11)
