"""What is stated on the data screen: roles, lists and ranges; read into a plan, and shown again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from privest.app._desk import Desk, Table
from privest.app._pages import Form
from privest.app._uploads import local_path, require_other_file
from privest.data import ColumnLook, Reading, TableLook
from privest.data._source import EMBEDDED
from privest.errors import InvalidInput
from privest.report import printable
from privest.workflow import Noise, People, Spec, Weights, starting_privacy
from privest.workflow._sections import Ends

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
DESIGNS = {"A": "for all rows of a person together", "B": "for each row, and a person's mean"}
WEIGHTS = {"survey": "how many people a row stands for", "precision": "how precise a reading is"}
SHOWN = 100  # columns that are shown without being asked for
MOST_SHOWN = 400
MOST_NUMBERS = 20  # different ones that are offered as categories
Typed = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class ColumnRow:
    """A column on the screen, with what is chosen for it."""

    at: int
    look: ColumnLook
    role: str = "unused"
    low: str = ""
    high: str = ""
    as_list: bool = False
    categories: str = ""
    ticked: frozenset[str] = field(default_factory=frozenset)

    @property
    def is_number(self) -> bool:
        """Whether it can be a number at all."""
        return self.look.kind in ("number", "yes-no")

    @property
    def may_be_list(self) -> bool:
        """Whether it has few enough values for a list of categories."""
        few = len(self.look.different or ())
        return 1 < few <= MOST_NUMBERS or (few > 1 and not self.is_number)


def rows_of(look: TableLook, typed: Typed) -> list[ColumnRow]:
    """The columns that are shown: the first ones, and those that were asked for by name."""
    asked = set(wanted_names(typed))
    some = [at for at, column in enumerate(look.columns) if at < SHOWN or column.name in asked]
    return [_row(at, look.columns[at], typed) for at in some[:MOST_SHOWN]]


def wanted_names(typed: Typed) -> list[str]:
    """The names of further columns, one a line."""
    return [name for name in _lines(_first(typed, "further")) if name]


def _row(at: int, column: ColumnLook, typed: Typed) -> ColumnRow:
    sure = {str(k): code.code for k, code in enumerate(column.codes) if code.sure}
    known = f"role-{at}" in typed
    return ColumnRow(
        at,
        column,
        role=_first(typed, f"role-{at}", "unused"),
        low=_first(typed, f"low-{at}"),
        high=_first(typed, f"high-{at}"),
        as_list=_first(typed, f"use-{at}") == "list",
        categories=_first(typed, f"list-{at}", "\n".join(_offered(column, sure))),
        ticked=frozenset(typed.get(f"codes-{at}", ()) if known else sure),
    )


def _offered(column: ColumnLook, codes: Mapping[str, str] | None = None) -> dict[str, str]:
    """The categories in the file as they are shown, each on one line; and what each of them is.

    codes: what stands for a missing value, which is none.
    """
    without = set((codes or {}).values())
    kept = (one for one in column.different or () if one not in without)
    return {" ".join(printable(one).split()): one for one in kept}


def _first(typed: Typed, name: str, default: str = "") -> str:
    found = typed.get(name, ())
    return found[0] if found else default


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.replace("\r", "\n").split("\n")]


# --- into a plan ----------------------------------------------------------------------------------


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


def stated(form: Form, desk: Desk, table: Table, look: TableLook) -> Spec:
    """The plan that a form states; what is missing or does not fit is said in words."""
    chosen = _chosen(form, look)
    names = [column.name for column in look.columns]
    targets = tuple(names[at] for at in chosen.private)
    family = _family(form, look, chosen)
    transform = "log" if form.flag("logarithm") else "none"
    ranges = {names[at]: _range(form, look.columns[at], at, family) for at in chosen.private}
    reading = replace(look.reading.of_columns([names[at] for at in chosen.every]), missing_codes=())
    reading = replace(reading, missing_codes=_codes(form, look, chosen, reading))
    return Spec(
        data=EMBEDDED if table.path is None else table.name,
        target=targets[0] if len(targets) == 1 else targets,
        features=tuple(names[at] for at in chosen.public),
        privacy=starting_privacy(ranges, transform=transform, family=family),
        noise=_noise(form, desk, table),
        categories=_categories(form, look, chosen),
        missing=form.choice("gaps", list(GAPS), "drop"),  # type: ignore[arg-type]
        transform=transform,  # type: ignore[arg-type]
        family=family,  # type: ignore[arg-type]
        person=_person(form, chosen, names),
        weights=_weights(form, chosen, names),
        reading=reading,
    )


def _chosen(form: Form, look: TableLook) -> _Chosen:
    roles: dict[str, list[int]] = {role: [] for role in ROLES}
    for at, column in enumerate(look.columns):
        role = form.choice(f"role-{at}", list(ROLES), "unused")
        roles[role].append(at)
        if role != "unused" and column.problem is not None:
            raise InvalidInput(f"column {column.name!r} cannot be used: {column.problem}")
    if not roles["private"]:
        raise InvalidInput(
            "say which column is private: choose “private” for the one that is to be protected."
        )
    for role, what in (("person", "says whose row it is"), ("weight", "is the weight")):
        if len(roles[role]) > 1:
            raise InvalidInput(f"one column {what}; {len(roles[role])} were chosen.")
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


def _range(form: Form, column: ColumnLook, at: int, family: str) -> Ends:
    """The public range of a private column: it must be stated, but of a yes or no."""
    if column.kind not in ("number", "yes-no"):
        raise InvalidInput(
            f"{column.name!r} is to be private, and holds {_held(column)}: a private column holds "
            "numbers; yes and no are 1 and 0, or true and false."
        )
    low, high = (_number(form, f"{end}-{at}", column.name) for end in ("low", "high"))
    if low is None and high is None and (column.kind == "yes-no" or family == "binomial"):
        return 0.0, 1.0
    if low is None or high is None:
        raise InvalidInput(
            f"{column.name!r} needs its public range, the lowest and the highest value that "
            "anybody can have: readings beyond it are clipped. Take it from public knowledge, "
            "never from the table."
        )
    return low, high


def _held(column: ColumnLook) -> str:
    return {"text": "texts", "date": "dates", "empty": "no value at all"}[column.kind]


def _number(form: Form, name: str, column: str) -> float | None:
    try:
        return form.optional_number(name)
    except InvalidInput:
        raise InvalidInput(f"the range of {column!r} is two numbers, such as 20 and 400.") from None


def _codes(form: Form, look: TableLook, chosen: _Chosen, reading: Reading) -> tuple[str, ...]:
    """The codes that were ticked, and those that were typed; no word may be left among numbers."""
    typed = [code for line in _lines(form.text("codes", "")) for code in _split(line) if code]
    ticked = []
    for at in chosen.every:
        column = look.columns[at]
        ticked += [f"{column.name}={code}" for code in _ticked(form, column, at)]
    every = replace(reading, missing_codes=(*ticked, *typed))
    for at in (*chosen.private, *chosen.public):
        column = look.columns[at]
        if not _as_list(form, column, at) or at in chosen.private:
            _require_numbers(column, every.codes(column.name))
    return every.missing_codes


def _ticked(form: Form, column: ColumnLook, at: int) -> list[str]:
    """The codes of a column that were confirmed."""
    known = {str(k): code.code for k, code in enumerate(column.codes)}
    return [known[one] for one in form.listed(f"codes-{at}") if one in known]


def _split(line: str) -> list[str]:
    return [part.strip() for part in line.split(";")]


def _require_numbers(column: ColumnLook, codes: Sequence[str]) -> None:
    left = sum(rows for word, rows in column.words if word not in codes)
    if left:
        raise InvalidInput(
            f"{column.name!r} has words among its numbers, in {left} rows: tick those that stand "
            "for a missing value, or correct them in the file."
        )


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
        raise InvalidInput(
            f"confirm that the categories of {', '.join(map(repr, found))} are public knowledge: "
            "the release shows them. If a list tells something of the people in the table, write "
            "the one that everybody knows."
        )
    return found


def _category_list(form: Form, column: ColumnLook, at: int) -> tuple[str, ...]:
    offered = _offered(column)
    lines = [line for line in _lines(form.text(f"list-{at}", "")) if line]
    if not lines:
        few = "a date" if column.kind == "date" else "a text"
        raise InvalidInput(
            f"{column.name!r} is {few}: to explain anything it needs its public list of "
            "categories, one on each line, the first of them what others are compared with. (Of a "
            "date give the year, or the days since a public day, as a number.)"
        )
    gone = set(_ticked(form, column, at))
    return tuple(one for one in (offered.get(line, line) for line in lines) if one not in gone)


def _noise(form: Form, desk: Desk, table: Table) -> Noise:
    given = form.text("reference", "")
    if not given:
        return Noise(variance=form.optional_number("noise_variance"))
    if given == EMBEDDED and table.path is not None:
        return Noise(variance=form.optional_number("noise_variance"), reference=EMBEDDED)
    path = local_path(desk, given)
    require_other_file(table, path)
    return Noise(variance=form.optional_number("noise_variance"), reference=str(path))


def _person(form: Form, chosen: _Chosen, names: Sequence[str]) -> People | None:
    if chosen.person is None:
        return None
    most = form.whole("most", 0, most=10**9) or None
    design: Any = form.choice("design", list(DESIGNS), "A")
    return People(names[chosen.person], design, most)


def _weights(form: Form, chosen: _Chosen, names: Sequence[str]) -> Weights | None:
    if chosen.weight is None:
        return None
    kind: Any = form.choice("weight_kind", list(WEIGHTS), "survey")
    return Weights(names[chosen.weight], kind)


# --- and back -------------------------------------------------------------------------------------


def typed_of(spec: Spec, look: TableLook) -> dict[str, list[str]]:
    """What would have been typed to state this plan, as far as the screen can say it."""
    roles = dict.fromkeys(spec.targets, "private") | dict.fromkeys(spec.features, "public")
    roles |= {one.column: role for role, one in (("person", spec.person), ("weight", spec.weights))
              if one is not None}  # fmt: skip
    found = {
        "gaps": spec.missing, "family": spec.family,
        "logarithm": "yes" if spec.transform == "log" else "",
        "lists_public": "yes" if spec.categories else "",
        "noise_variance": _written(spec.noise.variance), "reference": spec.noise.reference or "",
        "codes": "; ".join(spec.reading.missing_codes),
        "design": "A" if spec.person is None else spec.person.design,
        "most": _written(None if spec.person is None else spec.person.most),
        "weight_kind": "survey" if spec.weights is None else spec.weights.kind,
        "further": "\n".join(roles) if len(look.columns) > SHOWN else "",
    }  # fmt: skip
    for at, column in enumerate(look.columns):
        found[f"role-{at}"] = roles.get(column.name, "unused")
        ends = spec.privacy.range_of(column.name) if column.name in spec.targets else None
        if ends is not None:
            found[f"low-{at}"], found[f"high-{at}"] = map(_written, ends)
        if column.name in spec.categories:
            shown = {value: name for name, value in _offered(column).items()}
            lines = [shown.get(one, one) for one in spec.categories[column.name]]
            found |= {f"use-{at}": "list", f"list-{at}": "\n".join(lines)}
    return {name: [value] for name, value in found.items() if value}


def _written(value: float | None) -> str:
    """A number as it is typed, to its last digit."""
    return "" if value is None else f"{value!r}".removesuffix(".0")
