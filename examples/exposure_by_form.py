"""What each form shows of every value, where all forms have the same accuracy: a picture.

    python examples/exposure_by_form.py [PICTURE]

442 people, four slopes; the standard error of bmi is to be 1.5 times that without privacy.
Noisy rows and sums weighted as in least squares have the level s: the former show s of every
value, the latter s times the leverage of its row. Lewis weights show the same c of every value.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import privest as pv
from privest.data.source import open_source
from privest.report.figures import new_figure, save, tidy

NAMES, VARIANCE, TIMES = ("age", "sex", "bmi", "bp"), 0.2, 1.5


def main(path: Path = Path("out/exposure_by_form.png")) -> dict[str, float]:
    """Draws it; the largest exposure of a value by form."""
    table = open_source("diabetes").read([*NAMES, "s5"])
    asked = {"target": "s5", "features": NAMES, "range": (2, 7), "residual_variance": VARIANCE}
    least = pv.plan(table, **asked, level=1.0).classical_error[NAMES.index("bmi") + 1]
    wanted = {"bmi": float(TIMES * least)}
    rows, sums = (
        pv.plan(table, **asked, standard_error=wanted, form=form) for form in ("rows", "aggregate")
    )
    H = np.column_stack([np.ones(rows.rows), *(table[name] for name in NAMES)])
    leverage = np.sort(np.square(np.linalg.qr(H)[0]).sum(axis=1))
    forms = {
        "noisy rows": np.full(rows.rows, rows.level),
        "sums, weights of least squares": rows.level * leverage,
        "sums, Lewis weights (aggregate)": np.full(rows.rows, sums.splits[0].level),
    }
    figure = new_figure(7, 3.8)
    axes = figure.subplots()
    for (name, shown), colour in zip(forms.items(), ("#c25b1e", "0.55", "#1b4f8f")):
        axes.plot(np.arange(1, rows.rows + 1), shown, color=colour, lw=2.2, label=name)
        print(f"{name}: at most {shown.max():.3g} of Fisher information about one value")
    axes.set_yscale("log")
    axes.set_xlabel("people, by the leverage of their features")
    axes.set_title("Fisher information about each value, at the same accuracy", fontsize=11)
    axes.legend(fontsize=9, frameon=False, loc="center left", bbox_to_anchor=(0.02, 0.66))
    tidy(axes, axis="y")
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)
    print(f"Picture: {path}")
    return {name: float(shown.max()) for name, shown in forms.items()}


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
