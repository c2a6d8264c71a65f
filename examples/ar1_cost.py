"""What privacy costs in an autoregression: σ of φ̂ against the level, the formula and a simulation.

Readings follow y_k = φy_{k−1} + w_k and have variance 1. A level s (larger shows more) releases
each of them with noise of variance 1/s. The private Cramér-Rao bound says how well φ can be known
from the releases; series are simulated, released and identified to see whether that is attained.

    python examples/ar1_cost.py [FOLDER]     the picture goes to FOLDER (out)
"""

import sys
from pathlib import Path

import numpy as np

import privest as pv
from privest import dynamics
from privest.report.figures import new_figure, save, tidy

PHI, STEPS, TRIALS = 0.8, 2000, 200
THETA = [PHI, 1 - PHI**2]  # φ and the variance of w: variance 1 of a measurement
FORMULA = np.geomspace(0.02, 100.0, 25)
TRIED = (0.1, 0.2, 0.5, 1.0, 3.0, 10.0, 30.0)


def bounds(level: float) -> tuple[float, float]:
    """The least standard error of φ̂: exact for STEPS steps, and by Whittle's formula."""
    found = dynamics.parameter_bound("ar1-mean", THETA, level, steps=STEPS)
    return float(found.standard_error[0]), whittle(level)


def whittle(level: float) -> float:
    """By I = K/(4π) ∫ W² ∂log f ∂log fᵀ dω, W = f/(f + 1/s) the gain of Wiener's filter."""
    q, cosine = THETA[1], np.cos(2 * np.pi * (np.arange(4096) + 0.5) / 4096)
    size = 1 - 2 * PHI * cosine + PHI**2
    gain = q / (q + size / level)
    slopes = gain * np.stack([2 * (cosine - PHI) / size, np.full(4096, 1 / q)])
    return float(np.sqrt(np.linalg.inv(STEPS / 2 * slopes @ slopes.T / 4096)[0, 0]))


def naive(y: np.ndarray) -> float:
    """The correlation of a release with the one before, as if it were the measurement."""
    return float((y[1:] * y[:-1]).sum() / (y * y).sum())


def simulated(level: float, trials: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """φ̂ of each series from its releases, and what the correlation of releases gives."""
    system = dynamics.AR(1, mean=False).system(THETA)
    _, y = system.sample(STEPS, rng, trials=trials)
    stream = pv.StreamLevel.constant(level)
    found, wrong = [], []
    for own in y:
        release = pv.StreamMechanism(stream).simulate(own, rng)
        found.append(dynamics.fit("ar1-mean", release, level=stream).value[0])
        wrong.append(naive(release.values))
    return np.array(found), np.array(wrong)


def main(folder: Path, trials: int = TRIALS) -> None:
    rng = np.random.default_rng(18)
    whole = dynamics.parameter_bound("ar1-mean", THETA, 1.0, steps=STEPS)
    open_error = whole.classical_error[0]
    print(f"{trials} series of {STEPS} steps, φ = {PHI}; without privacy ± {open_error:.4f}")
    print("level s    bound    Whittle   found   ratio    naive correlation (aims at φs/(1 + s))")
    seen = []
    for level in TRIED:
        (exact, long), (found, wrong) = bounds(level), simulated(level, trials, rng)
        error = float(np.sqrt(np.mean((found - PHI) ** 2)))
        seen.append(error)
        print(
            f"{level:7g} {exact:9.4f} {long:9.4f} {error:9.4f} {error / exact:7.3f} "
            f"{wrong.mean():9.3f} ({PHI * level / (1 + level):.3f})"
        )
    draw(folder / "ar1_cost.png", np.array(seen), trials, open_error)
    print(f"written: {folder / 'ar1_cost.png'}")


def draw(path: Path, seen: np.ndarray, trials: int, open_error: float) -> None:
    """The formula as lines, the simulation as points with their 95 % intervals."""
    exact, long = np.array([bounds(level) for level in FORMULA]).T
    figure = new_figure(7.5, 4.8)
    axes = figure.subplots()
    axes.plot(
        FORMULA, exact, color="#1f5fa8", lw=2, label=f"private bound, exact for {STEPS} steps"
    )
    axes.plot(FORMULA, long, color="#e08214", lw=1.2, ls="--", label="Whittle's formula")
    low = np.sqrt((1 - PHI**2) ** 3 * (1 + PHI**2) / (STEPS * (1 + PHI**4)))
    few = FORMULA < 0.4
    axes.plot(
        FORMULA[few],
        low / FORMULA[few],
        color="#777777",
        lw=1,
        ls=":",
        label="limit for s → 0: ∝ 1/s",
    )
    axes.axhline(open_error, color="#444444", lw=1, ls="-.", label="without privacy")
    spread = 1.96 / np.sqrt(2 * trials)  # of a standard deviation, relative
    axes.errorbar(
        TRIED, seen, yerr=spread * seen, fmt="o", color="#b2182b", ms=5, capsize=3,
        label=f"found: {trials} series each, from releases alone",
    )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="privacy level s (larger shows more)")
    axes.set_ylabel("error of φ̂ (root mean square)")
    axes.set_ylim(0.7 * open_error, 0.6)
    axes.legend(frameon=False, fontsize=9)
    tidy(axes, which="both")
    figure.suptitle(
        f"What privacy costs in an AR(1), φ = {PHI}, readings of variance 1", fontsize=11
    )
    save(figure, path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
