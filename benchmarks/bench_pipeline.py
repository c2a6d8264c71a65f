"""The optimal private score on a million rows, against scipy.optimize on the same equation.

scipy gets the same objective Σ∫ψ, already tabulated, and the same start (its own least-squares
start sticks with heavy tails). BFGS without a gradient is what a user would write; with the
gradient it is shown for information.
"""

import functools

import numpy as np
import scipy.optimize

from benchmarks.timing import compare
from privest import LinearModel
from privest.mechanism import OutputPerturbation
from privest.noise import Laplace, StudentT
from privest.pipeline import _roots as roots

ROWS, COLUMNS = 10**6, 5


@functools.cache
def problem(law):
    rng = np.random.default_rng(5)
    H = np.column_stack([np.ones(ROWS), rng.standard_normal((ROWS, COLUMNS - 1))])
    model = LinearModel(H, noise=law)
    y = model.sample(np.arange(1.0, COLUMNS + 1), rng)
    release = OutputPerturbation(model, budget=float(ROWS))
    start = roots.convex_start(release.score, release.design, y[None]).reached[0]
    return release, y, start


def scipy_solve(law, gradient):
    release, y, start = problem(law)
    H, score = release.model.matrix, release.score

    def objective(theta):
        terms = score.terms(y - H @ theta)
        total = float(terms.integral.sum())
        return (total, -(terms.value @ H)) if gradient else total

    return scipy.optimize.minimize(objective, start, jac=gradient, method="BFGS")


def rows():
    for name, law in (("Laplace", Laplace(0.5**0.5)), ("Student-t(3)", StudentT(df=3.0))):
        release, y, _ = problem(law)
        found = release.estimate(y)
        peer = scipy_solve(law, gradient=False)
        # Both must have solved it: within a thousandth of a standard error.
        off = np.abs(peer.x - found) / np.sqrt(np.diagonal(release.sampling))
        assert off.max() < 1e-2, (name, off.max())
        yield compare(
            f"optimal score, {name}, K = 10⁶, n = 5",
            lambda release=release, y=y: release.estimate(y),
            f"scipy BFGS, {peer.nfev} evaluations",
            functools.partial(scipy_solve, law, gradient=False),
            at_least=10,
            items=ROWS,
            repeats=3,
        )
        yield compare(
            "...",
            lambda release=release, y=y: release.estimate(y),
            "scipy BFGS given the gradient",
            functools.partial(scipy_solve, law, gradient=True),
            repeats=3,
        )
        yield compare(
            "...",
            lambda release=release, y=y: release.estimate(y),
            "least squares by numpy (lstsq)",
            lambda release=release, y=y: np.linalg.lstsq(release.model.matrix, y),
            repeats=3,
        )


if __name__ == "__main__":
    for row in rows():
        print(f"{row.name}: {row.seconds * 1e3:.1f} ms, 1/{1 / row.ratio:.4g} of", end=" ")
        print(f"{row.reference} ({row.reference_seconds:.2f} s)", row.verdict)
