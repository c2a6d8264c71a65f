"""A wire between a browser and the app: a proxy that keeps every byte that was answered.

A request to anybody else ends here too: it is noted and refused.
"""

import http.client
import http.server
import threading
from urllib.parse import urlsplit

HOP = {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "content-length"}


class Wire:
    """`answers`: (method and address, status, headers and body). `outside`: asked of others."""

    def __init__(self, *hosts: str) -> None:
        self.answers: list[tuple[str, int, bytes]] = []
        self.outside: list[str] = []
        wire = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def passed_on(self) -> None:
                address = urlsplit(self.path)
                if address.netloc not in hosts:
                    wire.outside.append(f"{self.command} {self.path}")
                    self.close_connection = True
                    self.send_error(502)
                    return
                inner = http.client.HTTPConnection(address.netloc, timeout=120)
                try:
                    self._ask(inner, address)
                finally:
                    inner.close()

            def _ask(self, inner, address) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))) or None
                headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP}
                path = address.path + (f"?{address.query}" if address.query else "")
                inner.request(self.command, path, body, headers)
                answer = inner.getresponse()
                told = answer.read()
                head = [(k, v) for k, v in answer.getheaders() if k.lower() not in HOP]
                kept = "\r\n".join(f"{k}: {v}" for k, v in head).encode() + b"\r\n\r\n" + told
                wire.answers.append((f"{self.command} {self.path}", answer.status, kept))
                self.send_response_only(answer.status)
                for name, value in head:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)

            def do_CONNECT(self) -> None:
                wire.outside.append(f"CONNECT {self.path}")
                self.close_connection = True
                self.send_error(502)

            do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = do_OPTIONS = passed_on

            def log_message(self, *_) -> None:
                pass

        class Quiet(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_) -> None:
                """A browser that leaves a page cuts off what it asked for."""

        self._http = Quiet(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
