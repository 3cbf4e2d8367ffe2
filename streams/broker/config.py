"""Configuration of the embedded Kafka broker: one KRaft node, small and quick to start."""

from collections.abc import Mapping

from streams.broker.node import HOST, Ports

# Every internal topic small, every group setting free to be short: a dead worker's jobs move on within seconds.
_NODE: dict[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": "false",
    # after kill -9 the controller keeps the old registration this long before it lets the broker in again: it serves
    # after 8.5 s (4.5 with 2000). On a machine that is too busy for as long, all partitions lose their leader
    "broker.session.timeout.ms": "6000",
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


def properties(ports: Ports, data: str, listen: str = HOST) -> dict[str, str]:
    """Return Kafka's own settings. `data`: folder of the logs; `listen`: address to bind; clients always use `HOST`.

    The controller quorum is static, so that a restart on other ports needs no change in the data.
    """
    return _NODE | {
        "controller.quorum.voters": f"1@{HOST}:{ports.controller}",
        "listeners": f"PLAINTEXT://{listen}:{ports.broker},CONTROLLER://{HOST}:{ports.controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{ports.broker}",
        "log.dirs": data,
    }


def render(settings: Mapping[str, str]) -> str:
    """The text of a `server.properties`; a backslash is Java's escape there."""
    return "".join(f"{key}={value.replace(chr(92), chr(92) * 2)}\n" for key, value in settings.items())
