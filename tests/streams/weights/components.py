"""Components made for tests, remotes that fail on purpose, and a proxy that cuts connections."""

import contextlib
import pathlib
import random
import socket
import threading
from collections.abc import Callable, Iterator

from streams.store.port import StoreUnavailable
from streams.weights.manifest import Manifest
from streams.weights.publish import publish
from streams.weights.remotes.folder import FolderRemote
from streams.weights.remotes.remote import RemoteFile, read_manifest

MIB = 1 << 20
FILES = {"unet/model.safetensors": 5 * MIB + 123, "vae/model.safetensors": 70_001, "config.json": 17, "empty.txt": 0}


def made(folder: pathlib.Path, seed: int = 1, component: str = "base:test") -> tuple[FolderRemote, Manifest]:
    """A component of four files in a folder, as a remote, and its list."""
    source = folder / f"source-{seed}"
    for path, size in FILES.items():
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes(random.Random(f"{seed} {path}").randbytes(size))
    remote = FolderRemote(folder / f"remote-{seed}")
    return remote, publish(component, source, remote)


def published(folder: pathlib.Path, seed: int = 1) -> tuple[FolderRemote, Manifest]:
    """What `made` made there, as another process finds it."""
    remote = FolderRemote(folder / f"remote-{seed}")
    return remote, read_manifest(remote)


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """Path -> bytes of a component's files, the list left out."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != "component.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


class Failing:
    """A remote whose reads are answered by a test first."""

    def __init__(self, inner: FolderRemote) -> None:
        self.inner = inner
        self.reads: list[tuple[str, int]] = []  # path, offset
        self.fails: Callable[[int], bool] = lambda _: False  # of the number of the read, from 0
        self.most_bytes = 1 << 62  # that a connection brings before it breaks
        self.stats_to_fail = 0

    @property
    def url(self) -> str:
        return self.inner.url

    def stat(self, path: str) -> RemoteFile:
        if self.stats_to_fail:
            self.stats_to_fail -= 1
            raise StoreUnavailable("the test lets it fail")
        return self.inner.stat(path)

    def read_into(self, path: str, version: str, offset: int, buffer: memoryview) -> int:
        self.reads.append((path, offset))
        if self.fails(len(self.reads) - 1):
            raise StoreUnavailable("the test lets it fail")
        return self.inner.read_into(path, version, offset, buffer[: self.most_bytes])

    def put(self, path: str, file: pathlib.Path) -> None:
        self.inner.put(path, file)


@contextlib.contextmanager
def cutting_proxy(target: str, cut_after: int) -> Iterator[str]:
    """The URL of a proxy to a server that resets each connection once it has brought so many bytes."""
    host, _, port = target.removeprefix("http://").partition(":")
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def copy(source: socket.socket, sink: socket.socket, most: float) -> None:
        brought = 0
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data[: max(0, int(min(most - brought, len(data))))])
                brought += len(data)
                if brought >= most:
                    break
            for each in (source, sink):
                each.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection((host, int(port)))
                for pair in ((client, server, float("inf")), (server, client, cut_after)):
                    threads.append(threading.Thread(target=copy, args=pair, daemon=True))
                    threads[-1].start()

    accepting = threading.Thread(target=serve, daemon=True)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepting.join(5)
        for thread in threads:
            thread.join(5)
