"""The broker of a deployment: a configured Kafka cluster, or one node of Apache Kafka that runs under `home`.

ensure   configured: it must answer         embedded: start it unless it runs, with the schema registry beside it
stop     configured: nothing                embedded: end both processes, keep data and ports

`address.py` finds what runs, and loads nothing of what starts it.
"""

import base64
import pathlib
import uuid
from dataclasses import replace

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from schemas.errors import PochadeError
from streams.broker import docker, java, probe, registry_server
from streams.broker import record as broker_record
from streams.broker.address import Address, is_foreign, kafka_home, record
from streams.broker.java import JavaMissing
from streams.broker.node import Ports, free_ports
from streams.broker.probe import reach
from streams.broker.process import Say, reasons
from streams.broker.record import Handle, Record
from streams.settings import Settings

READY_LIMIT_S = 90.0  # a loaded machine took 15 s; recovery after kill -9 adds to it


class PortTaken(PochadeError):
    """Another process took a port between our check and the broker's start."""


def ensure(settings: Settings, say: Say = lambda _: None) -> Address:
    """A broker that answers, started if need be; `say` gets a line for what takes long.

    Raises:
        JavaMissing: nothing to run it with; the message names the packages.
        PochadeError: it does not answer, with the reasons and what to do.
    """
    if is_foreign(settings):
        reach(settings)
        return Address(settings.kafka.bootstrap_servers, None)
    home = kafka_home(settings)
    with broker_record.locked(home):
        retrying = Retrying(retry=retry_if_exception_type(PortTaken), stop=stop_after_attempt(3), reraise=True)
        running = retrying(_running, home, say)
    return Address(running.bootstrap, running.registry_url)


def stop(settings: Settings) -> bool:
    """End the embedded broker and its registry; whether anything ran. Data and ports stay."""
    known = record(settings)
    if known is None:
        return False
    home = kafka_home(settings)
    with broker_record.locked(home):
        known = broker_record.read(home) or known
        started = (known.registry, *registry_server.running(home), known.broker)
        ran = [each for each in started if each is not None and each.is_alive()]
        for each in ran:
            each.stop(java.STOP_LIMIT_S)
        broker_record.write(home, replace(known, broker=None, registry=None))
    return bool(ran)


def _running(home: pathlib.Path, say: Say) -> Record:
    known = broker_record.read(home) or Record(cluster_id=_cluster_id(home), ports=free_ports())
    broker, registry = known.broker, known.registry
    if registry is None or not registry.is_alive():
        for each in registry_server.running(home):  # its parent was killed before it was recorded
            each.stop(java.STOP_LIMIT_S)
    if broker is None or not broker.is_alive():
        if registry is not None:
            registry.stop(java.STOP_LIMIT_S)  # so that its port is free and may stay
        if not known.ports.all_free():
            known = replace(known, ports=free_ports())
        broker, registry = _start(home, known.ports, known.cluster_id, say), None
        known = replace(known, broker=broker, registry=registry)
        broker_record.write(home, known)  # before it is ready: if we are killed now, it is found
    if registry is not None and registry.is_alive() and not registry_server.is_up_to_date(known.registry_url):
        say("starting the schema registry anew: the running one is of an older release ...")
        registry.stop(java.STOP_LIMIT_S)
    if registry is None or not registry.is_alive():
        registry = registry_server.start(known.ports.registry, home)
        known = replace(known, registry=registry)
        broker_record.write(home, known)
    try:
        _wait_until_ready(home, known.bootstrap, broker)
    except PochadeError:
        if not broker.is_alive():  # no registry without a broker
            registry.stop(java.STOP_LIMIT_S)
        raise
    registry_server.wait_until_ready(known.registry_url)
    return known


def _start(home: pathlib.Path, ports: Ports, cluster_id: str, say: Say) -> Handle:
    try:
        return java.start(home, ports, cluster_id, say)
    except JavaMissing:
        if not docker.is_available():
            raise
        return docker.start(home, ports, cluster_id, say)


def _wait_until_ready(home: pathlib.Path, bootstrap: str, broker: Handle) -> None:
    try:
        probe.probe(probe.starting_config(bootstrap), READY_LIMIT_S, broker.is_alive)
    except probe.Unreachable as failure:
        if broker.is_alive():
            raise PochadeError(f"the broker started but is not ready: {failure}; see {home / 'broker.log'}") from None
        why = reasons(home / "broker.log")
        kind = PortTaken if "Address already in use" in why or "BindException" in why else PochadeError
        raise kind(f"the broker ended while starting; {home / 'broker.log'} says:\n{why}") from None


def _cluster_id(home: pathlib.Path) -> str:
    """The id of the data that lies there (`broker.json` may have been deleted), or a new one."""
    meta = home / "data" / "meta.properties"
    for line in meta.read_text().splitlines() if meta.exists() else ():
        if line.startswith("cluster.id="):
            return line.removeprefix("cluster.id=")
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
