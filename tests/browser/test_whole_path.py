"""The whole way in a browser: a table, an ε, a dry run, a release, its results and exports."""

import re

import pytest
from playwright.sync_api import expect

import app_path as path
from app_looks import LOOKS, looks_right
from app_messy import SENTINELS, messy
from app_watched import layers
from privest.ledger import Ledger

pytestmark = pytest.mark.browser


@pytest.fixture
def table(tmp_path):
    found = tmp_path / "messy.csv"
    found.write_bytes(messy())
    return found


def people(folder, width, dark):
    """A clean table of its own for each look: its account is new."""
    first = 20 + width / 1000 + dark  # other people: their public columns differ, too
    rows = [
        f"{first + 7 * k % 60},{'fm'[k % 2]},{20_000 + 350 * (k * k % 97)}\n" for k in range(300)
    ]
    found = folder / f"{'night' if dark else 'day'}{width}.csv"
    found.write_text("age,sex,income\n" + "".join(rows))
    return found


def own(page):
    """The fields of the private column."""
    return page.get_by_role("group", name="Column income")


def entries(app):
    """What was charged in the folder of the app."""
    ledger = app.folder / "privest-ledger.db"
    if not ledger.exists():
        return []
    with Ledger(ledger) as held:
        return [one for one in held.history() if one.kind not in ("created", "account", "raised")]


@pytest.mark.parametrize("form", ["aggregate", "rows"])
@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_every_screen_looks_right(watch, width, dark, form, tmp_path):
    """At every width, in the light and in the dark; without a residual sd and with one."""
    page = watch(width=width, dark=dark).open()
    path.upload(page, people(tmp_path, width + (form == "rows"), dark), form, private="income")
    page.get_by_role("button", name="Make all other columns public").click()
    own(page).get_by_label("Lowest possible").fill("0")
    own(page).get_by_label("Highest possible").fill("200,000")
    page.get_by_role("checkbox", name=re.compile("^Kind, range, sd and categories")).check()
    looks_right(page, dark=dark)
    path.go_on(page)
    path.slide(page, "PageUp", 2)
    path.unfold(page)
    looks_right(page, dark=dark)
    page.get_by_role("link", name="Back").click()
    own(page).get_by_label("Typical residual").fill("9,000")
    path.go_on(page)
    looks_right(page, dark=dark)
    path.take_epsilon(page)
    path.dry_run(page)
    looks_right(page, dark=dark)
    page.get_by_label("Limit of the new account").fill("90")
    page.get_by_label("Limit of the new account").blur()
    path.release(page)
    path.unfold(page)
    looks_right(page, dark=dark)
    taken = path.downloads(page, tmp_path)
    assert {"plan.toml", "privest.zip", "report.html", "estimate.py"} <= set(taken)
    page.locator("a.brand").click()
    expect(page.locator(".list")).not_to_have_count(0)
    looks_right(page, dark=dark)


def test_a_messy_file_is_released_and_its_values_are_in_no_later_answer(
    watch, app, table, tmp_path
):
    seen = watch()
    page = seen.open()
    path.upload(page, table, "rows")
    path.fill_messy(page)
    after_the_columns = len(seen.answers)
    path.go_on(page)
    path.slide(page, "ArrowRight", 3)
    path.slide(page, "PageUp", 2)
    path.take_epsilon(page)
    before = len(entries(app))
    path.release(page)
    taken = path.downloads(page, tmp_path)
    assert {"privest.zip", "report.html", "plan.toml", "estimate.py"} <= set(taken)
    assert len(entries(app)) == before + 1
    for sentinel in SENTINELS:
        assert seen.where(sentinel, after_the_columns) == []
        assert not [name for name, data in taken.items()
                    if any(sentinel.encode() in part for part in layers(data))]  # fmt: skip
        assert sentinel not in app.said()
        assert not [one for one in seen.complaints if sentinel in one]
        for file in app.folder.iterdir():
            assert sentinel.encode() not in file.read_bytes(), file
    asked = [one for one, _, _ in seen.answers]
    assert not [one for one in asked if "messy" in one or "Marker" in one]


