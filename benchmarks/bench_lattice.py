"""Releases of a million measurements: exact noise and exact rounding, next to other samplers.

OpenDP's sampler is exact too; numpy's normal numbers are not safe, and show what safety costs.
"""

import numpy as np

from benchmarks.timing import compare, report
from privest import lattice

READINGS, OF_OPENDP = 10**6, 2000


def rows():
    rng = np.random.default_rng(0)
    y, root = 50 * rng.standard_normal(READINGS), lattice.literal_root(np.array(1.7))

    def release(draw=lattice.gaussian_integers):
        """Words of the noise and of the rounding first, then the measurements."""
        noise, coins = draw(READINGS), lattice.os_words(READINGS)
        return lattice.rounded(lattice.sum_of_products([(root, y)]), coins) + noise

    def laplace():
        return release(lattice.laplace_integers)

    def unsafe():
        return root * y + rng.standard_normal(READINGS)

    def unsafe_laplace():
        return root * y + rng.laplace(size=READINGS)

    for name, work, plain in (("Gaussian", release, unsafe), ("Laplace", laplace, unsafe_laplace)):
        yield compare(
            f"exact {name} release of 10^6 readings", work, "numpy's unsafe y + e", plain,
            items=READINGS, limit_us=0.5,
        )  # fmt: skip
        yield compare(
            f"exact {name} release of 10^6 readings", work,
            f"OpenDP's exact sampler, from {OF_OPENDP} draws", opendp(name),
            at_least=10, items=READINGS, scale=READINGS / OF_OPENDP, repeats=3,
        )  # fmt: skip
    yield compare(
        "exact rounding of 10^6 sums of three products",
        lambda: lattice.rounded(
            lattice.sum_of_products([(root, y), (-root, y[::-1]), (root / 3, y)]),
            lattice.os_words(READINGS),
        ),
        "numpy's sum", lambda: root * y - root * y[::-1] + root / 3 * y,
        items=READINGS, limit_us=0.5,
    )  # fmt: skip


def opendp(name):
    """Draws of OpenDP's sampler on the same grid."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    integers, scale = dp.vector_domain(dp.atom_domain(T="i64")), 1 / lattice.GRID
    if name == "Gaussian":
        draw = dp.m.make_gaussian(integers, dp.l2_distance(T="f64"), scale=scale)
    else:
        draw = dp.m.make_laplace(integers, dp.l1_distance(T="i64"), scale=scale)
    zeros = [0] * OF_OPENDP
    return lambda: draw(zeros)


if __name__ == "__main__":
    report(rows())
