"""Three brokers, three copies: leaders move, freeze, die, are lost for good; every request ends once."""

import os
import pathlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from agents.ledger.partition import LedgerPartition
from replay.verify.chaos.brokers import BrokerCluster
from schemas.record import Delivered, Incoming, Outgoing
from schemas.topics import FLOW_PARTITIONS, OUTCOMES, RESULTS
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.kafka.clients import client_config, topic_name
from streams.kafka.consumers import snapshot
from streams.kafka.consumers.offsets import LogEnds
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.settings import Settings
from tests.builders import an_outcome
from tests.chaos.running import chaos, reported
from tests.integration.clusters import leader_of, on, running_cluster
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

FREEZES = int(os.environ.get("TEST_FREEZES", "40"))  # 500 is the long run
NEW, REPEATED = 9, 40  # outcomes that a ledger reads for the first time and again, each time it begins


@pytest.fixture(scope="module")
def cluster(new_home: Callable[[], pathlib.Path]) -> Iterator[BrokerCluster]:
    with running_cluster(new_home) as running:
        yield running


@pytest.fixture
def deployment(cluster: BrokerCluster, tmp_path: pathlib.Path) -> Settings:
    settings = on(cluster, tmp_path)
    create_topics(settings, ["light", "heavy"])
    poll_until(cluster.is_in_sync, "every copy in sync")
    return settings


class Group:
    """A consumer group that commits nothing, so that everything is read again."""

    def commit(self, **_: object) -> None:
        pass


class Freezing(threading.Thread):
    """Freezes the leader of one partition or another for 4 to 8 s, thaws it, and again."""

    def __init__(self, cluster: BrokerCluster, topic: str, times: int) -> None:
        super().__init__(daemon=True)
        self._cluster, self._topic, self._times, self._dice = cluster, topic, times, random.Random(21)
        self.over = threading.Event()
        self.done = 0

    def run(self) -> None:
        try:
            while self.done < self._times:
                self._freeze()
        finally:
            self.over.set()

    def _freeze(self) -> None:
        node = leader_of(self._cluster, self._topic, self._dice.randrange(FLOW_PARTITIONS))
        self._cluster.freeze(node)
        try:
            time.sleep(self._dice.uniform(4, 8))
        finally:
            self._cluster.thaw(node)
        self.done += 1
        poll_until(self._cluster.is_in_sync, "every copy in sync after a thaw")
        time.sleep(self._dice.uniform(0, 2))


class Recovering(threading.Thread):
    """Opens a partition of the ledger again and again, each time as a new owner that reads the last outcomes again."""

    def __init__(self, settings: Settings, partition: int, ending: threading.Event) -> None:
        super().__init__(daemon=True)
        self._settings, self._partition, self._ending = settings, partition, ending
        self.read: list[Incoming] = []
        self.openings = self.broken = 0

    def run(self) -> None:
        while not self._ending.is_set():
            self.read += [self._outcome(len(self.read) + n) for n in range(NEW)]
            self.openings += 1
            try:
                self.recover()
            except KafkaException:  # written or not: it is read again, as it was not committed
                self.broken += 1

    def recover(self) -> None:
        lane = LedgerPartition(self._settings, self._partition)
        lane.serve(self.read[-NEW - REPEATED :], Group())  # type: ignore[arg-type]

    def _outcome(self, number: int) -> Incoming:
        outcome = an_outcome(request_id=f"p{self._partition}-{number}")
        return Incoming(
            topic=OUTCOMES, partition=self._partition, offset=number, timestamp_ms=now_ms(),
            key=outcome.request_id.encode(), value=encode(outcome),
        )  # fmt: skip


def test_asking_for_the_end_of_a_log_without_a_leader_costs_hardly_any_processor_time(
    cluster: BrokerCluster, tmp_path: pathlib.Path
) -> None:
    # the admin's client used a whole core for this: with a broker lost, three workers kept the others from their work
    settings = on(cluster, tmp_path)
    name = topic_name(settings, "one-copy")
    one_copy = NewTopic(name, len(cluster.nodes), replica_assignment=[[node] for node in cluster.nodes])
    client = AdminClient(client_config(settings))  # must live until the answer is here
    client.create_topics([one_copy])[name].result(PATIENCE_S)
    poll_until(lambda: name in client.list_topics(timeout=PATIENCE_S).topics, "the topic known")
    ends, everywhere = LogEnds(settings), range(len(cluster.nodes))
    poll_until(lambda: len(ends.of(name, everywhere)) == len(everywhere), "every leader answers")
    away = cluster.nodes[0]
    cluster.kill(away)
    try:
        poll_until(lambda: len(ends.of(name, everywhere)) < len(everywhere), "one leader is gone")
        begun_s, begun_cpu_s = time.monotonic(), time.process_time()
        for _ in range(5):
            assert len(ends.of(name, everywhere)) == len(everywhere) - 1
        assert time.process_time() - begun_cpu_s < 0.2 * (time.monotonic() - begun_s)
    finally:
        cluster.start(away)
    poll_until(lambda: len(ends.of(name, everywhere)) == len(everywhere), "the leader is back, and answers the same")


