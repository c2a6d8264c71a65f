"""The whole way in a browser: a table, a level, a release, its results, and what is taken along."""

import json
import re

import pytest
from playwright.sync_api import expect

import app_path as path
from app_looks import LOOKS, looks_right
from app_messy import SENTINELS, messy
from app_watched import layers
from privest.ledger import Ledger

pytestmark = pytest.mark.browser


@pytest.fixture
def table(tmp_path):
    found = tmp_path / "messy.csv"
    found.write_bytes(messy())
    return found


def entries(app):
    """What was charged in the folder of the app."""
    ledger = app.folder / "privest-ledger.db"
    if not ledger.exists():
        return []
    with Ledger(ledger) as held:
        return [one for one in held.history() if one.kind not in ("created", "account", "raised")]


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_the_example_as_a_trial(watch, width, dark, tmp_path):
    """Every screen on the way looks right, at every width, in the light and in the dark."""
    page = watch(width=width, dark=dark).open()
    path.begin(page)
    path.example(page)
    looks_right(page, dark=dark)
    path.go_on(page)
    path.slide(page)
    for one in page.locator("summary").locator("visible=true").all():
        one.click()
    looks_right(page, dark=dark)
    path.take_level(page)
    for one in page.locator("summary").locator("visible=true").all():
        one.click()
    looks_right(page, dark=dark)
    path.trial(page)
    looks_right(page, dark=dark)
    path.take_along(page)
    looks_right(page, dark=dark)
    if width == 1400 and not dark:
        taken = path.downloads(page, tmp_path)
        assert {"plan.toml", "privest.zip", "report.html"} <= set(taken)
        assert b"seed" in taken["reproduce.py"]


def test_a_messy_file_is_released_and_its_readings_are_in_no_later_answer(
    watch, app, table, tmp_path
):
    seen = watch()
    page = seen.open()
    path.begin(page)
    path.upload(page, table)
    path.fill_messy(page)
    after_the_data = len(seen.answers)
    path.go_on(page)
    path.slide(page, "ArrowRight", 3)
    path.slide(page, "PageUp", 2)
    path.take_level(page)
    before = len(entries(app))
    page.get_by_role("checkbox", name=re.compile("^I am sure")).check()
    page.get_by_role("button", name="Release", exact=True).click()
    expect(page.get_by_role("heading", name="It is released")).to_be_visible()
    looks_right(page, dark=False)
    taken = path.downloads(page, tmp_path)
    page.get_by_role("link", name="See the results", exact=True).click()
    expect(page).to_have_url(re.compile("/results$"))
    looks_right(page, dark=False)
    path.take_along(page)
    looks_right(page, dark=False)
    taken |= path.downloads(page, tmp_path)
    assert {"privest.zip", "report.html", "plan.toml", "reproduce.py"} <= set(taken)
    assert len(entries(app)) == before + 1
    for sentinel in SENTINELS:
        assert seen.where(sentinel, after_the_data) == []
        assert not [name for name, data in taken.items()
                    if any(sentinel.encode() in part for part in layers(data))]  # fmt: skip
        assert sentinel not in app.said()
        assert not [one for one in seen.complaints if sentinel in one]
        for file in app.folder.iterdir():
            assert sentinel.encode() not in file.read_bytes(), file
    asked = [one for one, _, _ in seen.answers]
    assert not [one for one in asked if "messy" in one or "Marker" in one]


def test_a_double_click_releases_once(watch, app, table):
    page = watch().open()
    path.begin(page)
    path.example(page)
    path.go_on(page)
    path.take_level(page)
    before = len(entries(app))
    page.get_by_role("checkbox", name=re.compile("^I am sure")).check()
    page.get_by_role("button", name="Release", exact=True).dblclick()
    expect(page.get_by_role("heading", name="It is released")).to_be_visible()
    page.reload()
    page.go_back()
    page.go_forward()
    assert len(entries(app)) == before + 1
    expect(page.locator("main")).to_contain_text("Released before")


