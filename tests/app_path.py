"""The way through the app, by what a person sees: names of buttons and labels."""

import re

from playwright.sync_api import expect


def begin(page):
    """From the first page to the data screen of a new piece of work."""
    page.get_by_role("button", name="Begin with a table").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Which table?")


def example(page):
    """The embedded table; everything is filled in."""
    page.get_by_role("button", name="Use the example").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("diabetes")


def upload(page, path):
    """A file of the user."""
    page.get_by_label("Choose a file, or drop it here").set_input_files(path)
    page.get_by_role("button", name="Use this file").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(path.name)


def roles(page, **of_columns):
    """The role of each column."""
    for name, role in of_columns.items():
        page.get_by_label(f"Role of {name}", exact=True).select_option(role)


def go_on(page):
    """From the data screen to the privacy screen."""
    page.get_by_role("button", name=re.compile("^Go on")).click()
    expect(page).to_have_url(re.compile("/privacy$"))


def fill_messy(page):
    """Roles, lists and the range of the messy table."""
    roles(page, Größe="public", Gruppe="public", Alter="public", Marker="private")
    page.get_by_label("Lowest").locator("visible=true").fill("0")
    page.get_by_label("Highest").locator("visible=true").fill("10")
    page.get_by_role("checkbox", name=re.compile("^The categories above are public")).check()


def slide(page, key="ArrowRight", times=5):
    """The slider by arrow keys; the number beside it follows."""
    page.wait_for_load_state("load")  # the script that follows the slider is there
    slider, number = page.get_by_role("slider"), page.locator("#level")
    before = number.input_value()
    slider.focus()
    for _ in range(times):
        page.keyboard.press(key)
    expect(number).not_to_have_value(before)
    return settled(page, number)


def settled(page, field):
    """The value of a field that answers may still change, once it is the same for a while."""
    was, same = None, 0
    while same < 4:
        page.wait_for_timeout(150)
        now = field.input_value()
        was, same = now, same + 1 if now == was else 0
    return was


def take_level(page):
    """From the privacy screen to the release screen."""
    page.get_by_role("button", name=re.compile("go on$")).click()
    expect(page).to_have_url(re.compile("/release$"))


def trial(page, seed="1"):
    """A trial, and on to its results."""
    page.get_by_label(re.compile("^Seed")).fill(seed)
    page.get_by_role("button", name="Make a trial").click()
    page.get_by_role("link", name="See the results of the trial").click()
    expect(page).to_have_url(re.compile("/results$"))


def release(page):
    """A real release, and on to its results."""
    page.get_by_role("checkbox", name=re.compile("^I am sure")).check()
    page.get_by_role("button", name="Release", exact=True).click()
    page.get_by_role("link", name="See the results", exact=True).click()
    expect(page).to_have_url(re.compile("/results$"))


def take_along(page):
    """To the last screen."""
    page.get_by_role("navigation", name="Steps").get_by_role("link", name="Take it along").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Take it along")


def downloads(page, folder):
    """Every file that a page offers, by its name."""
    found = {}
    for link in page.locator("a[download]").all():
        with page.expect_download() as coming:
            link.click()
        path = folder / coming.value.suggested_filename
        coming.value.save_as(path)
        found[path.name] = path.read_bytes()
    return found
