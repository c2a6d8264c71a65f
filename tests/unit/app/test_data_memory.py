"""A table of 200 MB, sent to an app that runs as a process: it is never all in memory."""

import re
from pathlib import Path

import httpx2
import pytest

from app_forms import forms_of
from app_process import AppProcess

SIZE = 200_000_000
# What reading in blocks takes: threads with their pieces, Arrow's and malloc's pools. The same for
# 50 MB as for 500 MB.
MOST = 0.75 * SIZE
FEATURES = 2**28  # what an aggregate plan holds of its features; the rest is in a file


def peak(app):
    """The most memory that the process has had, bytes."""
    status = Path(f"/proc/{app._running.pid}/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def written(path):
    """Rows until the size is reached; readings of five digits, a text, a date."""
    rows = "".join(
        f"{20 + k % 60},{k * 7919 % 99991 / 1000:.3f},{'fm'[k % 2]},2024-03-{1 + k % 28:02d}\n"
        for k in range(50_000)
    ).encode()
    with path.open("wb") as file:
        file.write(b"age,ldl,sex,day\n")
        while file.tell() < SIZE:
            file.write(rows)
    return path


def multipart(path, csrf, part=1 << 20):
    """The form as a browser sends it, piece by piece."""
    yield f'--b\r\ncontent-disposition: form-data; name="csrf"\r\n\r\n{csrf}\r\n'.encode()
    yield b'--b\r\ncontent-disposition: form-data; name="table"; filename="big.csv"\r\n\r\n'
    with path.open("rb") as file:
        while piece := file.read(part):
            yield piece
    yield b"\r\n--b--\r\n"


@pytest.mark.slow
@pytest.mark.parametrize("leaves", ["rows", "aggregate"])
def test_200_megabytes_do_not_enter_memory(tmp_path, leaves):
    folder = tmp_path / "work"
    folder.mkdir()
    big = written(tmp_path / "big.csv")
    app = AppProcess(folder)
    origin = {"origin": app.origin}
    try:
        with httpx2.Client(base_url=app.origin, follow_redirects=True, timeout=300) as http:
            on = re.search(r'"0;url=([^"]+)"', http.get(app.address).text)[1]
            start = http.get(on).text
            (begin,) = [form for form in forms_of(start) if form.action.endswith("/begin")]
            example = dict(begin.sent) | {"example": "yes"}
            http.post(begin.action, data=example, headers=origin)  # all is loaded
            before = peak(app)
            answer = http.post(
                begin.action, content=multipart(big, dict(begin.sent)["csrf"]),
                headers=origin | {"content-type": "multipart/form-data; boundary=b"},
            )  # fmt: skip
            assert "big.csv" in answer.text
            (form,) = [form for form in forms_of(answer.text) if form.action.endswith("/private")]
            answer = http.post(form.action, data=dict(form.sent) | {"private": "1"}, headers=origin)
            looked = peak(app)
            (form,) = [form for form in forms_of(answer.text) if form.action.endswith("/data")]
            fields = dict(form.sent) | {
                "role-0": "public", "role-1": "private", "role-2": "public", "known": "yes",
                "low-1": "0", "high-1": "100", "form": leaves,
            }  # fmt: skip
            answer = http.post(form.action, data=fields, headers=origin)
            assert str(answer.url).endswith("/privacy"), answer.text[:3000]
            planned = peak(app)
    finally:
        assert app.stop() == 0
    print(f"{before / 1e6:.0f} MB, {looked / 1e6:.0f} with the look, {planned / 1e6:.0f} planned")
    assert looked - before < MOST
    assert planned - before < MOST + FEATURES * (leaves == "aggregate")
