"""`mpiexec -n N privest consensus`: every process is an agent with a table of its own."""

from __future__ import annotations

import json as json_module
import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

import privest as pv
from privest import network
from privest.arrays import plural
from privest.cli import stream_options as streams
from privest.cli.console import SIMULATED, complain, new_table, print_json, shown, to_people
from privest.cli.options import MODEL, as_range, command, group, listed
from privest.data import Features, open_source, read_rows
from privest.errors import InvalidInput, PrivestError
from privest.files import atomic_write
from privest.ledger import cost_of
from privest.mechanism.source import Kept, Source
from privest.network import mpi
from privest.records import plain

RECORD = (
    "agent", "agents", "estimate", "standard_error", "certified_error", "rounds", "exchanges",
    "method", "simulated",
)  # fmt: skip
HELD = 1.0  # seconds that a failed agent stays, so that the others can say what they saw


@group(MODEL, intercept={"names": ("--intercept/--no-intercept",)})
class Model:
    """What every agent makes of its own table.

    intercept  Add a constant to the features.
    missing    Rows with missing values: refuse the table, or drop them.
    """

    target: str
    residual_variance: float
    features: str = ""
    intercept: bool = True
    missing: Literal["refuse", "drop"] = "refuse"

    def design(self) -> Features:
        return Features(tuple(listed(self.features)), {}, self.intercept)


@group("Network")
class Talk:
    """How the agents find the estimate of all.

    graph SHAPE|FILE  Links of the agents: ring, star, grid:2x4, or a CSV file of pairs of agents.
    method            Method of averaging.
    tolerance         Distance from the best estimate, in its standard errors.
    timeout           Seconds after which a silent agent counts as lost.
    """

    graph: str = "ring"
    method: Literal["chebyshev", "plain"] = "chebyshev"
    tolerance: float = 1e-6
    timeout: float = 30.0


@command()
def consensus(
    data: Annotated[
        str,
        typer.Argument(
            help="The table of an agent, {agent} standing for its number from 0: CSV, Parquet, "
            "XPT. Every process opens its own only.",
            metavar="FILE",
        ),
    ],
    model: Model,
    talk: Talk,
    trial: streams.Trial,
    account: streams.Account,
    level: float,
    range: str | None = None,
    keep: str | None = None,
    output: str | None = None,
    json: bool = False,
) -> None:
    """Agents that hold their own measurements reach the estimate of all of them together.

    Start it with mpiexec: one process per agent. A process reads its own table, adds noise of
    variance 1/s to its measurements once, and exchanges vectors of the noisy measurements with its
    neighbours only. Agent 0 prints. No value is rejected; one beyond --range is clipped. --simulate
    is a dry run.

    What an agent releases is on its disk before the first message (--keep, or --ledger; {agent} in
    their names stands for its number): a run that is started again sends the same numbers. A new
    release of the same measurements would reveal more. Remove the file, and its key, to make one.

    Example:

    mpiexec -n 8 privest consensus 'meter-{agent}.csv' --target load --level 4
    --residual-variance 0.1

    Options:
    level S      Privacy level s (a larger s reveals more): Fisher information about one
                 measurement.
    keep FILE    File that keeps an agent's release, with {agent} for its number, for a run after a
                 failure. Left out: TABLE.release beside the table; none with --ledger or --seed.
    output FILE  JSON file of every agent's result, with {agent} for its number.
    """
    comm = mpi.world()
    account.require_sense(trial)
    ends = as_range(range)

    def work(stack: ExitStack) -> None:
        if comm.size == 1:
            raise InvalidInput(
                "there is one process: start it with mpiexec -n N privest consensus …"
            )
        if any("{agent}" not in name for name in (data, output, keep) if name is not None):
            raise InvalidInput(
                "the names of tables, outputs and kept releases need {agent}: every agent has a "
                "file of its own."
            )
        graph = graph_of(talk.graph, comm.size)
        if comm.rank == 0:
            _note_idle(data, comm.size)
        names = model.design().names
        path = data.replace("{agent}", str(comm.rank))
        noise = _noise(path, comm.rank, model.target, level, trial, account, stack)
        # a seed repeats the same release by itself, a ledger sends it again
        if keep is not None or (trial.seed is None and account.ledger is None):
            kept = f"{path}.release" if keep is None else keep.replace("{agent}", str(comm.rank))
            facts = {} if ends is None else {"range": "{!r}, {!r}".format(*ends)}
            noise = Kept(kept, noise, level=level, target=model.target, **facts)
        found = mpi.consensus(
            contribution(path, model, level, noise, ends),
            graph,
            method=talk.method,
            tolerance=talk.tolerance,
            timeout=talk.timeout,
            names=(model.target, *names),  # the same θ everywhere, of the same readings
        )
        record = _record(found, names, level, model.residual_variance)
        if output is not None:
            text = json_module.dumps(record, ensure_ascii=False, indent=1)
            atomic_write(output.replace("{agent}", str(comm.rank)), text + "\n")
        if comm.rank == 0:
            (print_json if json else _show)(record)

    _guarded(work, comm)


