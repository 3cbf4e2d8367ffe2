"""The address of a deployment's Milvus Lite, for roles and clients, without the code that starts it.

`HOME/vectors/lite.json` names its port, which stays between starts, and the process that runs now.
"""

import json
import os
import pathlib
from dataclasses import asdict, dataclass

from schemas.errors import PochadeError
from streams.broker.node import HOST
from streams.broker.process import Process
from streams.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteRecord:
    """A port on the loopback address, and the process that listens there; None if it was stopped."""

    port: int
    process: Process | None = None

    @property
    def url(self) -> str:
        """Its address for pymilvus."""
        return f"http://{HOST}:{self.port}"


def vectors_home(settings: Settings) -> pathlib.Path:
    """The folder of a deployment's own vectors, absolute."""
    return settings.home.expanduser().resolve() / "vectors"


def url(settings: Settings) -> str:
    """The address of this deployment's Milvus Lite, which may be stopped. Raises PochadeError: it was never started."""
    known = read(vectors_home(settings))
    if known is None:
        raise PochadeError(f"no Milvus Lite in {vectors_home(settings)}: run `pochade up` with vectors.url=lite")
    return known.url


def running(settings: Settings) -> LiteRecord | None:
    """The record of this deployment's Milvus Lite if its process lives."""
    known = read(vectors_home(settings))
    return known if known and known.process and known.process.is_alive() else None


def read(home: pathlib.Path) -> LiteRecord | None:
    """The record, or None where it was never started. Raises PochadeError: the file is not one of ours."""
    file = _file(home)
    try:
        content = json.loads(file.read_text())
        process = content["process"]
        return LiteRecord(port=int(content["port"]), process=Process(**process) if process else None)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise PochadeError(f"{file} is damaged ({error!r}): stop Milvus Lite by hand and delete the file") from None


def write(home: pathlib.Path, record: LiteRecord) -> None:
    """Replace the record at once, so that a reader never sees half of it."""
    part = _file(home).with_suffix(".part")
    part.write_text(json.dumps(asdict(record), indent=2) + "\n")
    os.replace(part, _file(home))


def _file(home: pathlib.Path) -> pathlib.Path:
    return home / "lite.json"
