"""Who may speak to the app: hosts, origins, cookies, tokens; and what its answers carry.

Each request here differs in one thing from one that passes (`test_the_request_itself_passes`).
"""

import logging

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from app_client import HOST, Client
from privest.app import make_app
from privest.app.guard import UNFORESEEN, cookie_name
from privest.app.server import STATIC, _listening
from privest.errors import InvalidInput

SENTINEL = "7.31947"


@pytest.fixture
def client(tmp_path):
    found = Client(tmp_path)
    found.work = found.desk.begin()
    yield found
    found.close()


def bare(client):
    """The same app for a browser that has not opened it."""
    return TestClient(client.http.app, base_url=f"http://{HOST}", follow_redirects=False)


def place(client):
    return f"/{client.desk.key}/work/{client.work.id}/clear"


def clear(client, http=None, path=None, csrf=None, **headers):
    """A form that clears the work away; `None` among the headers leaves that one out."""
    given = {"origin": f"http://{HOST}"} | {k.replace("_", "-"): v for k, v in headers.items()}
    return (http or client.http).post(
        path or place(client),
        data={} if csrf == "" else {"csrf": csrf or client.desk.csrf},
        headers={name: value for name, value in given.items() if value is not None},
    )


def refused(client, answer, status=403):
    """Nothing was done, and nothing that opens the app was told."""
    assert answer.status_code == status, answer.text
    assert len(client.desk.works) == 1
    for secret in (client.desk.csrf, client.desk.key, client.desk.session):
        assert secret not in answer.text
        assert secret not in str(answer.headers)


def test_the_request_itself_passes(client):
    assert client.get("/").status_code == 200
    assert clear(client).status_code == 303
    assert client.desk.works == {}


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8800", "127.0.0.1", "127.0.0.1:8801", "localhost", "",
     "[::1]:8800",
     "127.0.0.1:8800.evil.example", "127.0.0.1:8800@evil.example", "127.0.0.1:8800, evil.example"],
)  # fmt: skip
def test_another_host_is_refused(client, host):
    """DNS rebinding: a page of others under a name that leads here."""
    refused(client, clear(client, host=host, origin=f"http://{host}"))
    refused(client, client.http.get(f"/{client.desk.key}/", headers={"host": host}))
    token = client.desk.new_token()
    opened = bare(client).get("/", params={"token": token}, headers={"host": host})
    refused(client, opened)
    assert "set-cookie" not in opened.headers
    assert client.desk.admits(token)  # it was not used up


@pytest.mark.parametrize(
    "origin",
    [None, "null", "", "http://evil.example", f"https://{HOST}", "http://127.0.0.1:8801", "http://127.0.0.1",
     f"http://{HOST}.evil.example", f"http://{HOST}/"],
)  # fmt: skip
def test_a_form_of_another_page_is_refused(client, origin):
    refused(client, clear(client, origin=origin))


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_a_browser_says_of_its_origin_counts(client, site):
    refused(client, clear(client, sec_fetch_site=site))
    refused(client, client.get("/", headers={"sec-fetch-site": site}))


@pytest.mark.parametrize("cookie", [None, "", "wrong", "x" * 32, 'a"b\\;'])
def test_without_the_cookie_nothing_is_shown(client, cookie):
    other = bare(client)
    if cookie is not None:
        other.headers["cookie"] = f"{cookie_name(HOST)}={cookie}"
    refused(client, other.get(f"/{client.desk.key}/"))
    refused(client, other.get(f"/{client.desk.key}/static/app.css"))
    refused(client, clear(client, other))


def test_a_cookie_of_another_app_does_not_open_this_one(client, tmp_path):
    other = Client(tmp_path)
    wrong = bare(client)
    wrong.headers["cookie"] = f"{cookie_name(HOST)}={other.desk.session}"
    refused(client, clear(client, wrong))
    other.close()


@pytest.mark.parametrize("csrf", ["", "wrong", "x" * 32, "é", "\udcff"])
def test_a_form_without_the_word_is_refused(client, csrf):
    if csrf == "\udcff":  # bytes that are no UTF-8
        answer = client.http.post(
            place(client), content=b"csrf=%FF%FE",
            headers={"origin": f"http://{HOST}",
                     "content-type": "application/x-www-form-urlencoded"},
        )  # fmt: skip
    else:
        answer = clear(client, csrf=csrf)
    assert answer.status_code == 403
    assert len(client.desk.works) == 1


def test_a_word_that_is_a_file_is_refused(client):
    answer = client.http.post(
        place(client), files={"csrf": ("a.txt", client.desk.csrf.encode())},
        headers={"origin": f"http://{HOST}"},
    )  # fmt: skip
    assert answer.status_code == 403
    assert len(client.desk.works) == 1


@pytest.mark.parametrize("key", ["wrong", "é", "%00", "..", "static", "%2e%2e"])
def test_another_path_is_refused(client, key):
    """Also with the cookie, which a browser would not send there."""
    http = bare(client)
    http.headers["cookie"] = f"{cookie_name(HOST)}={client.desk.session}"
    refused(client, clear(client, http, path=f"/{key}/work/{client.work.id}/clear"))
    refused(client, http.get(f"/{key}/"))


@pytest.mark.parametrize("token", ["", "wrong", "é", "x" * 10_000, "\x00"])
def test_a_wrong_token_gives_no_cookie(client, token):
    answer = bare(client).get("/", params={"token": token})
    refused(client, answer)
    assert "set-cookie" not in answer.headers
    assert bare(client).get("/").status_code == 403