def _noise(
    path: str,
    agent: int,
    target: str,
    level: float,
    trial: streams.Trial,
    account: streams.Account,
    stack: ExitStack,
) -> Source:
    """The noise of an agent's one release; {agent} stands for its number in ledger and subject."""
    if account.ledger is None:
        return trial.source("consensus", agent, target, level)
    ledger = Path(str(account.ledger).replace("{agent}", str(agent)))
    subject = None if account.subject is None else account.subject.replace("{agent}", str(agent))
    own = replace(account, ledger=ledger, subject=subject)
    return own.opened(stack, own.subject_of(path, target), level).source(
        cost_of(level), start=0, key=f"consensus {level!r}", level=level, target=target
    )


def _guarded(work: Callable[[ExitStack], None], comm: Any) -> None:  # noqa: ANN401 - mpi4py
    """Run this agent's part; if it fails, leave at once: MPI_Finalize would wait for the others."""
    try:
        with ExitStack() as stack:
            work(stack)
    except BaseException as error:
        if comm.size == 1:
            raise
        if isinstance(error, PrivestError):
            complain(f"agent {comm.rank}: {error}")
        else:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(HELD)
        os._exit(2 if isinstance(error, PrivestError) else 1)


def graph_of(text: str, agents: int) -> network.Graph:
    """The graph of a named shape, or of the pairs in a file."""
    shape, _, size = text.partition(":")
    if text == "ring":
        shape_of = network.Graph.ring if agents > 2 else network.Graph.star  # one link
        return shape_of(agents)
    if text == "star":
        return network.Graph.star(agents)
    if shape == "grid":
        sides = size.split("x")
        if len(sides) != 2 or not all(side.isdecimal() for side in sides):
            raise InvalidInput(f"--graph {text}: a grid has two sides, for example grid:2x4.")
        return network.Graph.grid(int(sides[0]), int(sides[1]))
    if Path(text).is_file():
        pairs, _ = streams.read_table(text)
        within = (pairs >= 0) & (pairs < agents) & (pairs == np.round(pairs))
        if pairs.shape[1] != 2 or not within.all():
            raise InvalidInput(
                f"--graph {text}: a line has two agents, numbered from 0 to {agents - 1}."
            )
        return network.Graph(pairs.astype(np.intp), agents)
    raise InvalidInput(f"--graph {text}: neither ring, star, grid:AxB nor a file.")


def _note_idle(data: str, agents: int) -> None:
    """Fewer processes than tables would give the estimate of some of them without a word."""
    further = data.replace("{agent}", str(agents))
    if Path(further).exists():
        complain(
            f"there are {agents} processes, and {further} takes no part: start it with "
            "mpiexec -n N, one process a table."
        )


def contribution(
    path: str,
    model: Model,
    level: float,
    noise: Source,
    span: tuple[float, float] | None = None,
) -> network.Contribution:
    """(x_i, r_i) of the table of this agent; its measurements go no further than here."""
    blocks = list(
        read_rows(
            open_source(path), model.design(), model.target, missing=model.missing,
            infinite=not noise.simulated,
        )
    )  # fmt: skip
    dropped = sum(block.dropped for block in blocks)
    if dropped:
        complain(f"{path}: {plural(dropped, 'row')} left out for gaps.")
    H = np.concatenate([block.H for block in blocks])
    y = np.concatenate([block.y for block in blocks if block.y is not None])
    sensor = network.Sensor(
        H, pv.noise.Gaussian(cov=model.residual_variance), pv.PrivacyLevel(level), range=span
    )
    release = (sensor.simulate if noise.simulated else sensor.release)(y, noise)
    return sensor.contribution(release)


def _record(
    found: mpi.AgentResult, names: tuple[str, ...], level: float, variance: float
) -> dict[str, Any]:
    """For programs, with the names of the library."""
    given = {name: getattr(found, name) for name in RECORD}
    return dict(plain(given | {"names": names, "level": level, "residual_variance": variance}))


def _show(record: dict[str, Any]) -> None:
    console = to_people()
    title = f"Estimate of {record['agents']} agents together"
    table = new_table(title, "parameter", "estimate", "standard error")
    for name, value, error in zip(record["names"], record["estimate"], record["standard_error"]):
        table.add_row(shown(name), f"{value:.5g}", f"{error:.3g}")
    console.print(table)
    console.print(
        f"{record['rounds']} {record['method']} rounds ({record['exchanges']} exchanges with the "
        "neighbours until all knew it); every agent is within "
        f"{record['certified_error']:.1g} standard errors of the best estimate."
    )
    if record["simulated"]:
        console.print(shown(SIMULATED), style="yellow")
