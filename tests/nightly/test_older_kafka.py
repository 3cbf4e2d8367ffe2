"""Whole pipelines on Kafkas as operators have them: older ones, stock limits, classic groups only.

The jars of each version (44 MB) are fetched once into `.pochade/kafka`. Nothing of groups is lowered on these brokers.
"""

import contextlib
import pathlib
import time
from collections.abc import Iterator

import pytest

from schemas.messages import Status
from streams.broker.node import KAFKA_VERSION
from streams.kafka.groups import groups
from streams.kafka.topics import create_topics
from streams.operator.doctor import examine
from streams.operator.verdicts import Verdict
from streams.settings import Settings, load
from tests.integration.pipeline import Pipeline
from tests.nightly.kafkas import kafka

CLASSIC_ONLY = {"group.coordinator.rebalance.protocols": "classic"}


@contextlib.contextmanager
def pipeline_on(address: str, logs: pathlib.Path, prefix: str) -> Iterator[Pipeline]:
    """Every role a process, on topics of its own, with the default settings."""
    kafka_settings = {"bootstrap_servers": address, "prefix": prefix}
    settings = load({"home": logs / "home", "kafka": kafka_settings})
    create_topics(settings, ["light", "heavy"])
    pipeline = Pipeline(settings, logs, extra=(f"kafka.bootstrap_servers={address}",))
    try:
        yield pipeline.start()
    finally:
        pipeline.close()


def protocol_on(address: str) -> str:
    own: Settings = load({"kafka": {"bootstrap_servers": address, "prefix": "old"}})
    return groups.protocol(own).value


def doctors_failures(settings: Settings, address: str) -> list[str]:
    kafka_settings = settings.kafka.model_copy(update={"bootstrap_servers": address})
    found = list(examine(settings.model_copy(update={"kafka": kafka_settings})))
    assert "consumer groups" in {check.name for check in found}
    return [f"{check.name}: {check.found}" for check in found if check.verdict is Verdict.FAIL]


@pytest.mark.parametrize(
    ("version", "more", "protocol"),
    [
        (KAFKA_VERSION, {}, "consumer"),
        (KAFKA_VERSION, CLASSIC_ONLY, "classic"),
        ("3.9.1", {}, "classic"),
        ("3.7.2", {}, "classic"),
    ],
    ids=["stock", "classic-only", "3.9.1", "3.7.2"],
)
def test_a_pipeline_with_default_settings_generates_and_survives_its_workers(
    tmp_path: pathlib.Path, version: str, more: dict[str, str], protocol: str
) -> None:
    with kafka(tmp_path, version, more) as address, pipeline_on(address, tmp_path, "old") as pipeline:
        assert protocol_on(address) == protocol
        assert doctors_failures(pipeline.settings, address) == []
        assert {r.status for r in pipeline.wait_all(pipeline.submit(100))} == {Status.COMPLETED}
        ids = pipeline.submit(100, rate=100)
        begun = time.monotonic()
        pipeline.kill("worker-1")
        pipeline.kill("ledger")
        pipeline.heal()
        assert {r.status for r in pipeline.wait_all(ids)} == {Status.COMPLETED}
        print(f"{version} {protocol}: all ended {time.monotonic() - begun:.1f} s after worker and ledger were killed")
        reported = (tmp_path / "ledger.log").read_text() + (tmp_path / "worker-1.log").read_text()
        assert "beginning again" not in reported, pipeline.tails()
