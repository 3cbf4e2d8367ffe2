"""Several embedded brokers as one cluster, for tests and injected faults: each node is broker and controller.

Clients and roles are given its `bootstrap` as a configured cluster, which it is to them.
"""

import base64
import contextlib
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import threading
import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import ElectionType, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from schemas.errors import PochadeError
from streams.broker import java as broker_java
from streams.broker import probe
from streams.broker.config import properties
from streams.broker.node import HOST, Ports, free_lasting_ports
from streams.broker.process import Process, Say, reasons
from streams.kafka.clients import config_of

READY_LIMIT_S = 90.0
ANSWER_LIMIT_S = 10.0
COPIES = 3  # of each record in a cluster of several nodes; fewer if it has fewer nodes
IN_SYNC = 2  # of these must hold a record before it is acknowledged

# one node's end must neither lose a record nor stop the others
_SEVERAL: dict[str, str] = {
    "default.replication.factor": "{copies}",
    "offsets.topic.replication.factor": "{copies}",
    "transaction.state.log.replication.factor": "{copies}",
    "share.coordinator.state.topic.replication.factor": "{copies}",
    "min.insync.replicas": "{in_sync}",
    "transaction.state.log.min.isr": "{in_sync}",
    "share.coordinator.state.topic.min.isr": "{in_sync}",
    "broker.session.timeout.ms": "2000",  # others take over from one that is dead or frozen as soon
}


class BrokerCluster:
    """Nodes numbered from 1 in HOME/kafka/node-N. One owner; its threads may call at the same time."""

    def __init__(self, kafka_home: pathlib.Path, size: int = 3, say: Say = lambda _: None) -> None:
        """`size`: of a new cluster; one that lies in `kafka_home` already keeps its size, ports and data."""
        self._home = kafka_home
        self._say = say
        self._cluster_id, self._ports = _known(kafka_home) or _new(kafka_home, size)
        self._tools: tuple[str, pathlib.Path] | None = None  # Java and its jars, once they are known to be there
        self._processes: dict[int, Process] = {}
        self._frozen: set[int] = set()
        self._lost: set[int] = set()
        self._locks = {number: threading.Lock() for number in self._ports}

    @property
    def bootstrap(self) -> str:
        """Addresses of all nodes, for clients."""
        return self._addresses(self._ports)

    @property
    def nodes(self) -> list[int]:
        """The numbers of all nodes that are not lost for good."""
        return [number for number in self._ports if number not in self._lost]

    @property
    def serving(self) -> list[int]:
        """The numbers of the nodes whose process runs and is not frozen."""
        return [number for number in self.nodes if number not in self._frozen and self.is_alive(number)]

    def address(self, number: int) -> str:
        """Return the address at which a node listens for clients."""
        return self._addresses([number])

    def folder(self, number: int) -> pathlib.Path:
        """A node's settings, data and log."""
        return self._home / f"node-{number}"

    def is_alive(self, number: int) -> bool:
        """Whether a node's process runs, frozen or not."""
        process = self._processes.get(number)
        return process is not None and process.is_alive()

    def start_all(self) -> None:
        """Start every node and wait until all answer. Raises PochadeError: what could not be started, and why."""
        self._tools = broker_java.prepare(self._home, self._say)
        with ThreadPoolExecutor(len(self._ports)) as starting:
            for _ in starting.map(self.start, self.nodes):
                pass

    def start(self, number: int) -> None:
        """Start a node, on its data, unless it runs; returns when it answers clients.

        Raises:
            PochadeError: it is lost for good, ended while starting, or does not answer, mostly as too few others run.
        """
        with self._locks[number]:
            if number in self._lost:
                raise PochadeError(f"node {number} is lost for good")
            if not self.is_alive(number):
                self._frozen.discard(number)
                self._processes[number] = self._launch(number)
            process = self._processes[number]
        try:
            probe.probe(probe.starting_config(self.address(number)), READY_LIMIT_S, process.is_alive)
        except probe.Unreachable as failure:
            why = reasons(self.folder(number) / "broker.log")
            raise PochadeError(f"node {number} does not answer: {failure}; its log says:\n{why}") from None

    def kill(self, number: int) -> None:
        """kill -9; its data stays."""
        self._signal(number, signal.SIGKILL)

    def stop(self, number: int) -> None:
        """SIGTERM, and wait: the node hands its partitions over and closes its logs; its data stays."""
        self._thaw_for_its_end(number)
        if self.is_alive(number):
            self._processes[number].stop(broker_java.STOP_LIMIT_S)

    def freeze(self, number: int) -> None:
        """SIGSTOP: its connections stay, and it answers no call."""
        self._signal(number, signal.SIGSTOP)
        self._frozen.add(number)

    def thaw(self, number: int) -> None:
        """SIGCONT: it goes on where it was, and learns only then what happened without it."""
        self._frozen.discard(number)
        self._signal(number, signal.SIGCONT)

    def lose(self, number: int) -> None:
        """kill -9 for good: its data is deleted, and it never starts again."""
        with self._locks[number]:
            self._lost.add(number)
            self.kill(number)
            while self.is_alive(number):
                threading.Event().wait(0.02)
            shutil.rmtree(self.folder(number), ignore_errors=True)

    def leaders(self) -> dict[tuple[str, int], int]:
        """Topic and partition -> the node that leads it, -1 where there is none now."""
        topics = self._metadata().topics.items()
        return {(name, p): int(part.leader) for name, topic in topics for p, part in topic.partitions.items()}

    def is_in_sync(self) -> bool:
        """Whether every partition has a leader, and all its copies on running nodes follow it."""
        serving = set(self.serving)
        return _have_all(serving, self._metadata(), leaders=serving)

    def can_lose(self, number: int) -> bool:
        """Whether every other node that is left runs and has all records, so that losing this one loses none.

        Each of them is asked: one that was frozen may know an earlier state of the cluster.
        """
        others = set(self.nodes) - {number}
        if not others <= set(self.serving):
            return False
        answers = (probe.probe(config_of(self.address(asked), {}), ANSWER_LIMIT_S) for asked in others)
        return all(_have_all(others, answer, leaders=set(self.nodes)) for answer in answers)

    def elect_preferred(self) -> int:
        """Let each partition be led by the node that should, as it was made; how many moved."""
        client = self._admin()
        answers = client.elect_leaders(ElectionType.PREFERRED, None)  # its limits cannot be given (SystemError, 2.16.1)
        try:
            errors = answers.result(2 * ANSWER_LIMIT_S)
        except (KafkaException, TimeoutError) as failure:
            raise PochadeError(f"no election of leaders: {failure}") from None
        return sum(error is None or error.code() == KafkaError.NO_ERROR for error in errors.values())

    def controller(self) -> int:
        """Return the node whose controller is active. Raises PochadeError: none has been elected yet.

        Kafka's clients are given a random node, so the nodes' own notes of the last election are read.
        """
        found: list[tuple[int, int]] = []
        for number in self.nodes:
            file = self.folder(number) / "data" / "__cluster_metadata-0" / "quorum-state"
            with contextlib.suppress(OSError, ValueError, KeyError):
                state = json.loads(file.read_text())
                found.append((int(state["leaderEpoch"]), int(state["leaderId"])))
        elected = [state for state in found if state[1] >= 0]
        if not elected:
            raise PochadeError("no controller has been elected")
        return max(elected)[1]

    def stop_all(self) -> None:
        """End every node; their data stays. All at once, as the last ones would wait for those that have ended."""
        with ThreadPoolExecutor(len(self._ports)) as stopping:
            for _ in stopping.map(self.stop, self.nodes):
                pass

    def _launch(self, number: int) -> Process:
        folder = self.folder(number)
        folder.mkdir(parents=True, exist_ok=True)
        java, jars = self._tools or broker_java.prepare(self._home, self._say)
        settings = member_properties(number, self._ports, str(folder / "data"))
        return broker_java.launch(java, jars, folder, settings, self._cluster_id)

    def _signal(self, number: int, what: signal.Signals) -> None:
        if self.is_alive(number):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._processes[number].pid, what)

    def _thaw_for_its_end(self, number: int) -> None:
        if number in self._frozen:
            self.thaw(number)

    def _metadata(self) -> Any:
        serving = self.serving or self.nodes
        return probe.probe(config_of(self._addresses(serving), {}), ANSWER_LIMIT_S)

    def _admin(self) -> AdminClient:
        return AdminClient(config_of(self._addresses(self.serving), {}))

    def _addresses(self, numbers: Iterable[int]) -> str:
        return ",".join(f"{HOST}:{self._ports[number].broker}" for number in numbers)


