"""A browser's window on the app in which everything is seen: requests, answers, complaints.

Every answer is kept, also what is packed into it (pictures as data: addresses, zip files), so that
a test can look for a private value in all of it.
"""

import base64
import binascii
import io
import re
import zipfile
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from app_wire import Wire

AXE = Path(__file__).with_name("browser") / "vendor" / "axe.min.js"
# A page tells what the policy refused, also where the console does not.
POLICY = """document.addEventListener("securitypolicyviolation",
    e => console.error("policy: " + e.violatedDirective + " " + e.blockedURI));"""
RUN_AXE = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
    .map(v => v.id + ": " + v.nodes.map(n => n.html.slice(0, 200)).join(" | "))"""
PACKED = re.compile(rb"data:[\w/+.-]*(?:;[\w=-]+?)*?(;base64)?,([A-Za-z0-9+/=%._~!*'()-]+)")


def layers(data: bytes) -> list[bytes]:
    """Bytes, and what is packed into them."""
    found = [data]
    start = data.find(b"PK\x03\x04")
    if start >= 0 and zipfile.is_zipfile(io.BytesIO(data[start:])):
        with zipfile.ZipFile(io.BytesIO(data[start:])) as box:
            found += [inner for name in box.namelist() for inner in layers(box.read(name))]
            found += [name.encode() for name in box.namelist()]
    for coded, text in PACKED.findall(data):
        try:
            found.append(base64.b64decode(text) if coded else unquote_to_bytes(text))
        except binascii.Error:
            continue
    return found


class Watched:
    """A context of a browser on an app; `page` is its first tab.

    through  addresses of all apps that it may speak to; left out: of this one.
    """

    def __init__(self, browser, app, *, dark=False, width=1400, height=1000, through=(), **options):
        self.app = app
        self.wire = Wire(*(urlsplit(one).netloc for one in (app.origin, *through)))
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            accept_downloads=True,
            proxy={"server": self.wire.address, "bypass": "<-loopback>"},
            **options,
        )
        self.context.set_default_timeout(30_000)
        self.complaints: list[str] = []
        # Parts of complaints that are expected: here of a request that the next one replaced.
        self.forgiven: list[str] = ["htmx:sendAbort", "htmx:afterRequest"]
        self.context.add_init_script(POLICY)
        self.context.on("console", self._said)
        self.context.on("weberror", lambda e: self.complaints.append(f"error: {e.error}"))
        self.page = self.context.new_page()

    @property
    def answers(self):
        return self.wire.answers

    def open(self):
        """The address that the app printed last, to where it leads."""
        self.page.goto(self.app.address)
        self.page.locator("a.brand").wait_for()
        return self.page

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def where(self, value: str, since: int = 0) -> list[str]:
        """The addresses whose answers, or which themselves, hold a text."""
        wanted = value.encode()
        return [
            f"{asked} → {status}"
            for asked, status, body in self.answers[since:]
            if value in asked or any(wanted in part for part in layers(body))
        ]

    def require_clean(self):
        """No request to anybody else; no complaint of the browser."""
        assert self.wire.outside == [], "requests to others"
        bad = [c for c in self.complaints if not any(part in c for part in self.forgiven)]
        assert bad == [], f"complaints of the browser: {bad}"
        assert [one[:2] for one in self.answers if one[1] >= 500] == [], "errors of the app"

    def close(self):
        self.context.close()
        self.wire.close()


def accessibility(page) -> list[str]:
    """What axe-core finds."""
    if not page.evaluate("typeof axe !== 'undefined'"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    return page.evaluate(RUN_AXE)
