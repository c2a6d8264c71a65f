"""Audits of real releases as black boxes: ours pass, and each broken one fails as it should."""

import math
import tempfile

import numpy as np
import pytest
from scipy.special import ndtr

import privest as pv
from aggregate_cases import Recorded, design_of, split_of
from privest import aggregate
from privest.aggregate._ways import LeftSums
from privest.audit import certify
from privest.audit._release import common_grid
from privest.errors import InvalidInput
from privest.mechanism import Additive, Componentwise, GaussianMechanism, StreamMechanism
from privest.mechanism.source import Protected
from privest.noise import Laplace
from privest.privacy import Range, StreamLevel
from proved_mu import proved_mu

SURE = 1 - 1e-7
OURS = GaussianMechanism(1.0, 1).release


def audited(release, level=1.0, *, samples=1500):
    rng = np.random.default_rng(7)
    return certify(release, level, method="release", samples=samples, rng=rng, confidence=SURE)


def each(release):
    """Code for one vector at a time, run row by row."""
    return lambda rows: np.stack([np.ravel(release(y)) for y in rows])


def failed(found):
    return {check.claim for check in found.checks if check.outcome == "failed"}


def gaussian(level):
    return GaussianMechanism(level, 1).release


def laplace(level):
    return Componentwise(Additive.calibrated(level, law=Laplace()), measurements=1).release


def stream(level):
    """Steps do not look back: rows one after another."""

    def release(y):
        return StreamMechanism(level).release(np.ravel(y)).values.reshape(np.shape(y))

    return release


def table(level):
    """Tables as a data owner releases them, read back."""

    def release(y):
        rows = np.ravel(y)
        x = np.arange(len(rows) + 3.0)  # three rows more: enough for two parameters without y
        data = {"x": x, "y": np.concatenate([rows, np.zeros(3)])}
        plan = pv.plan(data, "y ~ x", level=level, missing="drop", form="rows")
        found = np.full(rows.shape, np.nan)  # which values are missing is public
        with tempfile.TemporaryDirectory() as folder:
            account = pv.Ledger(f"{folder}/l.db", marks=f"{folder}/marks").account("y")
            found[~np.isnan(rows)] = plan.release(account=account).values[:-3]
        return found.reshape(np.shape(y))

    return release


@pytest.mark.parametrize(
    "made", [gaussian, laplace, stream, pytest.param(table, marks=pytest.mark.slow)]
)
def test_ours_pass(made):
    """At a level whose root is no double; the noise is the system's: false alarms below 1e-6."""
    found = audited(made(0.3), 0.3, samples=1000)
    assert found.verdict == "not broken", str(found)
    assert not found  # which proves nothing
    assert len(found.checks) == 4


@pytest.mark.slow
def test_a_stream_with_lags_passes_with_its_claims():
    """The code is run through `as_mechanism().real()`: its own noise is tested too."""
    level = StreamLevel.constant(1.0, lags=[0.5])
    found = audited(StreamMechanism(level.first(3)), level.first(3), samples=1000)
    assert found.verdict == "not broken", str(found)
    assert {check.claim: check.outcome for check in found.checks}["the level holds"] == "passed"


def test_the_naive_release_has_no_grid():
    rng = np.random.default_rng(20)
    found = audited(lambda y: y + rng.standard_normal(np.shape(y)))
    assert "one grid for all measurements" in failed(found)


def test_a_seed_fails():
    found = audited(lambda y: y + np.random.default_rng(3).standard_normal((len(y), 1)))
    assert "noise is fresh" in failed(found)


def test_too_little_noise_fails():
    """Information 2.56 of the level, on a grid: only the level and the attackers can tell."""

    def quiet(y):
        return OURS(1.6 * np.asarray(y)) / 1.6

    assert failed(audited(quiet, samples=10_000)) == {"attackers stay above the floor"}

    def plain(y, rng, n):
        return quiet(np.tile(y, (n, 1)))

    found = certify(plain, 1.0, samples=2500, rng=np.random.default_rng(7), confidence=SURE)
    assert found.verdict == "violated"


@pytest.mark.parametrize(
    ("guard", "said"),
    [
        (lambda y: 1 / 0 if abs(y[0]) > 1e6 else OURS(y), "raises ZeroDivisionError"),
        (lambda y: OURS(y) if abs(y[0]) < 1e15 else y, "comes out"),
        (lambda y: OURS(y) if y[0] == y[0] else 1 / 0, "NaN raises"),
        (lambda y: OURS(y)[:0] if y[0] > 1e6 else OURS(y), "how many numbers"),
        (lambda y: OURS(np.minimum(y, 0.0)) if y[0] < 1e307 else np.ones(1), "without noise"),
    ],
)
def test_values_that_come_out_otherwise_fail(guard, said):
    found = audited(each(guard), samples=200)
    assert "no value is refused" in failed(found)
    assert said in found.checks[0].found


@pytest.mark.parametrize("unit", [1.0, 2.0**30])
def test_a_grid_that_moves_with_the_reading_fails(unit):
    """Exact noise added to the reading itself: its digits stay."""

    def moved(y):
        return np.asarray(y) + unit * OURS(np.zeros(np.shape(y)))

    found = audited(moved, 1 / unit**2)
    assert "one grid for all measurements" in failed(found)


def test_what_never_works_is_said():
    found = audited(lambda y: 1 / 0)
    assert len(found.checks) == 1
    assert "a value of 0 raises" in str(found)


