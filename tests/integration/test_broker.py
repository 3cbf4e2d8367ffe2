"""The embedded broker through its whole life."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from schemas.errors import PochadeError
from schemas.topics import DLQ, TABLE
from streams.broker import address, embedded
from streams.broker import record as broker_record
from streams.broker.node import HOST, Ports, free_ports
from streams.broker.process import Process
from streams.broker.record import Record
from streams.kafka import clients
from streams.kafka.topics import create_topics
from streams.settings import Settings, load
from tests.integration.calling import POCHADE, pochade, status
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture
def home(new_home: Callable[[], pathlib.Path]) -> Iterator[pathlib.Path]:
    """A home of one test, ended after it."""
    made = new_home()
    yield made
    settings = load({"home": made})
    embedded.stop(settings)
    assert address.find(settings) is None


@pytest.fixture(scope="module")
def lasting_home(new_home: Callable[[], pathlib.Path]) -> Iterator[pathlib.Path]:
    """The home of the broker that tests share, ended after them."""
    made = new_home()
    yield made
    settings = load({"home": made})
    embedded.stop(settings)
    assert address.find(settings) is None


@pytest.fixture
def running(lasting_home: pathlib.Path) -> Settings:
    """Settings of a broker that runs; what the test before ended is started again."""
    settings = load({"home": lasting_home})
    embedded.ensure(settings)
    return settings


def processes(settings: Settings) -> tuple[Process, Process]:
    """Broker and registry as recorded."""
    record = address.record(settings)
    assert record is not None
    assert isinstance(record.broker, Process)
    assert record.registry is not None
    return record.broker, record.registry


def write(settings: Settings, value: bytes) -> None:
    producer = Producer({**clients.client_config(settings), "acks": "all"})
    producer.produce(clients.topic_name(settings, DLQ), value, partition=0)
    assert producer.flush(30) == 0


def read_all(settings: Settings) -> list[bytes]:
    topic = TopicPartition(clients.topic_name(settings, DLQ), 0, 0)
    consumer = Consumer({**clients.client_config(settings), "group.id": "reader", "enable.auto.commit": "false"})
    try:
        # a broker that just came back may not lead its partitions yet; unlike reading, this call does not retry
        patient = Retrying(
            retry=retry_if_exception_type(KafkaException), stop=stop_after_delay(30), wait=wait_fixed(0.1)
        )
        _, end = patient(consumer.get_watermark_offsets, topic, timeout=PATIENCE_S)
        consumer.assign([topic])
        messages = consumer.consume(end, timeout=PATIENCE_S)
        return [message.value() for message in messages]
    finally:
        consumer.close()


def test_up_twice_is_one_broker_with_its_topics_and_down_may_be_repeated(home: pathlib.Path) -> None:
    assert status(home)["broker"] == "stopped"
    first, second = pochade(home, "up"), pochade(home, "up")
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    running = processes(load({"home": home}))
    assert f"{len(TABLE)} created" in first.stdout
    assert "0 created" in second.stdout
    facts = status(home)
    assert (facts["broker"], facts["topics"], facts["pid"]) == ("running", len(TABLE), running[0].pid)
    assert 0 < facts["memory_mb"] < 600
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(facts["registry_url"] + "/subjects") as got:
        assert "pochade.Result" in json.load(got)

    assert pochade(home, "down").stdout == "stopped\n"
    assert not any(process.is_alive() for process in running)
    again = pochade(home, "down")
    assert (again.returncode, again.stdout) == (0, "nothing to stop: no broker runs here\n")
    assert status(home)["broker"] == "stopped"


def test_two_starts_at_once_are_one_broker(home: pathlib.Path) -> None:
    command = [POCHADE, "--home", str(home), "up"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=home) for _ in range(2)]
    reported = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert len({re.search(r"broker +(\S+)", text)[1] for text in reported}) == 1  # type: ignore[index]


def test_a_killed_broker_is_found_dead_and_restarted_on_its_data_and_port(running: Settings) -> None:
    before = address.find(running)
    create_topics(running)
    kept = read_all(running)
    write(running, b"survivor")
    killed, registry = processes(running)
    os.kill(killed.pid, signal.SIGKILL)
    poll_until(lambda: not killed.is_alive(), "the broker is dead")
    assert address.find(running) is None
    with pytest.raises(PochadeError, match="run `pochade up`"):
        clients.client_config(running)

    assert embedded.ensure(running) == before
    assert not registry.is_alive()  # it has a successor on its port
    assert processes(running)[0].pid != killed.pid
    assert read_all(running) == [*kept, b"survivor"]


def test_a_registry_of_an_older_release_is_started_anew_on_its_port(
    running: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = address.find(running)
    broker, registry = processes(running)
    monkeypatch.setattr(embedded.registry_server, "is_up_to_date", lambda _url: False)
    assert embedded.ensure(running) == before
    assert processes(running)[0] == broker, "the broker is left alone"
    assert processes(running)[1] != registry
    assert not registry.is_alive()


def test_a_broker_whose_ports_were_taken_meanwhile_comes_back_on_others_with_its_data(running: Settings) -> None:
    before = embedded.ensure(running)
    create_topics(running)
    kept = read_all(running)
    write(running, b"survivor")
    embedded.stop(running)
    with socket.create_server((HOST, int(before.bootstrap.rpartition(":")[2]))):
        after = embedded.ensure(running)
    assert after.bootstrap != before.bootstrap
    assert read_all(running) == [*kept, b"survivor"]


def test_a_port_that_is_taken_just_before_the_start_is_exchanged(
    home: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([True])  # the first look sees no listener; later ones see for themselves
    really = Ports.all_free
    monkeypatch.setattr(Ports, "all_free", lambda ports: next(looks, None) or really(ports))
    settings = load({"home": home})
    with socket.create_server((HOST, 0)) as listener:
        taken = replace(free_ports(), broker=listener.getsockname()[1])
        broker_record.write(address.kafka_home(settings), Record(cluster_id=CLUSTER_ID, ports=taken))
        found = embedded.ensure(settings)
        assert found.bootstrap != f"{HOST}:{taken.broker}"


def test_no_second_broker_is_started_on_data_that_are_in_use(running: Settings) -> None:
    broker = processes(running)[0]
    file = broker_record.path(address.kafka_home(running))
    forgotten = file.read_text()
    file.unlink()
    try:
        with pytest.raises(
            PochadeError, match=rf"in use by another broker \(process {broker.pid}\): `kill {broker.pid}`"
        ):
            embedded.ensure(running)
        assert broker.is_alive()
    finally:
        file.write_text(forgotten)


def test_a_registry_whose_starter_was_killed_before_recording_it_is_replaced(running: Settings) -> None:
    folder = address.kafka_home(running)
    known, (_, unrecorded) = broker_record.read(folder), processes(running)
    assert known is not None
    broker_record.write(folder, replace(known, registry=None))
    embedded.ensure(running)
    _, recorded = processes(running)
    assert not unrecorded.is_alive()
    assert [each.pid for each in embedded.registry_server.running(folder)] == [recorded.pid]


def test_a_dead_registry_is_started_again_beside_the_running_broker(running: Settings) -> None:
    kept, killed = processes(running)
    os.kill(killed.pid, signal.SIGKILL)
    poll_until(lambda: not killed.is_alive(), "the registry is dead")
    assert status(running.home)["registry_url"] is None
    assert pochade(running.home, "up").returncode == 0
    assert processes(running)[0] == kept
    assert status(running.home)["registry_url"] is not None


def test_a_broker_that_cannot_start_says_why(running: Settings) -> None:
    embedded.stop(running)
    meta = address.kafka_home(running) / "data" / "meta.properties"
    own = meta.read_text()
    meta.write_text(own.replace("node.id=1", "node.id=7"))  # the data of another node
    try:
        with pytest.raises(PochadeError, match=r"(?s)broker ended while starting.*node id"):
            embedded.ensure(running)
    finally:
        meta.write_text(own)
    left = address.record(running)
    assert left is not None
    assert left.registry is not None
    assert not left.registry.is_alive()  # no registry without a broker


def test_the_broker_survives_the_death_of_the_command_that_started_it(home: pathlib.Path) -> None:
    settings = load({"home": home})
    command = [POCHADE, "--home", str(home), "up"]
    starter = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    poll_until(lambda: address.find(settings), "the broker's process is recorded")
    os.killpg(starter.pid, signal.SIGKILL)
    starter.wait()
    found = address.record(settings)
    assert found is not None
    assert found.broker is not None
    embedded.ensure(settings)
    assert processes(settings)[0] == found.broker


def test_a_cluster_id_that_begins_with_a_dash_is_no_option(home: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_cluster_id", lambda _home: "-8bTq1mKQeqS7o5V0lH3xA")
    assert embedded.ensure(load({"home": home})).bootstrap
