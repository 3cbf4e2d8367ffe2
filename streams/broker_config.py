"""What the embedded Kafka broker is told: one KRaft node for one machine, small and quick to start."""

import socket
from dataclasses import dataclass

KAFKA_VERSION = "4.3.1"
HOST = "127.0.0.1"

# Every internal topic small, every group setting free to be short: a dead worker's jobs move on within seconds.
_NODE: dict[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": "false",
    # after kill -9 the controller keeps the old registration this long before it lets the broker in again
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "400",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "4",
    "log.cleaner.dedupe.buffer.size": "4194304",  # bytes; Kafka's own 128 MiB would not fit the heap
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.max.heartbeat.interval.ms": "30000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.max.record.lock.duration.ms": "600000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """TCP ports on the loopback address, chosen once and kept while they are free."""

    broker: int
    controller: int
    registry: int

    def all_free(self) -> bool:
        """Whether a new process could listen on each."""
        return all(_is_free(port) for port in (self.broker, self.controller, self.registry))


def free_ports() -> Ports:
    """Three different ports that nobody listens on now."""
    with socket.socket() as a, socket.socket() as b, socket.socket() as c:
        for each in (a, b, c):
            each.bind((HOST, 0))
        broker, controller, registry = (each.getsockname()[1] for each in (a, b, c))
        return Ports(broker=broker, controller=controller, registry=registry)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def properties(ports: Ports, data: str, listen: str = HOST) -> dict[str, str]:
    """Kafka's own settings. `data`: folder of the logs; `listen`: the address to bind, clients always use `HOST`.

    The controller quorum is static, so that a restart on other ports needs no change in the data.
    """
    return _NODE | {
        "controller.quorum.voters": f"1@{HOST}:{ports.controller}",
        "listeners": f"PLAINTEXT://{listen}:{ports.broker},CONTROLLER://{HOST}:{ports.controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{ports.broker}",
        "log.dirs": data,
    }


def render(settings: dict[str, str]) -> str:
    """The text of a `server.properties`; a backslash is Java's escape there."""
    return "".join(f"{key}={value.replace(chr(92), chr(92) * 2)}\n" for key, value in settings.items())
