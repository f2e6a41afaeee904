"""The page over HTTP, for this machine only."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from innerloop.core.errors import InnerloopError

LOOPBACK = "127.0.0.1"


@contextmanager
def served(page: str, port: int = 0) -> Iterator[str]:
    """Serve one page on the loopback interface until the end of the block; yields its address.

    Port 0 is any that is free.
    """
    try:
        server = ThreadingHTTPServer((LOOPBACK, port), _handler(page.encode()))
    except OSError as error:
        raise InnerloopError(
            f"port {port} cannot be served ({error.strerror or error}): give another port, or 0 "
            "for any that is free."
        ) from error
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(page: bytes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """One page, whoever asks for it from this machine."""

        def do_GET(self) -> None:
            # Another name in the request is another page, which a browser was led here by.
            host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
            if host not in (LOOPBACK, "localhost"):
                self.send_error(421)
            elif self.path != "/":
                self.send_error(404)
            else:
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(page)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: one line per request is of no use to anybody."""

    return Handler
