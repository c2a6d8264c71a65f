"""Streams: a file that is released reading by reading, with a pause button, and looked at."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from privest.app._desk import MOST_WORKS, Desk, Table
from privest.app._pages import Form, desk_of, page, plain_route, see_other
from privest.app._stream_work import OVER, PACES, WORDS, Drawn, Now, Player, StreamWork
from privest.app._uploads import in_words, local_path, sent_table
from privest.data import look
from privest.errors import InvalidInput, PrivestError
from privest.report import render_section
from privest.streaming import (
    EXAMPLE,
    Account,
    Privacy,
    ReplayPlan,
    Trial,
    live_sections,
    privacy_of,
)

WAYS = {
    "error": "somebody who knows everything else guesses a reading to ± this at best",
    "apart": "who must tell two values this far apart is right in at most so many cases",
    "epsilon": "differential privacy: ε at δ",
    "level": "privacy level s (larger shows more)",
}
DELTA = 1e-6
MOST_READINGS = 1000  # of a day that shares its noise
LONGEST_NAME = 100
REDRAWN = 1.0  # seconds between pictures while it plays
EXAMPLE_NAME = "meter.csv"


# --- choose a file ------------------------------------------------------------------------------


def choose(request: Request, form: Form) -> Response:
    """A file, a path, or the example."""
    return page(request, "stream_file.html", path="")


def begin(request: Request, form: Form) -> Response:
    """Take the file, and look at how it is written."""
    desk = desk_of(request)
    try:
        work = _opened(desk, form)
    except PrivestError as error:
        return page(
            request, "stream_file.html", None, 422, message=str(error), path=form.text("path", "")
        )
    return see_other(request, "stream", id=work.id)


def _opened(desk: Desk, form: Form) -> StreamWork:
    if len(desk.streams) >= MOST_WORKS:
        raise InvalidInput(f"there are {MOST_WORKS} streams on the desk: clear one away first.")
    example = form.choice("from", ("example", "file", "path"), "file") == "example"
    table = Table(EXAMPLE_NAME, EXAMPLE) if example else _table(desk, form)
    try:
        found = look(table.data)
        if not found.text:
            raise InvalidInput(
                "a stream is read as text, line by line: save the table as CSV (.csv, .tsv, .txt)."
            )
    except PrivestError as error:
        table.remove()
        raise InvalidInput(in_words(error, table)) from None
    except BaseException:
        table.remove()
        raise
    work = StreamWork(secrets.token_urlsafe(9), table, found, example)
    desk.streams[work.id] = work
    return work


def _table(desk: Desk, form: Form) -> Table:
    """A file that was sent, or one of this machine by its path."""
    if form.text("from", "file") == "path":
        path = local_path(desk, form.text("path"))
        return Table(path.name, path)
    sent = form.file("file")
    if sent is None:
        raise InvalidInput("choose a file first, or try the example.")
    return sent_table(desk, sent.file, sent.filename or "")


# --- what is asked of it ------------------------------------------------------------------------


def stream(request: Request, work: StreamWork, form: Form) -> Response:
    """The settings, or the stream where it is set up."""
    player = work.player
    if player is None:
        return _settings(request, work, work.typed or _usual(work))
    return page(request, "stream.html", **_live(work, player, player.now), commands=_commands(work))


def _settings(
    request: Request, work: StreamWork, typed: dict[str, Any], message: str | None = None
) -> Response:
    numbers = [one.name for one in work.look.columns if one.kind in ("number", "yes-no")]
    others = [one.name for one in work.look.columns if one.name not in numbers]
    return page(
        request, "stream_settings.html", None, 422 if message else 200, stream=work, typed=typed,
        numbers=numbers, others=others, ways=WAYS, message=message,
    )  # fmt: skip


def _usual(work: StreamWork) -> dict[str, Any]:
    """What the form holds at first: of the example all of it, else what the file tells."""
    numbers = [one for one in work.look.columns if one.kind in ("number", "yes-no")]
    target = numbers[-1].name if numbers else ""
    dates = [one.name for one in work.look.columns if one.kind == "date"]
    usual: dict[str, Any] = {
        "target": target, "features": [one.name for one in numbers[:-1] if not one.missing],
        "time": dates[0] if dates else "", "constant": True, "way": "error", "error": "",
        "apart": "", "chance": "75", "epsilon": "", "delta": "1e-6", "move": "", "level": "",
        "low": "", "high": "", "noise_variance": "", "day": "", "block": "1", "kind": "trial",
        "seed": "1", "name": f"{Path(work.table.name).name.partition('.')[0]}-releases.jsonl",
        "account": f"{target} of {work.table.name}", "budget": "",
    }  # fmt: skip
    if work.example:
        # It begins on a Monday: with the weekend nothing could be estimated for five days.
        usual |= {"error": "0.5", "low": "0", "high": "10", "block": "4"}
        usual["features"] = [one for one in usual["features"] if one != "weekend"]
    return usual


def settle(request: Request, work: StreamWork, form: Form) -> Response:
    """Set the stream up: it waits, paused; nothing is released by this."""
    typed = _typed(form)
    with work.lock:
        if work.player is not None and not work.player.over:
            return see_other(request, "stream", id=work.id)
        work.typed = typed
        try:
            player = Player(_plan(desk_of(request), work, form), desk_of(request))
            player.begin()
        except PrivestError as error:
            return _settings(request, work, typed, in_words(error, work.table))
        work.player = player
    return see_other(request, "stream", id=work.id)


def _typed(form: Form) -> dict[str, Any]:
    texts = (
        "target", "time", "way", "error", "apart", "chance", "epsilon", "delta", "move", "level",
        "low", "high", "noise_variance", "day", "block", "kind", "seed", "name", "account",
        "budget",
    )  # fmt: skip
    typed: dict[str, Any] = {name: form.text(name, "") for name in texts}
    return typed | {"features": form.listed("features"), "constant": form.flag("constant")}


def _plan(desk: Desk, work: StreamWork, form: Form) -> ReplayPlan:
    """What was asked, checked; a real stream must be meant."""
    target, features = form.text("target"), tuple(form.listed("features"))
    if target in features:
        raise InvalidInput("the private column cannot be a public one: untick it among those.")
    if not features:
        raise InvalidInput("tick at least one public column that the readings may depend on.")
    span = _span(form)
    day = form.whole("day", 0, 0, MOST_READINGS)
    common: dict[str, Any] = {
        "source": work.table.path, "target": target, "features": features,
        "privacy": _privacy(form, ranged=span is not None), "intercept": form.flag("constant"),
        "span": span, "shared_day": day or None, "block": form.whole("block", 1, 1, 100_000),
        "noise_variance": form.optional_number("noise_variance"),
        "time": form.text("time", "") or None, "reading": work.look.reading,
    }  # fmt: skip
    if form.choice("kind", ("trial", "real"), "trial") == "trial":
        return ReplayPlan(**common, trial=Trial(True, form.whole("seed", 1)))
    return ReplayPlan(**common, **_real(desk, form))


def _real(desk: Desk, form: Form) -> dict[str, Any]:
    """Where the releases go and who is charged; refused where nothing may be released."""
    if desk.read_only:
        raise InvalidInput("this app is read-only: a trial can be played, nothing is released.")
    if not form.flag("sure"):
        raise InvalidInput(
            "a real stream cannot be taken back: what has left stays known. Tick the box if you "
            "mean it, or play a trial."
        )
    name = form.text("name")
    plain = Path(name).name == name and name.isprintable() and not name.startswith((".", "-"))
    if not plain or "\\" in name or len(name) > LONGEST_NAME:
        raise InvalidInput(
            "the name of the releases is that of a file, without a folder: letters, digits, "
            f"hyphens, at most {LONGEST_NAME}."
        )
    if not name.lower().endswith(".jsonl"):
        name += ".jsonl"
    return {
        "output": desk.folder / name,
        "account": Account(desk.ledger, form.text("account"), form.optional_number("budget")),
    }


def _span(form: Form) -> tuple[float, float] | None:
    low, high = form.optional_number("low"), form.optional_number("high")
    if (low is None) != (high is None):
        raise InvalidInput("a range has two ends: fill in both, or none.")
    if low is None or high is None:
        return None
    if not low < high:
        raise InvalidInput("the lower end of the range must be below the upper one.")
    return low, high


def _privacy(form: Form, *, ranged: bool) -> Privacy:
    """The level in the words that were chosen; ε is told as a consequence where it can be."""
    way, move = form.choice("way", tuple(WAYS), "error"), form.optional_number("move")
    delta = form.number("delta", DELTA) if ranged or move is not None else None
    if way == "epsilon":
        if move is None and form.text("day", ""):
            raise InvalidInput(
                "where a day shares its noise ε needs to be told what one reading differs by at "
                "most: fill that in beside ε."
            )
        if move is None and not ranged:
            raise InvalidInput(
                "ε speaks of how far one reading can move: fill in the public range, or what one "
                "reading differs by at most."
            )
        return privacy_of(
            epsilon=form.number("epsilon"), delta=form.number("delta", DELTA), move=move
        )
    if way == "apart":
        chance = form.number("chance") / 100
        return privacy_of(apart=form.number("apart"), chance=chance, delta=delta, move=move)
    if way == "level":
        return privacy_of(level=form.number("level"), delta=delta, move=move)
    return privacy_of(known_to=form.number("error"), delta=delta, move=move)


# --- as it goes ---------------------------------------------------------------------------------


def live(request: Request, work: StreamWork, form: Form) -> Response:
    """The part of the page that changes; nothing where the page has it already.

    Where it was paused, stopped or ended since, the buttons are others: the page is loaded again.
    """
    player, seen = _player(work), form.text("seen", "")
    now = player.now
    if seen == now.mark:
        return Response(status_code=204)
    if seen.partition("-")[2] != now.mark.partition("-")[2]:
        return Response(headers={"HX-Refresh": "true"})
    return page(request, "_stream_live.html", **_live(work, player, now))


def do(request: Request, work: StreamWork, form: Form) -> Response:
    """A button."""
    with work.lock:
        player = _player(work)
        buttons: dict[str, Callable[[], None]] = {
            "play": player.play, "pause": player.pause, "step": player.step,
            "faster": player.faster, "slower": player.slower, "stop": player.stop,
        }  # fmt: skip
        wanted = form.choice("do", (*buttons, "again", "change"))
        if wanted in buttons:
            buttons[wanted]()
        elif wanted == "change":
            player.stop()
            work.player = None
        elif player.over:
            again = Player(player.plan, desk_of(request), player.pace)
            again.begin()
            work.player = again
    return see_other(request, "stream", id=work.id)


def clear(request: Request, work: StreamWork, form: Form) -> Response:
    """Take a stream off the desk; what was released stays."""
    desk_of(request).streams.pop(work.id, None)
    work.forget()
    return see_other(request, "start")


def _player(work: StreamWork) -> Player:
    if work.player is None:
        raise HTTPException(404, "This stream is not set up yet: go back to its settings.")
    return work.player


def _live(work: StreamWork, player: Player, now: Now) -> dict[str, Any]:
    """What the changing part shows: all of it of one moment, though the thread goes on."""
    drawn = _drawn(work, player, now)
    return {
        "stream": work, "plan": player.plan, "now": now, "state": drawn.state,
        "over": now.status in OVER, "said": WORDS[now.status], "trouble": _trouble(work, player),
        "sections": Markup(drawn.html), "paces": PACES, "rows": work.look.rows,
    }  # fmt: skip


def _trouble(work: StreamWork, player: Player) -> str:
    """Why it failed, with the file under the name that the user knows."""
    return "" if player.trouble is None else in_words(player.trouble, work.table)


def _drawn(work: StreamWork, player: Player, now: Now) -> Drawn:
    """Pictures and tables: drawn once for a version, however many tabs look, and once a second
    while it plays.
    """
    with work.lock:
        view, old, age = now.view, work.drawn, time.monotonic() - work.drawn.when
        fresh = old.version == view.version or (now.status == "playing" and age < REDRAWN)
        if old.player is player and fresh:
            return old
        parts = live_sections(player.plan, view.state, view.trail)
        html = "\n".join(render_section(one, f"stream-{k}") for k, one in enumerate(parts, 1))
        work.drawn = Drawn(player, view.version, time.monotonic(), html, view.state)
        return work.drawn


def _commands(work: StreamWork) -> tuple[str, ...]:
    """The same on a terminal, beside the file."""
    assert work.player is not None
    source = str(EXAMPLE) if work.example else work.table.name
    return work.player.plan.commands(source)


# --- routes -------------------------------------------------------------------------------------

Handler = Callable[[Request, StreamWork, Form], Response]


def _of_stream(handler: Handler) -> Callable[[Request, Form], Response]:
    def with_stream(request: Request, form: Form) -> Response:
        work = desk_of(request).streams.get(request.path_params["id"])
        if work is None:
            raise HTTPException(404, "This stream is no longer on the desk: start again.")
        return handler(request, work, form)

    return with_stream


ROUTES = [
    plain_route("/stream", choose, "stream_file"),
    plain_route("/stream", begin, "stream_begin", post=True, most=None),
    plain_route("/stream/{id}", _of_stream(stream), "stream"),
    plain_route("/stream/{id}", _of_stream(settle), "stream_settle", post=True),
    plain_route("/stream/{id}/live", _of_stream(live), "stream_live"),
    plain_route("/stream/{id}/do", _of_stream(do), "stream_do", post=True),
    plain_route("/stream/{id}/clear", _of_stream(clear), "stream_clear", post=True),
]