def test_a_double_click_releases_once(watch, app):
    page = watch().open()
    path.example(page)
    path.go_on(page)
    path.take_epsilon(page)
    before = len(entries(app))
    page.get_by_role("checkbox", name=re.compile("^I understand")).check()
    page.get_by_role("button", name="Release now").dblclick()
    expect(page).to_have_url(re.compile("/results$"))
    page.reload()
    page.go_back()
    page.go_forward()
    assert len(entries(app)) == before + 1


def test_back_and_reload_keep_what_was_done(watch, table):
    page = watch().open()
    path.upload(page, table)
    path.fill_messy(page)
    path.go_on(page)
    epsilon = path.slide(page)
    path.take_epsilon(page)
    page.go_back()
    expect(page).to_have_url(re.compile("/privacy"))
    page.reload()
    expect(page.locator("#epsilon")).to_have_value(epsilon)
    page.get_by_role("navigation", name="Steps").get_by_role("link", name="Columns").click()
    expect(page.get_by_label("Role of Marker", exact=True)).to_have_value("private")
    page.reload()
    expect(page.get_by_label("Role of Marker", exact=True)).to_have_value("private")


def test_two_tabs_with_two_works_do_not_meet(watch, table):
    seen = watch()
    first = seen.open()
    second = seen.context.new_page()
    second.goto(first.url)
    path.example(first)
    path.upload(second, table)
    path.fill_messy(second)
    path.go_on(first)
    path.go_on(second)
    one, other = path.slide(first), path.slide(second, "ArrowLeft", 9)
    assert one != other
    path.take_epsilon(second)
    path.take_epsilon(first)
    expect(first.locator(".head")).to_contain_text(
        f"s5 by age, sex, bmi, bp; 442 rows; aggregate release at ε = {one}"
    )
    expect(second.locator(".head")).to_contain_text("Marker by")


def test_the_release_is_not_made_of_a_plan_that_was_changed_in_another_tab(watch, app):
    seen = watch()
    seen.forgiven.append("422")
    page = seen.open()
    path.example(page)
    path.go_on(page)
    privacy = page.url
    path.take_epsilon(page)
    other = seen.context.new_page()
    other.goto(privacy)
    path.slide(other, times=9)
    path.take_epsilon(other)
    before = len(entries(app))
    page.get_by_role("checkbox", name=re.compile("^I understand")).check()
    page.get_by_role("button", name="Release now").click()
    expect(page.get_by_role("alert").first).to_contain_text("changed")
    assert len(entries(app)) == before


def test_without_a_script_the_main_path_goes_through(watch, table):
    """No JavaScript: the button beside the number, and pages that are looked at again."""
    page = watch(java_script_enabled=False).open()
    page.get_by_label("Choose a file, or drop it here").set_input_files(table)
    page.get_by_role("button", name="Continue to columns").click()
    path.choose_private(page, "Marker")
    path.fill_messy(page)
    path.go_on(page)
    page.locator("#epsilon").fill("2.5")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("#epsilon")).to_have_value("2.5")
    path.take_epsilon(page)
    page.get_by_role("button", name="Start a dry run").click()
    for _ in range(50):
        if page.locator("#dry").count():
            break
        page.wait_for_timeout(200)
        page.goto(page.url)
    expect(page.locator("#dry")).to_contain_text("95% interval")


def test_results_on_paper(watch, tmp_path):
    """In print nothing is cut off, paper is white, and buttons and fields are not there."""
    page = watch(width=794, dark=True).open()  # A4 at 96 dots an inch
    path.upload(page, people(tmp_path, 794, True), private="income")
    path.roles(page, age="public")
    own(page).get_by_label("Lowest possible").fill("0")
    own(page).get_by_label("Highest possible").fill("200,000")
    page.get_by_role("checkbox", name=re.compile("^Kind, range, sd and categories")).check()
    path.go_on(page)
    path.take_epsilon(page)
    path.release(page)
    page.wait_for_load_state()  # its style, too
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("button, input, select").locator("visible=true").count() == 0
    assert page.locator("nav").locator("visible=true").count() == 0
    assert page.pdf(format="A4").startswith(b"%PDF")
