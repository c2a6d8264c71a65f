"""Screen 4, results: what a release shows, asked for by whoever looks at it. Never from the data.

An estimate is made once for every way of errors and kept with the work; another confidence, a
mean at a row, a total are asked of it. All of an answer is of one release (`Seen`), whatever
another tab does meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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
from privest.report import Section, describe, section_html
from privest.report.findings import mean_sentence, total_sentences
from privest.workflow import ColumnsEstimate, Estimate, Plan, estimate_release, read_release
from privest.workflow._asking import error_ways, row_features

PARTS = "results"
CONFIDENCES = ("0.8", "0.9", "0.95", "0.98", "0.99", "0.999")
MOST_KEPT = 12
MOST_ROWS = 6  # at which a mean is shown
MOST_LISTED = 50  # releases of a folder


@dataclass(frozen=True, eq=False)
class Seen:
    """A release of a work, and what was asked of it, as they were at one moment.

    plan  of which it was made here; None: it was there already.
    """

    work: Work
    table: Path
    plan: Plan | None
    asked: dict[str, Any]

    @property
    def key(self) -> tuple[object, ...]:
        """Of an estimate: the file as it is now, and how errors are made."""
        try:
            there = self.table.stat()
        except OSError:
            raise InvalidInput(f"there is no table {self.table.name} any more.") from None
        return str(self.table), there.st_mtime_ns, there.st_size, self.errors

    @property
    def errors(self) -> Any:  # noqa: ANN401 - one of the words of `estimate_release`
        return self.asked.get("errors", "auto")

    def asking(self, wanted: dict[str, Any]) -> Seen:
        """The same release asked for more; what is empty is not asked for."""
        asked = self.asked | wanted
        return replace(self, asked={name: one for name, one in asked.items() if one != ()})

    def keep(self, wanted: dict[str, Any]) -> None:
        """What is asked from now on; of another release, made meanwhile, it was not."""
        with self.work.lock:
            now = seen_of(self.work)
            if now is not None and now.table is self.table:
                self.work.asked = now.asking(wanted).asked


def seen_of(work: Work) -> Seen | None:
    """The release of a work; None: there is none."""
    with work.lock:
        if work.released is None:
            return None
        plan = None if work.made is None else work.made.plan
        return Seen(work, work.released, plan, dict(work.asked))


def show(request: Request, work: Work, form: Form) -> Response:
    """The results of the release of this work."""
    seen = seen_of(work)
    return see_other(request, "release", work) if seen is None else _page(request, seen)


def _page(
    request: Request,
    seen: Seen,
    status: int = 200,
    message: str | None = None,
    typed: dict[str, str] | None = None,
) -> Response:
    told = _told(seen) | {
        "message": message,
        "typed": typed or {},
        "further": _kept(seen.work, ("further", *seen.key), lambda: _further(seen)),
    }
    return page(request, "results.html", seen.work, status, step="results", **told)


def _told(seen: Seen) -> dict[str, Any]:
    """What the page shows of an estimate, as it was last asked for."""
    found, asked = estimate_of(seen), seen.asked
    header = found.release
    confidence = asked.get("confidence", CONFIDENCE)
    means, total = _means(found, asked, confidence), None
    if asked.get("total"):
        total = _in_words(lambda: _total(found, confidence))
    features = row_features(header)
    return {
        "estimate": found, "header": header, "ways": error_ways(header),
        "errors": asked.get("errors", "auto"), "confidences": CONFIDENCES,
        "confidence": repr(confidence), "means": means, "total": total,
        "fields": [(f"at-{k}", *one) for k, one in enumerate(features.items())],
        "found": _kept(
            seen.work, ("found", *seen.key, confidence), lambda: _found(found, confidence)
        ),
        "numbers": header.family == "gaussian", "refused": None,
    }  # fmt: skip


def _found(found: Estimate, confidence: float) -> list[Markup]:
    """The findings of every column, and how their errors were made."""
    return _html(describe(found, confidence=confidence), "found", ("found", "errors", "joint"))


def _further(seen: Seen) -> list[Markup]:
    """The rest of the report; how to repeat it is on the last screen."""
    sections = describe(estimate_of(seen), plan=seen.plan)
    return _html(sections, "more", ("cost", "exposure", "limits", "origin"))


def _html(sections: list[Section], name: str, keys: tuple[str, ...]) -> list[Markup]:
    chosen = [one for one in sections if one.key in keys]
    return [Markup(section_html(one, f"{name}-{k}")) for k, one in enumerate(chosen)]


def _total(found: Estimate, confidence: float) -> str:
    said = total_sentences(found, found.total(confidence), confidence)
    return " ".join(one.text for one in said)


def _mean(found: Estimate, row: dict[str, Any], confidence: float = CONFIDENCE) -> str:
    return mean_sentence(found, found.mean_at(row, confidence), confidence).text


def _means(found: Estimate, asked: dict[str, Any], confidence: float) -> list[dict[str, Any]]:
    """The mean at every row that was asked for, of each private column."""
    parts = found.parts if isinstance(found, ColumnsEstimate) else (found,)
    return [
        {
            "row": ", ".join(f"{name} {_short(value)}" for name, value in row.items()),
            "said": [
                _in_words(lambda one=one, row=row: _mean(one, row, confidence))  # type: ignore[misc]
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


def estimate_of(seen: Seen) -> Estimate:
    """The estimate of the release, by the chosen errors: made once."""
    made: Estimate = _kept(
        seen.work, ("estimate", *seen.key), lambda: estimate_release(seen.table, seen.errors)
    )
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
    seen = _required(work)
    try:
        return _answer(request, seen, _wanted(seen, form))
    except PrivestError as error:
        return _refused(request, seen, form, str(error))


def _wanted(seen: Seen, form: Form) -> dict[str, Any]:
    ways = tuple(error_ways(estimate_of(seen).release))
    return {
        "confidence": float(form.choice("confidence", CONFIDENCES, repr(CONFIDENCE))),
        "errors": form.choice("errors", ways, "auto"),
        "total": form.flag("total"),
    }


def predict(request: Request, work: Work, form: Form) -> Response:
    """The mean at a row: a value for every feature; or no rows any more."""
    seen = _required(work)
    if form.flag("clear"):
        return _answer(request, seen, {"at": ()})
    try:
        found = estimate_of(seen)
        row = _row(found, form)
        parts = found.parts if isinstance(found, ColumnsEstimate) else (found,)
        for one in parts:
            _mean(one, row)
    except PrivestError as error:
        return _refused(request, seen, form, str(error))
    others = [one for one in seen.asked.get("at", ()) if one != row]
    return _answer(request, seen, {"at": (row, *others[: MOST_ROWS - 1])})


def _row(found: Estimate, form: Form) -> dict[str, object]:
    """Values by name; the form has numbers in place of names, which may be anything."""
    row: dict[str, object] = {}
    for k, (name, choices) in enumerate(row_features(found.release).items()):
        field = f"at-{k}"
        if not form.text(field, ""):
            raise InvalidInput(f"“{name}” has no value: a mean needs one for every feature.")
        if choices is None:
            row[name] = form.number(field, said=f"“{name}”")
        elif (value := form.text(field)) in choices:
            row[name] = value
        else:
            raise InvalidInput(f"“{name}” must be one of {', '.join(choices)}.")
    return row


def _answer(request: Request, seen: Seen, wanted: dict[str, Any]) -> Response:
    """What is wanted besides: the live part for htmx, else the page."""
    asking = seen.asking(wanted)
    estimate_of(asking)  # what cannot be estimated is refused here
    told = _told(asking) if from_htmx(request) else None
    seen.keep(wanted)
    if told is not None:
        return page(request, "_results_found.html", seen.work, **told)
    return see_other(request, "results", seen.work)


def _refused(request: Request, seen: Seen, form: Form, message: str) -> Response:
    if from_htmx(request):
        told = _told(seen) | {"refused": message}
        return page(request, "_results_found.html", seen.work, 422, **told)
    typed = {name: form.text(name, "")[:200] for name in form.names() if name.startswith("at-")}
    return _page(request, seen, 422, message, typed)


def _required(work: Work) -> Seen:
    seen = seen_of(work)
    if seen is None:
        raise HTTPException(404, "There are results after a release.")
    return seen


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
