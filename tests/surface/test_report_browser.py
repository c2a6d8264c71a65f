"""The report in a real browser: phone and desk, light and dark, on paper; no request leaves.

A small server on 127.0.0.1 shows the page in a frame of the wanted width and a script beside it
measures the frame. Every other host name leads to the same server, so a request to it is seen.
"""

import functools
import html
import http.server
import json
import re
import subprocess
import threading
from dataclasses import replace

import pytest

from chromium import AS_ROOT, CHROMIUM, needs_chromium
from privest.report.describe import describe
from privest.report.page import page as page_html
from privest.report.sections import Sentence
from privest.workflow.estimate import estimate
from privest.workflow.plan import make_plan
from privest.workflow.release import simulate_release, simulation_source
from privest.workflow.spec import Privacy
from workflow_tables import LEVEL, people, spec

pytestmark = [pytest.mark.browser, needs_chromium]

HARNESS = """<!DOCTYPE html><link rel="icon" href="data:,">
<iframe id="f" src="PAGE" style="border:0;width:WIDTHpx;height:3000px"></iframe><pre id="out"></pre>
<script>
function rgb(text) { return text.match(/[\\d.]+/g).map(Number); }
function light(c) {
  const [r, g, b] = c.slice(0, 3).map(v => { v /= 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function behind(e, view) {
  for (; e; e = e.parentElement) {
    const c = rgb(view.getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c;
  }
  return [255, 255, 255];
}
document.getElementById("f").onload = async event => {
  const view = event.target.contentWindow, page = view.document, root = page.documentElement;
  const worded = [...page.body.querySelectorAll("*")].filter(e =>
    [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()));
  const contrast = e => {
    const [a, b] = [light(rgb(view.getComputedStyle(e).color)), light(behind(e, view))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const box = e => e.getBoundingClientRect();
  const hidden = e => e.closest("thead") && box(e.closest("thead")).width <= 1;
  document.getElementById("out").textContent = JSON.stringify({
    width: root.clientWidth, across: root.scrollWidth, lang: root.lang, title: page.title,
    font: Math.min(...worded.map(e => parseFloat(view.getComputedStyle(e).fontSize))),
    contrast: Math.min(...worded.map(contrast)), paper: light(behind(page.body, view)),
    outside: [...page.body.querySelectorAll("*")].filter(e => !hidden(e) && (
      box(e).right > root.clientWidth + 0.5 || box(e).left < -0.5)).map(e => e.tagName),
    cells: [...page.querySelectorAll("td")].filter(e => box(e).width > 0 && box(e).height > 0)
      .map(e => [box(e).left, box(e).right, e.scrollWidth - e.clientWidth]),
    charts: [...page.querySelectorAll("svg.chart")].map(e => [e.getAttribute("aria-label").length,
      box(e).width, light(rgb(view.getComputedStyle(e.querySelector("text")).fill))]),
    scrolling: [...page.querySelectorAll(".scroll")].map(e => e.scrollWidth > e.clientWidth),
    headings: [...page.querySelectorAll("h1,h2,h3,h4")].map(e => e.tagName).join(" "),
    loaded: view.performance.getEntriesByType("resource").map(e => e.name)
      .filter(name => !name.startsWith("data:")),
    scripts: page.scripts.length, touched: view.touched === true,
  });
};
</script>"""


