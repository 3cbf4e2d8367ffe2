"""The transport over Kafka on topics in memory, with records as the product writes and reads them."""

import asyncio
import math
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING
from pochade import (
    AsyncClient,
    Cancelled,
    Client,
    Completed,
    Gateway,
    Image,
    Kafka,
    NotCompleted,
    PochadeError,
    Refused,
    Rejected,
    StillOpen,
    Unavailable,
    Unsupported,
    kafka,
)
from pochade.cluster import Cluster
from pochade.network import Answer

from schemas.messages import EventKind, Outcome, Status
from schemas.topics import EVENTS, OUTCOMES, PROMPTS, PROMPTS_BATCH, RESULTS, SCHEMAS
from streams.codec.avro import decode, encode, encode_result
from streams.codec.requests import decode_request
from streams.codec.schema_topic import announcements
from tests.agents.gateway.deployment import ended, event
from tests.agents.stubs import a_record
from tests.streams.client.memory_cluster import MemoryCluster
from tests.streams.client.scripted import Script, answer, refusal, shown

NOW_S = 1_700_000_000.0


class Deployment:
    """A client on topics in memory, on which a deployment has announced its schemas."""

    def __init__(self, gateway: Gateway | None = None, *, is_announced: bool = True, **options: Any) -> None:
        self.cluster = MemoryCluster()
        if is_announced:
            for each in announcements():
                self.cluster.arrive(SCHEMAS, (each.key or b"").decode(), each.value or b"")
        self.kafka = Kafka({}, gateway=gateway, cluster=self.cluster, clock_s=lambda: NOW_S, **options)  # type: ignore[arg-type]
        self.client = Client(self.kafka)

    def ends(self, request_id: str, format: str = "avro", **fields: Any) -> None:
        """Have the ledger write a result."""
        self.cluster.arrive(RESULTS, request_id, encode_result(ended(request_id, **fields), format))

    def requests(self, topic: str = PROMPTS) -> list[Any]:
        """What the classifier reads."""
        return [decode_request(a_record(topic=topic, key=b"?", value=value)) for value in self.cluster.values(topic)]


def test_a_request_is_json_that_the_product_reads_with_all_its_options() -> None:
    deployment = Deployment()
    handle = deployment.client.submit(
        "a red heart", seed=7, deadline_s=2.5, adapters=["candy"], strict=True, tenant="ann"
    )
    (request,) = deployment.requests()
    assert (request.request_id, request.prompt, request.tenant) == (handle.request_id, "a red heart", "ann")
    assert (request.seed, request.options.adapters, request.options.strict) == (7, ("candy",), True)
    assert (request.created_ms, request.deadline_ms) == (1000 * NOW_S, 1000 * NOW_S + 2500)
    deployment.client.submit("a cat", tier="batch")
    assert len(deployment.requests(PROMPTS_BATCH)) == 1


def test_the_id_follows_from_key_and_fields_and_not_from_the_deadline() -> None:
    submit = Deployment().client.submit
    first = submit("a", idempotency_key="order-17", deadline_s=60).request_id
    assert submit("a", idempotency_key="order-17", deadline_s=5).request_id == first
    assert Deployment().client.submit("a", idempotency_key="order-17").request_id == first
    others = [
        submit("a", idempotency_key="order-18"),
        submit("a", idempotency_key="order-17", tenant="ann"),
        submit("a"),
    ]
    assert len({first, *(each.request_id for each in others)}) == 4


def test_the_end_of_a_request_whose_key_an_earlier_process_stated_is_looked_for_in_the_past() -> None:
    deployment = Deployment()
    deployment.ends(deployment.client.submit("a", idempotency_key="order-17").request_id)
    later = Client(Kafka({}, cluster=deployment.cluster, clock_s=lambda: NOW_S + 7200))  # type: ignore[arg-type]
    with pytest.raises(StillOpen):
        later.submit("b").result(0)
    assert isinstance(later.submit("a", idempotency_key="order-17").result(5), Completed)
    day_s = 86_400.0
    since = [since_s for topics, since_s in deployment.cluster.opened if topics == [RESULTS]]
    assert since == [NOW_S + 7200 - 60, NOW_S + 7200 - day_s]
    assert len(deployment.cluster.followers) == 1


