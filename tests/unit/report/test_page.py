"""The page itself: whole, escaped, closed to the network, written in one move."""

import base64
import hashlib
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from privest.errors import InvalidInput
from privest.report import _drawing as drawn
from privest.report import _letters as letters
from privest.report._canvas import DARK, INK, OPEN, PRIVATE, new_figure, save
from privest.report._page import (
    Commands,
    Note,
    Picture,
    Section,
    TableBlock,
    render_page,
    save_page,
)
from privest.report._tradeoff import COLOURS

VOID = {"meta", "link", "img", "br", "source"}
HOSTILE = "</style><script>alert('x')</script><img src=http://elsewhere.test/ onerror=\"x\"> & ]]>"


class Reader(HTMLParser):
    """Tags with attributes in order, text by innermost tag; says if the nesting is wrong."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.open = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append((self.open[-1] if self.open else "", data))

    def of(self, *names):
        return [attrs for tag, attrs in self.tags if tag in names]

    def words(self, tag):
        return [data for where, data in self.text if where == tag]


def drawing(points=3):
    figure = new_figure(3.0, 2.0)
    figure.subplots().plot(np.arange(points), np.sin(np.arange(points)), "o")
    return figure


def sections(text="Some words."):
    return [
        Section(text, (text, Note(text), Note(text, "warning"), Commands((text, "second")))),
        Section("Two", (Picture(drawing(), text, text), TableBlock((text, "b"), [("1", text)]))),
    ]


def test_the_page_is_whole():
    read = Reader(render_page("Title", "Subtitle", sections()))
    assert read.of("html") == [{"lang": "en"}]
    assert read.words("title") == ["Title"]
    assert read.words("h1") == ["Title"]
    assert read.words("h2") == ["Some words.", "Two"]
    names = [attrs.get("name") for attrs in read.of("meta")]
    assert "viewport" in names
    heads = [attrs["id"] for attrs in read.of("h2")]
    assert [a["href"] for a in read.of("a")] == [f"#{name}" for name in heads]
    assert [a["aria-labelledby"] for a in read.of("section")] == heads
    assert all(attrs["alt"] for attrs in read.of("img"))
    assert {attrs["scope"] for attrs in read.of("th")} == {"col", "row"}


def test_every_string_is_escaped():
    read = Reader(render_page(HOSTILE, HOSTILE, sections(HOSTILE)))
    tags = {tag for tag, _ in read.tags}
    assert "script" not in tags
    assert len(read.of("img")) == 1
    assert read.words("title") == [HOSTILE]
    assert read.words("h1") == [HOSTILE]
    assert read.words("h2")[0] == HOSTILE
    assert HOSTILE in read.words("p")
    assert read.words("td") == [HOSTILE]
    assert HOSTILE in read.words("figcaption")
    assert read.of("img")[0]["alt"] == HOSTILE
    assert not any(key.startswith("on") for _, attrs in read.tags for key in attrs)


def test_commands_are_shown_exactly():
    lines = ('privest plan "a  b.csv" --level 4  # <two> spaces', "printf 'x' | sort", "")
    read = Reader(render_page("T", "s", [Section("Repeat", (Commands(lines),))]))
    inside = "".join(data for where, data in read.text if where in ("code", "span"))
    assert inside == "".join(line + "\n" for line in lines)


def test_nothing_comes_from_elsewhere_and_the_browser_is_told_so():
    text = render_page("T", "s", sections())
    read = Reader(text)
    addresses = [attrs[key] for _, attrs in read.tags for key in ("src", "srcset", "href")
                 if key in attrs]  # fmt: skip
    assert addresses
    assert all(address.startswith(("data:", "#")) for address in addresses)
    policy = next(a["content"] for a in read.of("meta") if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    # The only style that may apply is the one that is there, by its digest.
    (style,) = read.words("style")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert not any("style" in attrs for _, attrs in read.tags)
    assert "@import" not in style
    assert "url(" not in style


def test_drawings_name_no_address_but_those_of_their_format():
    source = Reader(render_page("T", "s", sections())).of("img")[0]["src"]
    kind, data = source.split(";base64,")
    svg = base64.b64decode(data).decode()
    assert kind == "data:image/svg+xml"
    known = ("www.w3.org/", "purl.org/", "creativecommons.org/")  # names of formats, never loaded
    assert all(found.startswith(known) for found in re.findall(r"https?://([^\"'\s<>]+)", svg))
    assert "<script" not in svg
    assert "<text" not in svg  # outlines: no font is needed


def svg_of(address):
    return base64.b64decode(address.partition(";base64,")[2]).decode()


def test_drawings_come_in_light_and_dark():
    """The same shapes in other colours; on paper always the light one."""
    read = Reader(render_page("T", "s", sections()))
    (dark,), (light,) = read.of("source"), read.of("img")
    assert dark["media"] == "screen and (prefers-color-scheme: dark)"
    day, night = svg_of(light["src"]), svg_of(dark["srcset"])
    assert "#ffffff" in day
    assert "#ffffff" not in night
    assert "#000000" not in night
    colour = re.compile(r"#[0-9a-f]{6}")
    assert colour.sub("", day) == colour.sub("", night)


def test_colours_of_figures_have_a_dark_one_that_stands_out():
    """WCAG asks for 3 between lines and paper; letters (INK) have 4.5 and more."""

    def light(colour):
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    paper = light(DARK["#ffffff"])
    for colour in (*COLOURS, PRIVATE, OPEN, INK):
        contrast = (light(DARK[colour]) + 0.05) / (paper + 0.05)
        assert contrast > (4.5 if colour == INK else 3.0), colour


def named(name):
    figure = drawing()
    figure.axes[0].set_title(name)
    return [Section("h", (Picture(figure, "alt", "c"),))]


@pytest.mark.filterwarnings("error")
def test_names_in_other_alphabets_are_text_and_no_boxes():
    address = Reader(render_page("T", "s", named("年齢 age"))).of("img")[0]["src"]
    assert ">年齢 age</text>" in svg_of(address)
    assert "sans-serif" in svg_of(address)  # whoever shows it takes a font that has them
    known = Reader(render_page("T", "s", named("größe θ Ж"))).of("img")[0]["src"]
    assert "<text" not in svg_of(known)


@pytest.mark.filterwarnings("error")
def test_pixels_say_where_no_font_has_the_letters(tmp_path, monkeypatch):
    monkeypatch.setattr(letters, "_installed", tuple)
    (section,) = named("年齢 age")
    figure = section.parts[0].figure
    save(figure, tmp_path / "a.png")
    assert figure.axes[0].get_title() == f"{letters.NO_FONT} age"


def test_a_drawing_of_very_many_points_becomes_pixels(monkeypatch):
    monkeypatch.setattr(drawn, "MOST_DRAWING_BYTES", 1000)
    read = Reader(render_page("T", "s", sections()))
    image = read.of("img")[0]
    assert read.of("source") == []  # one picture, on its white card
    assert image["src"].startswith("data:image/png;base64,iVBOR")
    assert (image["width"], image["height"]) == ("288", "192")  # 3×2 inches of 96 pixels


def test_the_same_parts_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        save_page("T", "s", sections(), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


# --- the file ------------------------------------------------------------------------------------


def test_folders_are_made_and_old_pages_replaced(tmp_path):
    path = tmp_path / "deep" / "report.html"
    save_page("Old", "s", sections(), path)
    save_page("New", "s", sections(), path)
    assert "<h1>New</h1>" in path.read_text(encoding="utf-8")
    assert os.listdir(path.parent) == ["report.html"]


def test_a_failed_write_leaves_the_old_page_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    save_page("Old", "s", sections(), path)

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(InvalidInput, match="No space left"):
        save_page("New", "s", sections(), path)
    assert "<h1>Old</h1>" in path.read_text(encoding="utf-8")
    assert os.listdir(tmp_path) == ["report.html"]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "link.html").symlink_to(tmp_path / "real.html")
    save_page("New", "s", sections(), tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert "<h1>New</h1>" in (tmp_path / "real.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("place", [os.devnull, "."])
def test_devices_and_folders_are_refused(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match="folder or a device"):
        save_page("T", "s", sections(), Path(place))


def test_a_file_name_in_no_encoding_can_be_shown(tmp_path):
    path = tmp_path / "report.html"
    save_page("T", "s", [Section("h", (Commands(("privest bound caf\udce9.csv",)),))], path)
    assert r"caf\udce9.csv" in path.read_text(encoding="utf-8")


# --- malformed parts -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (Picture(None, "  ", "c"), "alternative text"),
        (TableBlock(("a", "b"), [("1", "2"), ("1",)]), "row 1 of a table has 1 cells"),
        (TableBlock((), []), "needs a header"),
        (Note("x", "danger"), "'info' or 'warning'"),
        (Commands(()), "needs a line"),
        (3, "received int"),
    ],
)
def test_malformed_parts_are_refused(part, words):
    with pytest.raises(InvalidInput, match=words):
        render_page("T", "s", [Section("h", (part,))])


def test_title_headings_and_sections_are_needed():
    with pytest.raises(InvalidInput, match="title"):
        render_page(" ", "s", sections())
    with pytest.raises(InvalidInput, match="heading"):
        render_page("T", "s", [Section("", ())])
    with pytest.raises(InvalidInput, match="section"):
        render_page("T", "s", [])
