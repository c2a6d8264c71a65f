"""The way through the app, by what a person sees: names of buttons and labels."""

import re

from playwright.sync_api import expect

TRUSTED = {"aggregate": "^Yes: I may hold every value", "rows": "^No: values are protected"}


def example(page, form="aggregate"):
    """From the first page to the columns of the embedded table; everything is filled in."""
    page.get_by_role("radio", name=re.compile(TRUSTED[form])).check()
    page.get_by_text("The example table").click()
    page.get_by_role("button", name="Use the example").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("What is each column?")


def upload(page, path, form="aggregate", private="Marker"):
    """A file of the user, the answer to the question of the first screen, the private column."""
    page.get_by_label("Choose a file, or drop it here").set_input_files(path)
    page.get_by_role("radio", name=re.compile(TRUSTED[form])).check()
    page.get_by_role("button", name="Continue to columns").click()
    choose_private(page, private)
    expect(page.locator("main")).to_contain_text(path.name)


def choose_private(page, name):
    """The private column; then the others are looked at."""
    expect(page.get_by_role("heading", level=1)).to_have_text("Which column is private?")
    page.get_by_role("radio", name=name, exact=True).check()
    page.get_by_role("button", name="Look at the others").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("What is each column?")


def roles(page, **of_columns):
    """The role of each column."""
    page.wait_for_load_state("load")  # the script that shows a column's fields is there
    for name, role in of_columns.items():
        page.get_by_label(f"Role of {name}", exact=True).select_option(role)


def fill_messy(page):
    """Roles and the range of the messy table."""
    roles(page, Größe="public", Gruppe="public", Alter="public")
    page.get_by_label("Lowest possible").locator("visible=true").fill("0")
    page.get_by_label("Highest possible").locator("visible=true").fill("10")
    page.get_by_text("Missing values, decimal mark").click()
    page.get_by_label("Other codes for missing values").fill("Marker=k.A.")
    page.get_by_role("checkbox", name=re.compile("^Kind, range, sd and categories")).check()


def go_on(page):
    """From the columns to the privacy screen."""
    page.get_by_role("button", name="Continue to privacy").click()
    expect(page).to_have_url(re.compile("/privacy$"))


def slide(page, key="ArrowRight", times=5):
    """The slider by arrow keys; the number beside it follows."""
    page.wait_for_load_state("load")  # the script that follows the slider is there
    slider, number = page.get_by_role("slider"), page.locator("#epsilon")
    before = number.input_value()
    slider.focus()
    for _ in range(times):
        page.keyboard.press(key)
    expect(number).not_to_have_value(before)
    page.wait_for_timeout(300)
    page.wait_for_load_state("networkidle")
    return number.input_value()


def take_epsilon(page):
    """From the privacy screen to the release screen."""
    page.get_by_role("button", name="Continue to release").click()
    expect(page).to_have_url(re.compile("/release$"))


def dry_run(page):
    """A dry run; its results are shown in place."""
    page.get_by_role("button", name=re.compile("dry run$")).click()
    expect(page.get_by_role("heading", name=re.compile("^Dry run: for your eyes"))).to_be_visible()


def release(page):
    """A real release; its results come by themselves."""
    page.get_by_role("checkbox", name=re.compile("^I understand")).check()
    page.get_by_role("button", name="Release now").click()
    expect(page).to_have_url(re.compile("/results$"))


def unfold(page):
    """Open everything that is folded."""
    page.wait_for_load_state("networkidle")
    for one in page.locator("summary").locator("visible=true").all():
        one.click()


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