@pytest.mark.parametrize("format", ["avro", "json"])
def test_a_result_is_read_in_either_format(format: str) -> None:
    deployment = Deployment()
    handle = deployment.client.submit("a red heart")
    deployment.ends(
        handle.request_id, format, image_uris=("s3://b/1", "s3://b/2"), level="light", overridden=("steps: 4",)
    )
    end = handle.result(5)
    assert isinstance(end, Completed)
    assert [each.uri for each in end.images] == ["s3://b/1", "s3://b/2"]
    assert (end.level, end.overridden) == ("light", ("steps: 4",))
    assert end.details["path"][0]["level"] == "light"
    assert end.details["generate_ms"] == end.details["paint_ms"]


def test_an_end_that_came_before_it_was_awaited_is_kept_and_the_first_of_two_counts() -> None:
    deployment = Deployment()
    first, second = deployment.client.submit("a"), deployment.client.submit("b")
    deployment.ends(second.request_id)
    assert isinstance(second.result(5), Completed)
    deployment.ends(first.request_id, status=Status.CANCELLED, code="cancelled")
    deployment.ends(first.request_id)
    assert isinstance(first.result(5), Cancelled)
    assert isinstance(first.result(5), Cancelled)


def test_a_request_of_another_process_is_looked_for_in_the_past_and_then_followed() -> None:
    deployment = Deployment(history_s=3600.0)
    deployment.ends("r-1")
    assert isinstance(deployment.client.handle("r-1").result(5), Completed)
    assert ([RESULTS], NOW_S - 3600.0) in deployment.cluster.opened
    with pytest.raises(StillOpen, match="r-2 has no result after 0 s"):
        deployment.client.handle("r-2").result(0)
    assert not deployment.cluster.followers


def test_a_thousand_waiting_tasks_share_one_follower() -> None:
    deployment = Deployment()

    async def run() -> list[object]:
        async with AsyncClient(deployment.kafka) as client:
            handles = [await client.submit(f"prompt {n}") for n in range(1000)]
            waiting = [asyncio.create_task(each.result(30)) for each in handles]
            await asyncio.sleep(0)
            for each in handles:
                deployment.ends(each.request_id)
            return await asyncio.gather(*waiting)

    assert all(isinstance(each, Completed) for each in asyncio.run(run()))
    assert len(deployment.cluster.opened) == 2  # and the schemas, once


def test_a_cancelled_wait_leaves_the_follower_as_it_was() -> None:
    deployment = Deployment()

    async def run() -> None:
        client = AsyncClient(deployment.kafka)
        handle = await client.submit("a")
        waiting = asyncio.create_task(handle.result(30))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        deployment.ends(handle.request_id)
        assert isinstance(await handle.result(30), Completed)

    asyncio.run(run())


def test_a_first_key_that_another_process_may_have_stated_starves_no_wait_that_goes_on() -> None:
    deployment = Deployment()

    async def run() -> None:
        client = AsyncClient(deployment.kafka)
        handle = await client.submit("a")
        waiting = asyncio.create_task(handle.result(5))
        await asyncio.sleep(0)
        await client.submit("b", idempotency_key="order-17")
        deployment.ends(handle.request_id)
        assert isinstance(await waiting, Completed)

    asyncio.run(run())
    assert len(deployment.cluster.followers) == 1


def test_events_come_in_their_order_from_the_beginning_or_behind_a_position() -> None:
    deployment = Deployment()
    handle = deployment.client.submit("a red heart")
    for kind, detail in ((EventKind.STARTED, {"level": "light"}), (EventKind.ESCALATED, {"to": "heavy"})):
        deployment.cluster.arrive(EVENTS, handle.request_id, encode(event(handle.request_id, kind, **detail)))
    deployment.ends(handle.request_id)
    started, escalated, last = handle.events()
    assert (started.kind, started.details["level"], escalated.details["to"]) == ("started", "light", "heavy")
    assert isinstance(last.end, Completed)
    assert [each.kind for each in handle.events(started.position)] == [
        "escalated", "ended",
    ]  # fmt: skip


