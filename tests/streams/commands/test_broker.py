"""`pochade up` says what doctor says of topics that exist, and `status` whether requests are served."""

import dataclasses
import json
import pathlib
from contextlib import nullcontext
from typing import Any

import pytest
from click.testing import CliRunner, Result

from schemas.messages import Heartbeat
from schemas.record import Incoming
from schemas.topics import FLEET, PROMPTS, RESULTS, TABLE
from streams.broker import embedded
from streams.broker.address import Address
from streams.cli import main
from streams.codec.avro import encode
from streams.commands import broker
from streams.kafka.consumers import snapshot
from streams.operator.cluster import Found
from streams.processes.announced import announced
from streams.settings import load
from tests.builders import NOW_MS, a_heartbeat
from tests.streams.operator.test_cluster import found


def up(monkeypatch: pytest.MonkeyPatch, there: dict[str, Found]) -> Result:
    missing = [topic.name for topic in TABLE if topic.name not in there]
    monkeypatch.setattr(embedded, "ensure", lambda *_: Address("x:9092", None))
    monkeypatch.setattr(broker, "topics", lambda _: there)
    monkeypatch.setattr(broker, "create_topics", lambda _: missing)
    return CliRunner().invoke(main, ["up"])


def test_up_counts_what_it_created_and_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"pochade.*: {len(TABLE)} created, 0 found" in up(monkeypatch, {}).stdout
    again = up(monkeypatch, found([*TABLE]))
    assert (again.exit_code, again.stdout.splitlines()[-1]) == (
        0,
        f"topics    pochade.*: 0 created, {len(TABLE)} found",
    )


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        (RESULTS, {"partitions": 12}, "fail      equal partitions"),
        (RESULTS, {"config": {"cleanup.policy": "compact"}}, "fail      topics            cleanup.policy removes"),
    ],
)
def test_up_on_topics_that_suit_no_role_says_what_doctor_says_and_fails(
    monkeypatch: pytest.MonkeyPatch, name: str, changes: dict[str, Any], said: str
) -> None:
    done = up(monkeypatch, {name: dataclasses.replace(found([*TABLE])[name], **changes)})
    assert (done.exit_code, said in done.stdout) == (1, True)
    assert f"{len(TABLE) - 1} created, 1 found" in done.stdout


def test_up_on_topics_that_differ_otherwise_warns_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    few = dataclasses.replace(found([*TABLE])[PROMPTS], partitions=1)
    done = up(monkeypatch, {PROMPTS: few})
    assert (done.exit_code, "warn      topics" in done.stdout) == (0, True)


def served(monkeypatch: pytest.MonkeyPatch, members: dict[str, bool], *beats: Heartbeat) -> str:
    values = [("w-0", b"no heartbeat"), *((beat.worker_id, encode(beat)) for beat in beats)]
    records = [
        Incoming(topic=FLEET, partition=0, offset=at, timestamp_ms=NOW_MS, key=key.encode(), value=value)
        for at, (key, value) in enumerate(values)
    ]
    monkeypatch.setattr(broker, "now_ms", lambda: NOW_MS)
    monkeypatch.setattr(broker, "has_members", lambda _, group: members.get(group, True))
    monkeypatch.setattr(snapshot, "past", lambda *_, **__: records)
    return broker.serves(load())


def test_status_names_what_is_missing_between_a_prompt_and_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = a_heartbeat()
    assert served(monkeypatch, {}, worker) == "yes: classifier, router, discriminator, ledger and 1 worker"
    assert (
        served(monkeypatch, {"pochade.router": False}, worker) == "no: 1 worker; missing: router (pochade serve router)"
    )
    assert (
        served(monkeypatch, {"pochade.ledger": False})
        == "no: 0 workers; missing: ledger, worker (pochade serve ledger worker)"
    )


def test_status_counts_a_worker_that_has_not_loaded_as_none_that_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    loading = a_heartbeat(worker_id="w-2", state="loading")
    assert served(monkeypatch, {}, loading) == "no: 0 workers, 1 not ready (pochade doctor)"
    assert (
        served(monkeypatch, {}, a_heartbeat(), loading)
        == "yes: classifier, router, discriminator, ledger and 1 worker, 1 not ready"
    )


def test_status_without_a_broker_says_that_nothing_serves_and_exits_with_0(tmp_path: pathlib.Path) -> None:
    done = CliRunner().invoke(main, ["--home", str(tmp_path), "status", "-o", "json"])
    assert (done.exit_code, json.loads(done.stdout)["serves"]) == (0, "no: no broker runs (pochade up)")
    assert json.loads(done.stdout)["bootstrap_servers"] is None


@pytest.mark.parametrize(
    ("roles", "said"), [([], ""), (["ledger", "router"], "ledger, router still run, and try again")]
)
def test_down_names_the_roles_that_it_leaves_without_a_broker(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, roles: list[str], said: str
) -> None:
    monkeypatch.setattr(embedded, "stop", lambda _: True)
    with announced(tmp_path, "p", roles, "http://127.0.0.1:1") if roles else nullcontext():
        done = CliRunner().invoke(main, ["--home", str(tmp_path), "down"])
    assert (done.exit_code, done.stdout) == (0, "stopped\n")
    assert done.stderr.startswith(said)
    assert bool(done.stderr) == bool(roles)
