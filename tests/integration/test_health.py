"""Health, metrics and logs of real processes: not ready before a plan, ready with one, one JSON object a line."""

import contextlib
import json
import pathlib
import socket
from collections.abc import Callable, Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from infra.bin.observing.alerts import ALERTS
from infra.bin.observing.dashboards import queries
from infra.bin.observing.documents import metrics_of
from replay.local.processes import role_process
from schemas.messages import GenerateRequest
from schemas.record import Outgoing
from schemas.topics import PROMPTS
from streams.codec.avro import encode
from streams.kafka.producers.producer import KafkaRecordProducer
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.processes.children import end_all
from streams.settings import Settings
from tests.integration.forked import ROLE_SERVER
from tests.integration.waiting import ask, poll_until

pytestmark = pytest.mark.broker

STAGES = ("job_queue", "generation", "store", "ledger_transaction")
ALERTS_ASK = tuple(alert.query for alert in ALERTS)
SECRET = "a portrait of my neighbour"


class Process:
    """One `pochade serve` process with JSON logs and its health on a port of its own."""

    def __init__(self, settings: Settings, roles: list[str], folder: pathlib.Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._address = f"http://127.0.0.1:{probe.getsockname()[1]}"
        options = ["--home", str(settings.home), "--set", f"kafka.prefix={settings.kafka.prefix}"]
        own = {"http.port": self._address.rpartition(":")[2], "logs.format": "json", "catalog": "profile"}
        self.log = folder / f"{'-'.join(roles)}.log"
        self.child = ROLE_SERVER.fork(role_process("-".join(roles), roles, options, own).command, self.log)

    def ask(self, path: str) -> tuple[int, str]:
        """Status and body; 0 while nobody listens."""
        return ask(self._address + path)

    def unready(self) -> dict[str, str] | None:
        """Why which role is not ready; None while nobody listens."""
        _, body = self.ask("/readyz")
        reasons: dict[str, str] | None = json.loads(body)["reasons"] if body else None
        return reasons

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def stop(self) -> int:
        return end_all([self.child], 40)[0]


Start = Callable[..., Process]


@pytest.fixture
def start(settings: Settings, tmp_path: pathlib.Path) -> Iterator[Start]:
    create_topics(settings, ["light", "heavy"])
    with contextlib.ExitStack() as stack:

        def start(*roles: str) -> Process:
            process = Process(settings, list(roles), tmp_path)
            stack.callback(process.stop)
            return process

        yield start


def test_a_router_is_alive_but_not_ready_before_it_holds_a_plan(start: Start) -> None:
    router = start("router")
    poll_until(lambda: router.unready() == {"router": "holds no plan yet"}, "the router waits for a plan")
    assert router.ask("/livez")[0] == 200
    planner = start("planner")
    poll_until(lambda: planner.ask("/readyz")[0] == 200, "the planner is ready")
    poll_until(lambda: router.ask("/readyz")[0] == 200, "the router is ready")
    assert "pochade_plan_version" in router.ask("/metrics")[1]


def test_every_role_in_one_process_becomes_ready_and_serves(start: Start, settings: Settings) -> None:
    whole = start("classifier", "router", "worker", "discriminator", "ledger", "planner")
    poll_until(lambda: whole.ask("/livez")[0] == 200, "it listens")
    poll_until(lambda: whole.ask("/readyz")[0] == 200, "all roles are ready")
    producer = KafkaRecordProducer(settings)
    good = encode(GenerateRequest(request_id="r-good", prompt=SECRET, created_ms=1))
    bad = f"{SECRET}, not JSON".encode()
    send_all(producer, [Outgoing(topic=PROMPTS, key=b"r", value=value) for value in (good, bad)])
    producer.close()
    poll_until(lambda: any(line["level"] == "error" for line in whole.lines()), "the unreadable record is logged")
    completed = 'pochade_request_seconds_count{status="COMPLETED",tier="standard"} 1.0'
    poll_until(lambda: completed in whole.ask("/metrics")[1], "the good one is completed and counted")
    shown_is_all_that_dashboards_ask_for(whole.ask("/metrics")[1])
    assert whole.stop() == 0
    [refused] = [line for line in whole.lines() if line["level"] == "error"]
    assert refused["topic"] == PROMPTS
    assert refused["roles"] == ["classifier", "discriminator", "ledger", "planner", "router", "worker"]
    assert refused["request_id"] not in ("r", "r-good"), "its key names nothing"
    assert SECRET not in whole.log.read_text()


def shown_is_all_that_dashboards_ask_for(scraped: str) -> None:
    """Every metric of every query is exposed, and each stage of the way was measured."""
    families = {family.name: family for family in text_string_to_metric_families(scraped)}
    asked = {name.removesuffix("_total") for query in (*queries(), *ALERTS_ASK) for name in metrics_of(query)}
    assert asked <= families.keys()
    counts = {
        (sample.name, sample.labels.get("role")): sample.value
        for family in families.values()
        for sample in family.samples
    }
    for stage in STAGES:
        assert counts[f"pochade_{stage}_seconds_count", None] > 0, stage
    for role in ("classifier", "router", "worker", "discriminator", "ledger"):
        assert counts["pochade_queue_seconds_count", role] > 0, role
        assert counts["pochade_hop_seconds_count", role] > 0, role
    assert counts["pochade_planner_leads", None] == 1


def test_a_process_without_trouble_logs_nothing_but_news_each_line_json(start: Start) -> None:
    ledger = start("ledger")
    poll_until(lambda: ledger.ask("/readyz")[0] == 200, "the ledger is ready")
    assert ledger.stop() == 0
    assert {line["level"] for line in ledger.lines()} == {"info"}