def test_a_cancellation_is_an_outcome_that_the_product_reads() -> None:
    deployment = Deployment()
    handle = deployment.client.submit("a red heart")
    handle.cancel("the page was closed")
    (outcome,) = [decode(value, Outcome) for value in deployment.cluster.values(OUTCOMES)]
    assert (outcome.request_id, outcome.status, outcome.by) == (handle.request_id, Status.CANCELLED, "cancel")
    assert (outcome.reason, outcome.code) == ("the page was closed", "cancelled")


def test_a_deployment_that_announces_no_schemas_is_named_as_the_reason() -> None:
    deployment = Deployment(is_announced=False)
    deployment.ends("r-1")
    for call in (lambda: deployment.client.handle("r-1").result(5), deployment.client.handle("r-1").cancel):
        with pytest.raises(PochadeError, match="has not announced"):
            call()
    deployment.ends("r-2", "json")
    assert isinstance(deployment.client.handle("r-2").result(5), Completed)


def test_a_record_that_the_brokers_do_not_take_is_unavailable() -> None:
    deployment = Deployment()
    deployment.cluster.fault = "Broker: not authorized"
    with pytest.raises(Unavailable, match="not authorized"):
        deployment.client.submit("a")


@pytest.mark.parametrize("timeout_s", [math.inf, 1e10])
def test_an_end_may_be_waited_for_without_a_limit(timeout_s: float) -> None:
    deployment = Deployment()

    async def run() -> None:
        handle = await AsyncClient(deployment.kafka).submit("a")
        waiting = asyncio.create_task(handle.result(timeout_s))
        await asyncio.sleep(0)
        deployment.ends(handle.request_id)
        assert isinstance(await waiting, Completed)

    asyncio.run(run())
    handle = deployment.client.submit("b")
    later = threading.Timer(0.1, deployment.ends, [handle.request_id])
    later.start()
    assert isinstance(handle.result(timeout_s), Completed)
    later.join()


def test_all_of_the_past_is_from_the_beginning_of_a_topic() -> None:
    found = SimpleNamespace(topics={"pochade.results.v1": SimpleNamespace(error=None, partitions=[0, 1])})
    consumer = SimpleNamespace(list_topics=lambda *_, **__: found)
    starts = Cluster({}, "pochade")._starts(consumer, "results.v1", NOW_S - math.inf)
    assert [start.offset for start in starts] == [OFFSET_BEGINNING] * 2


def test_what_librdkafka_refuses_is_an_error_of_the_clients() -> None:
    """A record that is too large is refused at once, without a broker."""
    with Client(Kafka({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})) as client:
        with pytest.raises(Refused, match=r"too large for the brokers, with 2\d{6} bytes") as raised:
            client.submit("a" * 2_000_000)
        assert raised.value.status == 413
    client = Client(Kafka({"bootstrap.server": "127.0.0.1:1"}))
    for call in (lambda: client.submit("a"), lambda: client.handle("r-1").result(0)):
        with pytest.raises(PochadeError, match=r"does not take this configuration: .*bootstrap\.server"):
            call()


def test_a_result_that_cannot_be_read_is_an_error_of_the_clients() -> None:
    deployment = Deployment()
    for handle in (deployment.client.submit("a"), deployment.client.handle("r-1")):
        deployment.cluster.arrive(RESULTS, handle.request_id, b"no result")
        with pytest.raises(PochadeError, match=f"the record of {handle.request_id} on results.v1 cannot be read"):
            handle.result(5)


def test_who_may_not_read_results_is_refused_at_once_until_they_may() -> None:
    deployment = Deployment()
    handle = deployment.client.submit("a")
    deployment.cluster.denied = (RESULTS,)
    with pytest.raises(PochadeError, match="may not read"):
        handle.result(30)
    deployment.cluster.denied = ()
    deployment.ends(handle.request_id)
    assert isinstance(handle.result(30), Completed)


