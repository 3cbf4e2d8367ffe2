"""What `[kafka.properties]` sets reaches every client, or is refused: none of ours puts a value of its own over it."""

from typing import Any

import pytest

from streams.kafka.clients import producer_config
from streams.kafka.consumers.consumer_factory import reader_config
from streams.kafka.producers import producer
from streams.kafka.transactions import transactions
from streams.security.security import OF_LIBRDKAFKA_ALONE
from streams.settings import Settings, load

LIMITED = {"socket.timeout.ms"}  # librdkafka refuses one that is longer than a transaction may last


class Opened(Exception):
    """The configuration that a writer's client would be opened with."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config


@pytest.fixture
def given() -> Settings:
    properties = dict.fromkeys(OF_LIBRDKAFKA_ALONE, "77")
    return load({"kafka": {"bootstrap_servers": "127.0.0.1:1", "properties": properties}})


def raising(config: dict[str, Any]) -> None:
    raise Opened(config)


def overruled(config: dict[str, Any]) -> set[str]:
    return {name for name in OF_LIBRDKAFKA_ALONE if config[name] != "77"}


def test_readers_and_both_kinds_of_writers_take_each_property_that_is_not_refused(
    given: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer, "Producer", raising)
    monkeypatch.setattr(transactions, "Producer", raising)
    assert overruled(reader_config(given, "follower")) == set()
    with pytest.raises(Opened) as writer:
        producer.KafkaRecordProducer(given)
    assert overruled(writer.value.config) == set()
    with pytest.raises(Opened) as ledger:
        transactions.open_producer(given, "ledger", 10)
    assert overruled(ledger.value.config) <= LIMITED


def test_records_are_sent_at_once_where_no_property_lets_them_wait() -> None:
    cluster = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})
    assert producer_config(cluster)["linger.ms"] == "0"
