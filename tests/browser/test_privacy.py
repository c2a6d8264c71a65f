"""The slider in a browser: numbers and pictures follow it, and it stays in sight."""

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
    path.example(page)
    path.go_on(page)
    page.wait_for_load_state()  # what is typed before the script is there moves nothing
    return seen


def test_everything_follows_the_slider(privacy):
    page = privacy.page
    slider, epsilon = page.locator("#position"), page.locator("#epsilon")
    head, curve = page.locator("#head"), page.locator("#curve svg.chart").first
    shown, drawn = head.inner_text(), curve.text_content()
    before = int(slider.input_value())
    slider.focus()
    for _ in range(40):  # quicker than the answers come
        page.keyboard.press("ArrowRight")
    expect(head).not_to_have_text(shown)
    page.wait_for_load_state("networkidle")
    assert int(slider.input_value()) == before + 40  # nothing took it away meanwhile
    expect(slider).to_be_focused()
    expect(slider).to_have_attribute("aria-valuetext", re.compile(f"^ε {epsilon.input_value()}, "))
    expect(page.locator("#spoken")).to_have_text(slider.get_attribute("aria-valuetext"))
    expect(curve).not_to_have_text(drawn)
    assert not any("csrf" in asked for asked, _, _ in privacy.answers)
    shown = epsilon.input_value()
    page.wait_for_timeout(1000)  # what is under way when a page goes is complained of
    page.reload()
    expect(epsilon).to_have_value(shown)


def test_slider_and_headline_numbers_stay_in_sight(privacy):
    page = privacy.page
    page.mouse.wheel(0, 5000)
    page.wait_for_timeout(300)
    box = page.locator(".dial").bounding_box()
    assert box["y"] >= 0
    expect(page.locator("#head strong").first).to_be_in_viewport()


def test_bands_have_words_and_large_ones_warn(privacy):
    page = privacy.page
    for epsilon, word, kind in (("0.5", "small", "good"), ("2", "moderate", "warn"),
                                ("5", "large", "bad"), ("50", "very large", "bad")):  # fmt: skip
        page.locator("#epsilon").fill(epsilon)
        expect(page.locator(".zones .now")).to_have_text(word)
        expect(page.locator("#live .note")).to_have_class(re.compile(kind))


@pytest.mark.parametrize("rest", [0, 30, 2000])
def test_the_step_bar_goes_on_with_what_is_shown(privacy, rest):
    """However soon after the last move it is used."""
    page = privacy.page
    page.locator("#position").focus()
    for _ in range(25):
        page.keyboard.press("ArrowLeft")
    shown = page.locator("#epsilon").input_value()
    page.wait_for_timeout(rest)
    page.get_by_role("navigation", name="Steps").get_by_role("link", name="Release").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Dry run and release")
    expect(page.locator(".head")).to_contain_text(f"at ε = {shown}.")
    page.get_by_role("navigation", name="Steps").get_by_role("link", name="Privacy").click()
    expect(page.locator("#epsilon")).to_have_value(shown)


def test_a_number_moves_the_slider_and_a_wrong_one_is_said_in_place(privacy):
    privacy.forgiven.append("422")
    page = privacy.page
    slider, before = page.locator("#position"), page.locator("#position").input_value()
    page.locator("#epsilon").fill("50")
    expect(slider).not_to_have_value(before)
    expect(page.locator("#live")).to_contain_text("Very large ε")
    page.locator("#epsilon").fill("much")
    expect(page.locator("#live").get_by_role("alert")).to_contain_text("must be a number")
    page.locator("#epsilon").fill("5")
    expect(page.locator("#live")).to_contain_text("Large ε")


def test_another_coefficient_and_the_smallest_epsilon_for_an_accuracy(privacy):
    page = privacy.page
    before = page.locator("#position").input_value()
    page.locator("#of").select_option(label="bmi")
    expect(page.locator("#head")).to_contain_text("Error of bmi")
    page.locator("#need").fill("0.02")
    page.get_by_role("button", name="Find ε").click()
    expect(page.locator("#need-said")).to_contain_text("is the smallest ε")
    expect(page.locator("#position")).not_to_have_value(before)
    expect(page.locator("#head")).to_contain_text("± 0.02")
