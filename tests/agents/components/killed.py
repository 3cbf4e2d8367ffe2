"""A worker that fetches the base poster until it is killed: `python -m tests.agents.components.killed REMOTE`."""

import pathlib
import sys
import threading

from agents.components.sources import Fetched
from streams import catalogs
from streams.weights.pools import BufferPools
from streams.weights.remotes.folder import FolderRemote
from streams.weights.remotes.remote import Remote
from streams.weights.volume import Volume
from tests.streams.weights.components import Failing


def fetched(remote: pathlib.Path, through: Remote | None = None) -> Fetched:
    """The source of the base poster, by way of a volume beside the remote; it waits for nothing between tries."""
    listed = {each.id: each for each in catalogs.load("tiny").level("styles").components}
    volume = Volume(remote.parent / "volume", 1 << 30, wait=lambda _s: None)
    poster = through or FolderRemote(remote / "base/poster")
    return Fetched(listed, volume, lambda _of: poster, BufferPools((), 0), wait=lambda _s: None)


def main() -> None:
    """Fetch until the text encoder has come, say so, and wait to be killed."""
    hanging = Failing(FolderRemote(pathlib.Path(sys.argv[1]) / "base/poster"))

    def fails(number: int) -> bool:
        if number == 8:
            print("fetching", flush=True)
            threading.Event().wait()
        return False

    hanging.fails = fails
    fetched(pathlib.Path(sys.argv[1]), hanging).fetch("base:poster")


if __name__ == "__main__":
    main()
