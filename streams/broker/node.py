"""An embedded node: the version of Kafka that it runs, and its ports on the loopback address."""

import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass

KAFKA_VERSION = "4.3.1"
HOST = "127.0.0.1"
LASTING = range(20_000, 32_000)  # ports below those that systems give to outgoing connections


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """TCP ports on the loopback address, chosen once and kept while they are free."""

    broker: int
    controller: int
    registry: int

    def all_free(self) -> bool:
        """Whether a new process could listen on each."""
        return all(is_free(port) for port in (self.broker, self.controller, self.registry))


def free_ports() -> Ports:
    """Return three different free ports."""
    with socket.socket() as a, socket.socket() as b, socket.socket() as c:
        for each in (a, b, c):
            each.bind((HOST, 0))
        broker, controller, registry = (each.getsockname()[1] for each in (a, b, c))
        return Ports(broker=broker, controller=controller, registry=registry)


def free_lasting_ports() -> Iterator[int]:
    """Free ports that no outgoing connection is given, in random order."""
    return (port for port in random.sample(LASTING, len(LASTING)) if is_free(port))


def is_free(port: int) -> bool:
    """Whether a new process could listen on a port of the loopback address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
