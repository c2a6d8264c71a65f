"""The first page in a browser, and the process behind it: how it starts, and how it stops."""

import socket
import time
from contextlib import closing

import pytest

import app_path as path
from app_looks import LOOKS, looks_right
from app_process import AppProcess

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_the_first_page(watch, width, dark):
    page = watch(width=width, dark=dark).open()
    assert page.locator("h1").inner_text() == "Start a release"
    path.unfold(page)
    assert "token" not in page.url
    looks_right(page, dark=dark)


def test_the_token_is_needed_once_and_only_in_the_browser_that_had_it(watch, app):
    seen = watch()
    page = seen.open()
    inside = page.url
    page.reload()
    assert page.url == inside
    other = watch()
    other.forgiven.append("403")
    other.page.goto(inside)
    assert "Open the app with the last address" in other.page.content()
    assert not any(token in other.page.content() for token in app.tokens)
    page.go_back()  # the address with the token is not among the pages that were seen
    assert page.url == "about:blank"
    other.page.goto(f"{app.origin}/?token={app.tokens[0]}")
    assert "Open the app with the last address" in other.page.content()
    assert other.open().url == inside


def test_the_file_that_a_browser_is_given_leads_into_the_app(chromium, tmp_path, monkeypatch):
    command, told, folder = tmp_path / "browser", tmp_path / "told", tmp_path / "work"
    folder.mkdir()
    command.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {told}.part\nmv {told}.part {told}\n')
    command.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{command} %s")
    running = AppProcess(folder, "--browser")
    try:
        while not told.exists():
            time.sleep(0.05)
        context = chromium.new_context()
        page = context.new_page()
        page.goto(told.read_text())
        path.example(page)
        seen = page.evaluate("() => history.length")
        page.reload()  # the cookie is enough, also in another tab
        page.get_by_role("button", name="Continue to privacy").wait_for()
        other = context.new_page()
        other.goto(page.url)
        other.get_by_role("button", name="Continue to privacy").wait_for()
        assert seen <= 3  # (blank,) start, data: neither the file nor the address with the token
        context.close()
    finally:
        assert running.stop() == 0
    assert len(running.tokens) == 1


@pytest.mark.parametrize(("width", "dark"), [(400, False), (1400, True)])
def test_a_server_that_stopped_is_seen(chromium, tmp_path, width, dark):
    """On a page that is only looked at, and at once where something is asked of it."""
    running = AppProcess(tmp_path)
    context = chromium.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
    )
    pages = []
    for _ in range(2):
        page = context.new_page()
        page.goto(running.address)
        path.example(page)
        path.go_on(page)
        page.locator("#position").wait_for()
        assert not page.locator("#gone").is_visible()
        pages.append(page)
    assert running.stop() == 0
    asked, still = pages
    asked.bring_to_front()
    asked.locator("#position").press("ArrowRight")
    for page in (asked, still):
        page.bring_to_front()
        page.get_by_text("The app does not answer.").wait_for(timeout=20_000)
        looks_right(page, dark=dark)
    context.close()


def test_it_listens_on_this_machine_only(app):
    with closing(socket.create_connection(("127.0.0.1", int(app.port)), 5)):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", int(app.port)), 5)


def test_two_apps_in_one_folder_in_one_browser(watch, app):
    """Cookies do not know ports: neither app closes the other out. The other ends with Ctrl-C."""
    other = AppProcess(app.folder)
    try:
        seen = watch(through=[other.origin])
        first = seen.open().url
        page = seen.context.new_page()
        page.goto(other.address)
        page.locator("a.brand").wait_for()
        second = page.url
        for address in (first, second, first):
            page.goto(address)
            assert page.url == address
            assert page.locator("h1").inner_text() == "Start a release"
        page.goto(f"{second}nowhere")
        seen.forgiven.append("404")
    finally:
        assert other.stop() == 0
    said, key = other.said(), second.split("/")[3]
    assert len(other.tokens) == 2  # the address that was printed, and the one after it was used
    assert key not in said
    assert "Traceback" not in said
