"""Where the broker is, without starting one."""

import os
import pathlib
import time

import pytest

from schemas.errors import PochadeError
from streams.broker import address, probe, record, registry_server
from streams.broker import embedded as broker
from streams.broker.node import HOST, free_ports
from streams.broker.process import Process
from streams.broker.record import Record
from streams.kafka.clients import config_of
from streams.settings import Settings, load


@pytest.fixture
def embedded(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.delenv("POCHADE_KAFKA__BOOTSTRAP_SERVERS", raising=False)
    return load({"home": tmp_path})


def foreign(tmp_path: pathlib.Path, address: str, **properties: str) -> Settings:
    return load({"home": tmp_path, "kafka": {"bootstrap_servers": address, "properties": properties}})


def test_a_home_without_a_broker_has_none_and_says_what_to_do(embedded: Settings) -> None:
    assert address.find(embedded) is None
    with pytest.raises(
        PochadeError, match=r"no broker in .*: run `pochade up` or set POCHADE_KAFKA__BOOTSTRAP_SERVERS"
    ):
        address.bootstrap_servers(embedded)


def test_a_stale_record_is_not_a_running_broker(embedded: Settings) -> None:
    home = address.kafka_home(embedded)
    home.mkdir()
    somebody_else = Process(os.getpid(), started=1.0)
    record.write(home, Record(cluster_id="c", ports=free_ports(), broker=somebody_else))
    assert address.find(embedded) is None


def test_stopping_where_nothing_ran_is_no_error(embedded: Settings) -> None:
    assert broker.stop(embedded) is False
    assert not address.kafka_home(embedded).exists()


def test_a_registry_that_nobody_recorded_is_stopped_with_the_broker_of_its_home(embedded: Settings) -> None:
    home, ports = address.kafka_home(embedded), free_ports()
    record.make_private(home)
    record.write(home, Record(cluster_id="c", ports=ports))
    begun = registry_server.start(ports.registry, home)
    try:
        registry_server.wait_until_ready(f"http://{HOST}:{ports.registry}")
        assert [each.pid for each in registry_server.running(home)] == [begun.pid]
        assert registry_server.running(home.parent) == []
        assert broker.stop(embedded) is True
        assert not begun.is_alive()
    finally:
        begun.stop(0)


def test_a_configured_cluster_is_the_address_and_nothing_is_stopped(tmp_path: pathlib.Path) -> None:
    settings = foreign(tmp_path, "kafka:9092")
    assert address.find(settings) == address.Address("kafka:9092", None)
    assert address.bootstrap_servers(settings) == "kafka:9092"
    assert broker.stop(settings) is False


def test_an_unreachable_cluster_is_an_error_with_address_reason_and_remedy(tmp_path: pathlib.Path) -> None:
    address = f"{HOST}:{free_ports().broker}"
    begun = time.monotonic()
    with pytest.raises(probe.Unreachable, match=rf"{address} within 5 s: .*refused.*POCHADE_KAFKA__BOOTSTRAP"):
        broker.ensure(foreign(tmp_path, address))
    assert time.monotonic() - begun < 30


def test_a_property_that_librdkafka_does_not_know_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(PochadeError, match=r"\[kafka.properties\].*sasl\.mechanis"):
        broker.ensure(foreign(tmp_path, "kafka:9092", **{"sasl.mechanis": "PLAIN"}))


def test_waiting_ends_at_once_when_the_broker_is_known_to_be_dead() -> None:
    begun = time.monotonic()
    with pytest.raises(probe.Unreachable):
        probe.probe(config_of(f"{HOST}:1", {}), 60, is_alive=lambda: False)
    assert time.monotonic() - begun < 30


def test_configured_properties_win_over_our_own() -> None:
    config = config_of("kafka:9092", {"reconnect.backoff.max.ms": "7", "security.protocol": "SSL"})
    assert config["reconnect.backoff.max.ms"] == "7"
    assert config["security.protocol"] == "SSL"
    assert config["bootstrap.servers"] == "kafka:9092"
