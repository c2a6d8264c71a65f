"""The instruments themselves can fail: what must never happen is seen where it does happen."""

import base64
import http.server
import io
import threading
import zipfile
from types import SimpleNamespace

import pytest

from app_watched import Watched, accessibility, layers

pytestmark = pytest.mark.browser

BAD = b"""<!DOCTYPE html><title>bad</title><link rel=icon href="data:,"><p style="color:red">one</p>
<img src="http://elsewhere.test/a.png"><input><p>7.31947</p><script>console.error("x")</script>"""


class Bad(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Security-Policy", "style-src 'self'")
        self.end_headers()
        self.wfile.write(BAD)

    def log_message(self, *_):
        pass


@pytest.fixture
def bad(chromium):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Bad)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = f"http://127.0.0.1:{server.server_port}"
    seen = Watched(chromium, SimpleNamespace(origin=place, address=f"{place}/"))
    yield seen
    seen.close()
    server.shutdown()
    server.server_close()


def test_a_bad_page_is_seen_to_be_bad(bad):
    bad.page.goto(bad.app.address)
    page = bad.page
    found = {one.partition(":")[0] for one in accessibility(page)}
    assert {"html-has-lang", "image-alt", "label"} <= found
    assert bad.wire.outside == ["GET http://elsewhere.test/a.png"]
    assert any("policy: style-src" in one for one in bad.complaints)
    assert any(one == "error: x" for one in bad.complaints)
    assert len(bad.where("7.31947")) == 1
    assert bad.where("7.31947", since=len(bad.answers)) == []
    with pytest.raises(AssertionError, match="requests to others"):
        bad.require_clean()


def test_packed_texts_are_looked_into():
    coded = base64.b64encode(b"<svg>7.31947</svg>")
    page = b'<img src="data:image/svg+xml;base64,' + coded + b'">'
    box = io.BytesIO()
    with zipfile.ZipFile(box, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("report.html", page)
    for data in (page, box.getvalue(), b"content-type: application/zip\r\n\r\n" + box.getvalue()):
        assert b"7.31947" not in data
        assert any(b"7.31947" in part for part in layers(data))
    assert any(b"a 7.31947" in part for part in layers(b"data:image/svg+xml,%3Csvg%3Ea%207.31947"))
