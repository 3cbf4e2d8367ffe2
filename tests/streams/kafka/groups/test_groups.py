# ruff: noqa: ARG002  the client's shapes
"""What a group's member is configured with, on clusters that allow little, by an admin client that is scripted."""

import logging
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType

from schemas.errors import PochadeError
from streams.kafka.groups import groups
from streams.kafka.groups.group_terms import Timeouts, Trial
from streams.settings import Settings, load

Refusals = dict[tuple[str, str], int]  # (verb, kind of resource) -> the error's code


class Cluster:
    """Returns and takes settings of groups and brokers as far as `refuses` lets it; a stock Kafka 4 unless said."""

    def __init__(self, **refuses: int) -> None:
        self.refuses = refuses  # alter_group, see_group, see_broker -> the error's code
        self.group = {"consumer.session.timeout.ms": "45000", "consumer.heartbeat.interval.ms": "5000"}
        self.broker = {
            "group.consumer.min.session.timeout.ms": "30000",
            "group.consumer.max.session.timeout.ms": "60000",
            "group.consumer.min.heartbeat.interval.ms": "3000",
            "group.min.session.timeout.ms": "10000",
        }
        self.altered: list[dict[str, str]] = []

    def list_topics(self, timeout: float) -> Any:
        return SimpleNamespace(brokers={7: "a broker"})

    def describe_configs(self, asked: list[ConfigResource], request_timeout: float) -> Any:
        (resource,) = asked
        is_group = resource.restype is ResourceType.GROUP
        if not is_group:
            assert resource.name == "7"
        config = self.group if is_group else self.broker
        entries = {name: SimpleNamespace(value=value) for name, value in config.items()}
        return {resource: self._answer("see_group" if is_group else "see_broker", entries)}

    def incremental_alter_configs(self, asked: list[ConfigResource], request_timeout: float) -> Any:
        (resource,) = asked
        wanted = {entry.name: entry.value for entry in resource.incremental_configs}
        answer = self._answer("alter_group", None)
        least = int(self.broker["group.consumer.min.session.timeout.ms"])
        if answer.exception() is None and int(wanted["consumer.session.timeout.ms"]) < least:
            answer = failed(KafkaError.INVALID_CONFIG)
        if answer.exception() is None:
            self.altered.append(wanted)
            self.group = wanted
        return {resource: answer}

    def _answer(self, verb: str, value: Any) -> "Future[Any]":
        if verb in self.refuses:
            return failed(self.refuses[verb])
        done: Future[Any] = Future()
        done.set_result(value)
        return done


def failed(code: int) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_exception(KafkaException(KafkaError(code, "refused")))
    return future


DENIED = KafkaError.GROUP_AUTHORIZATION_FAILED
CLOSED = KafkaError.CLUSTER_AUTHORIZATION_FAILED


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(groups, "_protocols", {})
    monkeypatch.setattr(groups, "_warned", set())
    return load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(cluster: Cluster, trial: Trial = Trial.JOINED) -> Cluster:
        monkeypatch.setattr(groups, "_admin", lambda _settings: cluster)
        monkeypatch.setattr(groups, "try_consumer_protocol", lambda *_: (trial, "a reason"))
        return cluster

    return use


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno == logging.WARNING]


def test_a_session_below_the_brokers_minimum_becomes_the_nearest_one_with_one_warning(
    settings: Settings, use: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = use(Cluster())
    for variant in ("light", "heavy"):
        config = groups.member_config(settings, f"pochade.worker.{variant}")
        assert config["group.protocol"] == "consumer"
        assert not {"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"} & config.keys()
    assert cluster.altered == [{"consumer.session.timeout.ms": "30000", "consumer.heartbeat.interval.ms": "3333"}]
    (warning,) = warnings(caplog)
    assert "after 30 s, not after kafka.session_timeout_ms = 6 s" in warning


@pytest.mark.parametrize("code", [DENIED, KafkaError.POLICY_VIOLATION])
def test_a_group_that_may_not_be_altered_keeps_its_timeouts_with_one_warning(
    settings: Settings, use: Any, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    cluster = use(Cluster(alter_group=code))
    assert groups.set_timeouts(settings, "pochade.ledger") == Timeouts(45_000, 5_000)
    groups.set_timeouts(settings, "pochade.ledger")
    assert cluster.altered == []
    (warning,) = warnings(caplog)
    assert "after 45 s" in warning
    assert "ALTER_CONFIGS" in warning


def test_a_cluster_that_tells_nothing_of_groups_is_joined_all_the_same(
    settings: Settings, use: Any, caplog: pytest.LogCaptureFixture
) -> None:
    use(Cluster(alter_group=DENIED, see_group=DENIED, see_broker=CLOSED))
    assert groups.member_config(settings, "pochade.ledger")["group.protocol"] == "consumer"
    assert "when the cluster says" in warnings(caplog)[0]


def test_brokers_whose_limits_may_not_be_seen_are_taken_for_stock_ones(settings: Settings, use: Any) -> None:
    cluster = use(Cluster(see_broker=CLOSED))
    cluster.group = {}
    assert groups.set_timeouts(settings, "pochade.ledger") == Timeouts(45_000, 5_000)
    assert len(cluster.altered) == 1


def test_a_group_that_has_the_timeouts_already_is_not_altered_so_that_no_right_is_needed(
    settings: Settings, use: Any, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = use(Cluster(alter_group=DENIED))
    cluster.group = {"consumer.session.timeout.ms": "6000", "consumer.heartbeat.interval.ms": "666"}
    assert groups.set_timeouts(settings, "pochade.ledger") == Timeouts(6_000, 666)
    assert not warnings(caplog)


@pytest.mark.parametrize(
    ("cluster", "trial"),
    [
        (Cluster(see_group=KafkaError.INVALID_REQUEST), Trial.JOINED),  # Kafka 3: not even tried
        (Cluster(see_group=DENIED), Trial.UNKNOWN),
        (Cluster(), Trial.REFUSED),
    ],
)
def test_members_of_an_old_cluster_bring_their_timeouts_within_its_limits(
    settings: Settings, use: Any, caplog: pytest.LogCaptureFixture, cluster: Cluster, trial: Trial
) -> None:
    use(cluster, trial)
    config = groups.member_config(settings, "pochade.ledger")
    assert config["group.protocol"] == "classic"
    assert (config["session.timeout.ms"], config["heartbeat.interval.ms"]) == (10_000, 3_333)
    assert config["partition.assignment.strategy"] == "cooperative-sticky"
    assert not cluster.altered
    assert any("does not know the consumer protocol" in warning for warning in warnings(caplog))
    assert groups.classic_settings(settings).kafka.session_timeout_ms == 10_000


def test_a_cluster_that_is_away_is_an_error_and_nothing_is_concluded_from_it(settings: Settings, use: Any) -> None:
    use(Cluster(see_group=KafkaError._TRANSPORT))
    with pytest.raises(PochadeError, match="cannot see the settings of group"):
        groups.member_config(settings, "pochade.ledger")
    use(Cluster())
    assert groups.member_config(settings, "pochade.ledger")["group.protocol"] == "consumer"
