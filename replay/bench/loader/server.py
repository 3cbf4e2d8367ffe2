"""What reads of S3 ask of a server, from a folder: HEAD, GET, and GET of a range, by sendfile; each connection
throttled.

Run as a process of its own, so that it takes no time of the interpreter that is measured:
`python -m replay.bench.loader.server FOLDER BYTES_PER_S` (0: as fast as it goes) prints its port. Signatures are not
looked at.
"""

import contextlib
import os
import pathlib
import re
import socket
import sys
import threading
import time
from typing import Final
from urllib.parse import unquote

CHUNK: Final = 256 << 10  # bytes between two looks at the clock
RANGE: Final = re.compile(rb"^range: *bytes=(\d+)-(\d+)\r?$", re.IGNORECASE | re.MULTILINE)


class Pace:
    """Limits a connection to `bytes_per_s`; no limit if 0."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_s = 0.0  # when the next byte may go

    def wait(self, size: int) -> None:
        """Sleep until the bytes sent before have had their time, and count these."""
        if not self._bytes_per_s:
            return
        now_s = time.monotonic()
        if self._free_s > now_s:
            time.sleep(self._free_s - now_s)
        self._free_s = max(self._free_s, now_s) + size / self._bytes_per_s

    def settle(self) -> None:
        """Sleep until all that was sent has had its time."""
        self.wait(0)


def serve(folder: pathlib.Path, bytes_per_s: float, listener: socket.socket) -> None:
    """Answer connections until the process ends, each in a thread."""
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_answer_all, args=(folder, bytes_per_s, connection), daemon=True).start()


def _answer_all(folder: pathlib.Path, bytes_per_s: float, connection: socket.socket) -> None:
    pace = Pace(bytes_per_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(OSError), connection:
        rest = b""
        while True:
            while b"\r\n\r\n" not in rest:
                more = connection.recv(1 << 16)
                if not more:
                    return
                rest += more
            request, _, rest = rest.partition(b"\r\n\r\n")
            _answer(folder, request, connection, pace)


def _answer(folder: pathlib.Path, request: bytes, connection: socket.socket, pace: Pace) -> None:
    method, target, _ = request.split(b"\r\n", 1)[0].decode().split(" ")
    path = folder / unquote(target.partition("?")[0]).lstrip("/")
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        return
    try:
        seen = os.fstat(handle)
        found = RANGE.search(request)
        first, last = (int(found[1]), min(int(found[2]), seen.st_size - 1)) if found else (0, seen.st_size - 1)
        status = "206 Partial Content" if found else "200 OK"
        ranged = f"Content-Range: bytes {first}-{last}/{seen.st_size}\r\n" if found else ""
        connection.sendall(
            f'HTTP/1.1 {status}\r\nETag: "{seen.st_mtime_ns:x}"\r\nAccept-Ranges: bytes\r\n{ranged}'
            f"Content-Length: {last - first + 1}\r\n\r\n".encode()
        )
        while method == "GET" and first <= last:
            size = min(CHUNK, last - first + 1)
            pace.wait(size)
            first += os.sendfile(connection.fileno(), handle, first, size)
        pace.settle()
    finally:
        os.close(handle)


def main() -> None:
    """Serve a folder on a free port of this machine, which is printed."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    print(listener.getsockname()[1], flush=True)
    serve(pathlib.Path(sys.argv[1]), float(sys.argv[2]), listener)


if __name__ == "__main__":
    main()
