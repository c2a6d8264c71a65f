"""A vehicle tracked from private positions (constant-velocity model).

The driver's device releases every position with noise at a stated level; the receiver sees releases
only and filters them. A tunnel hides twenty measurements.

    python examples/vehicle.py [FOLDER]     pictures go to FOLDER (out)
"""

import sys
from pathlib import Path

import numpy as np

import privest as pv
from privest import dynamics
from privest.report.figures import COLOURS, Curve, Panel, new_figure, save, save_panels

DT, STEPS = 1.0, 200  # seconds
GPS = 3.0  # metres, the receiver's own error (standard deviation)
LEVEL = 1.0 / 15.0**2  # a release shows each coordinate with an extra error of 15 m


def system() -> dynamics.StateSpace:
    """x = [east, speed east, north, speed north], driven by white acceleration of 0.5 m/s²."""
    one = np.array([[1.0, DT], [0.0, 1.0]])
    push = np.array([[DT**2 / 2], [DT]])
    return dynamics.StateSpace(
        A=np.kron(np.eye(2), one),
        C=np.kron(np.eye(2), [[1.0, 0.0]]),
        Q=np.kron(np.eye(2), 0.5**2 * push @ push.T),  # rank one each: singular is fine
        R=GPS**2,
        mean0=[0.0, 10.0, 0.0, 5.0],
        cov0=np.diag([50.0**2, 5.0**2, 50.0**2, 5.0**2]),
    )


def ellipse(covariance: np.ndarray, count: int = 60) -> np.ndarray:
    """(count, 2) points on the boundary of the 95% region of N(0, covariance)."""
    angle = np.linspace(0.0, 2.0 * np.pi, count)
    circle = np.sqrt(-2 * np.log(0.05)) * np.stack([np.cos(angle), np.sin(angle)])
    return (np.linalg.cholesky(covariance) @ circle).T


def draw_plane(tracks: dict, path: Path, truth: np.ndarray, points: np.ndarray) -> None:
    """Tracks (positions, covariances) with some 95% ellipses, released points, the true path."""
    figure = new_figure(7.5, 6.0)
    axes = figure.subplots()
    axes.plot(*points.T, ".", color="#999999", ms=3, alpha=0.6, label="released")
    for colour, (name, (positions, covariances)) in zip(COLOURS, tracks.items()):
        axes.plot(*positions.T, color=colour, lw=1.5, label=name)
        for k in np.linspace(0, len(positions) - 1, 12).astype(int):
            axes.fill(*(positions[k] + ellipse(covariances[k])).T, color=colour, alpha=0.12)
    axes.plot(*truth.T, color="#222222", lw=0.9, ls="--", label="true")
    axes.set_aspect("equal", adjustable="datalim")
    axes.set(xlabel="east (m)", ylabel="north (m)")
    axes.legend(fontsize=8, frameon=False)
    figure.suptitle("A vehicle from private positions", fontsize=11)
    save(figure, path)


def main(folder: Path) -> None:
    rng = np.random.default_rng(7)
    own, level = system(), pv.StreamLevel.constant(LEVEL * np.eye(2))
    states, measurements = own.sample(STEPS, rng)
    measurements[90:110] = np.nan  # the tunnel

    release = pv.StreamMechanism(level).simulate(measurements, rng)  # all that leaves the vehicle
    found = dynamics.filter(own, release, level=level)
    ahead = found.forecast(10)

    bound = pv.bound(own, level, steps=STEPS, missing=release.missing)
    place = [0, 2]
    print("root-mean-square position error, metres        bound   this run")
    parts = {"filtered": found.filtered, "smoothed": found.smoothed}
    for name, own in parts.items():
        limit = np.sqrt(getattr(bound, name)[:, place, place].sum(axis=1).mean())
        here = np.sqrt(((own.value - states)[:, place] ** 2).sum(axis=1).mean())
        print(f"  {name:40s} {limit:9.2f} {here:10.2f}")
    free = bound.classical.filtered[:, place, place].sum(axis=1).mean()
    print(f"  {'filtered, from the readings themselves':40s} {np.sqrt(free):9.2f}")
    print(f"  {'one release, unfiltered':40s} {np.sqrt(2 * (15.0**2 + GPS**2)):9.2f}")
    print(f"ten seconds ahead: ± {1.96 * ahead.standard_error[-1, 0]:.0f} m (95 %)")
    epsilon = level.to_epsilon(delta=1e-6, sensitivity=1.0)
    print(f"(ε, δ) when one reading moves by 1 m: ({epsilon:.3f}, 1e-6)")
    print(f"innovations: variance {np.nanvar(found.innovations):.3f} (1 if the model is right)")

    shown = release.values.reshape(STEPS, 2) / np.sqrt(LEVEL)
    draw_plane(
        {
            name: (own.value[:, place], own.covariance[:, place][:, :, place])
            for name, own in parts.items()
        },
        folder / "vehicle.png", states[:, place], shown,
    )  # fmt: skip
    panels = [
        Panel(
            title,
            [
                Curve.of_errors(name, own.value[:, j], own.standard_error[:, j])
                for name, own in parts.items()
            ],
            (np.arange(STEPS), states[:, j]),
        )
        for j, title in ((1, "speed east (m/s)"), (3, "speed north (m/s)"))
    ]
    save_panels(panels, folder / "vehicle_speed.png", title="Speeds: never measured, estimated")
    print(f"written: {folder / 'vehicle.png'}, {folder / 'vehicle_speed.png'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
