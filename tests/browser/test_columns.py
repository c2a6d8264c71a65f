"""The columns screen in a browser: a messy file of the user, and all that is wrong with a form."""

import re

import pytest
from playwright.sync_api import expect

import app_path as path
from app_looks import LOOKS, looks_right
from app_messy import COMMA, messy

pytestmark = pytest.mark.browser


@pytest.fixture
def table(tmp_path):
    found = tmp_path / "messy.csv"
    found.write_bytes(messy())
    return found


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_it_looks_right(watch, table, width, dark):
    page = watch(width=width, dark=dark).open()
    page.get_by_label("Choose a file, or drop it here").set_input_files(table)
    page.get_by_role("button", name="Continue to columns").click()
    looks_right(page, dark=dark)
    path.choose_private(page, "Marker")
    path.roles(page, Größe="public", Gruppe="public", Alter="public")
    path.unfold(page)
    looks_right(page, dark=dark)


def test_a_messy_file_is_understood(watch, table):
    seen = watch()
    page = seen.open()
    path.upload(page, table)
    expect(page.locator("main")).to_contain_text("240 rows")
    assert not seen.where(COMMA)
    path.roles(page, Alter="public", Gruppe="public")
    expect(page.get_by_role("checkbox", name=re.compile("^999"))).to_be_checked()
    assert not page.get_by_role("checkbox", name=re.compile("^k.A.")).count()
    expect(page.locator(".equation")).to_have_text("Marker = baseline + Gruppe + Alter")


def test_what_is_asked_follows_the_role_and_the_kind(watch, table):
    page = watch().open()
    path.upload(page, table)
    group = page.get_by_role("group", name="Column Marker")
    path.roles(page, Marker="unused")
    expect(group.get_by_label("Lowest possible")).to_be_hidden()
    path.roles(page, Marker="private")
    group.get_by_label("Kind of its values").select_option("binomial")
    expect(group.get_by_label("Lowest possible")).to_be_hidden()
    expect(group.get_by_label("Expected share of yes")).to_be_visible()
    group.get_by_label("Kind of its values").select_option("gaussian")
    expect(group.get_by_label("Expected share of yes")).to_be_hidden()
    group.get_by_label("Lowest possible").fill("5")
    group.get_by_label("Highest possible").fill("200,000")
    expect(group).to_contain_text("Width 199,995")
    group.get_by_label("Highest possible").fill("1")
    expect(group).to_contain_text("must be below the highest")


@pytest.mark.parametrize(("width", "dark"), [(320, False), (1400, True)])
def test_all_that_is_wrong_is_said_and_what_was_typed_stays(watch, table, width, dark):
    seen = watch(width=width, dark=dark)
    seen.forgiven.append("422")
    page = seen.open()
    path.upload(page, table)
    path.roles(page, Gruppe="public")
    lowest = page.get_by_role("group", name="Column Marker").get_by_label("Lowest possible")
    lowest.fill("much")
    page.get_by_role("button", name="Continue to privacy").click()
    alert = page.get_by_role("alert")
    expect(alert.get_by_role("link")).to_have_count(3)  # low, high, public knowledge
    expect(lowest).to_have_value("much")
    looks_right(page, dark=dark)
    alert.get_by_role("link").first.click()
    expect(lowest).to_be_focused()
    assert lowest.evaluate("e => e.getBoundingClientRect().top > 0")


def test_a_file_that_is_no_table_gives_a_message(watch, tmp_path):
    wrong = tmp_path / "picture.csv"
    wrong.write_bytes(bytes(range(256)) * 40)
    seen = watch()
    seen.forgiven.append("422")
    page = seen.open()
    page.set_input_files("#table", wrong)
    page.get_by_role("button", name="Continue to columns").click()
    expect(page.get_by_role("alert").first).to_contain_text("binary data")
    looks_right(page, dark=False)


DROP = """(text) => {
    const carried = new DataTransfer();
    carried.items.add(new File([text], "dropped.csv"));
    document.querySelector(".drop").dispatchEvent(
        new DragEvent("drop", {dataTransfer: carried, bubbles: true, cancelable: true}));
}"""


def test_a_file_is_dropped(watch):
    page = watch().open()
    page.wait_for_load_state()  # with the script that listens
    page.evaluate(DROP, "age,ldl\n50,1.5\n61,2.5\n")
    page.get_by_role("button", name="Continue to columns").click()
    path.choose_private(page, "ldl")
    expect(page.locator("main")).to_contain_text("dropped.csv, 2 rows")