def test_what_is_rejected_for_now_is_submitted_again_under_another_id() -> None:
    deployment = Deployment()
    for status in (Status.REJECTED, Status.COMPLETED):
        first = deployment.client.submit("a", idempotency_key="k")
        fields: dict[str, Any] = {"retry_after_ms": 10, "code": "overloaded"} if status is Status.REJECTED else {}
        deployment.ends(first.request_id, status=status, **fields)
        end = first.result(5)
        assert type(end) is (Completed if status is Status.COMPLETED else Rejected)
    assert len({request.request_id for request in deployment.requests()}) == 2


def test_generate_raises_how_a_request_ended_without_an_image() -> None:
    deployment = Deployment()
    request_id = deployment.client.submit("a", idempotency_key="k").request_id
    deployment.ends(request_id, status=Status.EXPIRED, reason="too late", code="deadline")
    with pytest.raises(NotCompleted, match="EXPIRED: too late"):
        deployment.client.generate("a", idempotency_key="k", timeout_s=5)


def test_all_ends_are_listed_up_to_the_end_of_the_topic_and_what_cannot_be_read_is_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deployment = Deployment()
    deployment.ends("r-1")
    deployment.cluster.arrive(RESULTS, "r-2", b"no result")
    deployment.ends("r-3", status=Status.FAILED)
    assert [end.request_id for end in deployment.client.ends(60)] == ["r-1", "r-3"]
    assert "r-2" in caplog.text
    assert ([RESULTS], NOW_S - 60) in deployment.cluster.opened
    assert not deployment.cluster.followers


def test_all_ends_are_followed_until_the_reader_leaves() -> None:
    deployment = Deployment()
    ends = deployment.client.ends(60, is_following=True)
    for name in ("r-1", "r-2"):
        deployment.ends(name)
        assert next(ends).request_id == name
    ends.close()  # type: ignore[attr-defined]
    assert not deployment.cluster.followers


def test_what_kafka_lacks_names_the_way_that_has_it() -> None:
    client = Deployment().client
    for call in (
        lambda: client.read(Image("r-1", 0, "s3://b/1")),
        client.handle("r-1").explain,
        lambda: client.submit("a", image=b"PNG"),
    ):
        with pytest.raises(Unsupported, match=r"gateway=Gateway\(URL\)"):
            call()


def test_closing_writes_what_is_queued_and_ends_the_follower() -> None:
    deployment = Deployment()
    with deployment.client as client, pytest.raises(StillOpen):
        client.submit("a").result(0)
    assert deployment.cluster.is_closed
    assert not deployment.cluster.followers


def test_an_image_is_waited_for_where_the_gateway_has_not_read_of_its_request_yet() -> None:
    script = Script(refusal(404, "not-found"), answer(shown(word="succeeded")), Answer(200, {}, b"PNG"))
    transport = Deployment(script.gateway).kafka.over(script)
    assert script.run(transport.read(Image("r-1", 0, "s3://b/1"))) == b"PNG"
    assert script.paused == [0.5]


def test_a_list_that_cannot_be_read_to_its_end_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    deployment = Deployment()
    monkeypatch.setattr(kafka, "READ_S", 0.01)
    monkeypatch.setattr(deployment.cluster, "follow", lambda *_: lambda: None)
    with pytest.raises(Unavailable, match=r"results\.v1 cannot be read"):
        list(deployment.client.ends(60))


def test_the_end_of_one_request_is_found_among_all_and_an_id_without_an_end_has_none() -> None:
    deployment = Deployment()
    for name in ("r-1", "r-2", "r-3"):
        deployment.ends(name)
    assert [end.request_id for end in deployment.client.ends(3600, request_id="r-2")] == ["r-2"]
    assert list(deployment.client.ends(3600, request_id="r-9")) == []


def test_a_stated_id_is_that_of_the_request_and_is_no_field_twice() -> None:
    deployment = Deployment()
    assert deployment.client.submit("a", request_id="mine").request_id == "mine"
    (request,) = deployment.requests()
    assert request.request_id == "mine"