def test_records_go_to_the_new_leader_within_seconds_of_the_old_one_freezing(
    cluster: BrokerCluster, deployment: Settings
) -> None:
    # with librdkafka's own limit of 60 s for an answer they waited for the old one that long, using a core
    def send(number: int) -> list[Delivered]:
        outcomes = [an_outcome(request_id=f"frozen-{number}-{each}") for each in range(20)]
        keyed = [Outgoing(topic=OUTCOMES, key=each.request_id.encode(), value=encode(each)) for each in outcomes]
        return send_all(producer, keyed)

    producer = KafkaRecordProducer(deployment)
    send(0)
    frozen = leader_of(cluster, topic_name(deployment, OUTCOMES), 0)
    cluster.freeze(frozen)
    begun_s = time.monotonic()
    try:
        send(1)
        assert time.monotonic() - begun_s < 25
    finally:
        cluster.thaw(frozen)
        producer.close()


@pytest.mark.timeout(3600 * 4)
def test_a_ledger_that_begins_again_while_leaders_freeze_gives_no_request_a_second_result(
    cluster: BrokerCluster, deployment: Settings
) -> None:
    freezing = Freezing(cluster, topic_name(deployment, RESULTS), FREEZES)
    recovering = [Recovering(deployment, partition, freezing.over) for partition in range(FLOW_PARTITIONS)]
    for thread in (freezing, *recovering):
        thread.start()
    for thread in (freezing, *recovering):
        thread.join()
    for each in recovering:
        each.recover()
    results = Counter((record.key or b"").decode() for record in snapshot.past(deployment, [RESULTS]))
    asked = [(record.key or b"").decode() for each in recovering for record in each.read]
    doubled = [name for name in asked if results[name] > 1]
    openings, broken = sum(each.openings for each in recovering), sum(each.broken for each in recovering)
    print(f"{freezing.done} freezes, {openings} openings, {broken} broken; {len(doubled)} of {len(asked)} doubled")
    assert freezing.done == FREEZES
    assert [name for name in asked if not results[name]] == [], "lost"
    assert doubled == [], f"{len(doubled)} of {len(asked)} requests have more than one result"


OF_BROKERS = ("broker", "broker-restart", "broker-freeze", "broker-lost", "controller", "leaders", "rolling")
RUNS = {  # name -> requests, faults, kinds
    "all of them, one after the other": (800, 14, OF_BROKERS),
    "a rolling restart": (400, 1, ("rolling",)),
    "a failover of the controller": (300, 2, ("controller",)),
    "roles that die beside brokers": (600, 16, ("kill", "freeze", "second", "repeat", "replay", "cancel", *OF_BROKERS)),
}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", RUNS)
def test_a_deployment_of_two_of_each_role_survives(name: str, new_home: Callable[[], pathlib.Path]) -> None:
    requests, faults, kinds = RUNS[name]
    only = [part for kind in kinds for part in ("--only", kind)]
    counts = ["--requests", str(requests), "--faults", str(faults), "--seed", "3"]
    report = chaos(new_home(), "--brokers", "3", *counts, *only, limit_s=3500)
    assert report["accepted"] == sum(report["outcomes"].values()) == requests
    assert (report["lost"], report["duplicates"], report["late_commits"], report["open"]) == (0, 0, 0, 0)
    assert report["outcomes"]["COMPLETED"] > requests / 2
    assert len(reported(report)) > faults / 2
    print(name, report["recovery"], *reported(report), sep="\n")


@pytest.mark.timeout(1800)
def test_p99_is_back_within_ten_seconds_after_a_broker_is_lost_for_good_under_load(
    new_home: Callable[[], pathlib.Path],
) -> None:
    report = chaos(
        new_home(), "--brokers", "3", "--requests", "600", "--faults", "1", "--only", "broker-lost", limit_s=1700
    )
    (back,) = report["recovery"]["p99_back"]
    (still,) = report["recovery"]["still"]
    print(f"p99 back after {back['seconds']} s; no result for {still['seconds']} s; {report['outcomes']}")
    assert (report["lost"], report["duplicates"]) == (0, 0)
    assert back["beside"] == [], "no other fault was near"
    assert back["seconds"] <= report["recovery"]["p99_back_limit_s"]
