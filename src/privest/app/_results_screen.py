"""Screen 4, results: what a release shows, asked for by whoever looks at it. Never from the data.

An estimate is made once for every way of errors and kept with the work; another confidence, a
mean at a row, a total are asked of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from privest.app._desk import Work
from privest.app._pages import Form, desk_of, from_htmx, page, plain_route, screen, see_other
from privest.app._uploads import local_path
from privest.arrays import CONFIDENCE
from privest.errors import InvalidInput, PrivestError
from privest.report import render_section, total_words
from privest.report._in_units import mean_words
from privest.report._split import split_section
from privest.report._workflow import found_sections, further_sections
from privest.workflow import ColumnsEstimate, Estimate, estimate_release, read_release
from privest.workflow._asking import error_ways, row_features

PARTS = "results"
CONFIDENCES = ("0.8", "0.9", "0.95", "0.98", "0.99", "0.999")
MOST_KEPT = 12
MOST_ROWS = 6  # at which a mean is shown
MOST_LISTED = 50  # releases of a folder


def show(request: Request, work: Work, form: Form) -> Response:
    """The results of the release of this work."""
    if work.released is None:
        return see_other(request, "release", work)
    return _page(request, work)


def _page(
    request: Request,
    work: Work,
    status: int = 200,
    message: str | None = None,
    typed: dict[str, str] | None = None,
) -> Response:
    found = estimate_of(work)
    told = _told(work, found) | {
        "message": message,
        "typed": typed or {},
        "further": _kept(work, ("further", *_key(work)), lambda: _further(work)),
    }
    return page(request, "results.html", work, status, step="results", **told)


def _told(work: Work, found: Estimate) -> dict[str, Any]:
    """What the page shows of an estimate, as it was last asked for."""
    asked, header = dict(work.asked), found.release
    confidence = asked.get("confidence", CONFIDENCE)
    means, total = _means(found, asked, confidence), None
    if asked.get("total"):
        total = _in_words(lambda: total_words(found, found.total(confidence), confidence))
    features = row_features(header)
    return {
        "estimate": found, "header": header, "ways": error_ways(header),
        "errors": asked.get("errors", "auto"), "confidences": CONFIDENCES,
        "confidence": repr(confidence), "means": means, "total": total,
        "fields": [(f"at-{k}", *one) for k, one in enumerate(features.items())],
        "found": _kept(work, ("found", *_key(work), confidence), lambda: _found(found, confidence)),
        "numbers": header.family == "gaussian", "refused": None,
    }  # fmt: skip


def _found(found: Estimate, confidence: float) -> list[Markup]:
    """What was found, and its errors in two parts."""
    sections = [*found_sections(found, confidence=confidence), *split_section(found)]
    return [Markup(render_section(one, f"found-{k}")) for k, one in enumerate(sections)]


def _further(work: Work) -> list[Markup]:
    """The rest of the report; how to repeat it is on the last screen."""
    plan = None if work.made is None else work.made.plan
    sections = further_sections(plan, estimate_of(work))
    return [Markup(render_section(one, f"more-{k}")) for k, one in enumerate(sections)]


def _means(found: Estimate, asked: dict[str, Any], confidence: float) -> list[dict[str, Any]]:
    """The mean at every row that was asked for, of each private column."""
    parts = found.parts if isinstance(found, ColumnsEstimate) else (found,)
    return [
        {
            "row": ", ".join(f"{name} {_short(value)}" for name, value in row.items()),
            "said": [
                _in_words(lambda one=one, row=row: mean_words(one, row, confidence))  # type: ignore[misc]
                for one in parts
            ],
        }
        for row in asked.get("at", ())
    ]


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _in_words(ask: Callable[[], str]) -> str:
    """What is asked for, or why there is none."""
    try:
        return ask()
    except PrivestError as error:
        return f"There is none: {error}"


# --- estimates ------------------------------------------------------------------------------------


def _key(work: Work) -> tuple[object, ...]:
    """Of an estimate: the file as it is now, and how errors are made."""
    assert work.released is not None
    try:
        there = work.released.stat()
    except OSError:
        raise InvalidInput(f"there is no table {work.released} any more.") from None
    return str(work.released), there.st_mtime_ns, there.st_size, work.asked.get("errors", "auto")


def estimate_of(work: Work) -> Estimate:
    """The estimate of the release, by the chosen errors: made once."""
    table, errors = work.released, work.asked.get("errors", "auto")
    assert table is not None
    made: Estimate = _kept(work, ("estimate", *_key(work)), lambda: estimate_release(table, errors))
    return made


def _kept(work: Work, key: tuple[object, ...], make: Callable[[], Any]) -> Any:  # noqa: ANN401
    """What was made before under this key; else it is made now. What was not asked for goes."""
    with work.lock:
        held: dict[tuple[object, ...], Any] = work.more.setdefault(PARTS, {})
        if key in held:
            held[key] = held.pop(key)  # the last to go
            return held[key]
    made = make()
    with work.lock:
        held[key] = made
        while len(held) > MOST_KEPT:
            del held[next(iter(held))]
    return made


# --- what is asked --------------------------------------------------------------------------------


def ask(request: Request, work: Work, form: Form) -> Response:
    """Another confidence, another way of errors, the total."""
    _require_release(work)
    try:
        wanted = _wanted(work, form)
    except PrivestError as error:
        return _refused(request, work, form, str(error))
    with work.lock:
        before = dict(work.asked)
        work.asked.update(wanted)
    try:
        return _answer(request, work)
    except PrivestError as error:
        with work.lock:
            work.asked.clear()
            work.asked.update(before)
        return _refused(request, work, form, str(error))


def _wanted(work: Work, form: Form) -> dict[str, Any]:
    assert work.released is not None
    ways = tuple(error_ways(estimate_of(work).release))
    return {
        "confidence": float(form.choice("confidence", CONFIDENCES, repr(CONFIDENCE))),
        "errors": form.choice("errors", ways, "auto"),
        "total": form.flag("total"),
    }


def predict(request: Request, work: Work, form: Form) -> Response:
    """The mean at a row: a value for every feature; or no rows any more."""
    _require_release(work)
    if form.flag("clear"):
        with work.lock:
            work.asked.pop("at", None)
        return _answer(request, work)
    try:
        found = estimate_of(work)
        row = _row(found, form)
        parts = found.parts if isinstance(found, ColumnsEstimate) else (found,)
        for one in parts:
            mean_words(one, row)
    except PrivestError as error:
        return _refused(request, work, form, str(error))
    with work.lock:
        others = [one for one in work.asked.get("at", ()) if one != row]
        work.asked["at"] = (row, *others[: MOST_ROWS - 1])
    return _answer(request, work)


def _row(found: Estimate, form: Form) -> dict[str, object]:
    """Values by name; the form has numbers in place of names, which may be anything."""
    row: dict[str, object] = {}
    for k, (name, choices) in enumerate(row_features(found.release).items()):
        field = f"at-{k}"
        if not form.text(field, ""):
            raise InvalidInput(f"“{name}” has no value: a mean needs one for every feature.")
        try:
            row[name] = form.number(field) if choices is None else form.choice(field, choices)
        except InvalidInput:
            what = "a number" if choices is None else f"one of {', '.join(choices)}"
            raise InvalidInput(f"“{name}” must be {what}.") from None
    return row


def _answer(request: Request, work: Work) -> Response:
    """The live part for htmx; else the page."""
    if from_htmx(request):
        return page(request, "_results_found.html", work, **_told(work, estimate_of(work)))
    estimate_of(work)  # what cannot be estimated is refused here
    return see_other(request, "results", work)


def _refused(request: Request, work: Work, form: Form, message: str) -> Response:
    if from_htmx(request):
        told = _told(work, estimate_of(work))
        return page(request, "_results_found.html", work, 422, **told | {"refused": message})
    typed = {name: form.text(name, "")[:200] for name in form.names() if name.startswith("at-")}
    return _page(request, work, 422, message, typed)


def _require_release(work: Work) -> None:
    if work.released is None:
        raise HTTPException(404, "There are results after a release.")


# --- a release that is there already --------------------------------------------------------------


def choose(request: Request, form: Form) -> Response:
    """Which release to look at."""
    return _choices(request)


def _choices(
    request: Request, status: int = 200, message: str | None = None, typed: str = ""
) -> Response:
    told = {"listed": releases_in(desk_of(request).folder), "typed": typed, "message": message}
    return page(request, "open.html", None, status, **told)


def open_release(request: Request, form: Form) -> Response:
    """A piece of work that begins with a release: its results, and nothing else."""
    desk, given = desk_of(request), form.text("path", "")
    try:
        if not given:
            raise InvalidInput("name the table of a release, such as release.csv.")
        table = _as_table(local_path(desk, given))
        read_release(table)
        work = desk.begin()
    except PrivestError as error:
        return _choices(request, 422, str(error), given)
    with work.lock:
        work.released = table
    return see_other(request, "results", work)


def _as_table(path: Path) -> Path:
    """The table of a release by its path, or by that of its header."""
    return path.with_suffix("") if path.name.endswith((".csv.json", ".parquet.json")) else path


def releases_in(folder: Path) -> list[str]:
    """The names of the releases in a folder: tables with a header beside them."""
    names = [one.name.removesuffix(".json") for one in folder.glob("*.json")]
    found = [name for name in names if name.endswith((".csv", ".parquet"))]
    return sorted(name for name in found if (folder / name).is_file())[:MOST_LISTED]


ROUTES = [
    screen("/results", show, "results"),
    screen("/results/ask", ask, "results_ask", post=True),
    screen("/results/predict", predict, "results_predict", post=True),
    plain_route("/open", choose, "open"),
    plain_route("/open/release", open_release, "open_release", post=True),
]
