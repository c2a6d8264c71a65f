"""Downloads: checked, kept, and a clear message without a network. A server on this machine."""

import hashlib
import json
import lzma
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from privest.errors import InvalidInput
from privest.paper import _nhanes as download
from privest.paper._nhanes import fetch_tables

pytest.importorskip("pooch")
STEMS = ["DEMO_G", "BMX_G", "TRIGLY_G"]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        self.server.asked.append(self.path)


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A folder that a server gives out, as if it were both sources."""
    folder = tmp_path / "served"
    folder.mkdir()
    known = {}
    for stem in STEMS:
        whole = lzma.compress(f"table {stem}".encode())
        (folder / f"{stem}.csv.xz").write_bytes(whole)
        known[f"{stem}.csv.xz"] = hashlib.sha256(whole).hexdigest()
    (folder / "2013" / "DataFiles").mkdir(parents=True)
    (folder / "2013" / "DataFiles" / "DEMO_H.XPT").write_bytes(b"first")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    server.asked = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    here = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setattr(download, "COPY", here)
    monkeypatch.setattr(download, "CDC", here)
    monkeypatch.setattr(download, "CHECKSUMS", known)
    yield folder, server
    server.shutdown()
    thread.join()
    server.server_close()


def test_known_files_are_fetched_once(served, tmp_path):
    folder, server = served
    place = fetch_tables("2011-2012", STEMS, cache=tmp_path / "cache")
    for stem in STEMS:
        name = f"{stem}.csv.xz"
        assert (place / name).read_bytes() == (folder / name).read_bytes()
    assert len(server.asked) == 3
    assert fetch_tables("2011-2012", STEMS, cache=tmp_path / "cache") == place
    assert len(server.asked) == 3


def test_a_file_that_is_not_the_known_one_is_refused(served, tmp_path):
    folder, _ = served
    (folder / "BMX_G.csv.xz").write_bytes(b"something else")
    with pytest.raises(InvalidInput, match=r"BMX_G.csv.xz could not be fetched: its checksum"):
        fetch_tables("2011-2012", STEMS, cache=tmp_path / "cache")
    assert not (tmp_path / "cache" / "nhanes-2011-2012" / "BMX_G.csv.xz").exists()


def test_a_file_without_a_known_checksum_is_held_to_its_first_one(served, tmp_path):
    folder, _ = served
    place = fetch_tables("2013-2014", ["DEMO_H"], cache=tmp_path / "cache")
    kept = json.loads((place / download.KEPT).read_text())
    assert kept == {"DEMO_H.XPT": hashlib.sha256(b"first").hexdigest()}
    (place / "DEMO_H.XPT").unlink()
    (folder / "2013" / "DataFiles" / "DEMO_H.XPT").write_bytes(b"revised")
    with pytest.raises(InvalidInput, match="its checksum is not the known one"):
        fetch_tables("2013-2014", ["DEMO_H"], cache=tmp_path / "cache")


def test_no_network_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "COPY", "http://127.0.0.1:9")  # nobody listens
    with pytest.raises(InvalidInput, match="no network, or no such file") as refused:
        fetch_tables("2011-2012", STEMS, cache=tmp_path / "cache")
    text = str(refused.value)
    assert "embedded diabetes data" in text
    for stem in STEMS:
        assert f"http://127.0.0.1:9/{stem}.csv.xz" in text


def test_a_page_that_is_not_there(served, tmp_path):
    with pytest.raises(InvalidInput, match=r"no such file \(HTTPError\)"):
        fetch_tables("2015-2016", ["DEMO_I"], cache=tmp_path / "cache")


def test_the_real_addresses():
    assert download.address("2013-2014", "BMX_H") == (
        "https://wwwn.cdc.gov/Nchs/Data/Nhanes/Public/2013/DataFiles/BMX_H.XPT"
    )
    assert download.address("2011-2012", "BMX_G").endswith(
        "/72658eb15dc186d383c6be17fbba3b028ae24123/Data/BMX_G.csv.xz"
    )


def test_checksums_are_those_of_the_files_here():
    from shared_data import RAW

    if not RAW.is_dir():
        pytest.skip("the NHANES tables are not here (../shared/data/nhanes_raw)")
    for name, digest in download.CHECKSUMS.items():
        assert hashlib.sha256((RAW / name).read_bytes()).hexdigest() == digest