def test_grids():
    whole = np.random.default_rng(1).integers(-500, 500, size=(2000, 1))
    assert common_grid([0.1 * whole, 0.1 * whole + 5.0]) == (pytest.approx(0.1), True)
    assert not common_grid([0.1 * whole, 0.1 * whole + 0.03])[1]
    far = np.random.default_rng(1).integers(-(2**50), 2**50, size=(200, 1)).astype(float)
    assert common_grid([far, far + 1.0]) == (1.0, True)  # whole numbers, far apart
    assert not common_grid([far, far + 0.125])[1]
    assert common_grid([np.random.default_rng(1).normal(size=(2000, 1))] * 2)[0] == 0.0


# --- sums: the first of seven values, all others known --------------------------------------------

PROTECTED, LIMITS, TWO_RELEASES = Protected(), Range(-1.0, 1.0), ("squares", "free", "persons")
LINE = np.column_stack([np.ones(7), [-1.0, -0.6, 0.1, 0.4, 0.9, 2.5, 0.0]])
OTHERS = np.array([0.5, -1.0, 0.2, 0.8, -0.3, 0.1])
SUMS = {
    "none": (LINE, None, 0.2),
    "alone": (LINE, None, 2.0),
    "squares": (LINE, None, 2.0),
    "free": (np.eye(2)[[0, 0, 0, 1, 1, 1, 1]], None, 2.0),
    "persons": (LINE, np.array([0, 1, 1, 2, 2, 3, 4]), 3.0),
}


class Quiet(Recorded):
    """Noise of the right kind, a third too small."""

    simulated = False

    def __init__(self):
        super().__init__(np.random.default_rng(5))

    def integers(self, shown, sigma):
        return super().integers(shown, [round(one / 1.5) for one in sigma])


class Naive(Recorded):
    """Noise in doubles, added to sums of doubles."""

    simulated, noise = False, np.random.default_rng(3)

    def leave(self, values, asked):
        doubles = (
            np.asarray(values, float) @ asked.map.weights / math.ldexp(1, asked.range.exponent)
        )
        found = doubles + asked.law.sigma[0] * self.noise.standard_normal(len(doubles))
        return LeftSums(tuple(found.tolist()), asked.law, asked.range)


def sums(kind):
    """What leaves of the sums of a table, as a function of its first value; and their promise."""
    H, owners, mu = SUMS[kind]
    design = design_of(H, owners)
    if kind == "alone":  # no squares, where a plan would have them
        own = aggregate.split("none", 2, LIMITS, mu=mu)
    else:
        own = split_of(design, LIMITS, mu=mu)
        assert own.kind == kind
    without = design_of(H[1:], None if owners is None else owners[1:] - 1)

    def release(y, source=PROTECTED):
        gone = math.isnan(y[0])  # a value that is missing is left out, which is public
        values, rows = (OTHERS, without) if gone else (np.append(y, OTHERS), design)
        found = aggregate.release_sums(rows, [values], LIMITS, own, source)
        sums, *squares = found.integers
        # Squares have more bits than doubles: so many are left out, which is public too.
        shift = 60 if kind == "persons" else 12
        return np.array([*sums, *(z >> shift for part in squares for z in part)], dtype=float)

    return release, own


@pytest.mark.parametrize(
    "kind", ["none", *(pytest.param(k, marks=pytest.mark.slow) for k in TWO_RELEASES)]
)
def test_sums_pass(kind):
    """Sums and squares together: the exposure that is printed, and μ between the ends."""
    release, own = sums(kind)
    code = each(release)
    found = audited(code, own.exposure, samples=1000)
    assert found.verdict == "not broken", str(found)
    proved = proved_mu(code, (-1.0, 1.0), 1000, SURE)
    assert proved <= own.stated
    # Sums alone have 85% of μ². A share p of 1000 moves Φ⁻¹(p) by `doubt`; each share is taken 5.4
    # of them to the safe side (1 − 5e-8), a tenth more in a tail; 5 are for chance.
    alone = math.sqrt(0.85) * own.stated
    p = ndtr(alone / 2)
    doubt = math.sqrt(p * (1 - p) / 1000) / (
        math.exp(-((alone / 2) ** 2) / 2) / math.sqrt(2 * np.pi)
    )
    assert proved > alone - 2 * 1.1 * 5.4 * doubt - 5 * math.sqrt(2) * doubt


def test_sums_with_too_little_noise_fail():
    release, own = sums("alone")
    quiet = Quiet()
    assert proved_mu(each(lambda y: release(y, quiet)), (-1.0, 1.0), 1500, SURE) > own.stated


def test_sums_of_doubles_fail():
    """The same sums with numpy's noise: their low digits tell."""
    release, own = sums("none")
    naive = Naive()
    found = audited(each(lambda y: release(y, naive)), own.exposure)
    assert "one grid for all measurements" in failed(found)


def test_a_plan_is_no_function():
    """An audit runs what releases; a plan of sums needs all other values besides."""
    table = {"x": LINE[:, 1], "y": np.append(0.0, OTHERS)}
    plan = pv.plan(table, "y ~ x", range=(-1, 1), epsilon=3.0, form="aggregate")
    with pytest.raises(InvalidInput, match="an audit takes a Mechanism"):
        certify(plan, 1.0, method="release")
