"""Downloads: checked, kept, and a clear message without a network. A server on this machine."""

import hashlib
import lzma
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from privest.data import nhanes
from privest.errors import InvalidInput

pytest.importorskip("pooch")
NAMES = sorted(nhanes.CHECKSUMS)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        self.server.asked.append(self.path)


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A folder that a server gives out, as if it were the source."""
    folder = tmp_path / "served"
    folder.mkdir()
    known = {}
    for name in NAMES:
        whole = lzma.compress(f"table {name}".encode())
        (folder / name).write_bytes(whole)
        known[name] = hashlib.sha256(whole).hexdigest()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    server.asked = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr(nhanes, "COPY", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.setattr(nhanes, "CHECKSUMS", known)
    yield folder, server
    server.shutdown()
    thread.join()
    server.server_close()


def test_known_files_are_fetched_once(served, tmp_path):
    folder, server = served
    place = nhanes.fetch_tables(tmp_path / "cache")
    for name in NAMES:
        assert (place / name).read_bytes() == (folder / name).read_bytes()
    assert len(server.asked) == 3
    assert nhanes.fetch_tables(tmp_path / "cache") == place
    assert len(server.asked) == 3


def test_a_file_that_is_not_the_known_one_is_refused(served, tmp_path):
    folder, _ = served
    (folder / "BMX_G.csv.xz").write_bytes(b"something else")
    with pytest.raises(InvalidInput, match=r"BMX_G.csv.xz could not be fetched: its checksum"):
        nhanes.fetch_tables(tmp_path / "cache")
    assert not (tmp_path / "cache" / "nhanes-2011-2012" / "BMX_G.csv.xz").exists()


def test_no_network_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(nhanes, "COPY", "http://127.0.0.1:9")  # nobody listens
    with pytest.raises(InvalidInput, match="no network, or no such file") as refused:
        nhanes.fetch_tables(tmp_path / "cache")
    text = str(refused.value)
    assert "embedded diabetes data" in text
    for name in NAMES:
        assert f"http://127.0.0.1:9/{name}" in text


def test_checksums_are_those_of_the_files_here():
    from shared_data import RAW

    if not RAW.is_dir():
        pytest.skip("the NHANES tables are not here (../shared/data/nhanes_raw)")
    for name, digest in nhanes.CHECKSUMS.items():
        assert hashlib.sha256((RAW / name).read_bytes()).hexdigest() == digest
