"""`privest collect` and `privest contribute`: many devices, one estimate."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privest.arrays import plural
from privest.cli.console import note, shown, tell_file, to_stderr
from privest.cli.options import command
from privest.cli.series import as_csv
from privest.data.cells import number
from privest.data.lines import csv_records, open_lines
from privest.errors import CollectorSilent, InvalidInput, NotIdentifiable
from privest.files import atomic_write, owner_only
from privest.lazy import needed
from privest.reading import read_document
from privest.report.numbers import up

if TYPE_CHECKING:
    from privest.collect import CollectionPlan, Device, SqlStore


@command(port={"min": 1, "max": 65535}, open_to_all={"names": ("--open",)})
def collect(
    plan_file: Annotated[Path, typer.Argument(help="Plan, in TOML.", metavar="PLAN")],
    store: str = "collection.db",
    tokens: Path | None = None,
    add_device: str | None = None,
    budget: float = math.inf,
    open_to_all: bool = False,
    host: str = "127.0.0.1",
    port: int = 8000,
    mqtt: str | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    merge: str | None = None,
    check: bool = False,
    course: Path | None = None,
) -> None:
    """Serve a plan, gather protected measurements of many devices, and estimate.

    Devices add exact noise before anything leaves them. The collector keeps their reports and sums,
    never a measurement. A report is on disk before it is answered, and counts once however often it
    is sent. Its page shows estimates, intervals and the bound as they come. Stop it with Ctrl-C.

    Examples:

    privest collect plan.toml --tokens tokens.txt --add-device meter-17

    privest collect plan.toml --tokens tokens.txt --port 8000

    privest collect plan.toml --check --course course.csv

    Options:
    store PLACE      File of SQLite, or an address postgresql://….
    tokens FILE      Devices, the SHA-256 of their tokens and their highest levels, a line each.
                     It may change while the collector runs.
    add_device NAME  Make a token for a device, print it once, and end. A name that ends with a star
                     is a gateway's, which sends for all devices that begin so.
    budget S         Highest privacy level of the device that is added. Left out: any of the plan.
    open_to_all      Take reports without tokens, under any name. For tests and closed networks.
    host ADDRESS     Address to listen on. Other machines reach it only if it is not 127.0.0.1.
    port N           Port to listen on.
    mqtt URL         Take reports from an MQTT broker too: mqtt://[user:password@]host[:port]. The
                     broker decides who may send.
    certificate FILE  Certificate for TLS, in PEM. Left out: plain HTTP, for a proxy with TLS.
    key FILE         Private key of the certificate.
    merge PLACE      Take over the reports of another collector's store, and end.
    check            Compute the sums again from all reports, print the estimate, and end.
    course FILE      Write the estimate after each step of the devices, as CSV, and end.
    """
    console = to_stderr()
    for module in ("uvicorn", "privest.collect.server", "privest.collect.mqtt"):
        needed(module, "a collector needs more packages", "collect")
    import uvicorn

    from privest.collect.mqtt import broker_of, listen
    from privest.collect.plan import load_plan
    from privest.collect.server import Collector, Tokens, make_app
    from privest.collect.store import open_store
    from privest.serving import BACKLOG, LimitedProtocol

    plan = load_plan(plan_file)
    if add_device is not None:
        token = _added(plan, tokens, add_device, budget)
        console.print(shown(f"Token of {add_device}, for a file on that device; it is shown once:"))
        typer.echo(token)
        return
    if merge is not None or check or course is not None:
        there = store if merge is None else merge  # a merge may begin a store of its own
        if not (there.startswith("postgres") or Path(there).is_file()):
            raise InvalidInput(f"there is no store {there}.")
        with open_store(store, plan) as own:
            _after(own, merge, check, course)
        return
    if (tokens is None) != open_to_all:
        raise InvalidInput("state the file of tokens, or that the collector is open to all.")
    if key is not None and certificate is None:
        raise InvalidInput("state the certificate of this key.")
    known = None if tokens is None else Tokens(tokens)
    if mqtt is not None:
        broker_of(mqtt)  # refused now rather than later
    collector = Collector(open_store(store, plan), known)
    sources = [] if mqtt is None else [partial(listen, collector, mqtt)]
    config = uvicorn.Config(
        make_app(collector, *sources), host=host, port=port, log_level="warning", log_config=None,
        access_log=False, server_header=False, ws="none", timeout_graceful_shutdown=5,
        http=LimitedProtocol, backlog=BACKLOG, ssl_certfile=certificate, ssl_keyfile=key,
    )  # fmt: skip
    try:
        config.load()
    except OSError as error:
        raise InvalidInput(f"the certificate or its key cannot be used ({error}).") from None
    scheme = "http" if certificate is None else "https"
    console.print(shown(f"Collecting at {scheme}://{host}:{port}/  plan {plan.hash}"))
    for name in plan.levels:
        console.print(shown(_promise(plan, name)))
    try:
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run()
        reports, devices = collector.store.count()
        note(f"{plural(reports, 'report')} of {plural(devices, 'device')}.")
    finally:
        collector.close()


def _added(plan: CollectionPlan, tokens: Path | None, device: str, budget: float) -> str:
    """The token of a new device; its line is in the file of tokens when this returns."""
    from privest.collect.server import new_token

    if tokens is None:
        raise InvalidInput("state the file of tokens.")
    if not budget >= min(plan.levels.values()):
        raise InvalidInput("the budget of a device is at least the lowest level of the plan.")
    text = read_document(tokens) if tokens.exists() else ""
    if any(line.split()[:1] == [device] for line in text.splitlines()):
        raise InvalidInput(f"{device} has a token: remove its line from {tokens} first.")
    token, line = new_token(device, budget)
    with open(tokens, "a", encoding="utf-8", opener=owner_only) as file:
        file.write("\n" + line)  # the line before it may have no end
    return token


def _promise(plan: CollectionPlan, level: str) -> str:
    """The ε of a level, for one measurement and for all of a device."""
    low, high = plan.range
    said = (
        f"Level {level}, s = {plan.levels[level]:g}: for one measurement anywhere in the range "
        f"{low:g} to {high:g}, epsilon = {up(plan.statement(level).epsilon)} at delta = "
        f"{plan.delta:g}, however much an attacker knows."
    )
    if plan.steps == 1:
        return said
    return f"{said} For all {plan.steps:,} of a device, epsilon = {up(plan.epsilon_of_all(level))}."


def _after(own: SqlStore, other: str | None, check: bool, course: Path | None) -> None:
    """Merge, check or write the course of a store that no collector serves."""
    from privest.collect import estimate, merge, open_store, replay, running_sums

    if other is not None:
        with open_store(other, own.plan) as source:
            counts = merge(own, source)
        note(", ".join(f"{answer.text}: {count:,}" for answer, count in counts.items()))
    if check:
        if not replay(own):
            raise InvalidInput("the sums are not those of the reports: the store was changed.")
        note(f"The sums are those of {own.count()[0]:,} reports.")
        typer.echo(estimate(own.plan, own.sums()).estimate.summary())
    if course is not None:
        names = own.plan.names
        titles = [f"{kind} {name}" for kind in ("estimate", "s.e.", "bound") for name in names]
        lines: list[list[object]] = []
        for step, sums in running_sums(own):
            with contextlib.suppress(NotIdentifiable):  # of the first steps
                found = estimate(own.plan, sums)
                theta = found.estimate
                assert theta.bound is not None
                numbers = *theta.value, *theta.standard_error, *theta.bound.diagonal() ** 0.5
                count = sum(found.rows.values())
                lines.append([step, count, *(f"{one:.9g}" for one in numbers)])
        atomic_write(course, as_csv(["step", "reports", *titles], lines))
        tell_file("The course", course)


@command()
def contribute(
    url: Annotated[str, typer.Argument(help="Address of the collector.", metavar="URL")],
    source: Annotated[
        str, typer.Argument(help="CSV; a minus reads standard input.", metavar="FILE")
    ],
    target: str,
    device: str,
    budget: float,
    ledger: Path = Path("privest-device.db"),
    features: str | None = None,
    plan_hash: str | None = None,
    level: str | None = None,
    token_file: Path | None = None,
) -> None:
    """Protect the measurements of this device, and send them to a collector.

    Row k of FILE is step k. Noise is drawn here, exactly, and charged to this device's ledger. Run
    it again after a crash or without a connection: what was drawn is sent as it was, nothing is
    drawn twice. Append new measurements to the same file; with a new ledger, begin a new file.

    Example:

    privest contribute https://c.example m1.csv --target load --features hour --device m1 --budget 1

    Options:
    target NAME      Column of the private measurements.
    device NAME      Name of this device.
    budget S         The highest privacy level that this device accepts for one measurement. A plan
                     that asks for more is refused.
    ledger FILE      Ledger of this device; its outbox lies beside it.
    features NAMES   Public columns that may leave this device as they are, with commas between.
    plan_hash HASH   Accept this plan only, and the features that it names.
    level NAME       Level of the plan. Left out: the lowest.
    token_file FILE  File with the token that the collector gave to this device.
    """
    from privest.collect.device import BATCH, Device

    token = None if token_file is None else read_document(token_file).strip()
    with Device(
        url, device, ledger, budget=budget, plan=plan_hash, level=level, token=token, sleep=_wait
    ) as own:
        _require_features(own.plan, features, target, known=plan_hash is not None)
        to_stderr().print(shown(_promise(own.plan, own.level)))
        rows = drawn = sent = 0
        try:
            sent += own.flush()  # what an earlier run left
            for new in _put_all(own, source, target):
                rows, drawn = rows + 1, drawn + new
                if new and drawn % BATCH == 0:
                    sent += own.flush()
            sent += own.flush()
        except CollectorSilent:
            note(f"{plural(drawn, 'measurement')} protected; {own.waiting} wait in the outbox.")
            raise
        note(f"{plural(rows, 'row')}, {drawn} protected now; {plural(sent, 'report')} answered.")
        if own.refused:
            raise InvalidInput(
                f"{plural(own.refused, 'report')} did not count: the collector has others of these "
                "steps, from a lost outbox or another device of this name."
            )


def _require_features(plan: CollectionPlan, named: str | None, target: str, known: bool) -> None:
    """Features leave as they are, so the owner names them, or the plan, and not the collector."""
    allowed = [one.strip() for one in (named or "").split(",")]
    for one in plan.features:
        if one == target or not (known or one in allowed):
            raise InvalidInput(
                f"the collector asks for the column {one!r}, which would leave unprotected. If it "
                "is public, name it among the features."
            )


def _wait(seconds: float) -> None:
    note(f"The collector does not answer yet. Trying again in {seconds:.1f} s.")
    time.sleep(seconds)


def _put_all(own: Device, source: str, target: str) -> Iterator[bool]:
    """Put all rows into the outbox, and tell of each whether it is new."""
    with open_lines(source) as lines:
        records, names = csv_records(lines)
        wanted = [*own.plan.features, target]
        absent = [name for name in wanted if name not in (names or [])]
        if absent:
            raise InvalidInput(f"the input has no column {absent[0]!r}.")
        for step, (line, record) in enumerate(records):
            try:
                *features, value = (number(record[name]) for name in wanted)
            except (KeyError, ValueError):
                raise InvalidInput(f"line {line}: a cell is no number.") from None
            yield own.put(value, features, step=step)
