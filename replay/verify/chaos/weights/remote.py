"""The remote of a run with components: a bucket of S3 on this machine, with a proxy before it that can cut connections.

workers  -->  CuttingProxy  -->  `replay.bench.loader.server`, which serves the folder HOME/remote
"""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Final

from planner.catalog.components import Component
from streams.processes.children import end_all
from streams.shipped import INFRA
from streams.weights.publish import publish
from streams.weights.remotes.folder import FolderRemote

BUCKET: Final = "weights"
SERVER: Final = "replay.bench.loader.server"
CREDENTIALS: Final = {
    "AWS_ACCESS_KEY_ID": "chaos",
    "AWS_SECRET_ACCESS_KEY": "chaos",
}  # of our server, which asks for none
BLOCK: Final = 1 << 16


class CuttingProxy:
    """Passes connections on to a port of this machine, and cuts answers of the server after a number of bytes."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._target = 0
        self._most: int | None = None  # bytes that a connection may bring; None: any number
        self._threads: list[threading.Thread] = []
        self.cuts = 0  # connections that were cut

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self._listener.getsockname()[1]
        return port

    @contextlib.contextmanager
    def cutting(self, most: int) -> Iterator[None]:
        """Cut each connection that has brought `most` bytes in all; at 0 as it comes."""
        before, self._most = self._most, most
        try:
            yield
        finally:
            self._most = before

    @contextlib.contextmanager
    def before(self, target: int) -> Iterator[None]:
        """Pass connections on to a port of this machine until the block ends."""
        self._target = target
        accepting = threading.Thread(target=self._accept, name="cutting-proxy", daemon=True)
        accepting.start()
        try:
            yield
        finally:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            accepting.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            if self._most == 0:
                self.cuts += 1
                client.close()
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            for source, sink, is_answer in ((client, server, False), (server, client, True)):
                copying = threading.Thread(target=self._copy, args=(source, sink, is_answer), daemon=True)
                copying.start()

    def _copy(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        brought = 0
        with contextlib.suppress(OSError):
            while data := source.recv(BLOCK):
                most = self._most if is_answer else None
                left = len(data) if most is None else max(0, most - brought)
                sink.sendall(data[:left])
                brought += len(data)
                if left < len(data):
                    self.cuts += 1
                    break
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        if is_answer:
            source.close()
            sink.close()


class WeightsRemote:
    """The published components of a run, and the server that has them."""

    def __init__(self, folder: pathlib.Path, components: Sequence[Component]) -> None:
        """`folder`: the bucket's, which is made and filled by `serving`."""
        self.folder, self.components, self.proxy = folder, components, CuttingProxy()

    @property
    def endpoint_url(self) -> str:
        """The URL of the server for workers."""
        return f"http://127.0.0.1:{self.proxy.port}"

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Publish all components from where they ship, and serve them until the block ends."""
        for each in self.components:
            publish(each.id, INFRA / each.source, FolderRemote(folder_of(self.folder, each)))
        os.environ.update(CREDENTIALS)
        command = [sys.executable, "-m", SERVER, str(self.folder.parent), "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                with self.proxy.before(int(server.stdout.readline())):
                    yield
            finally:
                end_all([server])


def folder_of(bucket: pathlib.Path, component: Component) -> pathlib.Path:
    """The folder of a component in the bucket, where workers look for it."""
    return bucket / component.kind / component.name
