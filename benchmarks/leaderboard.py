"""Distance to the bound: every mechanism at one privacy level, on three public problems.

    python -m benchmarks.leaderboard [own.py:mine ...]

Rewrites the tables of docs/decide/leaderboard.md, and its picture. A method of your own is a
function of (model, s) that returns a mechanism within s·I and an estimator, as in
examples/own_mechanism.py.
"""

import re
import sys
from pathlib import Path

import numpy as np
from scipy.stats import norm

import privest as pv
from privest.mechanism import CATALOGUE, Additive, Componentwise, calibrate
from privest.paper import fig1

ROOT = Path(__file__).parents[1]
PAGE, PICTURE = ROOT / "docs/decide/leaderboard.md", ROOT / "docs/images/leaderboard.png"
SLOW = {"truncated-gain-gaussian", "privacy-weights"}  # maximum likelihood: minutes for one cell
EPSILON, PEOPLE, MEAN, RANGE = 1.0, 2000, 0.3, (-4.0, 4.0)


def problems():
    """Name → model, true θ and runs, and the level: noise of equal sizes."""
    X, sd = pv.data.load_diabetes().features, 0.45
    H = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])
    slopes = [0.0, 0.1, 0.15, -0.1, 0.08]
    return {
        "fig:ppcr": ({"trials": 2000}, 25.0),
        "mean of 50": ({"model": pv.LinearModel(np.ones((50, 1)), noise=1.0), "theta": [MEAN],
                        "trials": 1000}, 1.0),
        "diabetes": ({"model": pv.LinearModel(H, noise=sd**2), "theta": slopes,
                      "trials": 200}, sd**-2),
    }  # fmt: skip


def sufficient_statistics(model, s):
    """Gaussian on Hᵀy, equal for every entry, as in AdaSSP."""
    H = model.matrix
    unit = np.sqrt(s) / np.linalg.norm(H, 2)  # I_z(y) = unit² HHᵀ ≤ s·I
    mechanism = Componentwise(Additive(pv.noise.Gaussian(1.0)), unit * H.T)
    return mechanism, lambda z: np.linalg.solve(unit * H.T @ H, z.T).T


def methods():
    """Every entry of the catalogue with the estimators that suit it, and entries without a level.

    Least squares and noise on the estimate are for mechanisms with E z = u only.
    """
    found, refused = ["gaussian", sufficient_statistics], []
    for name, entry in CATALOGUE.items():
        try:
            calibrate(name, 1.0, model=2)
        except pv.errors.NotCalibratable:
            refused.append(name)
            continue
        if entry.channel is not None:
            found += [name] * (name not in SLOW)
            found += [f"{name}-least-squares", f"{name}-output"] * entry.unbiased
    return found, refused


def board(cases, own=()):
    """Rows (label, {problem: (ratio, s.e.)}), the least median ratio first; refused entries."""
    chosen, refused = methods()
    rows = {}
    for problem, (setting, s) in cases.items():
        for p in fig1([s], methods=[*chosen, *own], rng=1, **setting).points:
            rows.setdefault(p.label, {})[problem] = p.mse / p.bound, p.standard_error / p.bound
    size = {
        label: np.median([ratio for ratio, _ in found.values()]) for label, found in rows.items()
    }
    return sorted(rows.items(), key=lambda row: size[row[0]]), refused


def same_epsilon(rng, runs=2000):
    """Mean-square errors of a mean at ε, in units of the best variance of local answers.

    The best information of an ε-private answer of one person is (2/π)·tanh²(ε/2) for ε ≤ 1
    (Kalinin & Steinberger, arXiv 2402.04840); their sign mechanism has two stages.
    """
    width, keep = RANGE[1] - RANGE[0], np.exp(EPSILON) / (1 + np.exp(EPSILON))
    y = rng.normal(MEAN, 1.0, (runs, PEOPLE))
    clipped, level = np.clip(y, *RANGE), pv.PrivacyLevel.from_epsilon
    sd = level(EPSILON, delta=1e-6, sensitivity=width).number ** -0.5

    def stage(values, at):
        told = np.where(rng.random(values.shape) < keep, 1, -1) * np.sign(values - at)
        share = told.mean(axis=1) / (2 * keep - 1)  # E sign(y − at) = 2Φ(θ − at) − 1
        return norm.ppf(np.clip((1 + share) / 2, 0.01, 0.99))

    first = stage(y[:, : PEOPLE // 10], 0.0)
    found = {
        "sign mechanism, two stages (δ = 0, no range)": (
            first + stage(y[:, PEOPLE // 10 :], first[:, None])
        ),
        "privest rows, Laplace noise (δ = 0)": (
            clipped + rng.laplace(0, width / EPSILON, y.shape)
        ).mean(axis=1),
        "privest rows, Gaussian noise (δ = 1e-6)": (
            clipped + rng.normal(0, sd, y.shape)
        ).mean(axis=1),
        "privest sums, a trusted data owner (δ = 1e-6)": (
            clipped.mean(axis=1) + rng.normal(0, sd / PEOPLE, runs)
        ),
    }  # fmt: skip
    best = PEOPLE * 2 / np.pi * np.tanh(EPSILON / 2) ** 2
    squares = {name: (one - MEAN) ** 2 * best for name, one in found.items()}
    return {name: (one.mean(), one.std() / runs**0.5) for name, one in squares.items()}


def draw(rows, path):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 0.26 * len(rows) + 1.2), layout="constrained")
    for problem, marker in zip(rows[0][1], "os^"):
        ratio, error = np.array([found[problem] for _, found in rows]).T
        line = axes.errorbar(ratio, range(len(rows)), xerr=error, fmt=marker, ms=5, label=problem)
        beyond = np.flatnonzero(ratio > 100)
        axes.plot([95] * len(beyond), beyond, ">", color=line[0].get_color())
    axes.axvline(1.0, color="k", label="the bound")
    axes.set(xscale="log", xlim=(0.7, 100), xlabel="mean-square error / bound")
    ticks = (1, 1.5, 2, 3, 5, 10, 20, 50, 100)
    axes.set_xticks(ticks, map(str, ticks), minor=False)
    axes.set_xticks([], minor=True)
    axes.set_yticks(range(len(rows)), [label for label, _ in rows])
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110)


def cell(ratio, error):
    if ratio > 1000:
        return "over 1000"
    return f"{ratio:.2f} ({error:.2f})" if ratio < 100 else f"{ratio:.0f} ({error:.0f})"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main():
    rows, refused = board(problems(), sys.argv[1:])
    draw(rows, PICTURE)
    local = same_epsilon(np.random.default_rng(1))
    parts = {
        "level": table(
            ["mechanism and estimator", *rows[0][1]],
            [[label, *(cell(*one) for one in found.values())] for label, found in rows],
        ),
        "refused": ", ".join(f"`{name}`" for name in refused),
        "local": table(["method", "ratio (s.e.)"], [[k, cell(*one)] for k, one in local.items()]),
    }
    page = PAGE.read_text(encoding="utf-8")
    for name, made in parts.items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        page = re.sub(pattern, rf"\1\n{made}\n\n\2", page, flags=re.DOTALL)
    PAGE.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
