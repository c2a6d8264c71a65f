"""docs/images/app-*.png: every screen of `privest app`, on the embedded tables (needs chromium).

`make pictures` makes them, with a real release in a new folder: its numbers differ from run to run.
`python docs/app_pictures.py FOLDER` puts them elsewhere, to be looked at first. A digest of the
templates and the style sheet is kept in each picture, so that a test notices stale ones.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from PIL.PngImagePlugin import PngInfo

import privest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IMAGES = Path(__file__).parent / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
COLOURS = 128  # enough for words and lines, and for what is rare: an edge of a note
MOST_BYTES = 150_000  # of a picture
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\?token=[\w-]+")
EPSILON, LIMIT = "3", "6"
KEY = "templates of the app"


def digest() -> str:
    """SHA-256 of what the screens are made of."""
    app = Path(privest.__file__).parent / "app"
    parts = [*sorted((app / "templates").glob("*.html")), app / "static" / "app.css"]
    return hashlib.sha256(b"".join(one.read_bytes() for one in parts)).hexdigest()


@contextmanager
def study() -> Iterator[Path]:
    """A folder whose place is the same in every run: it is in the pictures."""
    folder = Path(tempfile.gettempdir()) / "study"
    try:
        folder.mkdir()
    except FileExistsError:
        sys.exit(f"{folder} is there already: the pictures are made in a new folder of that name.")
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def app_in(folder: Path) -> Iterator[Path]:
    """`privest app` in a folder, as a user starts it: the file of what it prints."""
    log = folder / "app.log"
    with log.open("wb") as out:
        running = subprocess.Popen(
            [sys.executable, "-m", "privest", "app", "--no-browser"],
            cwd=folder, stdout=out, stderr=out,
            env=os.environ | {"PYTHONUNBUFFERED": "1", "PRIVEST_STATE_HOME": str(folder / ".m")},
        )  # fmt: skip
    try:
        yield log
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(30)


def _address(log: Path) -> str:
    """The last that was printed: each opens the app once."""
    for _ in range(600):
        if found := ADDRESS.findall(log.read_text(encoding="utf-8")):
            return str(found[-1])
        time.sleep(0.1)
    sys.exit(f"the app did not start: {log.read_text(encoding='utf-8')}")


def shot(page: Page, folder: Path, name: str, most: int = 1600) -> None:
    """The page from its top, at most so many pixels of it, as a small picture."""
    page.wait_for_load_state("networkidle")
    page.evaluate("() => { window.scrollTo(0, 0); document.activeElement.blur(); }")
    size = page.viewport_size
    assert size is not None
    raw, path = folder / "raw.png", folder / f"app-{name}.png"
    tall = min(most, page.evaluate("() => document.documentElement.scrollHeight"))
    page.set_viewport_size({"width": size["width"], "height": tall})
    page.screenshot(path=raw)
    page.set_viewport_size(size)
    with Image.open(raw) as image:
        small = image.convert("RGB").quantize(
            COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
        )
        kept = PngInfo()
        kept.add_text(KEY, digest())
        small.save(path, optimize=True, pnginfo=kept)
    raw.unlink()
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
    if path.stat().st_size > MOST_BYTES:
        sys.exit(f"{path} has more than {MOST_BYTES} bytes: show less of the page.")


def a_table(page: Page, folder: Path) -> None:
    """From the first page to the results."""
    shot(page, folder, "start")
    page.get_by_text("The example table").click()
    page.get_by_role("button", name="Use the example").click()
    page.get_by_label("Role of bmi").wait_for()
    shot(page, folder, "data", 1300)
    page.get_by_role("button", name="Continue to privacy").click()
    page.locator("#epsilon").fill(EPSILON)
    page.get_by_role("button", name="Continue to release").click()
    page.get_by_role("button", name="Start a dry run").wait_for()
    page.get_by_role("link", name="Back").click()
    page.locator("#epsilon").wait_for()
    shot(page, folder, "privacy", 1500)
    page.get_by_role("button", name="Continue to release").click()
    page.get_by_role("button", name="Start a dry run").wait_for()
    shot(page, folder, "release", 1300)
    page.get_by_label("Limit of the new account").fill(LIMIT)
    page.get_by_role("checkbox", name=re.compile("^I understand")).check()
    page.get_by_role("button", name="Release now").click()
    page.get_by_role("link", name="Export all (ZIP)").wait_for()
    shot(page, folder, "results", 1700)


def again(page: Page, folder: Path, name: str, screen: str, most: int) -> None:
    """A screen of the work that is on the desk, in another window."""
    page.locator(".list a").first.click()
    page.get_by_role("navigation", name="Steps").wait_for()
    step = page.get_by_role("navigation", name="Steps").get_by_role("link", name=screen)
    if step.count():
        step.click()
    page.wait_for_load_state("load")
    shot(page, folder, name, most)


def pictures(browser: Browser, log: Path, folder: Path) -> None:
    """All of them."""

    def window(width: int, dark: bool = False) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        page = context.new_page()
        page.goto(_address(log))
        page.locator("a.brand").wait_for()
        return page

    a_table(window(1200), folder)
    again(window(400), folder, "phone", "Privacy", 1500)
    again(window(1200, dark=True), folder, "dark", "Results", 1200)


def main() -> None:
    """Run the app, go through it, keep the pictures."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        sys.exit("the pictures need a browser: chromium or google-chrome on the PATH.")
    kept = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    root = ["--no-sandbox"] if os.geteuid() == 0 else []  # chromium refuses its sandbox to root
    with study() as folder, app_in(folder) as log, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=found, args=root)
        pictures(browser, log, kept)
        browser.close()


if __name__ == "__main__":
    main()
