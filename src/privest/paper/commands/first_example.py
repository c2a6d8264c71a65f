"""`privest demo --first`: the bound of the paper's first example against the privacy level."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

import privest as pv
from privest.errors import MissingDependency
from privest.paper._first import first_model, paper_levels, save_ellipses

SHOWN = np.array([0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0])
DELTA = 1e-6


def show(console: Console, folder: Path) -> None:
    """Print the table and write the picture."""
    model = first_model()
    found = pv.bounds.sweep(model, SHOWN)
    floor = np.trace(found.classical)
    console.print(
        "[bold]Ten private readings y = Hθ + w of five parameters[/] (H 10×5, w ~ N(0, 0.2² I))."
        " Whatever is released may carry Fisher information at most S = s·I about the readings. "
        "The table gives the least mean-square error, summed over θ, that any mechanism and any "
        "unbiased estimate can reach.",
        highlight=False,
    )
    table = Table(title="\nThe price of a privacy level", title_justify="left")
    for heading in (
        "level\ns",
        "adver-\nsary",
        f"ε at\nδ = {DELTA:g}",
        "least\nMSE",
        "of which\nprivacy",
        "times\nopen",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for s, least in zip(found.levels, found.trace):
        epsilon = pv.PrivacyLevel(float(s)).to_epsilon(delta=DELTA, move=1.0)
        table.add_row(
            f"{s:.1f}",
            f"{1 / np.sqrt(s):.2f}",
            f"{epsilon:.2f}",
            f"{least:.3f}",
            f"{least - floor:.3f}",
            f"{least / floor:.1f}",
        )
    table.add_section()
    table.add_row("open", "0", "∞", f"{floor:.3f}", "0", "1.0")
    console.print(table)
    console.print(
        "adversary: standard deviation of the best unbiased guess of one reading; ε: of the "
        "Gaussian release, comparing readings of which one differs by 1; open: without privacy.",
        style="dim",
        highlight=False,
    )
    picture = folder / "demo.png"
    try:
        save_ellipses(pv.bounds.sweep(model, paper_levels()), found, picture, (0, 1))
    except MissingDependency as missing:
        console.print(Text(f"\nNo picture: {missing}"))
        return
    console.print(Text(f"\nPicture: {picture} (the error ellipse grows as privacy tightens)"))
