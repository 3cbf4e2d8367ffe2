"""How many files a newcomer opens who follows one escalated request through the roles.

Counted are the project's files in which a function ran, from the record on `prompts` to the one on `results`. Fakes
stand in for Kafka, the models and the store: neither opening the roles is counted, nor the hosts that poll and ack, nor
histograms, which no more than prometheus-client's counters need be opened.
"""

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

from agents.classifier.judges import Judgement
from agents.classifier.role import Classifier
from agents.discriminator.role import Discriminator
from agents.features.tenants import Tenants
from agents.ledger.partition import LedgerPartition
from agents.router.dispatcher import Dispatcher
from agents.router.role import Router
from agents.runtime.views import EndedView, FleetView, PlanView
from agents.worker.jobs import Taken
from planner.serving.routing.escalation import EscalationLogic
from planner.serving.routing.routing import NO_LIMITS, RoutingLogic
from schemas.messages import GenerateRequest, Result, Status
from schemas.record import Incoming, Outgoing
from schemas.topics import CLASSIFIED, IMAGES, OUTCOMES, PROMPTS, RESULTS
from streams.clock import now_ms
from streams.codec.avro import decode, encode
from streams.settings import Requests, load
from tests.agents.stubs import StubEngine, a_record
from tests.agents.worker.driving import a_driver, answers
from tests.builders import NOW_MS, a_catalog, a_heartbeat, a_plan, a_request, owned
from tests.imports import ROOMS
from tests.memory_store import MemoryImageStore
from tests.paths import ROOT
from tests.stateful.broker import Broker, Group, connected

HISTOGRAMS = "streams/observing/timings.py"
# At most 45 are wanted, the hosts included; lower this when code that a request does not need leaves its way. The last
# ten are bounds of quality, judges by name, the soft deadline, the marks of poison with their view, the misses of
# reuse, the machines of ledger and discriminator, and the port of engines, which leaves out what an engine cannot do.
MAX_FILES = 60


def test_no_more_files_lie_on_the_way_of_an_escalated_request() -> None:
    files, result = followed()
    assert result.status == Status.COMPLETED
    assert [stage["level"] for stage in json.loads(result.path)] == ["light", "heavy"]
    assert len(files) <= MAX_FILES, "\n".join(sorted(files))


class Judge:
    """Every prompt is hard."""

    name = "judge-1"

    def classify(self, prompt: str) -> Judgement:  # noqa: ARG002  the port names its argument
        return Judgement(0.9, {"models": "light"}, None)


class Scorer:
    """Trusts no draft."""

    def score(self, requests: Sequence[GenerateRequest], images: Sequence[np.ndarray]) -> list[float]:  # noqa: ARG002  the port's names
        return [0.2] * len(requests)


@contextmanager
def noted(files: set[str]) -> Iterator[None]:
    """Note the project's files in which a function runs meanwhile, in any thread that begins meanwhile too."""
    ours = tuple(f"{ROOT / room}/" for room in ROOMS)

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ours):
            files.add(frame.f_code.co_filename.removeprefix(f"{ROOT}/"))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def followed() -> tuple[set[str], Result]:
    """The files, and what became of the request."""
    settings = load({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})
    catalog, ended, store = a_catalog(), EndedView(), MemoryImageStore()
    plans, fleet = PlanView("test", catalog), FleetView(silent_ms=60_000)
    plans.obey(a_plan())
    fleet.on_record(a_record(a_heartbeat(partitions=(owned(2),)), timestamp_ms=now_ms()))
    heavy = a_heartbeat(worker_id="w-2", variant="heavy", partitions=(owned(3),))
    fleet.on_record(a_record(heavy, timestamp_ms=now_ms()))
    classifier = Classifier(Judge(), catalog, Requests(), ended)
    router = Router(RoutingLogic(catalog, NO_LIMITS, Tenants({}), ended), plans, Dispatcher(catalog, fleet, "router"))
    judge = Discriminator(
        EscalationLogic(catalog),
        plans,
        ended,
        Dispatcher(catalog, fleet, "discriminator"),
        store,
        {"look": Scorer()},
    )
    workers = {
        variant: a_driver("w", StubEngine(), catalog.level(variant), store, ended, 3, judged_ms=0)
        for variant in ("light", "heavy")
    }
    broker, files = Broker(now_ms=NOW_MS), set[str]()
    with connected(broker):
        lane = LedgerPartition(settings, 0)
        serve: dict[str, Callable[[Incoming], Any]] = {
            PROMPTS: lambda record: asyncio.run(classifier.on_record(record)),
            CLASSIFIED: lambda record: asyncio.run(router.on_record(record)),
            IMAGES: lambda record: asyncio.run(judge.on_record(record)),
            OUTCOMES: lambda record: lane.serve([record], Group(broker)) and (),  # type: ignore[arg-type]
        }
        waiting = [Outgoing(topic=PROMPTS, key=b"r-1", value=encode(a_request()))]
        while waiting:
            record = arrived(waiting.pop(0))
            variant = record.topic.removeprefix("jobs.").removesuffix(".v1")
            with noted(files):
                if variant in workers:
                    waiting += answers(workers[variant], [Taken(record, 1)])
                elif record.topic in serve:
                    waiting += serve[record.topic](record)
    logs = [log for (topic, _), log in broker.logs.items() if topic.endswith(RESULTS)]
    (written,) = [each for log in logs for each in log if each.is_committed and each.key == b"r-1"]
    return files - {HISTOGRAMS}, decode(written.value, Result)


def arrived(record: Outgoing) -> Incoming:
    """The record as the next role reads it."""
    return Incoming(
        topic=record.topic, partition=record.partition or 0, offset=7, timestamp_ms=NOW_MS + 1, key=record.key,
        value=record.value, headers=record.headers,
    )  # fmt: skip


if __name__ == "__main__":
    print("\n".join(sorted(followed()[0])))