def test_a_token_is_exchanged_for_a_strict_cookie_once(client):
    token = {"token": client.desk.new_token()}
    ahead = {"sec-purpose": "prefetch"}
    http = bare(client)
    for none in (http.head("/", params=token), http.get("/", params=token, headers=ahead)):
        refused(client, none, none.status_code)
        assert none.status_code in (403, 503)
    answer = bare(client).get("/", params=token)
    assert answer.status_code == 200
    assert f'content="0;url=/{client.desk.key}/"' in answer.text
    refused(client, bare(client).get("/", params=token))
    cookie = answer.headers["set-cookie"]
    for part in ("HttpOnly", "SameSite=strict", f"Path=/{client.desk.key}"):
        assert part in cookie
    assert "Domain" not in cookie
    assert token["token"] not in cookie + answer.text + client.get("/").text


@pytest.mark.parametrize(
    "method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "QUERY"]
)
def test_other_methods_are_refused(client, method):
    for path in ("/", f"/{client.desk.key}/", place(client)):
        refused(client, client.http.request(method, path), 405)


def test_a_page_is_not_posted_and_a_form_not_asked_for(client):
    assert clear(client, path=f"/{client.desk.key}/").status_code == 405
    assert client.http.get(place(client)).status_code == 405
    assert len(client.desk.works) == 1


def test_every_answer_has_the_headers(client):
    key = client.desk.key
    answers = [
        client.get("/"), client.get("/nowhere"), client.get("/static/app.css"),
        clear(client, csrf="wrong"), clear(client),
        clear(client, host="evil.example"), client.http.get("/"),
        client.http.request("PUT", f"/{key}/"), bare(client).get(f"/{key}/"),
    ]  # fmt: skip
    assert {one.status_code for one in answers} == {200, 303, 403, 404, 405}
    for answer in answers:
        told = answer.headers
        policy = dict(part.strip().partition(" ")[::2] for part in
                      told["content-security-policy"].split(";"))  # fmt: skip
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == "'self'"
        assert policy["connect-src"] == policy["form-action"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert "unsafe" not in told["content-security-policy"]
        assert told["x-content-type-options"] == "nosniff"
        assert told["x-frame-options"] == "DENY"
        assert told["referrer-policy"] in ("same-origin", "no-referrer")
        assert told["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in told
        if answer.url.path.find("/static/") < 0:
            assert "no-store" in told["cache-control"]


@pytest.mark.parametrize(
    "path",
    ["../guard.py", "%2e%2e/guard.py", "..%2fguard.py", "....//guard.py", "%5c..%5cguard.py",
     "/etc/passwd", "//etc/passwd", "%2fetc%2fpasswd", "app.css%00.html", "", "\x00"],
)  # fmt: skip
def test_static_files_are_those_of_the_app_only(client, path):
    raw = f"/{client.desk.key}/static/{path}".encode("latin-1").replace(b"\x00", b"%00")
    answer = client.http.get(client.http.base_url.copy_with(raw_path=raw))
    assert answer.status_code in (400, 403, 404), answer.text
    assert "import" not in answer.text
    assert "root:" not in answer.text


def test_what_is_static_is_served(client):
    for file in STATIC.iterdir():
        assert client.get(f"/static/{file.name}").content == file.read_bytes()


def test_a_form_that_is_too_long_is_refused(client):
    answer = client.http.post(
        place(client), content=(b"x" * 65_536 for _ in range(100)),
        headers={"origin": f"http://{HOST}", "content-type": "application/x-www-form-urlencoded"},
    )  # fmt: skip
    assert answer.status_code == 413
    assert len(client.desk.works) == 1


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"no boundary"),
        ("multipart/form-data; boundary=x", b"--x\r\nbroken"),
        (
            "multipart/form-data; boundary=x",
            b"--x\r\nContent-Disposition: nothing\r\n\r\n\r\n--x--",
        ),
        ("application/json", b'{"csrf": 1}'),
        ("", b"\xff" * 99),
        ("application/x-www-form-urlencoded", b"&".join(b"a=%d" % k for k in range(20_000))),
    ],
)
def test_a_form_that_is_none_gives_a_message(client, kind, body):
    answer = client.http.post(
        place(client), content=body,
        headers={"origin": f"http://{HOST}", "content-type": kind},
    )  # fmt: skip
    assert answer.status_code in (400, 403, 413, 422), answer.text
    assert "<p>" in answer.text
    assert len(client.desk.works) == 1


def test_what_nobody_foresaw_shows_no_value(client, caplog):
    """An exception's text may hold what was in a cell: neither the page nor the log has it."""

    def broken(request):
        raise ValueError(f"could not convert {SENTINEL}")

    app = make_app(client.desk)
    app.router.routes.append(Route("/{key}/broken", broken))
    http = TestClient(app, base_url=f"http://{HOST}", raise_server_exceptions=False)
    http.headers["cookie"] = f"{cookie_name(HOST)}={client.desk.session}"
    with caplog.at_level(logging.DEBUG, "privest"), caplog.at_level(logging.WARNING, "httpx2"):
        answer = http.get(f"/{client.desk.key}/broken")
    assert answer.status_code == 500
    assert UNFORESEEN[:40] in answer.text
    assert "ValueError" in caplog.text
    assert "test_guard.py" in caplog.text
    for text in (answer.text, caplog.text):
        assert SENTINEL not in text
    for secret in (client.desk.session, client.desk.key):
        assert secret not in caplog.text


def test_it_listens_on_this_machine_only():
    found = _listening(0)
    host, port = found.getsockname()
    assert host == "127.0.0.1"
    with pytest.raises(InvalidInput, match=f"port {port} of this machine cannot be used"):
        _listening(port)
    found.close()
    for wrong in (-1, 70_000):
        with pytest.raises(InvalidInput, match="choose another"):
            _listening(wrong)
