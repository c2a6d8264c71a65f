"""A stream in a browser: the example played, paused and stepped; a real one, and its sentinel."""

import re

import pytest
from playwright.sync_api import expect

from app_looks import LOOKS, looks_right

pytestmark = pytest.mark.browser
SOON = 20_000  # milliseconds, on a machine that does much else


def settings(page):
    page.get_by_role("link", name="Begin with a stream").click()
    page.get_by_role("button", name="Use the example").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("as a stream")


def readings(page):
    """How many were released, as the page says now."""
    text = page.locator("#live .big").inner_text()
    return int(re.match(r"[\d,]+", text)[0].replace(",", ""))


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_it_looks_right(watch, width, dark):
    page = watch(width=width, dark=dark).open()
    page.get_by_role("link", name="Begin with a stream").click()
    looks_right(page, dark=dark)
    page.get_by_role("button", name="Use the example").click()
    looks_right(page, dark=dark)
    page.get_by_role("button", name="Set it up").click()
    for _ in range(3):
        page.get_by_role("button", name="One step").click()
    expect(page.locator("#live .big")).to_contain_text("12 of")
    for one in page.locator("summary").all():
        one.click()
    looks_right(page, dark=dark)


def test_it_plays_and_pauses(watch):
    page = watch().open()
    settings(page)
    page.get_by_role("button", name="Set it up").click()
    assert readings(page) == 0
    page.get_by_role("button", name="Play").click()
    expect(page.locator("#live .big")).to_have_text(re.compile("^([89]|[1-9][0-9]+) of"))
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    at = readings(page)
    page.wait_for_timeout(1_500)
    page.reload()
    assert readings(page) <= at + 4  # a step that was under way is finished
    at = readings(page)
    page.get_by_role("button", name="One step").click()
    expect(page.locator("#live .big")).to_contain_text(f"{at + 4} of")
    page.go_back()
    page.reload()
    assert readings(page) == at + 4


def test_what_is_missing_is_said(watch):
    seen = watch()
    seen.forgiven.append("422")
    page = seen.open()
    settings(page)
    page.get_by_label("± this", exact=True).fill("nothing")
    page.get_by_role("button", name="Set it up").click()
    expect(page.get_by_role("alert")).to_contain_text("number")
    expect(page.get_by_label("± this", exact=True)).to_have_value("nothing")
    looks_right(page, dark=False)


def test_a_real_stream_shows_no_reading(watch, app, tmp_path):
    """It is written to the folder and charged; the sentinel is in no answer at all."""
    sentinel = "4.31947"
    rows = "".join(
        f"{10 + k % 7},{sentinel if k == 3 else f'{2 + k % 5 / 2:.3f}'}\n" for k in range(40)
    )
    file = tmp_path / "load.csv"
    file.write_text(f"warm,load\n{rows}")
    seen = watch()
    page = seen.open()
    page.get_by_role("link", name="Begin with a stream").click()
    page.get_by_label(re.compile("^Text table")).set_input_files(file)
    page.get_by_role("button", name="Look at the file").first.click()
    page.get_by_label("± this", exact=True).fill("0.5")
    page.get_by_label("from", exact=True).fill("0")
    page.get_by_label("to", exact=True).fill("10")
    page.get_by_role("radio", name=re.compile("^Real:")).check()
    page.get_by_role("checkbox", name=re.compile("^I understand")).check()
    page.get_by_role("button", name="Set it up").click()
    for _ in range(6):
        page.get_by_role("button", name="One step").click()
    expect(page.locator("#live .big")).to_contain_text("6 of 40")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Go on where it was")).to_be_visible()
    assert seen.where(sentinel) == []
    assert sentinel not in app.said()
    assert "load" not in "".join(asked.partition("/work/")[2] for asked, _, _ in seen.answers)
    released = app.folder / "load-releases.jsonl"
    assert len(released.read_text().splitlines()) >= 6
    assert sentinel not in released.read_text()
    assert (app.folder / "privest-ledger.db").exists()


def test_at_its_end_the_page_has_other_buttons(watch):
    page = watch().open()
    settings(page)
    page.get_by_label("Readings at a time").fill("112")
    page.get_by_role("button", name="Set it up").click()
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("button", name="Begin again")).to_be_visible(timeout=SOON)
    expect(page.get_by_role("status")).to_contain_text("at its end")
    assert readings(page) == 336
    looks_right(page, dark=False)


def test_another_tab_has_the_same_buttons(watch):
    seen = watch()
    page = seen.open()
    settings(page)
    page.get_by_role("button", name="Set it up").click()
    other = seen.context.new_page()
    other.goto(page.url)
    page.get_by_role("button", name="Play").click()
    expect(other.get_by_role("button", name="Pause")).to_be_visible(timeout=SOON)
    other.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Begin again")).to_be_visible(timeout=SOON)


def test_by_keys_alone(watch):
    page = watch().open()
    settings(page)
    page.get_by_label("± this", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    page.get_by_role("button", name="One step").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#live .big")).to_contain_text("4 of", timeout=SOON)