def test_back_and_reload_keep_what_was_done(watch, table):
    page = watch().open()
    path.begin(page)
    path.upload(page, table)
    path.fill_messy(page)
    path.go_on(page)
    level = path.slide(page)
    path.take_level(page)
    page.go_back()
    expect(page).to_have_url(re.compile("/privacy"))
    page.reload()
    expect(page.locator("#level")).to_have_value(level)
    page.get_by_role("navigation", name="Steps").get_by_role("link", name="Data").click()
    expect(page.get_by_label("Role of Marker", exact=True)).to_have_value("private")
    page.reload()
    expect(page.get_by_label("Role of Marker", exact=True)).to_have_value("private")
    page.get_by_role("navigation", name="Steps").get_by_role("link", name="Release").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Release")


def test_two_tabs_with_two_works_do_not_meet(watch, table):
    seen = watch()
    first = seen.open()
    start = first.url
    second = seen.context.new_page()
    second.goto(start)
    path.begin(first)
    path.begin(second)
    path.example(first)
    path.upload(second, table)
    path.fill_messy(second)
    path.go_on(first)
    path.go_on(second)
    one, other = path.slide(first), path.slide(second, "ArrowLeft", 9)
    path.take_level(second)
    path.take_level(first)
    path.trial(second)
    path.trial(first)
    expect(first.get_by_role("heading", level=1)).to_contain_text("s5")
    expect(second.get_by_role("heading", level=1)).to_contain_text("Marker")
    assert one != other
    first.goto(start)
    expect(first.locator(".works li")).not_to_have_count(0)


def test_the_release_is_not_made_of_a_plan_that_was_changed_in_another_tab(watch, app):
    seen = watch()
    seen.forgiven.append("422")
    page = seen.open()
    path.begin(page)
    path.example(page)
    path.go_on(page)
    privacy = page.url
    path.take_level(page)
    other = seen.context.new_page()
    other.goto(privacy)
    path.slide(other, times=9)
    path.take_level(other)
    before = len(entries(app))
    page.get_by_role("checkbox", name=re.compile("^I am sure")).check()
    page.get_by_role("button", name="Release", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("changed")
    assert len(entries(app)) == before


def test_without_a_script_the_main_path_goes_through(watch, table):
    """No JavaScript: the button beside the slider, and pages that are looked at again."""
    page = watch(java_script_enabled=False).open()
    path.begin(page)
    page.get_by_label("Choose a file, or drop it here").set_input_files(table)
    page.get_by_role("button", name="Use this file").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("messy.csv")
    path.fill_messy(page)
    path.go_on(page)
    page.locator("#level").fill("2.5")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("#level")).to_have_value("2.5")
    path.take_level(page)
    page.get_by_role("button", name="Make a trial").click()
    for _ in range(50):
        if page.get_by_role("link", name="See the results of the trial").count():
            break
        page.wait_for_timeout(200)
        page.reload()
    page.get_by_role("link", name="See the results of the trial").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Marker")
    path.take_along(page)
    expect(page.locator("#plan")).to_contain_text("Marker")


def test_results_on_paper(watch):
    """In print nothing is cut off, paper is white, and buttons and fields are not there."""
    page = watch(width=794, dark=True).open()  # A4 at 96 dots an inch
    path.begin(page)
    path.example(page)
    path.go_on(page)
    path.take_level(page)
    path.trial(page)
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("button, input, select").locator("visible=true").count() == 0
    assert page.locator("nav").locator("visible=true").count() == 0
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_the_plan_that_is_taken_along_is_the_one_that_was_chosen(watch, tmp_path):
    page = watch().open()
    path.begin(page)
    path.example(page)
    path.go_on(page)
    level = path.slide(page)
    path.take_level(page)
    path.trial(page)
    path.take_along(page)
    taken = path.downloads(page, tmp_path)
    assert f"level = {level}".encode() in taken["plan.toml"]
    assert json.loads(taken[next(name for name in taken if name.endswith(".ipynb"))])["cells"]
