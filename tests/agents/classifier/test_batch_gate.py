"""The batch gate waits for room, whoever's requests take it."""

import asyncio
import threading
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents.classifier.batch_gate import BatchClassifier
from agents.classifier.role import Classifier
from agents.runtime.assembly import Process
from schemas.record import Incoming
from schemas.topics import CLASSIFIED, OUTCOMES, PROMPTS, PROMPTS_BATCH
from streams.clock import now_ms
from streams.codec.request_ids import request_id_of
from streams.observing.health import Health
from streams.settings import Requests
from tests.agents.classifier.test_role import Judge
from tests.agents.stubs import StubFleet, a_record
from tests.builders import a_catalog, a_heartbeat, a_request, owned
from tests.patience import PATIENCE_S


@pytest.fixture
def fleet() -> StubFleet:
    return StubFleet()


def a_gate(fleet: StubFleet, ended: set[str]) -> BatchClassifier:
    return BatchClassifier(Classifier(Judge(), a_catalog(), Requests()), a_catalog(), fleet, ended)


def a_batch_record(request_id: str = "r-1", prompt: str = "a red heart") -> Incoming:
    return a_record(a_request(request_id=request_id, prompt=prompt, tier="batch"), key=request_id.encode())


def test_a_request_waits_while_work_waits_and_passes_when_there_is_room(fleet: StubFleet) -> None:
    fleet.receive(a_heartbeat(partitions=(owned(0, 1, 60_000),)), now_ms())
    gate = a_gate(fleet, set())

    async def scenario() -> str:
        passing = asyncio.create_task(gate.on_record(a_batch_record()))
        _, waiting = await asyncio.wait([passing], timeout=0.15)
        assert waiting, "it passed though a minute of work waited"
        fleet.receive(a_heartbeat(partitions=(owned(0, 1, 0),)), now_ms())
        return (await asyncio.wait_for(passing, PATIENCE_S))[0].topic

    assert asyncio.run(scenario()) == CLASSIFIED


def test_the_one_in_hand_passes_as_the_process_leaves(fleet: StubFleet) -> None:
    # found by chaos: a classifier that was told to end served nobody for the 10 s of its drain, and was cut short
    fleet.receive(a_heartbeat(partitions=(owned(0, 1, 60_000),)), now_ms())
    leaving = threading.Event()
    classifier = Classifier(Judge(), a_catalog(), Requests())
    gate = BatchClassifier(classifier, a_catalog(), fleet, set(), leaving.is_set)

    async def scenario() -> str:
        passing = asyncio.create_task(gate.on_record(a_batch_record()))
        await asyncio.sleep(0)
        assert not passing.done()
        leaving.set()
        return (await asyncio.wait_for(passing, PATIENCE_S))[0].topic

    assert asyncio.run(scenario()) == CLASSIFIED


def test_the_one_in_hand_passes_as_the_partitions_of_its_topic_move(fleet: StubFleet) -> None:
    # a second classifier's gate joined after 65 s, and the first was thrown out of its group
    fleet.receive(a_heartbeat(partitions=(owned(0, 1, 60_000),)), now_ms())
    rebalancing = dict.fromkeys(["classifier", "classifier-batch"], False)
    process = Process(Health({"classifier"}))
    process.hosts += [
        cast(Any, SimpleNamespace(role=role, is_rebalancing=partial(rebalancing.get, role))) for role in rebalancing
    ]
    leaves = partial(process.must_hand_over, BatchClassifier.role)
    gate = BatchClassifier(Classifier(Judge(), a_catalog(), Requests()), a_catalog(), fleet, set(), leaves)

    async def scenario() -> str:
        passing = asyncio.create_task(gate.on_record(a_batch_record()))
        rebalancing["classifier"] = True  # whose partitions are not the gate's
        _, waiting = await asyncio.wait([passing], timeout=0.15)
        assert waiting
        rebalancing["classifier-batch"] = True
        return (await asyncio.wait_for(passing, PATIENCE_S))[0].topic

    assert asyncio.run(scenario()) == CLASSIFIED


def test_no_more_are_on_their_way_than_there_are_workers(fleet: StubFleet) -> None:
    fleet.receive(a_heartbeat(), now_ms())
    ended: set[str] = set()
    gate = a_gate(fleet, ended)

    async def scenario() -> None:
        assert await asyncio.wait_for(gate.on_record(a_batch_record("first")), PATIENCE_S)
        second = asyncio.create_task(gate.on_record(a_batch_record("second")))
        _, waiting = await asyncio.wait([second], timeout=0.15)
        assert waiting
        ended.add("first")
        assert await asyncio.wait_for(second, PATIENCE_S)

    asyncio.run(scenario())


def test_a_refused_request_takes_no_room(fleet: StubFleet) -> None:
    fleet.receive(a_heartbeat(), now_ms())
    gate = a_gate(fleet, set())

    async def scenario() -> list[str]:
        refused = await asyncio.wait_for(gate.on_record(a_batch_record("empty", " ")), PATIENCE_S)
        served = await asyncio.wait_for(gate.on_record(a_batch_record("full")), PATIENCE_S)
        return [refused[0].topic, served[0].topic]

    assert asyncio.run(scenario()) == [OUTCOMES, CLASSIFIED]


def test_a_batch_request_sent_to_the_ordinary_prompts_is_moved_to_its_topic_as_it_came() -> None:
    record = a_batch_record()
    (moved,) = asyncio.run(Classifier(Judge(), a_catalog(), Requests()).on_record(record))
    assert (moved.topic, moved.key, moved.value) == (PROMPTS_BATCH, b"r-1", record.value)


def test_a_batch_request_without_an_id_is_the_same_request_on_the_topic_that_it_is_moved_to() -> None:
    value = b'{"prompt": "a red heart", "tier": "batch"}'
    record = a_record(topic=PROMPTS, key=b"user-42", value=value)
    (moved,) = asyncio.run(Classifier(Judge(), a_catalog(), Requests()).on_record(record))
    there = a_record(topic=PROMPTS_BATCH, key=moved.key, value=moved.value, headers=moved.headers, offset=99)
    assert request_id_of(there) == request_id_of(record) == (moved.key or b"").decode() != "user-42"


@pytest.mark.parametrize("key", [None, b"order-7"])
def test_a_request_under_another_key_than_its_id_gives_its_room_back_when_it_ends(
    fleet: StubFleet, key: bytes | None
) -> None:
    fleet.receive(a_heartbeat(), now_ms())
    ended: set[str] = set()
    gate = a_gate(fleet, ended)

    async def scenario() -> None:
        first = a_record(a_request(request_id="first", tier="batch"), key=key)
        assert await asyncio.wait_for(gate.on_record(first), PATIENCE_S)
        ended.add("first")
        assert await asyncio.wait_for(gate.on_record(a_batch_record("second")), PATIENCE_S)

    asyncio.run(scenario())
