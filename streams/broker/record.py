"""`HOME/kafka/broker.json`: the broker and registry that belong to a home, for later commands.

Only the folder's owner may read it, as it holds what people asked for.
"""

import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass

from schemas.errors import PochadeError
from streams.broker.container import Container
from streams.broker.node import HOST, KAFKA_VERSION, Ports
from streams.broker.process import Process
from streams.security.private_folder import OWNERS_ALONE, create_private

Handle = Process | Container


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The facts that stay between starts (ports, cluster), and the processes that run now (None: nothing runs)."""

    cluster_id: str
    ports: Ports
    broker: Handle | None = None
    registry: Process | None = None

    @property
    def bootstrap(self) -> str:
        """The broker's address for clients."""
        return f"{HOST}:{self.ports.broker}"

    @property
    def registry_url(self) -> str:
        """The schema registry's base address."""
        return f"http://{HOST}:{self.ports.registry}"


def path(kafka_home: pathlib.Path) -> pathlib.Path:
    """The file of one home."""
    return kafka_home / "broker.json"


def read(kafka_home: pathlib.Path) -> Record | None:
    """The record, or None where no broker was ever started. Raises PochadeError: the file is not one of ours."""
    file = path(kafka_home)
    if not file.exists():
        return None
    try:
        content = json.loads(file.read_text())
        registry = content["registry"]
        return Record(
            cluster_id=content["cluster_id"],
            ports=Ports(**content["ports"]),
            broker=_handle(content["broker"]),
            registry=Process(**registry) if registry else None,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise PochadeError(f"{file} is damaged ({error!r}): stop the broker by hand and delete the file") from None


def write(kafka_home: pathlib.Path, record: Record) -> None:
    """Replace the record at once, so that a reader never sees half of it."""
    content = {
        "kafka": KAFKA_VERSION,
        "cluster_id": record.cluster_id,
        "bootstrap_servers": record.bootstrap,
        "registry_url": record.registry_url,
        "ports": dataclasses.asdict(record.ports),
        "broker": dataclasses.asdict(record.broker) if record.broker else None,
        "registry": dataclasses.asdict(record.registry) if record.registry else None,
    }
    part = path(kafka_home).with_suffix(".part")
    part.write_text(json.dumps(content, indent=2) + "\n")
    os.replace(part, path(kafka_home))


def _handle(content: dict[str, str] | None) -> Handle | None:
    if not content:
        return None
    if "name" in content:
        return Container(content["name"])
    return Process(pid=int(content["pid"]), started=float(content["started"]))


@contextlib.contextmanager
def locked(kafka_home: pathlib.Path) -> Iterator[None]:
    """Lock a home: one process at a time starts or stops what belongs to it, and the others wait."""
    make_private(kafka_home)
    with open(kafka_home / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # ends with the process, however it dies
        yield


def make_private(folder: pathlib.Path) -> None:
    """Create a folder, with those above it that are missing, for its owner alone; one that was wider is narrowed.

    Raises PochadeError where it cannot be made.
    """
    try:
        create_private(folder)
    except OSError as error:
        raise PochadeError(
            f"folder {folder} cannot be made: {error.strerror or error}; give another with --home, or make it writable"
        ) from None
    with contextlib.suppress(PermissionError):  # another user's folder: the next call says who may not enter
        folder.chmod(OWNERS_ALONE)
