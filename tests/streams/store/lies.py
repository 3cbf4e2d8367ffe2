"""Stores that lie: a server that speaks S3, and a disk under a folder. Each lie holds until `lie` is set to ""."""

import contextlib
import errno
import os
import pathlib
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

LIES = ("fails", "stores-then-fails", "slow", "late", "cut", "has-it", "half")
"""Three of ten calls fail; every other write is done and then fails; a write takes SLOW_S; the first LATE reads of an
object find nothing; a read ends halfway; a write is not done, as the object is there already; half of it is kept."""
LIED_ABOUT = b"the bytes of an image"
LATE = 6
SLOW_S = 0.02


class Liar:
    """The lie in force, and what really lies in the store: name of an object -> its bytes."""

    def __init__(self, objects: Callable[[], dict[str, bytes]], damage: Callable[[bytes], None]) -> None:
        """`damage`: leaves these bytes of each object."""
        self.lie = ""
        self.damage = damage
        self.objects = objects
        self.reads: Counter[str] = Counter()
        self._dice = random.Random(7)
        self._writes = 0

    def fails(self) -> bool:
        return self.lie == "fails" and self._dice.random() < 0.3

    def fails_after_writing(self) -> bool:
        self._writes += 1
        return self.lie == "stores-then-fails" and self._writes % 2 == 1

    def is_late(self, name: str) -> bool:
        self.reads[name] += 1
        return self.lie == "late" and self.reads[name] <= LATE

    def kept(self, data: bytes) -> bytes:
        return data[: len(data) // 2] if self.lie == "half" else data

    def pause(self) -> None:
        if self.lie == "slow":
            time.sleep(SLOW_S)


@contextlib.contextmanager
def lying_server() -> Iterator[tuple[str, Liar]]:
    """The URL of a server with every bucket, which speaks as much of S3 as the store uses, and its liar."""
    objects: dict[str, bytes] = {}
    liar = Liar(lambda: objects, lambda left: objects.update(dict.fromkeys(objects, left)))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            liar.pause()
            has_it = self.path in objects and self.headers.get("If-None-Match") == "*"
            if liar.fails():
                self._say(503, code="SlowDown")
            elif has_it or liar.lie == "has-it":
                self._say(412, code="PreconditionFailed")
            else:
                objects[self.path] = liar.kept(data)
                self._say(503, code="ServiceUnavailable") if liar.fails_after_writing() else self._say(200)

        def do_GET(self) -> None:
            if "list-type" in self.path:
                keys = "".join(f"<Contents><Key>{path[8:]}</Key></Contents>" for path in objects)
                self._say(200, f"<ListBucketResult>{keys}</ListBucketResult>".encode())
            elif liar.fails():
                self._say(503, code="SlowDown")
            elif self.path not in objects or liar.is_late(self.path):
                self._say(404, code="NoSuchKey")
            else:
                self._say(200, objects[self.path])

        def do_HEAD(self) -> None:
            if re.fullmatch(r"/[^/]+/?", self.path):
                self._say(200)
            elif self.path not in objects or liar.is_late(self.path):
                self._say(404)
            else:
                self._say(200, objects[self.path])

        def do_DELETE(self) -> None:
            objects.pop(self.path, None)
            self._say(204)

        def _say(self, status: int, body: bytes = b"", code: str = "") -> None:
            body = f"<Error><Code>{code}</Code></Error>".encode() if code else body
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "HEAD":
                return
            is_cut = liar.lie == "cut" and self.command == "GET" and not code
            self.wfile.write(body[: len(body) // 2] if is_cut else body)
            self.close_connection = is_cut

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", liar
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def lying_disk(folder: pathlib.Path, patch: pytest.MonkeyPatch) -> Liar:
    """The liar of the disk under a folder of images, as the folder store reads and writes it."""
    read, replace, stat = pathlib.Path.read_bytes, os.replace, pathlib.Path.stat
    files = f"{folder}/[0-9a-f][0-9a-f]/"

    def damage(left: bytes) -> None:
        for path in folder.glob("[0-9a-f][0-9a-f]/*"):
            path.write_bytes(left)

    liar = Liar(lambda: {path.name: read(path) for path in folder.glob("[0-9a-f][0-9a-f]/*")}, damage)
    failed = OSError(errno.EIO, "Input/output error")

    def read_bytes(path: pathlib.Path) -> bytes:
        if not re.match(files, str(path)):
            return read(path)
        if liar.fails():
            raise failed
        if liar.is_late(path.name):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        data = read(path)
        return data[: len(data) // 2] if liar.lie == "cut" else data

    def replaced(draft: pathlib.Path, path: pathlib.Path) -> None:
        liar.pause()
        if liar.fails():
            raise failed
        draft.write_bytes(liar.kept(read(draft)))
        replace(draft, path)
        if liar.fails_after_writing():
            raise failed

    def shown(path: pathlib.Path, **how: bool) -> os.stat_result:
        """Show the size of an image where the name of one that is not there is cached."""
        try:
            return stat(path, **how)
        except FileNotFoundError:
            if liar.lie != "has-it" or not re.match(files, str(path)):
                raise
            return os.stat_result((0o100600, 0, 0, 1, 0, 0, len(LIED_ABOUT), 0, 0, 0))

    patch.setattr(pathlib.Path, "read_bytes", read_bytes)
    patch.setattr(os, "replace", replaced)
    patch.setattr(pathlib.Path, "stat", shown)
    return liar
