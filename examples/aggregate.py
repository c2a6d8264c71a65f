"""Errors of four slopes against ε: noisy rows, noisy sums, AdaSSP and diffprivlib.

    python examples/aggregate.py [--rows 10000] [--runs 100]

Features of the 442 people of the diabetes data, standardised (resampled, with a little noise, for
more rows); σ = 0.45, a range of width 5, δ = 1e-6. Printed is the root mean square error of the
slopes; of diffprivlib its median over the runs, because a few runs are far off. Rows by formula,
all others from simulated releases. "prior" is the posterior mean of the same sums, for slopes that
are public knowledge to be within 0.4 with 95%: a prior variance of 0.04.

Rows and sums protect the values y. AdaSSP (Wang 2018) and diffprivlib (pure ε) protect the features
as well; both get the bounds of the data itself, and neither gives intervals. AdaSSP is biased
towards 0. diffprivlib is left out where it is not installed (0.6.6, with scikit-learn 1.6.1).
"""

from __future__ import annotations

import argparse
import math
import warnings

import numpy as np

import privest as pv
from privest.arrays import Array
from privest.data.source import open_source

try:
    import diffprivlib.models
except ImportError:  # not installed, or not with this scikit-learn
    diffprivlib = None

NAMES, SLOPES = ("age", "sex", "bmi", "bp"), np.array([0.1, 0.15, -0.1, 0.08])
SIGMA, ENDS, DELTA = 0.45, (-2.5, 2.5), 1e-6
PRIOR = np.array([2.5**2, *[0.2**2] * len(NAMES)])  # the intercept is within the range


def people(rows: int, rng: np.random.Generator) -> Array:
    """Standardised features; more rows than people are drawn again, with noise of sd 0.1."""
    X = np.column_stack(list(open_source("diabetes").read(NAMES).values()))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    if rows == len(X):
        return X
    return X[rng.integers(len(X), size=rows)] + 0.1 * rng.standard_normal((rows, X.shape[1]))


def ada_ssp(X: Array, y: Array, epsilon: float, rng: np.random.Generator) -> Array:
    """Noisy XᵀX + λI and Xᵀy, ε and δ in three parts; λ from a noisy least eigenvalue."""
    n = X.shape[1]
    norm, largest = np.linalg.norm(X, axis=1).max(), max(map(abs, ENDS))
    logs = np.sqrt(np.log(6 / DELTA))
    unit = logs / (epsilon / 3)
    gram = X.T @ X
    least = np.linalg.eigvalsh(gram)[0] + unit * norm**2 * rng.standard_normal()
    least = max(least - logs**2 / (epsilon / 3) * norm**2, 0.0)
    ridge = max(0.0, np.sqrt(n * np.log(2 * n**2 / 0.05)) * unit * norm**2 - least)
    noise = np.triu(rng.standard_normal((n, n)))
    noisy = gram + unit * norm**2 * (noise + np.triu(noise, 1).T)
    sums = X.T @ np.clip(y, *ENDS) + unit * norm * largest * rng.standard_normal(n)
    return np.linalg.solve(noisy + ridge * np.eye(n), sums)


def diffprivlib_slopes(X: Array, y: Array, epsilon: float, rng: np.random.Generator) -> Array:
    """Objective perturbation by noisy moments (Sheffet 2015), pure ε."""
    model = diffprivlib.models.LinearRegression(
        epsilon=epsilon, bounds_X=(X.min(axis=0), X.max(axis=0)), bounds_y=ENDS,
        random_state=int(rng.integers(2**31)),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.asarray(model.fit(X, np.clip(y, *ENDS)).coef_).ravel()


def planned(table: dict[str, Array], epsilon: float, form: str) -> pv.workflow.Plan:
    return pv.plan(
        table, target="y", features=NAMES, residual_variance=SIGMA**2, range=ENDS,
        epsilon=epsilon, delta=DELTA, form=form,
    )  # fmt: skip


def errors_at(X: Array, epsilon: float, runs: int, rng: np.random.Generator) -> list[float]:
    """Errors without privacy, of rows, of sums, also with the prior, and of the two peers.

    The last is of diffprivlib, NaN without it.
    """
    mean = X @ SLOPES
    table = dict(zip(NAMES, X.T)) | {"y": mean}
    rows, sums = (planned(table, epsilon, form) for form in ("rows", "aggregate"))
    found = np.full((4, runs, len(SLOPES)), math.nan)
    for k in range(runs):
        y = mean + SIGMA * rng.standard_normal(len(X))
        table["y"] = y
        release = sums.simulate(rng=rng)
        found[0, k] = pv.estimate(release).value[1:]
        found[1, k] = pv.estimate(release, prior=PRIOR).value[1:]
        found[2, k] = ada_ssp(X, y, epsilon, rng)
        if diffprivlib is not None:
            found[3, k] = diffprivlib_slopes(X, y, epsilon, rng)
    each = np.sqrt(np.mean(np.square(found - SLOPES), axis=2))  # (methods, runs)

    def size(errors: Array) -> float:
        return float(np.sqrt(np.mean(np.square(errors))))

    return [
        size(rows.classical_error[1:]), size(rows.standard_error[1:]), *map(size, each[:3]),
        float(np.median(each[3])),
    ]  # fmt: skip


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--rows", type=int, nargs="+", default=[442, 10_000])
    asked.add_argument("--runs", type=int, default=100)
    given = asked.parse_args()
    print("     K     ε   no privacy     rows     sums    prior   AdaSSP  diffprivlib (median)")
    for rows in given.rows:
        rng = np.random.default_rng(rows)
        X = people(rows, rng)
        for epsilon in (0.5, 1.0, 3.0, 10.0):
            none, *others, peer = errors_at(X, epsilon, given.runs, rng)
            told = "not installed" if math.isnan(peer) else f"{peer:.3g}"
            cells = " ".join(f"{x:8.3g}" for x in others)
            print(f"{rows:6d} {epsilon:5g} {none:12.4f} {cells} {told:>13s}", flush=True)


if __name__ == "__main__":
    main()
