"""One broker of any version of Apache Kafka, with Kafka's own defaults wherever a single node can live with them."""

import contextlib
import pathlib
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping

from streams.broker import java as broker_java
from streams.broker import probe
from streams.broker.config import render
from streams.broker.node import HOST, KAFKA_VERSION, free_ports
from streams.broker.process import spawn
from tests.paths import ROOT
from tests.patience import PATIENCE_S

FETCH_LIMIT_S = 600

# What one node needs that Kafka's defaults, made for three, do not give; nothing here is about groups of consumers.
ONE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "log.cleaner.dedupe.buffer.size": "4194304",  # bytes; Kafka's own 128 MiB would not fit the heap
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


def jars(version: str) -> pathlib.Path:
    """The jars of a version, fetched once into the project's own folder (44 MB)."""
    folder = ROOT / ".pochade" / "kafka" / f"libs-{version}"
    if not folder.is_dir():
        part = folder.with_name(folder.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        pom = ROOT / "infra" / "kafka" / "pom.xml"
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
        command += [f"-DoutputDirectory={part}", f"-Dkafka.version={version}"]
        subprocess.run(command, check=True, capture_output=True, timeout=FETCH_LIMIT_S)
        part.rename(folder)
    return folder


@contextlib.contextmanager
def kafka(
    folder: pathlib.Path, version: str = KAFKA_VERSION, more: Mapping[str, str] | None = None, clients_port: int = 0
) -> Iterator[str]:
    """Run a broker in `folder`; its address. `more`: broker settings besides; `clients_port`: of a listener CLIENTS."""
    ports, home = free_ports(), folder / f"kafka-{version}"
    home.mkdir(parents=True)
    clients = f",CLIENTS://{HOST}:{clients_port}" if clients_port else ""
    properties = ONE_NODE | {
        "controller.quorum.voters": f"1@{HOST}:{ports.controller}",
        "listeners": f"PLAINTEXT://{HOST}:{ports.broker},CONTROLLER://{HOST}:{ports.controller}{clients}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{ports.broker}{clients}",
        "log.dirs": str(home / "data"),
    }
    (home / "server.properties").write_text(render(properties | dict(more or {})))
    (home / "log4j2.properties").write_text((ROOT / "infra" / "kafka" / "log4j2.properties").read_text())
    java, where = broker_java.find_java(), jars(version)
    settings = str(home / "server.properties")
    cluster = ["format", "--cluster-id", uuid.uuid4().hex[:22], "-c", settings]
    subprocess.run(
        broker_java.command(java, where, home, "kafka.tools.StorageTool", *cluster),
        check=True, capture_output=True, timeout=FETCH_LIMIT_S,
    )  # fmt: skip
    process = spawn(broker_java.command(java, where, home, "kafka.Kafka", settings), home / "broker.log")
    try:
        address = f"{HOST}:{ports.broker}"
        probe.probe(probe.starting_config(address), PATIENCE_S, process.is_alive)
        yield address
    finally:
        process.stop(PATIENCE_S)
