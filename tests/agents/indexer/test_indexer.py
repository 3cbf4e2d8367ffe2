"""The index writer: what enters, once, in whatever state the stores are; what leaves; what it never stumbles over."""

import io
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from prometheus_client import REGISTRY

from agents.indexer.role import Indexer, writer_opener
from agents.indexer.writer import IndexWriter
from agents.reuse.prompt_key import WordsKey
from planner.reuse.indexing.index import IndexLogic
from planner.reuse.neighbour import latent_name
from planner.reuse.terms import Terms
from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import completed, expired
from schemas.errors import PochadeError
from schemas.messages import (
    GenerateRequest,
    LatentRef,
    Plan,
    Result,
    ReuseCheck,
    ReuseStorage,
    StageReuse,
)
from schemas.record import Incoming
from schemas.topics import RESULTS
from streams.clock import now_ms
from streams.codec.avro import encode, encode_result
from streams.settings import load
from streams.store.latents import to_bytes
from streams.store.port import StoreUnavailable
from streams.vectors.exact import ExactVectorStore
from streams.vectors.port import Latent, Probed, Selection, VectorRow, VectorsUnavailable, Wanted, WrongCollection
from tests.agents.stubs import StubPlans
from tests.agents.worker.reusing import SPACE, a_latent
from tests.builders import a_catalog, a_classified, a_job, a_plan, a_request, a_reuse_plan, an_image, an_image_ref
from tests.memory_store import MemoryImageStore

CALL_S = 30.0


class Scorer:
    """Trusts what its test says; counts what it is asked."""

    def __init__(self) -> None:
        self.confidence, self.asked = 0.9, 0

    def score(self, requests: Sequence[GenerateRequest], images: Sequence[np.ndarray]) -> list[float]:  # noqa: ARG002  the port's names
        self.asked += len(requests)
        return [self.confidence] * len(requests)


class Topic:
    """`results` as an index writer reads it: partition -> records, read from where was committed."""

    def __init__(self, partitions: int = 2) -> None:
        self.logs: dict[int, list[Incoming]] = {partition: [] for partition in range(partitions)}
        self.committed = dict.fromkeys(self.logs, 0)
        self._next = dict(self.committed)
        self.owned = frozenset(self.logs)
        self.is_closed = False
        self.waits_for = ""

    @property
    def partitions(self) -> int:
        return len(self.logs)

    def add(self, value: bytes | None, partition: int = 0) -> None:
        log = self.logs[partition]
        log.append(
            Incoming(topic=RESULTS, partition=partition, offset=len(log), timestamp_ms=now_ms(), key=b"r", value=value)
        )

    def take(self, most: int, timeout_s: float) -> list[Incoming]:  # noqa: ARG002  the port's names
        found = [record for p in sorted(self.owned) for record in self.logs[p][self._next[p] :]][:most]
        for record in found:
            self._next[record.partition] = record.offset + 1
        return found

    def commit(self, batch: Sequence[Incoming]) -> None:
        for record in batch:
            self.committed[record.partition] = record.offset + 1

    def rewind(self, batch: Sequence[Incoming]) -> None:
        for record in reversed(batch):
            self._next[record.partition] = record.offset

    def since(self, moment_ms: int, partitions: frozenset[int]) -> list[Incoming]:
        return [each for p in partitions for each in self.logs[p] if each.timestamp_ms >= moment_ms]

    def close(self) -> None:
        self.is_closed = True

    def begin_anew(self) -> None:
        """As the next owner reads it."""
        self._next = dict(self.committed)


