"""The whole way with keys only: every stop of Tab is in sight and shows that it is there."""

import re

import pytest
from playwright.sync_api import expect

from app_looks import looks_right

pytestmark = pytest.mark.browser

MOST_STOPS = 120
STOP = """() => {
  const e = document.activeElement, s = getComputedStyle(e), b = e.getBoundingClientRect();
  return {
    name: e.tagName + " " + (e.id || e.textContent.trim().slice(0, 30)),
    body: e === document.body,
    ring: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2,
    sight: b.width > 0 && b.height > 0 && b.bottom > 0 && b.top < window.innerHeight &&
      b.right > 0 && b.left < window.innerWidth,
  };
}"""


def reach(page, wanted):
    """Tab until something has the focus."""
    expect(wanted).to_be_visible()
    page.wait_for_load_state("load")
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        stop = page.evaluate(STOP)
        if stop["body"]:
            continue
        assert stop["ring"], f"no ring around {stop['name']}"
        assert stop["sight"], f"{stop['name']} is not in sight"
        if wanted.evaluate("e => e === document.activeElement"):
            return
    raise AssertionError(f"Tab never reaches {wanted}")


def press(page, wanted, key="Enter"):
    reach(page, wanted)
    page.keyboard.press(key)


@pytest.mark.parametrize("width", [390, 1400])
def test_the_whole_way_with_keys_only(watch, app, width):
    page = watch(width=width, height=700).open()
    press(page, page.get_by_text("The example table"))
    press(page, page.get_by_role("button", name="Use the example"))
    expect(page.get_by_role("heading", level=1)).to_have_text("What is each column?")
    press(page, page.get_by_role("button", name="Continue to privacy"))
    expect(page).to_have_url(re.compile("/privacy"))
    slider, number = page.get_by_role("slider"), page.locator("#epsilon")
    reach(page, slider)
    before, said = number.input_value(), slider.get_attribute("aria-valuetext")
    for key in ("ArrowRight", "ArrowRight", "PageUp", "ArrowLeft"):
        page.keyboard.press(key)
    expect(number).not_to_have_value(before)
    expect(slider).not_to_have_attribute("aria-valuetext", said)
    expect(slider).to_be_focused()  # what is drawn anew does not take the keys away
    press(page, page.get_by_role("button", name="Continue to release"))
    expect(page).to_have_url(re.compile("/release$"))
    press(page, page.get_by_role("button", name="Start a dry run"))
    expect(page.get_by_role("heading", name=re.compile("^Dry run: for your"))).to_be_visible()
    reach(page, page.get_by_label("Name of the release"))
    sure = page.get_by_role("checkbox", name=re.compile("^I understand"))
    if page.locator("#again").count():  # the other width has released it: take another account
        page.get_by_label("Privacy account of these people").fill(f"keys at {width}")
        with page.expect_response(re.compile("/release/look")):  # the cost is drawn anew
            page.keyboard.press("Tab")
        expect(page.locator("#again")).to_have_count(0)
    press(page, sure, "Space")
    press(page, page.get_by_role("button", name="Release now"))
    expect(page).to_have_url(re.compile("/results$|/release$|/make$"))
    looks_right(page, dark=False)


def test_the_first_stop_leads_to_the_content(watch):
    page = watch().open()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
