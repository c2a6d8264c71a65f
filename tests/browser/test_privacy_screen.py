"""The slider in a browser: numbers and pictures follow it, and the last move counts."""

import re

import pytest
from playwright.sync_api import expect

import app_path as path

pytestmark = pytest.mark.browser


@pytest.fixture
def privacy(watch):
    """A window on the privacy screen of the embedded table."""
    seen = watch()
    page = seen.open()
    path.begin(page)
    path.example(page)
    path.go_on(page)
    page.wait_for_load_state()  # what is typed before the script is there moves nothing
    return seen


def test_everything_follows_the_slider(privacy):
    page = privacy.page
    slider, level = page.locator("#position"), page.locator("#level")
    first, chart = page.locator("#numbers p").first, page.locator("#pictures svg.chart").last
    shown, drawn = first.inner_text(), chart.text_content()
    before = int(slider.input_value())
    slider.focus()
    for _ in range(40):  # quicker than the answers come
        page.keyboard.press("ArrowLeft")
    expect(first).not_to_have_text(shown)
    page.wait_for_load_state("networkidle")
    assert int(slider.input_value()) == before - 40  # nothing took it away meanwhile
    expect(slider).to_be_focused()
    expect(slider).to_have_attribute("aria-valuetext", re.compile(f"^s = {level.input_value()}: "))
    expect(page.locator("#spoken")).to_have_text(slider.get_attribute("aria-valuetext"))
    expect(page.locator("#before")).to_have_value(level.input_value())
    expect(chart).not_to_have_text(drawn)
    assert not any("csrf" in asked for asked, _, _ in privacy.answers)
    shown = level.input_value()
    page.wait_for_timeout(1000)  # what is under way when a page goes is complained of
    page.reload()
    expect(level).to_have_value(shown)


@pytest.mark.parametrize("rest", [0, 30, 2000])
def test_the_step_bar_goes_on_with_what_is_shown(privacy, rest):
    """However soon after the last move it is used."""
    page = privacy.page
    page.locator("#position").focus()
    for _ in range(25):
        page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(rest)
    page.get_by_role("navigation", name="Steps").get_by_role("link", name="Release").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Release")
    said = page.locator("#at-level").inner_text()
    page.get_by_role("navigation", name="Steps").get_by_role("link", name="Privacy").click()
    expect(page.locator("#numbers p").first).to_be_visible()
    assert page.locator("#numbers p").first.inner_text() in said
    assert page.locator("#numbers p", has_text="Differential privacy").inner_text() in said
    moved = int(page.locator("#position").input_value())
    page.get_by_role("button", name="Take this level and go on").click()
    assert page.locator("#at-level").inner_text() == said
    page.get_by_role("navigation", name="Steps").get_by_role("link", name="Privacy").click()
    page.locator("#position").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_role("link", name="Release").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Release")
    page.go_back()
    expect(page.locator("#position")).to_have_value(str(moved + 1))


def test_a_number_moves_the_slider_and_a_wrong_one_is_said_in_place(privacy):
    privacy.forgiven.append("422")
    page = privacy.page
    slider, before = page.locator("#position"), page.locator("#position").input_value()
    page.locator("#level").fill("100")
    expect(slider).not_to_have_value(before)
    shown = page.locator("#numbers p", has_text="ε =")
    expect(shown.first).to_contain_text("very large")
    page.locator("#level").fill("much")
    expect(page.locator("#numbers").get_by_role("alert")).to_contain_text("must be a number")
    page.locator("#level").fill("100")
    expect(shown.first).to_contain_text("very large")


def test_accuracy_first_moves_the_slider(privacy):
    page = privacy.page
    before = page.locator("#position").input_value()
    page.locator("#half").fill("0.02")
    page.locator("#of").select_option(label="bmi")
    page.get_by_role("button", name="Find the level").click()
    expect(page.locator("#position")).not_to_have_value(before)
    expect(page.locator("#numbers tr", has_text="bmi")).to_contain_text("± 0.02")
    expect(page.locator("#of").locator("option:checked")).to_have_text("bmi")
    page.go_back()
    expect(page.locator("#numbers p").first).to_be_visible()


def test_a_group_that_says_no(privacy):
    page = privacy.page
    page.get_by_text("Nothing is shown of some groups").click()
    page.get_by_role("group", name="sex").get_by_role("checkbox").last.check()
    page.get_by_role("button", name="What is hidden then?").click()
    expect(page.locator("main")).to_contain_text("“sex=1”")
