"""`privest audit`: run a releaser as a black box, and try to break what it claims."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, NamedTuple

import numpy as np
import typer

import privest as pv
from privest import workflow
from privest.arrays import Array, ArrayLike
from privest.audit import ReleaseAudit, audit_release, naive_release
from privest.cli import _options as common
from privest.cli._console import new_table, print_json, shown, to_people
from privest.cli._options import option
from privest.errors import InvalidInput
from privest.mechanism import (
    Additive,
    Componentwise,
    GaussianMechanism,
    RunningMechanism,
    StreamMechanism,
)
from privest.noise import Laplace

Release = Callable[[Array], ArrayLike]


class Releaser(NamedTuple):
    """What is audited: once, for many rows of readings at a time, and as after a restart."""

    once: Release | RunningMechanism
    many: Release | None = None
    restarted: Callable[[], Release] | None = None


def audit(
    releaser: Annotated[
        str,
        typer.Argument(
            help="gaussian, laplace, stream or table: those of privest; naive: y + numpy's noise, "
            "to see one fail; module:function or file.py:function, which takes readings (an "
            "array) and returns numbers.",
            metavar="RELEASER",
        ),
    ],
    level: Annotated[
        float,
        option(
            "What it claims: privacy level s (a larger s reveals more), a cap on Fisher "
            "information.",
            "S",
        ),
    ] = 1.0,
    readings: Annotated[int, option("Readings of one release.", "N", min=1, max=1000)] = 1,
    lags: Annotated[str, option("Of a stream: weights of earlier readings.", "W,W,…")] = "",
    samples: Annotated[
        int, option("Releases at each place that is looked at.", "N", min=1000, max=10**7)
    ] = 10_000,
    json: common.Json = False,
) -> None:
    """Run code that releases for real, as a black box, and try to break its claims.

    Values: no reading is refused or shown without noise. Noise: fresh with every call and start.
    Digits: one grid for all readings, low digits that tell nothing. Level: lower bounds of the
    information. Attackers: none better than the level allows. Exit code 1
    where a claim fails; "undecided" is no proof that it holds.

    Examples:

    privest audit gaussian --level 4

    privest audit mine.py:release --level 0.5 --readings 3
    """
    found = audit_of(releaser, level, readings, lags, samples)
    if json:
        print_json(found.to_dict() | {"passed": bool(found)})
    else:
        _print_audit(found)
    raise typer.Exit(0 if found else 1)


def audit_of(
    releaser: str,
    level: float,
    readings: int,
    lags: str,
    samples: int,
    confidence: float = 0.999,
) -> ReleaseAudit:
    """The audit that the options ask for."""
    stated = pv.PrivacyLevel(level)
    if lags and releaser != "stream":
        raise InvalidInput("--lags are those of a stream.")
    claimed: pv.PrivacyLevel | ArrayLike = stated
    if releaser == "stream":
        weights = [float(part) for part in common.listed(lags)]
        endless = pv.EndlessLevel(level, weights)
        claimed = endless.first(readings).cumulative()
        made = _stream(endless, readings)
    elif ":" in releaser:
        made = _own(releaser)
    elif releaser in BUILT_IN:
        made = BUILT_IN[releaser](level, readings)
    else:
        raise InvalidInput(
            f"there is no releaser {releaser!r}; there are {', '.join([*BUILT_IN, 'stream'])}, and "
            "your own: module:function or file.py:function."
        )
    return audit_release(
        made.once, claimed, readings=readings, many=made.many, restarted=made.restarted,
        samples=samples, name=releaser, confidence=confidence,
    )  # fmt: skip


def _gaussian(level: float, readings: int) -> Releaser:
    release = GaussianMechanism(level, readings).release
    return Releaser(release, release)


def _laplace(level: float, readings: int) -> Releaser:
    channel = Additive.calibrated(level, law=Laplace())
    release = Componentwise(channel, readings=readings).release
    return Releaser(release, release)


def _naive(level: float, readings: int) -> Releaser:
    release = naive_release(level)
    return Releaser(release, release)


def _stream(level: pv.EndlessLevel, readings: int) -> Releaser:
    if level.reach:
        return Releaser(StreamMechanism(level).as_mechanism(readings))

    def release(y: Array) -> Array:  # steps do not look back: rows one after another
        return StreamMechanism(level).release(np.ravel(y)).values.reshape(np.shape(y))

    return Releaser(release, release)


def _table(level: float, readings: int) -> Releaser:
    """Tables as `privest release` writes them, read back from the file."""
    spec = workflow.Spec(
        data="readings",
        target="y",
        features=("x",),
        missing="drop",
        noise=workflow.Noise(variance=1.0),
        privacy=workflow.Privacy(level=level),
    )
    terms = workflow.stated_terms(spec)
    assert terms is not None

    def release(y: Array) -> Array:
        rows = np.ravel(y)
        features = np.arange(len(rows) + 2.0)  # two rows more, so that x is told from a constant
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder, "release.csv")
            data = {"x": features, "y": np.concatenate([rows, [0.0, 0.0]])}
            header = workflow.release(terms, table, data)
            numbers = np.loadtxt(table, delimiter=",", skiprows=1, usecols=1, ndmin=1)
        left = numbers[:-2] * header.unit
        return left.reshape(np.shape(y)) if left.size == rows.size else left

    return Releaser(release, release)


BUILT_IN: dict[str, Callable[[float, int], Releaser]] = {
    "gaussian": _gaussian,
    "laplace": _laplace,
    "table": _table,
    "naive": _naive,
}


def _own(text: str) -> Releaser:
    where, _, name = text.rpartition(":")

    def loaded() -> Release:
        found = getattr(_module(where), name, None)
        if not callable(found):
            raise InvalidInput(f"{where} has no function {name!r}.")
        return found  # type: ignore[no-any-return]

    return Releaser(loaded(), None, loaded)


def _module(where: str) -> ModuleType:
    """The code, loaded anew."""
    try:
        if where.endswith(".py"):
            spec = importlib.util.spec_from_file_location("privest_audited", where)
        else:
            spec = importlib.util.find_spec(where)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.loader is None:
        raise InvalidInput(f"there is no module {where!r}.")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InvalidInput(f"{where} cannot be loaded: {type(error).__name__}, {error}.") from None
    return module


def _print_audit(found: ReleaseAudit) -> None:
    console = to_people()
    table = new_table(f"Audit of {found.releaser}", "claim")
    table.add_column("outcome", no_wrap=True)
    table.add_column("found, and what was examined", overflow="fold")
    styles = {"passed": "green", "failed": "bold red", "undecided": "yellow"}
    for check in found.checks:
        outcome = shown(check.outcome, style=styles[check.outcome])
        table.add_row(shown(check.claim), outcome, shown(f"{check.found} [{check.examined}]"))
    console.print(table)
    if found:
        console.print("No claim failed where it was examined.")
    else:
        console.print(shown(f"{len(found.failed)} claims do not hold.", style="bold red"))
    console.print(f"Not examined: {'; '.join(found.not_examined)}.", soft_wrap=True)
