"""The embedded broker as a container, for machines with Docker but without Java. Same properties, same ports."""

import hashlib
import pathlib
import shutil

from schemas.errors import PochadeError
from streams.broker.config import properties
from streams.broker.container import Container, docker
from streams.broker.node import HOST, KAFKA_VERSION, Ports
from streams.broker.process import Say

IMAGE = f"apache/kafka:{KAFKA_VERSION}"
DATA = "/var/lib/kafka/data"  # owned by the image's user, so a named volume there is writable


def is_available() -> bool:
    """Whether there is a Docker that answers."""
    return shutil.which("docker") is not None and docker("info").returncode == 0


def container_name(kafka_home: pathlib.Path) -> str:
    """Return the container's name, one per home."""
    return "pochade-kafka-" + hashlib.sha256(str(kafka_home).encode()).hexdigest()[:12]


def environment(settings: dict[str, str]) -> dict[str, str]:
    """Kafka properties as the image wants them: `node.id` becomes `KAFKA_NODE_ID`."""
    return {"KAFKA_" + key.replace(".", "_").upper(): value for key, value in settings.items()}


def run_command(name: str, ports: Ports, cluster_id: str) -> list[str]:
    """The arguments of `docker` that start the broker."""
    arguments = ["run", "-d", "--name", name, "-p", f"{HOST}:{ports.broker}:{ports.broker}", "-v", f"{name}:{DATA}"]
    heap = {"KAFKA_HEAP_OPTS": "-Xms64m -Xmx256m"}
    variables = {"CLUSTER_ID": cluster_id, **heap, **environment(properties(ports, DATA, listen="0.0.0.0"))}
    for key, value in variables.items():
        arguments += ["-e", f"{key}={value}"]
    return [*arguments, IMAGE]


def start(kafka_home: pathlib.Path, ports: Ports, cluster_id: str, say: Say) -> Container:
    """Start the container, pulling the image if it is missing; it is not ready yet.

    Raises PochadeError: Docker refused; its own words are in the message.
    """
    container = Container(container_name(kafka_home))
    docker("rm", "-f", container.name)
    say(f"starting {IMAGE} with Docker (the first time it is pulled, about 400 MB) ...")
    done = docker(*run_command(container.name, ports, cluster_id))
    if done.returncode != 0:
        raise PochadeError(f"docker could not start {IMAGE} (exit {done.returncode}): {done.stderr.strip()}")
    return container
