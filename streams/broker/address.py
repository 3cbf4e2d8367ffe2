"""Finds the broker of a deployment; nothing here starts one."""

import pathlib
from dataclasses import dataclass
from typing import Protocol

from schemas.errors import PochadeError
from streams.broker import record as broker_record
from streams.broker.record import Record


class Configured(Protocol):
    """Protocol of a cluster's configuration."""

    @property
    def bootstrap_servers(self) -> str:
        """Its address; "": none, a broker of the deployment's own runs under its home."""


class Located(Protocol):
    """Protocol of the settings that locate a broker; `streams.settings.Settings` satisfies it."""

    @property
    def home(self) -> pathlib.Path:
        """Folder of the deployment."""

    @property
    def kafka(self) -> Configured:
        """The cluster, where one is configured."""


@dataclass(frozen=True, slots=True)
class Address:
    """The addresses of a deployment's broker and of its schema registry."""

    bootstrap: str
    registry_url: str | None  # None: a configured cluster, whose registry is not ours


def is_foreign(settings: Located) -> bool:
    """Whether a cluster is configured, so that nothing is started or stopped here."""
    return bool(settings.kafka.bootstrap_servers)


def kafka_home(settings: Located) -> pathlib.Path:
    """The embedded broker's folder, absolute."""
    return settings.home.expanduser().resolve() / "kafka"


def record(settings: Located) -> Record | None:
    """Return the record of this home's embedded broker; its processes may be dead."""
    return None if is_foreign(settings) else broker_record.read(kafka_home(settings))


def find(settings: Located) -> Address | None:
    """The configured cluster, or the embedded broker if its process lives. Asks nothing over the network."""
    if is_foreign(settings):
        return Address(settings.kafka.bootstrap_servers, None)
    known = record(settings)
    if known is None or known.broker is None or not known.broker.is_alive():
        return None
    return Address(known.bootstrap, known.registry_url)


def bootstrap_servers(settings: Located) -> str:
    """Return the bootstrap servers that clients connect to. Raises PochadeError: none is configured and none runs."""
    found = find(settings)
    if found is None:
        home = settings.home.expanduser().resolve()
        raise PochadeError(f"no broker in {home}: run `pochade up` or set POCHADE_KAFKA__BOOTSTRAP_SERVERS")
    return found.bootstrap