class Writing:
    """An index writer with everything in memory, and results for it."""

    def __init__(self, plan: Plan | None = None, topic: Topic | None = None) -> None:
        self.topic, self.store, self.vectors = topic or Topic(), MemoryImageStore(), ExactVectorStore()
        self.scorer, self.key = Scorer(), WordsKey()
        self.plans = StubPlans(plan or a_plan(reuse=a_reuse_plan()))
        self.trouble: Callable[[], None] = lambda: None
        self.indexer = self.a_writer()

    def a_writer(self) -> Indexer:
        return Indexer(lambda: self.topic, self.plans, self._opens)

    def _opens(self, _terms: Terms) -> IndexWriter:
        self.vectors.ensure(self.key.dimension, CALL_S)
        return IndexWriter(IndexLogic(), self.key, _Watched(self), self.store, lambda _name: self.scorer)  # type: ignore[arg-type]

    def end(self, request_id: str = "r-1", partition: int = 0, **changes: Any) -> Result:
        """A request ends with an image and its latent; `changes`: of the result, the stage's image, and the request."""
        asked = {name: changes.pop(name) for name in ("prompt", "tenant") if name in changes}
        request = a_request(request_id=request_id, **asked)
        seen = {name: changes.pop(name) for name in ("confidence", "threshold", "discriminator") if name in changes}
        at_ms = changes.pop("ended_ms", now_ms())
        draft = changes.pop("path", ())
        out = io.BytesIO()
        Image.new("RGB", (4, 4), (len(self.topic.logs[partition]), 7, 7)).save(out, "PNG")
        picture = an_image_ref(uri=self.store.put(request_id, out.getvalue()), sha256=request_id)
        made = an_image(
            a_job(a_classified(request), path=draft),
            image=picture,
            latent=self.latent(request.tenant, request_id),
            **changes,
        )
        outcome = completed(
            made, seen.get("confidence"), seen.get("threshold"), reason="", by="t", policy="p", now_ms=at_ms,
            discriminator=seen.get("discriminator", ""),
        )  # fmt: skip
        result = result_of(outcome)
        self.topic.add(encode(result), partition)
        return result

    def latent(self, tenant: str, request_id: str) -> LatentRef:
        data = to_bytes(a_latent(float(len(request_id))))
        uri = self.store.put(latent_name(tenant, request_id), data, "safetensors")
        return LatentRef(uri=uri, sha256="ab", bytes=len(data), autoencoder=SPACE.autoencoder)

    def turn(self) -> bool:
        return self.indexer.turn(self.topic)

    def rows(self, prompt: str = "a red heart", tenant: str = "default") -> list[VectorRow]:
        wanted = Wanted(tenant=tenant, model=SPACE.autoencoder, width=32, height=32, now_ms=now_ms())
        found = self.vectors.nearest(self.key.embed([prompt])[0].tolist(), wanted, 100, CALL_S)
        return [match.row for match in found.matches]

    def latents(self) -> int:
        return sum(each.uri.endswith("safetensors") for each in self.store.list(2**60))


