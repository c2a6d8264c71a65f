"""The app as a process, and chromium to look at it. Everything here is marked `browser`."""

import pytest

from app_process import AppProcess
from app_watched import Watched
from chromium import AS_ROOT, CHROMIUM

# What the browser would ask its maker. The last such list counts, so it has Playwright's too.
OWN_ERRANDS = (
    "AutofillServerCommunication", "NetworkTimeServiceQuerying", "OptimizationHints", "Translate",
    "MediaRouter", "AcceptCHFrame", "HttpsUpgrades", "PaintHolding", "LensOverlay",
    "DestroyProfileOnBrowserClose", "GlobalMediaControls", "ThirdPartyStoragePartitioning",
    # Of Chromium 150, which connects to its search engine at its start.
    "SearchEnginePreconnect2", "PreconnectToSearch", "AimEnabled",
)  # fmt: skip
PATIENCE = 30_000  # milliseconds: other tests run beside these
QUIET = [
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", f"--disable-features={','.join(OWN_ERRANDS)}",
]  # fmt: skip


@pytest.fixture(scope="session")
def chromium():
    """Debian's browser, once for all tests."""
    if CHROMIUM is None:
        pytest.skip("no browser here: chromium or google-chrome must be on the PATH")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=[*AS_ROOT, *QUIET])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """`privest app` in a folder of its own; at the end it stops as by Ctrl-C."""
    running = AppProcess(tmp_path_factory.mktemp("work"))
    yield running
    running.stop()


@pytest.fixture
def watch(chromium, app):
    """Windows on the app, each with all that it saw; at the end all must be clean."""
    made = []

    def watched(**options) -> Watched:
        made.append(Watched(chromium, app, **options))
        return made[-1]

    yield watched
    for one in made:
        one.require_clean()
        one.close()
