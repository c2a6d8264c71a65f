"""The report in parts: the sections of the page, for another page, with or without a plan."""

import datetime

import pytest

from privest.errors import InvalidInput
from privest.report import Section, render_section, report_sections, save_report
from privest.report._page import Commands, render_page
from privest.workflow import Privacy, estimate_release, make_plan, simulate_release, trial_source
from workflow_tables import LEVEL, people, spec

DAY = datetime.date(2026, 11, 16)
COMMANDS = ["privest estimate z.csv"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    found = make_plan(spec(privacy=Privacy(LEVEL, delta=1e-6, move=1.0)), people())
    simulate_release(found, folder / "z.csv", trial_source(found, 1), people())
    return found, estimate_release(folder / "z.csv"), folder


def test_the_page_is_its_sections(made):
    plan, estimate, folder = made
    save_report(plan, estimate, COMMANDS, folder / "page.html", DAY)
    page = (folder / "page.html").read_text(encoding="utf-8")
    sections = report_sections(plan, estimate, COMMANDS, date=DAY)
    for k, section in enumerate(sections, start=1):
        assert render_section(section, f"part-{k}") in page
    assert page.count("<section") == len(sections)


def test_a_release_alone_tells_all_but_what_the_plan_knows(made):
    plan, estimate, _ = made
    alone = report_sections(None, estimate, date=DAY)
    whole = report_sections(plan, estimate, COMMANDS, date=DAY)
    assert [one.heading for one in alone[:-1]] == [one.heading for one in whole[:-1]]
    assert alone[2].parts == whole[2].parts  # what one person is exposed to: of the header
    assert not any(isinstance(part, Commands) for one in alone for part in one.parts)
    assert render_page("a", "b", alone)


def test_a_section_holds_no_markup_of_others():
    text = render_section(Section("<b>", ("<script>alert(1)</script>",)), "part-1")
    assert "<script" not in text
    assert "<b>" not in text
    assert "style=" not in text
    with pytest.raises(InvalidInput, match="name of a section"):
        render_section(Section("a", ("b",)), 'x" onload="')
