"""Infinite information without a jump; and a verdict about a range is not one about every input."""

import numpy as np
import pytest

import privest as pv
from privest.mechanism import Additive, Channel

TRIANGLE = pv.noise.from_logpdf(lambda x: np.log1p(-np.abs(x)), support=(-1, 1), breaks=(0,))


def test_an_audit_knows_what_the_distribution_knows():
    """I = ∫ 2/(1 − x) dx, a logarithm that diverges at the ends: the score is 1/(1 − |x|)."""
    assert TRIANGLE.fisher_information == np.inf
    assert TRIANGLE.jumps == ()
    for y in (0.0, 1e-9, 0.3, 64.0):
        assert pv.audit.fisher_information(Additive(TRIANGLE), [y]).matrix == np.inf
    found = pv.audit.certify(Additive(TRIANGLE), 1e4)  # 52 would be within it
    assert found.verdict == "violated"
    assert found.margin == np.inf


def test_a_smooth_end_keeps_its_information():
    """cos² of half-width 1: π², next to numbers at inputs beside and far from the support."""
    for y in (0.0, 1e-9, 0.3, 64.0):
        found = pv.audit.fisher_information(Additive(pv.noise.CosSquared(1.0)), [y])
        assert abs(found.matrix[0, 0] - np.pi**2) <= found.error[0, 0] < 1e-7


@pytest.mark.parametrize(
    ("law", "reason"), [(TRIANGLE, "its density is continuous"), (pv.noise.Uniform(), "jumps")]
)
def test_a_refusal_says_the_true_reason(law, reason):
    model = pv.LinearModel([[1.0]], noise=law)
    with pytest.raises(pv.errors.NotCalibratable, match=reason):
        pv.mechanism.Additive.calibrated(1.0, law=law)
    with pytest.raises(pv.errors.InfiniteInformation, match=reason):
        _ = pv.bound(model, 1.0).covariance


def test_a_verdict_says_the_domain_that_it_examined():
    """A peak of width 1e-6 at 7.77 is narrower than the search: N(u + 1e-3·e^−…, 1)."""

    def mean(u):
        return u + 1e-3 * np.exp(-0.5 * ((u - 7.77) / 1e-6) ** 2)

    peak = Channel.from_functions(
        log_density=lambda z, u: -0.5 * (z - mean(u)) ** 2 - 0.5 * np.log(2 * np.pi),
        sample=lambda u, rng: mean(u) + rng.standard_normal(np.shape(u)),
        worst=1.0,
    )
    found = pv.audit.certify(peak, 1.0, samples=4000)
    assert found.verdict == "holds on the examined domain"
    assert found.domain == "for inputs from -64 to 64"
    assert not found
    assert str(found).startswith("HOLDS for inputs from -64 to 64: ")
    assert pv.audit.fisher_information(peak, [7.770001]).matrix[0, 0] > 1e5  # what was missed
    everywhere = pv.audit.certify(Additive(pv.noise.Laplace(1.0)), 1.0, samples=4000)
    assert everywhere.verdict == "holds"
    assert everywhere.domain == ""
    assert everywhere
