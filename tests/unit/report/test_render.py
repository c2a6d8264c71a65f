"""Terminal, text and page render the same sections: they add no word and no digit."""

import datetime
import html
import io
import re
import stat
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console

from privest.errors import InvalidInput
from privest.report.describe import describe
from privest.report.findings import Coefficient
from privest.report.page import intervals, report, section_html, svg
from privest.report.page import page as page_html
from privest.report.sections import Chart, Commands, Number, Section, Sentence, Table, text_of
from privest.report.terminal import as_text, print_sections
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan
from privest.workflow.release import simulate_release, simulation_source
from privest.workflow.spec import Privacy
from workflow_tables import LEVEL, people, spec

DAY = datetime.date(2026, 11, 16)
HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e"
COMMANDS = ["privest plan 'a  b.toml' --level 4", "privest release plan.toml"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("render")
    plan = make_plan(
        spec(privacy=Privacy(LEVEL, delta=1e-6, range={"ldl": (-50.0, 50.0)})), people()
    )
    simulate_release(plan, folder / "z.csv", simulation_source(plan, 1), people())
    return plan, estimate(folder / "z.csv"), folder


@pytest.fixture(scope="module")
def page(made):
    plan, estimate, folder = made
    report(estimate, folder / "page.html", plan=plan, commands=COMMANDS, date=DAY)
    return (folder / "page.html").read_text(encoding="utf-8")


def words(sections):
    """All that a medium may say, in order."""
    for one in sections:
        yield one.heading.text
        for part in (*one.parts, *one.details):
            if isinstance(part, Sentence):
                yield part.text
            elif isinstance(part, Table):
                yield from (text_of(cell) for row in (part.header, *part.rows) for cell in row)
                if part.caption is not None:
                    yield part.caption.text
            elif isinstance(part, Chart):
                yield from (part.alt.text, part.caption.text)


class Texts(HTMLParser):
    """The texts of a page outside its charts and its style sheet."""

    def __init__(self, page):
        super().__init__()
        self.found, self.skipped = [], 0
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.skipped += tag in ("svg", "style")

    def handle_endtag(self, tag):
        self.skipped -= tag in ("svg", "style")

    def handle_data(self, data):
        if data.strip() and not self.skipped:
            self.found.append(data.strip())


def test_the_page_says_all_sections_and_nothing_else(made):
    plan, estimate, _ = made
    sections = describe(estimate, plan=plan, commands=COMMANDS, date=DAY)
    frame = [Sentence("quoted", {"text": text}) for text in ("title", "subtitle", "foot")]
    found = Texts(page_html(frame[0], frame[1], sections, frame[2])).found
    allowed = {*words(sections), "title", "subtitle", *" ".join(COMMANDS).split()}
    allowed |= {Sentence("details").text, f"foot {Sentence('page_whole').text}"}
    assert set(found) <= allowed
    drawn = {part.alt.text for one in sections for part in one.parts if isinstance(part, Chart)}
    assert set(words(sections)) - drawn <= set(found)


def test_a_page_without_a_plan_lacks_other_levels_only(made):
    plan, estimate, _ = made
    alone, whole = (describe(estimate, plan=one, date=DAY) for one in (None, plan))
    assert [one.key for one in alone] == [one.key for one in whole]
    lines = [[part for one in page for part in one.parts] for page in (alone, whole)]
    assert len(lines[0]) < len(lines[1])


def test_nothing_on_the_page_comes_from_elsewhere_or_runs(page):
    assert "default-src 'none'" in html.unescape(page)
    assert not re.search(r"<script|<img|https?://|\sstyle=|\son\w+=|@import|url\(", page)
    assert page.count("<style>") == 1


def test_the_same_sections_give_the_same_bytes(made, page):
    plan, estimate, folder = made
    report(estimate, folder / "again" / "page.html", plan=plan, commands=COMMANDS, date=DAY)
    assert (folder / "again" / "page.html").read_text(encoding="utf-8") == page


def test_names_of_others_are_neither_markup_nor_commands_of_a_terminal():
    table = Table((Sentence("coefficient"), "x"), ((HOSTILE, Number(1.0, "se")),))
    one = Section(
        "found", Sentence("found_of", {"target": HOSTILE}),
        (Sentence("quoted", {"text": HOSTILE}, warning=True), table, Commands((HOSTILE,))),
    )  # fmt: skip
    made = section_html(one, "part-1")
    assert "<script" not in made
    for text in (made, as_text([one, one])):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert r"\x1b[31m" in text


def test_commands_are_shown_exactly(page):
    found = re.findall(r"<code>(.*?)\n</code>", page, flags=re.S)
    assert [html.unescape(re.sub(r"<[^>]+>", "", line)) for line in found] == COMMANDS


def test_a_terminal_prints_the_chosen_sections(made):
    plan, _, _ = made
    sections = describe(plan)
    whole = as_text(sections)
    for text in (part.text for one in sections for part in one.parts if isinstance(part, Sentence)):
        assert " ".join(text.split()) in " ".join(whole.split())
    only = as_text(describe(plan, keys=("exposure",)))
    assert only.startswith("An ordinary reader guesses")
    assert "coefficient" not in only
    console = Console(file=io.StringIO(), width=80, color_system=None)
    print_sections(console, sections)
    assert max(len(line) for line in console.file.getvalue().splitlines()) <= 80


def test_charts_are_well_formed_and_described(made):
    plan, estimate, _ = made
    charts = [
        part for one in describe(estimate, plan=plan) for part in one.parts
        if isinstance(part, Chart)
    ]  # fmt: skip
    assert len(charts) == 1
    for one in charts:
        drawn = ET.fromstring(svg(one))
        assert drawn.get("aria-label") == one.alt.text
        assert "viewBox" not in drawn.attrib
        for node in drawn.iter():
            for name in ("x", "width", "cx"):
                if (given := node.get(name, "")).endswith("%"):
                    assert -1 <= float(given[:-1]) <= 101


def test_bars_of_the_interval_chart_are_where_the_numbers_say(made):
    """Every row has its own scale from the common zero: bars are proportional to intervals."""
    chart = next(part for one in describe(made[1]) for part in one.parts if isinstance(part, Chart))
    root = ET.fromstring(svg(chart))
    zero = float(root.find("line").get("x1")[:-1])
    bars = [rect for rect in root.iter("rect") if rect.get("class") == "with"]
    for one, bar in zip(chart.data, bars, strict=True):
        left = float(bar.get("x")[:-1])
        ends = left - zero, left + float(bar.get("width")[:-1]) - zero
        assert ends[0] * one.high == pytest.approx(ends[1] * one.low, abs=0.02 * abs(one.high))
        assert np.sign(round(ends[1], 1)) == np.sign(one.high)


@pytest.mark.parametrize("low", [-3.0, -0.2, 0.1, 2.0])
def test_intervals_on_any_side_of_zero_stay_within_the_chart(low):
    rows = [Coefficient(str(k), low + k + 0.5, 0.25, low + k, low + k + 1, None, None)
            for k in range(-2, 3)]  # fmt: skip
    for one in (rows, rows[:1], rows[-1:]):
        root = ET.fromstring(f"<svg>{intervals(one)[0]}</svg>")
        for bar in root.iter("rect"):
            left = float(bar.get("x")[:-1])
            assert 0 <= left <= left + float(bar.get("width")[:-1]) <= 100


def test_a_failed_write_leaves_the_old_page(made, monkeypatch):
    plan, estimate, folder = made
    path = folder / "old.html"
    path.write_text("old")
    monkeypatch.setattr("os.replace", _full)
    with pytest.raises((OSError, InvalidInput)):
        report(estimate, path, plan=plan, commands=COMMANDS, date=DAY)
    assert path.read_text() == "old"
    assert stat.S_ISREG(path.stat().st_mode)


def _full(*_):
    raise OSError(28, "No space left on device")


def test_a_file_name_in_no_encoding_can_be_shown(made):
    plan, estimate, folder = made
    report(
        estimate, folder / "name.html", plan=plan, commands=["privest report \udcff.csv"], date=DAY
    )
    assert rb"\udcff" in (folder / "name.html").read_bytes()
