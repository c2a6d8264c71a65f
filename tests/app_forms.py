"""The forms of a page, as a browser would send them: so that tests follow the templates."""

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class FoundForm:
    """A form: where it goes, and what it sends as it stands. `fields` has every name it could send.

    options  of each field that has a list: the values that it can take.
    """

    action: str
    method: str
    many_parts: bool
    sent: list[tuple[str, str]] = field(default_factory=list)
    fields: list[str] = field(default_factory=list)
    options: dict[str, list[str]] = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self, address: str) -> None:
        super().__init__()
        self.address, self.forms, self.by_id = address, [], {}
        self.open: FoundForm | None = None
        self.select: tuple[FoundForm, str] | None = None
        self.area: tuple[FoundForm, str] | None = None
        self.words = ""
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        for name in ("href", "hx-get"):
            if a.get(name, "").startswith("/"):
                self.links.append(a[name])
        if tag == "form":
            self.open = FoundForm(
                a.get("action") or self.address, (a.get("method") or "get").lower(),
                a.get("enctype") == "multipart/form-data",
            )  # fmt: skip
            self.forms.append(self.open)
            self.by_id[a.get("id")] = self.open
            return
        if tag == "option" and self.select:
            self._option(a)
            return
        form = self.by_id.get(a["form"]) if "form" in a else self.open
        name = a.get("name")
        if form is None or not name or "disabled" in a:
            return
        if tag == "input":
            self._input(form, name, a)
        elif tag == "select":
            form.fields.append(name)
            self.select = (form, name)
        elif tag == "textarea":
            form.fields.append(name)
            self.area, self.words = (form, name), ""
        elif tag == "button":
            form.buttons.append((name, a.get("value", "")))

    def _input(self, form, name, a):
        kind = (a.get("type") or "text").lower()
        if kind == "file":
            form.files.append(name)
            return
        form.fields.append(name)
        if kind in ("radio", "checkbox"):
            form.options.setdefault(name, []).append(a.get("value", "on"))
            if "checked" not in a:
                return
        if kind == "submit":
            form.buttons.append((name, a.get("value", "")))
            return
        form.sent.append((name, a.get("value", "on" if kind == "checkbox" else "") or ""))

    def _option(self, a):
        form, name = self.select
        known = form.options.setdefault(name, [])
        known.append(a.get("value") or "")
        if "selected" in a or len(known) == 1:
            form.sent = [one for one in form.sent if one[0] != name or len(known) > 1]
            if "selected" in a:
                form.sent = [one for one in form.sent if one[0] != name]
            form.sent.append((name, a.get("value") or ""))

    def handle_data(self, data):
        self.words += data

    def handle_endtag(self, tag):
        if tag == "form":
            self.open = None
        elif tag == "select":
            self.select = None
        elif tag == "textarea" and self.area:
            form, name = self.area
            form.sent.append((name, self.words.lstrip("\n")))
            self.area = None


def forms_of(page: str, address: str = "") -> list[FoundForm]:
    """All forms of a page; a link is one without fields."""
    reader = _Reader(address)
    reader.feed(page)
    reader.close()
    return [*reader.forms, *(FoundForm(link, "get", False) for link in reader.links)]
