"""A judge that answers by HTTP: the mean brightness of images; or it is busy, slow, or answers nonsense."""

import base64
import contextlib
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
from PIL import Image

SEEN: list[np.ndarray] = []
RELEASED = threading.Event()  # slow answers wait for it


class Handler(BaseHTTPRequestHandler):
    """Answers by path."""

    def do_POST(self) -> None:
        items = json.loads(self.rfile.read(int(self.headers["content-length"])))["items"]
        if self.path == "/slow":
            RELEASED.wait(10)
        status = {"/busy": 503, "/missing": 404}.get(self.path, 200)
        images = [np.asarray(Image.open(io.BytesIO(base64.b64decode(each["image"])))) for each in items]
        SEEN.extend(images)
        scores = [float(each.mean()) / 255 for each in images]
        answer = json.dumps({"nonsense": 1} if self.path == "/nonsense" else {"scores": scores}).encode()
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def running() -> Iterator[str]:
    """Yield the URL of a service that runs meanwhile."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        RELEASED.set()
        server.shutdown()
        server.server_close()