class Server:
    """Files of a folder, and a list of (host, path) that were asked for."""

    def __init__(self, folder):
        self.folder, self.asked = folder, []
        outer = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def send_head(self):
                outer.asked.append((self.headers.get("Host", ""), self.path))
                return super().send_head()

            def end_headers(self):
                self.send_header("Cache-Control", "no-store")  # every request is to be seen
                super().end_headers()

            def log_message(self, *_):
                pass

        made = functools.partial(Handler, directory=str(folder))
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), made)
        self.host = f"127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def browse(self, *options, address):
        command = [
            CHROMIUM, *AS_ROOT, "--headless",
            "--disable-gpu", "--hide-scrollbars", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-features=NetworkTimeServiceQuerying",  # the browser's own clock
            f"--user-data-dir={self.folder / 'profile'}", "--window-size=1400,3100",
            f"--host-resolver-rules=MAP * {self.host}", *options, address,
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done

    def measure(self, page, width, dark=False):
        harness = HARNESS.replace("PAGE", page).replace("WIDTH", str(width))
        (self.folder / "harness.html").write_text(harness, encoding="utf-8")
        done = self.browse(
            "--dump-dom", "--virtual-time-budget=10000", "--enable-logging=stderr",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            address=f"http://{self.host}/harness.html",
        )  # fmt: skip
        found = re.search(r'<pre id="out">(\{.*\})</pre>', done.stdout, re.DOTALL)
        assert found, f"the page was not measured: {done.stdout[-500:]} {done.stderr[-1500:]}"
        said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        return json.loads(html.unescape(found[1])) | {"console": said}


TITLE = "Blood fat, privately"
HOSTILE = "<script>top.touched=window.touched=true</script><img src='http://elsewhere.test/a.png'>"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    serving = Server(folder)
    long = 200 * "x"  # a word that no line can hold
    plan = make_plan(spec(privacy=Privacy(LEVEL, range={"ldl": (-50.0, 50.0)})), people())
    simulate_release(plan, folder / "z.csv", simulation_source(plan, 1), people())
    found = estimate(folder / "z.csv")
    told = describe(
        replace(found, names=("intercept", long, HOSTILE, "sex=male")), plan=plan,
        commands=[f"privest report {long}.csv"],
    )  # fmt: skip
    title, more = (Sentence("quoted", {"text": text}) for text in (TITLE, f"200 people {long}"))
    made = page_html(title, more, told, more)
    (folder / "report.html").write_text(made, encoding="utf-8")
    (folder / "bad.html").write_text(
        '<!DOCTYPE html><html><body style="color:#999"><div style="width:900px;font-size:9px">wide'
        '</div><img src="http://elsewhere.test/a.png"><script>window.touched = true</script>',
        encoding="utf-8",
    )
    yield serving
    serving.http.shutdown()
    serving.http.server_close()


@pytest.fixture(scope="module", params=[(360, False), (400, True), (1200, False)])
def seen(server, request):
    width, dark = request.param
    server.asked.clear()
    found = server.measure("report.html", width, dark)
    return found | {"asked": list(server.asked), "dark": dark, "wanted": width}


def test_the_page_never_scrolls_sideways(seen):
    assert seen["width"] == seen["wanted"]
    assert seen["across"] <= seen["width"]
    assert seen["outside"] == []


def test_every_cell_of_every_table_is_in_sight(seen):
    """The interval too, at 400 pixels and below: nothing to scroll sideways for."""
    assert seen["scrolling"] == [False] * 3
    assert len(seen["cells"]) == 4 * 6 + 4 * 4 + 6
    for left, right, cut in seen["cells"]:
        assert 0 <= left < right <= seen["width"]
        assert cut <= 0


def test_letters_are_large_and_stand_out(seen):
    """WCAG AA asks for a contrast of 4.5."""
    assert seen["font"] >= 15
    assert seen["contrast"] >= 4.5
    assert (seen["paper"] < 0.1) == seen["dark"]


def test_every_chart_is_shown_and_described_and_follows_the_theme(seen):
    assert len(seen["charts"]) == 1
    for described, width, letters in seen["charts"]:
        assert described > 60
        assert 300 < width <= 720
        assert (letters > 0.3) == seen["dark"]


def test_nothing_is_loaded_and_nothing_runs(seen, server):
    assert seen["loaded"] == []
    assert seen["scripts"] == 0
    assert not seen["touched"]
    assert seen["console"] == []  # a blocked style, script or picture would complain here
    assert sorted(seen["asked"]) == [(server.host, "/harness.html"), (server.host, "/report.html")]


def test_headings_language_and_title(seen):
    assert seen["headings"] == "H1" + 7 * " H2"
    assert seen["lang"] == "en"
    assert seen["title"] == TITLE


def test_the_measurements_themselves_can_fail(server):
    server.asked.clear()
    found = server.measure("bad.html", 360)
    assert found["across"] > found["width"] == 360
    assert "DIV" in found["outside"]
    assert found["font"] == 9
    assert found["contrast"] < 4.5
    assert found["touched"]
    assert ("elsewhere.test", "/a.png") in server.asked


def test_the_file_opens_by_itself_and_prints(server):
    page = (server.folder / "report.html").as_uri()
    done = server.browse("--dump-dom", address=page)
    assert "<h1>Blood fat, privately</h1>" in done.stdout
    paper = server.folder / "report.pdf"
    server.browse(f"--print-to-pdf={paper}", "--no-pdf-header-footer", address=page)
    data = paper.read_bytes()
    assert data.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", data)) <= 8
