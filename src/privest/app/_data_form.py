"""What is stated on the data screen, as a plan: roles, lists, ranges, and what goes with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from privest.app._data_rows import SHOWN, lines_of, offered
from privest.app._desk import Desk, Table
from privest.app._pages import Form, as_typed
from privest.app._uploads import local_path, require_other_file
from privest.data import EMBEDDED, ColumnLook, MissingCode, Reading, TableLook
from privest.errors import InvalidInput
from privest.workflow import Model, Public, Spec, starting_privacy

ROLES = {
    "unused": "not used",
    "private": "private: to be protected",
    "public": "public: explains it",
    "person": "says whose row it is",
    "weight": "weight of the row",
}
FAMILIES = {
    "auto": "as it is: yes or no where it holds only 0 and 1, else numbers",
    "gaussian": "numbers",
    "binomial": "yes or no",
    "poisson": "counts",
}
GAPS = {"drop": "leave them out, and count them", "refuse": "stop, and say where"}

WITH_EQUALS = "One with “=” cannot be stated as a code: empty or correct its cells in the file."
NOT_OFFERED = (
    "One that is long, in one or two rows, or has “=” is not offered as a code, since the plan, "
    "which is public, would show it: empty or correct its cells in the file."
)


class Unfit(InvalidInput):
    """What one field of the form must be, and is not; `field` is its name on the page."""

    def __init__(self, message: str, field: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class _Chosen:
    """The columns of each role, by their place in the table."""

    private: tuple[int, ...]
    public: tuple[int, ...]
    person: int | None
    weight: int | None

    @property
    def every(self) -> tuple[int, ...]:
        """All that are used."""
        more = (at for at in (self.person, self.weight) if at is not None)
        return (*self.private, *self.public, *more)


def stated(
    form: Form, desk: Desk, table: Table, look: TableLook, references: Sequence[Path] = ()
) -> Spec:
    """The plan that a form states; what is missing or does not fit is said in words.

    references: public files that were sent, which are stated by their names.
    """
    chosen = _chosen(form, look)
    names = [column.name for column in look.columns]
    targets = tuple(names[at] for at in chosen.private)
    family = _family(form, look, chosen)
    transform = "log" if form.flag("logarithm") else "none"
    ranges = {names[at]: _range(form, look.columns[at], at, family) for at in chosen.private}
    if transform == "log" and any(low <= 0 for low, _ in ranges.values()):
        raise Unfit("a logarithm needs a public range above 0.", f"low-{chosen.private[0]}")
    reading = replace(look.reading.of_columns([names[at] for at in chosen.every]), missing_codes=())
    reading = replace(reading, missing_codes=_codes(form, look, chosen, reading))
    model = Model(
        target=targets,
        features=tuple(names[at] for at in chosen.public),
        categories=_categories(form, look, chosen),
        missing=form.choice("gaps", list(GAPS), "refuse"),  # type: ignore[arg-type]
        transform=transform,  # type: ignore[arg-type]
        family=family,  # type: ignore[arg-type]
        person=None if chosen.person is None else names[chosen.person],
        most_rows=None if chosen.person is None else form.whole("most", 0, most=10**9) or None,
        weights=None if chosen.weight is None else names[chosen.weight],
    )
    return Spec(
        data=EMBEDDED if table.path is None else table.name,
        model=model,
        privacy=starting_privacy(ranges, transform=transform, family=family),
        public=_public(form, desk, table, references),
        format=reading,
    )


def _chosen(form: Form, look: TableLook) -> _Chosen:
    roles: dict[str, list[int]] = {role: [] for role in ROLES}
    for at, column in enumerate(look.columns):
        role = form.choice(f"role-{at}", list(ROLES), "unused")
        roles[role].append(at)
        if role != "unused" and column.problem is not None:
            raise InvalidInput(f"column {column.name!r} cannot be used: {column.problem}")
        if role != "unused" and column.kind == "empty":
            raise Unfit(f"{column.name!r} is empty: no row has a value there.", f"role-{at}")
    if not roles["private"]:
        raise Unfit(
            "say which column is private: choose “private” for the one that is to be protected.",
            f"role-{next((k for k, one in enumerate(look.columns) if not one.problem), 0)}",
        )
    for role, what in (("person", "says whose row it is"), ("weight", "is the weight")):
        if len(roles[role]) > 1:
            raise Unfit(
                f"one column {what}; {len(roles[role])} were chosen.", f"role-{roles[role][1]}"
            )
    return _Chosen(
        tuple(roles["private"]), tuple(roles["public"]), _only(roles["person"]),
        _only(roles["weight"]),
    )  # fmt: skip


def _only(found: Sequence[int]) -> int | None:
    return found[0] if found else None


def _family(form: Form, look: TableLook, chosen: _Chosen) -> str:
    given = form.choice("family", list(FAMILIES), "auto")
    if given != "auto":
        return given
    kinds = {look.columns[at].kind for at in chosen.private}
    return "binomial" if kinds == {"yes-no"} and len(chosen.private) == 1 else "gaussian"


def _range(form: Form, column: ColumnLook, at: int, family: str) -> tuple[float, float]:
    """The public range of a private column: it must be stated, but of a yes or no."""
    if column.kind not in ("number", "yes-no"):
        raise Unfit(
            f"{column.name!r} is to be private, and holds {_held(column)}: a private column holds "
            "numbers; yes and no are 1 and 0, or true and false.",
            f"role-{at}",
        )
    low, high = (_number(form, f"{end}-{at}", column.name) for end in ("low", "high"))
    if low is None and high is None and (column.kind == "yes-no" or family == "binomial"):
        return 0.0, 1.0
    if low is None or high is None:
        raise Unfit(
            f"{column.name!r} needs its public range, the lowest and the highest value that "
            "anybody can have: readings beyond it are clipped. Take it from public knowledge, "
            "never from the table.",
            f"low-{at}" if low is None else f"high-{at}",
        )
    return low, high


def _held(column: ColumnLook) -> str:
    return {"text": "texts", "date": "dates"}[column.kind]


def _number(form: Form, name: str, column: str) -> float | None:
    try:
        return form.optional_number(name, f"each end of the range of {column!r}")
    except InvalidInput as error:
        raise Unfit(str(error), name) from None


def _codes(form: Form, look: TableLook, chosen: _Chosen, reading: Reading) -> tuple[str, ...]:
    """The codes that were ticked, and those that were typed; no word may be left among numbers."""
    typed = [code for line in lines_of(form.text("codes", "")) for code in _split(line) if code]
    ticked = []
    for at in chosen.every:
        column = look.columns[at]
        codes = _ticked(form, column, at, public=at in chosen.public)
        ticked += [f"{column.name}={code}" for code in codes]
    every = replace(reading, missing_codes=(*ticked, *typed))
    for at in (*chosen.private, *chosen.public):
        column = look.columns[at]
        if not _as_list(form, column, at) or at in chosen.private:
            known = every.codes(column.name)
            _require_numbers(column, known, f"role-{at}", public=at in chosen.public)
    return every.missing_codes


def _ticked(form: Form, column: ColumnLook, at: int, *, public: bool) -> list[str]:
    """The codes of a column that were confirmed; only plain ones of a column that is not public."""
    may = {code.code for code in _offers(column, public=public)}
    known = {str(k): one.code for k, one in enumerate(column.codes) if one.code in may}
    return [known[one] for one in form.listed(f"codes-{at}") if one in known]


def _offers(column: ColumnLook, *, public: bool) -> list[MissingCode]:
    """What can be ticked: a word of a private column only where it looks like a code."""
    return [code for code in column.codes if public or code.plain]


def _split(line: str) -> list[str]:
    return [part.strip() for part in line.split(";")]


def _require_numbers(column: ColumnLook, codes: Sequence[str], field: str, *, public: bool) -> None:
    """No word may be left among numbers; what to do depends on whether it is offered as a code."""
    left = {word: rows for word, rows in column.words if word not in codes}
    if not left:
        return
    rows, offers = sum(left.values()), {code.code for code in _offers(column, public=public)}
    said = [f"{column.name!r} has words among its numbers, in {rows} row{'s' * (rows > 1)}."]
    if offers & left.keys():
        said.append("Tick those that stand for a missing value, or correct them in the file.")
    if left.keys() - offers:
        said.append(WITH_EQUALS if public else NOT_OFFERED)
    raise Unfit(" ".join(said), field)


def _as_list(form: Form, column: ColumnLook, at: int) -> bool:
    number = column.kind in ("number", "yes-no")
    return not number or form.text(f"use-{at}", "number") == "list"


def _categories(form: Form, look: TableLook, chosen: _Chosen) -> dict[str, tuple[str, ...]]:
    """The public list of each column that has one."""
    found = {}
    for at in chosen.public:
        column = look.columns[at]
        if _as_list(form, column, at):
            found[column.name] = _category_list(form, column, at)
    if found and not form.flag("lists_public"):
        raise Unfit(
            f"confirm that the categories of {', '.join(map(repr, found))} are public knowledge: "
            "the release shows them. If a list tells something of the people in the table, write "
            "the one that everybody knows.",
            "lists_public",
        )
    return found


def _category_list(form: Form, column: ColumnLook, at: int) -> tuple[str, ...]:
    known = offered(column)
    lines = [line for line in lines_of(form.text(f"list-{at}", "")) if line]
    if not lines:
        few = "a date" if column.kind == "date" else "a text"
        raise Unfit(
            f"{column.name!r} is {few}: to explain anything it needs its public list of "
            "categories, one on each line, the first of them what others are compared with. (Of a "
            "date give the year, or the days since a public day, as a number.)",
            f"list-{at}",
        )
    gone = set(_ticked(form, column, at, public=True))
    return tuple(one for one in (known.get(line, line) for line in lines) if one not in gone)


def _public(form: Form, desk: Desk, table: Table, references: Sequence[Path]) -> Public:
    given, variance = form.text("reference", ""), form.optional_number("noise_variance")
    if not given:
        return Public(variance)
    if given == EMBEDDED and table.path is not None:
        return Public(variance, EMBEDDED)
    sent = {path.name: path for path in references}
    path = sent[given] if given in sent else local_path(desk, given)
    require_other_file(table, path)
    return Public(variance, str(path))


# --- and back -------------------------------------------------------------------------------------


def typed_of(spec: Spec, look: TableLook) -> dict[str, list[str]]:
    """What would have been typed to state this plan, as far as the screen can say it."""
    model = spec.model
    roles = dict.fromkeys(spec.targets, "private") | dict.fromkeys(model.features, "public")
    roles |= {name: role for role, name in (("person", model.person), ("weight", model.weights))
              if name is not None}  # fmt: skip
    found = {
        "gaps": model.missing, "family": model.family,
        "logarithm": "yes" if model.transform == "log" else "",
        "lists_public": "yes" if model.categories else "",
        "noise_variance": as_typed(spec.public.residual_variance),
        "reference": spec.public.reference or "",
        "codes": "; ".join(spec.format.missing_codes),
        "most": as_typed(model.most_rows),
        "further": "\n".join(roles) if len(look.columns) > SHOWN else "",
    }  # fmt: skip
    for at, column in enumerate(look.columns):
        found[f"role-{at}"] = roles.get(column.name, "unused")
        ends = spec.privacy.range.get(column.name)
        if ends is not None:
            found[f"low-{at}"], found[f"high-{at}"] = map(as_typed, ends)
        if column.name in model.categories:
            shown = {value: name for name, value in offered(column).items()}
            lines = [shown.get(one, one) for one in model.categories[column.name]]
            found |= {f"use-{at}": "list", f"list-{at}": "\n".join(lines)}
    return {name: [value] for name, value in found.items() if value}
