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
