"""The stores that the contract is tried on: exact search, Milvus Lite, and a real Milvus server."""

import os
import pathlib
import signal
from typing import Protocol

from streams.settings import Settings, load
from streams.vectors import lite, lite_server
from streams.vectors.open import open_vectors
from streams.vectors.port import VectorStore
from tests.streams.vectors.milvus_server import TOKEN, MilvusServer, freeze


class Backend(Protocol):
    """A store and, where it has one, its server."""

    settings: Settings

    def freeze(self) -> None:
        """Let it answer nobody, with its connections open."""
        ...

    def thaw(self) -> None:
        """Let it go on."""
        ...

    def kill(self) -> None:
        """kill -9."""
        ...

    def start(self) -> None:
        """Start it again on what it has stored."""
        ...

    def close(self) -> None:
        """End it."""
        ...


def opened(backend: Backend, key: str = "key-1") -> VectorStore:
    """A client of its own, as another process would have."""
    store = open_vectors(backend.settings, key)
    assert store is not None
    return store


class Exact:
    """No server: processes share a file, and one that holds its lock for ever is what can hang."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.settings = load({"home": folder, "vectors": {"url": "exact"}})

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...

    def kill(self) -> None: ...

    def start(self) -> None: ...

    def close(self) -> None: ...


class Lite:
    def __init__(self, folder: pathlib.Path) -> None:
        self.settings = load({"home": folder, "vectors": {"url": "lite"}})
        self.start()

    def freeze(self) -> None:
        freeze(self._pid())

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def start(self) -> None:
        lite_server.ensure(self.settings)

    def close(self) -> None:
        lite_server.stop(self.settings)

    def _signal(self, what: signal.Signals) -> None:
        os.kill(self._pid(), what)

    def _pid(self) -> int:
        known = lite.read(lite.vectors_home(self.settings))
        assert known is not None
        assert known.process is not None
        return known.process.pid


class Real:
    def __init__(self, folder: pathlib.Path) -> None:
        self._server = MilvusServer(folder)
        vectors = {"url": self._server.url, "token": TOKEN, "ca": str(self._server.ca)}
        self.settings = load({"home": folder, "vectors": vectors})
        self.start()

    def freeze(self) -> None:
        self._server.freeze()

    def thaw(self) -> None:
        self._server.thaw()

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._server.close()
