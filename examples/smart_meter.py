"""Smart meters whose appliance use must stay hidden while the feeder's load is tracked.

Four houses hang on one feeder. What a meter reads is the house's share of the common load (weather,
time of day) plus its own appliances. The network needs the common load; the appliances are nobody's
business. Under the same budget of Fisher information a step, equal noise on every meter is compared
with the best directions for the common load.

    python examples/smart_meter.py [FOLDER]     pictures go to FOLDER (out)
"""

import sys
from pathlib import Path

import numpy as np

import privest as pv
from privest import dynamics
from privest.report.figures import Curve, Panel, save_panels

HOUSES, STEPS, DAYS = 4, 288, 200  # a day in steps of five minutes
SHARE = np.array([0.5, 1.0, 1.5, 2.0])  # kW of house i for a common load of 1
BUDGET = 1.0  # trace of the Fisher information that a step's release adds, 1/kW²


def system() -> dynamics.StateSpace:
    """x = [common load, appliances of house 1..4]; loads about their means, kW."""
    slow, fast = 0.995, 0.8  # memory of a step: hours, and some minutes
    use = np.array([0.6, 0.8, 0.5, 1.0])  # kW, standard deviation of the appliances
    variances = np.array([0.5**2, *(use**2)])
    A = np.diag([slow, *([fast] * HOUSES)])
    return dynamics.StateSpace(
        A=A,
        C=np.column_stack([SHARE, np.eye(HOUSES)]),
        Q=np.diag(variances) - A @ np.diag(variances) @ A,  # so that the variances stay
        R=0.05**2,
        cov0=np.diag(variances),
    )


def main(folder: Path) -> None:
    rng = np.random.default_rng(3)
    own = system()
    common = np.zeros((own.states, own.states))
    common[0, 0] = 1.0
    best = dynamics.best_directions(own, BUDGET, weight=common)
    levels = {
        "equal noise": pv.StreamLevel.constant(BUDGET / HOUSES * np.eye(HOUSES)),
        "best directions": best.level,
    }
    days, meters = own.sample(STEPS, rng, trials=DAYS)
    prior = np.sqrt(np.diagonal(own.cov0))

    table, found = {}, {}
    for name, level in levels.items():
        found[name] = dynamics.filter(
            own, pv.StreamMechanism(level).simulate(meters, rng), level=level
        )
        steady = dynamics.steady_state(own, level)
        late = (found[name].filtered.value - days)[:, STEPS // 2 :, 0]
        table[name] = [
            np.sqrt(steady.filtered[0, 0]),
            np.sqrt((late**2).mean()),
            (np.sqrt(np.diagonal(steady.smoothed)) / prior)[1:].min(),
            level.to_epsilon(delta=1e-6, sensitivity=0.1),
        ]
    print("                                      equal noise   best directions")
    rows = (
        "common load, bound (s.e., kW)",
        f"common load, {DAYS} days (rms error)",
        "appliances, known to (part of sd)",
        "ε, δ = 1e-6, one reading ± 0.1 kW",
    )
    for row, (first, second) in zip(rows, zip(*table.values())):
        print(f"{row:37s} {first:12.3f} {second:17.3f}")
    print(f"variance of the common load, equal noise / best: {best.equal / best.value:.3f}")
    print(f"certificate: within {best.gap / float(best.error):.1e} of the optimum")
    values, vectors = np.linalg.eigh(best.information)
    shown = vectors[:, -1] * np.sign(vectors[:, -1].sum())
    share = values[-1] / values.sum()
    print(
        f"{100 * share:.0f} % of what is shown is one sum of the meters, weights {shown.round(2)}:"
    )
    print("the budget limits all meters together; the ε of one meter is the larger for it.")

    guess = found["best directions"].smoothed
    hours = np.arange(STEPS) / 12
    lines = [
        Curve.of_errors(name, own.filtered.value[0, :, 0], own.filtered.standard_error[:, 0], hours)
        for name, own in found.items()
    ]
    used = Curve.of_errors(
        "best directions, all releases", guess.value[0, :, 4], guess.standard_error[:, 4], hours
    )
    save_panels(
        [
            Panel("common load (kW about its mean)", lines, (hours, days[0, :, 0])),
            Panel(
                "appliances of house 4: what is left to guess (kW)", [used], (hours, days[0, :, 4])
            ),
        ],
        folder / "smart_meter.png",
        title="The feeder's load is followed, the appliances are not",
        time_name="hour",
    )
    print(f"written: {folder / 'smart_meter.png'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
