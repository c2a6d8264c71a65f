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


@pytest.mark.parametrize("width", [400, 1400])
def test_a_trial_with_keys_only(watch, width):
    page = watch(width=width, height=700).open()
    press(page, page.get_by_role("button", name="Begin with a table"))
    press(page, page.get_by_role("button", name="Use the example"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("diabetes")
    press(page, page.get_by_role("button", name=re.compile("^Go on")))
    expect(page).to_have_url(re.compile("/privacy"))
    reach(page, page.get_by_role("slider"))
    number, said = page.locator("#level"), page.get_by_role("slider")
    before, words = number.input_value(), said.get_attribute("aria-valuetext")
    for key in ("ArrowRight", "ArrowRight", "PageUp", "ArrowLeft"):
        page.keyboard.press(key)
    expect(number).not_to_have_value(before)
    expect(said).not_to_have_attribute("aria-valuetext", words)
    expect(said).to_be_focused()  # what is drawn anew does not take the keys away
    press(page, page.get_by_role("button", name=re.compile("go on$")))
    expect(page).to_have_url(re.compile("/release$"))
    press(page, page.get_by_role("button", name="Make a trial"))
    press_link(page, "See the results of the trial")
    expect(page).to_have_url(re.compile("/results$"))
    reach(page, page.get_by_label("How sure intervals are"))
    page.keyboard.press("ArrowDown")
    expect(page.locator("#found")).to_contain_text("98%")
    press_link(page, "Take it along")
    expect(page.get_by_role("heading", level=1)).to_have_text("Take it along")
    looks_right(page, dark=False)


def press_link(page, name):
    link = page.get_by_role("main").get_by_role("link", name=name, exact=True)
    expect(link).to_be_visible()
    press(page, link)


def test_a_release_with_keys_only(watch, app):
    page = watch(height=700).open()
    press(page, page.get_by_role("button", name="Begin with a table"))
    press(page, page.get_by_role("button", name="Use the example"))
    expect(page.get_by_role("heading", level=1)).to_contain_text("diabetes")
    press(page, page.get_by_role("button", name=re.compile("^Go on")))
    expect(page).to_have_url(re.compile("/privacy"))
    press(page, page.get_by_role("button", name=re.compile("go on$")))
    expect(page).to_have_url(re.compile("/release$"))
    press(page, page.get_by_role("checkbox", name=re.compile("^I am sure")), "Space")
    press(page, page.get_by_role("button", name="Release", exact=True))
    expect(page.get_by_role("heading", name="It is released")).to_be_visible()
    press_link(page, "See the results")
    expect(page).to_have_url(re.compile("/results$"))
    assert (app.folder / "privest-ledger.db").exists()


def test_the_first_stop_leads_to_the_content(watch):
    page = watch().open()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
