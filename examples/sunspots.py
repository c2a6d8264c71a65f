"""Sunspots, 1700-2008, identified and foreseen from private releases at three levels.

The yearly numbers (statsmodels' table; the series for which Yule invented AR(2) in 1927) stand for
measurements that must not be revealed. Up to 1988 they are released; an AR(2) is identified from
the releases alone, and the next twenty years are foreseen.

    python examples/sunspots.py [FOLDER]     the picture goes to FOLDER (out)
"""

import sys
from pathlib import Path

import numpy as np

import privest as pv
from privest import dynamics
from privest.report.figures import Curve, Panel, save_panels

NOISE = (5.0, 20.0, 60.0)  # deviation of a release's noise, sunspots; measurements have sd 40
AHEAD = 20


def load() -> tuple[np.ndarray, np.ndarray]:
    """Years and sunspots."""
    from statsmodels.datasets import sunspots

    table = sunspots.load_pandas().data
    return table["YEAR"].to_numpy(dtype=float), table["SUNACTIVITY"].to_numpy(dtype=float)


def period(estimate: np.ndarray) -> float:
    """Of the cycle that an AR(2) swings with, in years."""
    angle = np.abs(np.angle(np.roots([1.0, -estimate[0], -estimate[1]]))).max()
    return float(2 * np.pi / angle)


def panel(noise: float, years: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Panel:
    """Release at one level, identify, foresee; what is found, in words and as curves."""
    level, known = pv.StreamLevel.constant(1.0 / noise**2), years[:-AHEAD]
    release = pv.StreamMechanism(level).simulate(y[:-AHEAD], rng)  # all that leaves the data owner
    found = dynamics.fit("ar2", release, level=level)
    foreseen, series = found.forecast(AHEAD), found.signal()
    print(f"\nlevel 1/{noise:g}² (noise ± {noise:g} on every measurement)")
    print("           estimate       95 % interval   s.e.  least s.e.  no privacy")
    rows = zip(found.names, found.value, found.interval(), found.standard_error)
    floors = zip(np.sqrt(np.diagonal(found.bound)), found.classical_error)
    for (name, value, (low, high), error), (least, free) in zip(rows, floors):
        print(
            f"  {name:6s} {value:10.3f}  [{low:8.3f}, {high:8.3f}] {error:8.3f} {least:8.3f} "
            f"{free:9.3f}"
        )
    print(f"  cycle of {period(found.value):.1f} years; AIC {found.aic:.1f}")
    print(f"  {found.diagnose().verdict}")
    ends = foreseen.interval()[:, 0]
    inside = (y[-AHEAD:] >= ends[:, 0]) & (y[-AHEAD:] <= ends[:, 1])
    print(f"  {inside.sum()} of the {AHEAD} years that followed are in their 95 % intervals")
    past = series.interval()[:, 0].T
    courses = [
        Curve("from releases up to 1988", known, series.value[:, 0], *past),
        Curve("forecast", years[-AHEAD:], foreseen.value[:, 0], *ends.T),
    ]
    return Panel(f"noise of a release: ± {noise:g}", courses, (years, y))


def main(folder: Path) -> None:
    try:
        years, y = load()
    except ImportError:
        print("The series comes with statsmodels: pip install statsmodels, then run this again.")
        return
    rng = np.random.default_rng(1927)
    panels = [panel(noise, years, y, rng) for noise in NOISE]
    save_panels(
        panels, folder / "sunspots.png", time_name="year",
        title="Sunspots from private releases, identified (AR(2)) and foreseen; 95 % intervals",
    )  # fmt: skip
    print(f"\nwritten: {folder / 'sunspots.png'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
