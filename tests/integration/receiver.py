"""A receiver of webhooks on this machine."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """Takes webhooks at an address of this machine, from when on it is let; before it answers 500."""

    def __init__(self) -> None:
        self.tried: list[str] = []  # ids of those that came
        self.taken: list[tuple[dict[str, str], bytes]] = []
        self.takes = takes = threading.Event()
        tried, taken = self.tried, self.taken

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                tried.append(self.headers["webhook-id"])
                if takes.is_set():
                    taken.append((dict(self.headers), body))
                self.send_response(204 if takes.is_set() else 500)
                self.end_headers()

            def log_message(self, *_words: object) -> None:
                """Keep quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server.server_port}"


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that listens."""
    receiver = Receiver()
    serving = threading.Thread(target=receiver.server.serve_forever)
    serving.start()
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        serving.join()
        receiver.server.server_close()
