"""The first page in a browser, and the process behind it: how it starts, and how it stops."""

import socket
from contextlib import closing

import pytest

from app_looks import LOOKS, looks_right
from app_process import AppProcess

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_the_first_page(watch, width, dark):
    page = watch(width=width, dark=dark).open()
    assert page.locator("h1").inner_text().startswith("What will I know")
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
    assert "Open the app with the address that privest app printed" in other.page.content()
    assert app.token not in other.page.content()


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
        second = page.url
        for address in (first, second, first):
            page.goto(address)
            assert page.url == address
            assert page.locator("h1").inner_text().startswith("What will I know")
        page.goto(f"{second}nowhere")
        seen.forgiven.append("404")
    finally:
        assert other.stop() == 0
    said, key = other.said(), second.split("/")[3]
    assert said.count(other.token) == 1  # the address that was printed
    assert key not in said
    assert "Traceback" not in said
