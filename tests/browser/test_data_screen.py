"""The data screen in a browser: a messy file of the user, and what is wrong with a form."""

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
    path.begin(page)
    looks_right(page, dark=dark)
    path.upload(page, table)
    path.roles(page, Größe="public", Gruppe="public", Alter="public", Marker="private")
    for one in page.locator("summary").all():
        one.click()
    looks_right(page, dark=dark)


def test_a_messy_file_is_understood(watch, table):
    seen = watch()
    page = seen.open()
    path.begin(page)
    path.upload(page, table)
    expect(page.locator("main")).to_contain_text("240 rows, 6 columns")
    expect(page.locator("main")).to_contain_text("semicolons between columns, decimal comma")
    expect(page.get_by_role("cell", name=COMMA)).to_be_visible()  # its owner, and only here
    assert seen.where(COMMA)
    path.roles(page, Alter="public", Gruppe="public", Marker="private")
    expect(page.get_by_role("checkbox", name=re.compile("^999"))).to_be_checked()
    expect(page.get_by_role("checkbox", name=re.compile("^k.A."))).to_be_checked()
    assert page.get_by_label(re.compile("^Public categories")).locator("visible=true").input_value()


def test_what_is_missing_is_said_and_what_was_typed_stays(watch, table):
    seen = watch()
    seen.forgiven.append("422")
    page = seen.open()
    path.begin(page)
    path.upload(page, table)
    path.roles(page, Gruppe="public", Marker="private")
    lowest = page.get_by_role("group", name="Marker").get_by_label("Lowest")
    lowest.fill("0,5")
    page.get_by_role("button", name=re.compile("^Go on")).click()
    expect(page.get_by_role("alert")).to_contain_text("range")
    expect(page.get_by_label("Role of Marker", exact=True)).to_have_value("private")
    expect(lowest).to_have_value("0,5")
    looks_right(page, dark=False)


def test_a_file_that_is_no_table_gives_a_message(watch, tmp_path):
    wrong = tmp_path / "picture.csv"
    wrong.write_bytes(bytes(range(256)) * 40)
    seen = watch()
    seen.forgiven.append("422")
    page = seen.open()
    path.begin(page)
    page.get_by_label("Choose a file, or drop it here").set_input_files(wrong)
    page.get_by_role("button", name="Use this file").click()
    expect(page.get_by_role("alert")).not_to_be_empty()
    looks_right(page, dark=False)
    page.get_by_role("button", name="Take another table").click()
    expect(page.get_by_role("button", name="Use this file")).to_be_enabled()


DROP = """(text) => {
    const carried = new DataTransfer();
    carried.items.add(new File([text], "dropped.csv"));
    document.querySelector("[data-upload] h2").dispatchEvent(
        new DragEvent("drop", {dataTransfer: carried, bubbles: true, cancelable: true}));
}"""
NOTE_WHAT_IS_SAID = """() => {
    window.said = [];
    const card = document.querySelector("[data-upload]");
    new MutationObserver(() => {
        const bar = card.querySelector("progress");
        if (!card.querySelector(".sending").hidden) {
            const words = card.querySelector("[role=status]").innerText;
            window.said.push([bar.getAttribute("value"), words]);
        }
    }).observe(card, {subtree: true, attributes: true, childList: true});
}"""


def test_a_file_is_dropped_on_its_card(watch):
    page = watch().open()
    path.begin(page)
    page.wait_for_load_state()  # with the script that listens
    page.evaluate(DROP, "age,ldl\n50,1.5\n61,2.5\n")
    expect(page.locator("h1")).to_have_text("What is in dropped.csv?")
    expect(page.locator("main")).to_contain_text("2 rows, 2 columns")


def test_one_sees_how_much_was_sent(watch, tmp_path):
    big = tmp_path / "big.csv"
    big.write_text("age,ldl\n" + "50,1.5\n" * 400_000)
    seen = watch()
    page = seen.open()
    path.begin(page)
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 3e6}
    seen.context.new_cdp_session(page).send("Network.emulateNetworkConditions", slow)
    page.wait_for_load_state()
    page.evaluate(NOTE_WHAT_IS_SAID)
    page.get_by_label("Choose a file, or drop it here").set_input_files(big)
    page.get_by_role("button", name="Use this file").click()
    expect(page.locator("h1")).to_have_text("What is in big.csv?")
    said = page.evaluate("window.said")
    shares = [float(value) for value, _ in said if value is not None]
    assert shares == sorted(shares)
    assert 0 < max(shares) < 1
    assert said[-1] == [None, "It is here. Looking at it …"]
