"""Access to the app, and what a browser may do with its answers.

Any page in the same browser can send requests to 127.0.0.1, and any user of the machine can
connect. So every request must name the right host, bring the cookie that a token for one use gave,
under a path that nobody knows; a change must come from a page of the app (Origin), with its CSRF.
"""

from __future__ import annotations

import logging
import traceback

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from privest.app.desk import Desk, same_secret
from privest.app.pages import onward, says

log: logging.Logger = logging.getLogger("privest.app")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with none at all, browsers send no Origin with a form
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
READING, CHANGING = ("GET", "HEAD"), ("POST",)
COOKIE = "privest"
OUTSIDE = ("cross-site", "same-site")  # another port of this machine is "same-site"


class Guard:
    """Lets through what comes from the user's own browser; everything else gets a short page."""

    app: ASGIApp
    desk: Desk

    def __init__(self, app: ASGIApp, desk: Desk) -> None:
        self.app, self.desk = app, desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                _dress(message)
            await send(message)

        answer = self._refusal(scope)
        if answer is not None:
            await answer(scope, receive, sending)
            return
        try:
            await self.app(scope, receive, sending)
        except Exception as error:  # what nobody foresaw: never its text, which may hold a reading
            note(error)
            if not begun:
                await says(500, UNFORESEEN)(scope, receive, sending)

    def _refusal(self, scope: Scope) -> Response | None:
        """The answer to a request that may not pass; None: it may."""
        asked, desk, method = HTTPConnection(scope), self.desk, scope["method"]
        headers, host = asked.headers, asked.headers.get("host", "")
        if host not in desk.hosts:
            return says(403, "This is not the address that privest app printed.")
        if method not in (*READING, *CHANGING):
            return says(405, "The app takes GET and POST.")
        if scope["path"] == "/":
            return self._opened(asked, host)
        inside = scope["path"].split("/")[1]
        known = same_secret(inside, desk.key)
        cookie = asked.cookies.get(cookie_name(host), "")
        if not known or not same_secret(cookie, desk.session):
            return says(403, NOT_OPENED)
        if headers.get("sec-fetch-site") in OUTSIDE:
            return says(403, "This request comes from another page.")
        if method in CHANGING and headers.get("origin") != f"http://{host}":
            return says(403, "This form was not sent by a page of the app.")
        return None

    def _opened(self, asked: HTTPConnection, host: str) -> Response:
        """A token is exchanged for the cookie, once."""
        given = asked.query_params.get("token", "")
        if "sec-purpose" in asked.headers:  # a browser's guess must not use the token up
            return says(503, "This address is not fetched ahead of time.")
        if asked.scope["method"] != "GET" or not self.desk.admits(given):
            return says(403, NOT_OPENED)
        # A page, no redirect: to what another page (the file that was opened) leads to, however
        # often it is redirected, a browser sends no strict cookie.
        answer = HTMLResponse(onward(f"/{self.desk.key}/"))
        # Cookies do not know ports: under a path of its own no other server here is sent it.
        answer.set_cookie(
            cookie_name(host), self.desk.session, path=f"/{self.desk.key}", httponly=True,
            samesite="strict",
        )  # fmt: skip
        return answer


NOT_OPENED = (
    "Open the app with the last address that privest app printed on its terminal. Each opens it "
    "once; then the next one is printed."
)
UNFORESEEN = (
    "Something went wrong that nobody foresaw. Nothing was released by it. Where it happened (not "
    "what was in your data) is on the terminal in which the app runs; please report it."
)


def cookie_name(host: str) -> str:
    """By port: several apps may run at once."""
    return f"{COOKIE}_{host.rpartition(':')[2]}"


def _dress(message: Message) -> None:
    headers = MutableHeaders(raw=message.setdefault("headers", []))
    for name, value in HEADERS.items():
        headers[name] = value
    headers.setdefault("cache-control", "no-store")


def note(error: BaseException) -> None:
    """Log place and kind of an error, not its text, which may hold a value."""
    places = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{one.filename}:{one.lineno}" for one in reversed(places[-4:]))
    log.error("%s at %s", type(error).__name__, where)