class _Watched:
    """The vector store, or the trouble that its test makes."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def ensure(self, dimension: int, timeout_s: float) -> None:
        self._writing.vectors.ensure(dimension, timeout_s)

    def upsert(self, rows: Sequence[VectorRow], timeout_s: float) -> None:
        self._writing.trouble()
        self._writing.vectors.upsert(rows, timeout_s)

    def latents(self, ids: Sequence[str], timeout_s: float) -> dict[str, Latent]:
        return self._writing.vectors.latents(ids, timeout_s)

    def delete(self, selection: Selection, timeout_s: float) -> None:
        self._writing.trouble()
        self._writing.vectors.delete(selection, timeout_s)

    def probe(self, timeout_s: float) -> Probed:
        return self._writing.vectors.probe(timeout_s)

    def close(self) -> None:
        """It outlives the writer."""


def counted(outcome: str) -> float:
    return REGISTRY.get_sample_value("pochade_reuse_rows_total", {"outcome": outcome}) or 0.0


def test_a_completed_image_that_its_cascade_trusted_enters_and_is_committed() -> None:
    writing, before = Writing(), counted("written")
    result = writing.end(confidence=0.8, threshold=0.5, discriminator="look", tenant="ann")
    assert writing.turn()
    (row,) = writing.rows(tenant="ann")
    assert (row.tenant, row.source.prompt, row.source.score) == ("ann", "a red heart", 0.8)
    assert row.latent.uri.endswith(".safetensors")
    assert row.expires_ms == result.ended_ms + 14_400_000
    assert (writing.topic.committed[0], writing.scorer.asked, counted("written")) == (1, 0, before + 1)
    assert writing.rows(tenant="default") == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"confidence": 0.3, "threshold": 0.2, "discriminator": "look"}, "poor"),
        ({"reuse": StageReuse(step=4, steps=10, similarity=0.9)}, "derived"),
        ({"ended_ms": 1}, "stale"),
    ],
)
def test_what_is_poor_derived_or_old_does_not_enter_and_its_latent_goes(changes: dict[str, Any], why: str) -> None:
    writing, before = Writing(), counted(why)
    writing.end(**changes)
    assert writing.turn()
    assert (writing.rows(), writing.latents()) == ([], 0)
    assert (counted(why), writing.topic.committed[0]) == (before + 1, 1)


def test_a_draft_that_began_from_a_stored_image_keeps_the_image_that_refined_it_out() -> None:
    writing = Writing()
    begun = result_of(completed(
        an_image(reuse=StageReuse(step=4, steps=10, similarity=0.9)), 0.2, 0.5, reason="", by="t", policy="p", now_ms=1
    ))  # fmt: skip
    from streams.operator.explain import steps_of

    writing.end(path=steps_of(begun), confidence=0.9, threshold=0.5, discriminator="look")
    assert writing.turn()
    assert writing.rows() == []


def test_who_opted_out_or_did_not_complete_leaves_no_row() -> None:
    writing, before = Writing(), counted("unstored")
    writing.topic.add(
        encode(result_of(completed(an_image(), 0.9, 0.5, reason="", by="t", policy="p", now_ms=now_ms())))
    )
    writing.topic.add(encode(result_of(expired(a_job(), reason="late", by="t", now_ms=now_ms()))))
    assert writing.turn()
    assert (writing.rows(), counted("unstored"), writing.topic.committed[0]) == ([], before + 1, 2)


def test_an_image_that_no_cascade_scored_is_scored_here_within_the_budget() -> None:
    writing = Writing()
    for n in range(40):
        writing.end(f"r-{n}")
    writing.plans.plan = a_plan(reuse=a_reuse_plan(check=ReuseCheck(discriminator="look", scored_share=0.5)))
    assert writing.turn()
    assert writing.scorer.asked == len(writing.rows())
    assert 8 < writing.scorer.asked < 32
    assert writing.rows()[0].source.score == 0.9


def test_a_score_of_another_discriminator_does_not_count_and_a_bad_one_keeps_it_out() -> None:
    writing = Writing()
    writing.end(confidence=0.99, threshold=0.5, discriminator="another")
    writing.scorer.confidence = 0.4
    assert writing.turn()
    assert (writing.scorer.asked, writing.rows()) == (1, [])


def test_a_plan_without_a_check_lets_every_image_enter_unscored() -> None:
    writing = Writing(a_plan(reuse=a_reuse_plan(check=None)))
    writing.end()
    assert writing.turn()
    assert (len(writing.rows()), writing.scorer.asked) == (1, 0)


def test_an_image_that_cannot_be_scored_does_not_enter_and_stops_nobody() -> None:
    writing = Writing()
    result = writing.end("gone")
    writing.store.delete(str(result.image_uri))
    writing.end("r-2")
    assert writing.turn()
    assert [row.source.request_id for row in writing.rows()] == ["r-2"]


def test_results_in_json_enter_as_well() -> None:
    writing = Writing(a_plan(reuse=a_reuse_plan(check=None)))
    result = writing.end()
    writing.topic.logs[0].clear()
    writing.topic.add(encode_result(result, "json"))
    assert writing.turn()
    assert len(writing.rows()) == 1


@pytest.mark.parametrize("poison", [None, b"", b"\x00\x00\x00\x00\x06", b"\x00\x00\x00\xff\xffxx", b"{}", b"nonsense"])
def test_poison_is_counted_and_passed(poison: bytes | None) -> None:
    def unusable() -> float:
        return REGISTRY.get_sample_value("pochade_unusable_records_total", {"topics": RESULTS}) or 0.0

    writing, before = Writing(a_plan(reuse=a_reuse_plan(check=None))), unusable()
    writing.topic.add(poison)
    result = writing.end("r-2")
    writing.topic.add(encode(replace(result, path="[nonsense")))
    writing.topic.add(encode(replace(result, ended_ms=-5, request_id="r-3")))
    assert writing.turn()
    assert len(writing.rows()) == 1
    assert unusable() >= before + 2
    assert writing.topic.committed[0] == 4


# Stores that are away.


@pytest.mark.parametrize("error", [VectorsUnavailable("away"), StoreUnavailable("away")])
def test_a_store_that_is_away_loses_nothing_and_is_tried_again_later(error: PochadeError) -> None:
    def away() -> None:
        raise error

    writing = Writing()
    writing.end()
    writing.trouble = away
    waits = []
    for _ in range(8):
        assert not writing.turn()
        waits.append(writing.indexer._wait_s)
    assert waits == sorted(waits)
    assert waits[-1] == 5.0
    assert "away" in writing.indexer.not_ready()
    assert (writing.topic.committed[0], writing.scorer.asked) == (0, 1)
    writing.trouble = lambda: None
    assert writing.turn()
    assert (len(writing.rows()), writing.scorer.asked, writing.topic.committed[0]) == (1, 1, 1)
    assert writing.indexer.not_ready() == ""


def test_an_object_store_that_is_away_while_an_image_is_scored_is_waited_for() -> None:
    writing = Writing()
    writing.end()
    get, away = writing.store.get, [True]

    def sometimes(uri: str) -> bytes:
        if away[0]:
            raise StoreUnavailable("away")
        return get(uri)

    writing.store.get = sometimes  # type: ignore[method-assign]
    assert not writing.turn()
    away[0] = False
    assert writing.turn()
    assert len(writing.rows()) == 1


def test_a_collection_that_was_dropped_is_made_again() -> None:
    writing, tries = Writing(), list[int]()

    def dropped() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise WrongCollection("dropped")

    writing.end()
    writing.trouble = dropped
    assert writing.turn()
    assert len(writing.rows()) == 1


def test_results_that_are_read_twice_give_one_row_and_a_killed_writer_loses_none() -> None:
    writing = Writing()
    for n in range(3):
        writing.end(f"r-{n}")
    assert writing.turn()
    writing.topic.committed = dict.fromkeys(writing.topic.logs, 0)  # it died before its commit
    writing.topic.begin_anew()
    writing.indexer = writing.a_writer()
    assert writing.turn()
    assert sorted(row.source.request_id for row in writing.rows()) == ["r-0", "r-1", "r-2"]


# What leaves.


def test_beyond_the_bytes_the_oldest_rows_leave_with_their_latents() -> None:
    storage = ReuseStorage(max_bytes=2 * 4 * 4000)  # two partitions, four rows each at most
    writing = Writing(a_plan(reuse=a_reuse_plan(check=None, storage=storage)))
    at_ms = now_ms()
    for n in range(20):
        writing.end(f"r-{n:02}", ended_ms=at_ms - 1000 + n)
    assert writing.turn()
    left = sorted(row.source.request_id for row in writing.rows())
    assert 0 < len(left) <= 6
    assert left == [f"r-{n:02}" for n in range(20 - len(left), 20)]
    assert writing.latents() == len(left)


def test_a_new_writer_knows_what_the_one_before_wrote() -> None:
    storage = ReuseStorage(max_bytes=2 * 4 * 4000)
    writing = Writing(a_plan(reuse=a_reuse_plan(check=None, storage=storage)))
    for n in range(5):
        writing.end(f"r-{n}", ended_ms=now_ms() - 100 + n)
        assert writing.turn()
    before = len(writing.rows())
    writing.indexer = writing.a_writer()
    for n in range(5, 10):
        writing.end(f"r-{n}", ended_ms=now_ms() - 100 + n)
    assert writing.turn()
    assert len(writing.rows()) <= 6
    assert before > 2


def test_rows_stay_in_the_account_where_the_store_does_not_delete_them() -> None:
    storage = ReuseStorage(max_bytes=2 * 4000)
    writing = Writing(a_plan(reuse=a_reuse_plan(check=None, storage=storage)))
    calls = list[int]()

    def no_delete() -> None:
        calls.append(1)
        if len(calls) == 2:  # the upsert goes through
            raise VectorsUnavailable("away")

    writing.trouble = no_delete
    for n in range(3):
        writing.end(f"r-{n}")
    assert writing.turn()
    assert (len(writing.rows()), writing.topic.committed[0]) == (3, 3)
    assert writing.turn()
    assert len(writing.rows()) <= 1


def test_no_tenant_fills_the_store() -> None:
    storage = ReuseStorage(tenant_rps=0.001, tenant_burst=2.0)
    writing, before = Writing(a_plan(reuse=a_reuse_plan(check=None, storage=storage))), counted("capped")
    for n in range(5):
        writing.end(f"r-{n}", tenant="loud")
    writing.end("s-1", tenant="quiet")
    assert writing.turn()
    assert (len(writing.rows(tenant="loud")), len(writing.rows(tenant="quiet"))) == (2, 1)
    assert counted("capped") == before + 3


# Where nothing is to be done.


@pytest.mark.parametrize("plan", [None, a_plan()])
def test_without_a_plan_that_asks_for_it_results_pass(plan: Plan | None) -> None:
    writing = Writing()
    writing.plans.plan = plan
    writing.end()
    assert writing.turn()
    assert (writing.topic.committed[0], writing.vectors.probe(CALL_S).rows) == (1, None)


def test_without_a_vector_store_results_pass_and_nothing_is_opened() -> None:
    assert writer_opener(load({}), a_catalog(), MemoryImageStore()) is None
    writing = Writing()
    writing.indexer = Indexer(lambda: writing.topic, writing.plans, None)
    writing.end()
    assert writing.turn()
    assert (writing.topic.committed[0], writing.latents()) == (1, 1)


def test_what_cannot_be_opened_is_waited_for() -> None:
    writing = Writing()

    def opens(_terms: Terms) -> IndexWriter:
        raise PochadeError("run `pochade up`")

    writing.indexer = Indexer(lambda: writing.topic, writing.plans, opens)
    writing.end()
    assert not writing.turn()
    assert "run `pochade up`" in writing.indexer.not_ready()
    assert writing.topic.committed[0] == 0


def test_it_runs_until_it_is_stopped_and_leaves_its_group() -> None:
    writing, stopping = Writing(), threading.Event()
    writing.end()
    take = writing.topic.take

    def once(most: int, timeout_s: float) -> list[Incoming]:
        stopping.set()
        return take(most, timeout_s)

    writing.topic.take = once  # type: ignore[method-assign]
    writing.indexer.run(stopping)
    assert (writing.topic.is_closed, len(writing.rows())) == (True, 1)


def test_the_account_of_a_partition_goes_with_it() -> None:
    writing = Writing(a_plan(reuse=a_reuse_plan(check=None)))
    writing.end("r-0", partition=0)
    writing.end("r-1", partition=1)
    assert writing.turn()
    writer = writing.indexer._writer
    assert writer is not None
    assert writer._logic.rows == 2
    writing.topic.owned = frozenset({1})
    assert writing.turn()
    assert writer._logic.rows == 1


def test_partitions_that_are_added_take_a_part_of_the_bytes() -> None:
    plan = a_plan(reuse=a_reuse_plan(check=None, storage=ReuseStorage(max_bytes=8 * 10_000)))
    writing = Writing(plan, Topic(partitions=1))
    for n in range(20):
        writing.end(f"r-{n:02}")
    assert writing.turn()
    before = len(writing.rows())
    writing.topic.logs |= {partition: [] for partition in range(1, 4)}  # of other writers
    writing.end("r-20")
    assert writing.turn()
    assert len(writing.rows()) == pytest.approx(before / 4, abs=2)


def test_it_is_not_ready_while_a_newer_release_s_results_wait_for_their_schema() -> None:
    writing = Writing()
    writing.topic.waits_for = "unknown schema id 900"
    stopping = threading.Event()
    take = writing.topic.take

    def once(most: int, timeout_s: float) -> list[Incoming]:
        assert writing.indexer.not_ready() == "unknown schema id 900"
        stopping.set()
        return take(most, timeout_s)

    writing.topic.take = once  # type: ignore[method-assign]
    writing.indexer.run(stopping)
    assert stopping.is_set()