def _have_all(numbers: set[int], metadata: Any, leaders: set[int]) -> bool:
    """Whether each copy on one of these nodes has all records of its partition, which one of `leaders` leads."""
    parts = [part for topic in metadata.topics.values() for part in topic.partitions.values()]
    return all(part.leader in leaders and set(part.replicas) & numbers <= set(part.isrs) for part in parts)


def _known(kafka_home: pathlib.Path) -> tuple[str, dict[int, Ports]] | None:
    file = kafka_home / "cluster.json"
    if not file.exists():
        return None
    content = json.loads(file.read_text())
    return content["cluster_id"], {int(number): Ports(**ports) for number, ports in content["ports"].items()}


def _new(kafka_home: pathlib.Path, size: int) -> tuple[str, dict[int, Ports]]:
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    ports = lasting_ports(size)
    content = {"cluster_id": cluster_id, "ports": {number: dataclasses.asdict(each) for number, each in ports.items()}}
    kafka_home.mkdir(parents=True, exist_ok=True)
    (kafka_home / "cluster.json").write_text(json.dumps(content, indent=2) + "\n")
    return cluster_id, ports


def member_properties(number: int, ports: Mapping[int, Ports], data: str) -> dict[str, str]:
    """The settings of one node of several, each of them broker and controller. `ports`: number of a node -> its own."""
    copies = min(COPIES, len(ports))
    sizes = {"copies": copies, "in_sync": min(IN_SYNC, copies)}
    voters = ",".join(f"{each}@{HOST}:{theirs.controller}" for each, theirs in sorted(ports.items()))
    return {
        **properties(ports[number], data),
        **{name: value.format_map(sizes) for name, value in _SEVERAL.items()},
        "node.id": str(number),
        "controller.quorum.voters": voters,
    }


def lasting_ports(nodes: int) -> dict[int, Ports]:
    """number of a node, from 1 -> ports that no outgoing connection is given while the node is away."""
    free = free_lasting_ports()
    return {
        number: Ports(broker=next(free), controller=next(free), registry=next(free)) for number in range(1, nodes + 1)
    }
