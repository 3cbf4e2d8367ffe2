"""The commands of reuse, without a broker."""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from agents.commands.reuse import reuse
from agents.indexer import operating
from planner.reuse.neighbour import latent_name
from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import completed
from schemas.errors import PochadeError
from schemas.messages import ReuseHealth, StageReuse
from schemas.record import Incoming
from schemas.topics import FLEET, RESULTS
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.settings import Settings, load
from streams.store.folder import FolderImageStore
from streams.store.open import open_store
from streams.store.port import Stored
from streams.vectors.keys import WORDS_DIGEST
from streams.vectors.open import open_vectors
from streams.vectors.port import VectorStore, row_id
from tests.agents.indexer.test_indexer import Topic, Writing
from tests.builders import a_catalog, a_heartbeat, a_plan, a_reuse_plan, an_image
from tests.streams.vectors.rows import CALL_S, DIMENSION, a_row


@pytest.fixture
def settings(tmp_path: pathlib.Path) -> Settings:
    return load({"home": tmp_path, "vectors": {"url": "exact"}, "kafka": {"bootstrap_servers": "127.0.0.1:1"}})


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Incoming]]:
    """What lies on the topics."""
    records: dict[str, list[Incoming]] = {RESULTS: [], FLEET: []}

    def past(_settings: Any, names: list[str], *, keep: Any = lambda _record: True, **_more: Any) -> list[Incoming]:
        return [record for name in names for record in records[name] if keep(record)]

    monkeypatch.setattr("streams.kafka.consumers.snapshot.past", past)
    return records


@pytest.mark.parametrize("command", ["status", "explain", "clear", "rebuild"])
def test_each_command_has_help_and_examples(command: str) -> None:
    shown = CliRunner().invoke(reuse, [command, "--help"])
    assert shown.exit_code == 0
    assert f"pochade reuse {command}" in shown.output
    assert "json" in shown.output


def test_status_shows_the_plans_group_the_rows_and_the_workers(
    settings: Settings, topics: dict[str, list[Incoming]]
) -> None:
    health = ReuseHealth(breaker="failing", lookups=5, unanswered=1.0, p50_ms=9.0, p95_ms=9.0, misses={"breaker": 2})
    for beat in (a_heartbeat(reuse=health), a_heartbeat(worker_id="w-2")):
        topics[FLEET].append(
            Incoming(topic=FLEET, partition=0, offset=0, timestamp_ms=now_ms(), key=b"w", value=encode(beat))
        )
    topics[FLEET].append(Incoming(topic=FLEET, partition=0, offset=2, timestamp_ms=0, key=b"w", value=b"nonsense"))
    found = operating.status(settings, a_plan(reuse=a_reuse_plan()))
    assert (found["plan"], found["reuse"]["key"]) == (1, "words")
    assert (found["store"]["rows"], found["store"]["trouble"]) == (0, "")
    assert [(row["worker"], row["breaker"], row["misses"]) for row in found["workers"]] == [
        ("w-1", "failing", {"breaker": 2})
    ]
    assert operating.status(load({"home": settings.home}), None)["store"]["url"] is None
    assert json.dumps(found)


def test_a_request_is_explained_by_its_own_result_alone() -> None:
    begun = an_image(reuse=StageReuse(step=4, steps=10, similarity=0.9))
    result = result_of(completed(begun, None, None, reason="", by="t", policy="p", now_ms=1))
    (stage,) = operating.explained(result)["stages"]
    assert (stage["step"], stage["similarity"], stage["why"]) == (4, 0.9, "it began from a stored image of its tenant")
    missed = an_image(reuse=StageReuse(steps=10, miss="ineligible/seed"))
    result = result_of(completed(missed, None, None, reason="", by="t", policy="p", now_ms=1))
    assert "states a seed" in operating.explained(result)["stages"][0]["why"]
    plain = result_of(completed(an_image(), None, None, reason="", by="t", policy="p", now_ms=1))
    assert operating.explained(plain)["stages"][0]["why"] == "the plan asked for no reuse"


def test_clearing_takes_a_tenants_latents_and_nobody_elses(
    settings: Settings, topics: dict[str, list[Incoming]]
) -> None:
    del topics
    store = open_store(settings)
    for tenant in ("ann", "bob"):
        store.put(latent_name(tenant, "j-1"), tenant.encode(), "safetensors")
        store.put("image", tenant.encode())
    left = lambda: sorted(pathlib.Path(each.uri).suffix for each in store.list(2**60))  # noqa: E731
    dry = operating.clear(settings, store, "ann", dry_run=True)
    assert (dry["latents"], len(left())) == (1, 4)
    operating.clear(settings, store, "ann", dry_run=False)
    assert left() == [".png", ".png", ".safetensors"]
    operating.clear(settings, store, None, dry_run=False)
    assert left() == [".png", ".png"]


def a_collection(settings: Settings, key: str, *tenants: str) -> VectorStore:
    """The collection of an encoder, with one row of each tenant."""
    store = open_vectors(settings, key)
    assert store is not None
    store.ensure(DIMENSION, CALL_S)
    store.upsert([a_row(id=row_id(name, "image"), tenant=name) for name in tenants], CALL_S)
    return store


def rows_of(store: VectorStore, tenant: str) -> int:
    return len(store.latents([row_id(tenant, "image")], CALL_S))


def test_clearing_a_tenant_takes_its_rows_of_former_encoders_too_and_of_no_other_deployment(
    settings: Settings, topics: dict[str, list[Incoming]]
) -> None:
    del topics
    kafka = settings.kafka.model_copy(update={"prefix": "a.b"})
    mine, other = (
        settings.model_copy(update={"kafka": kafka.model_copy(update={"prefix": p})}) for p in ("a.b", "a-b")
    )
    former, current = (a_collection(mine, key, "ann", "bob") for key in ("words-64-0", WORDS_DIGEST))
    others = a_collection(other, WORDS_DIGEST, "ann")
    operating.clear(mine, open_store(mine), "ann", dry_run=True)
    assert [rows_of(each, "ann") for each in (former, current, others)] == [1, 1, 1]
    operating.clear(mine, open_store(mine), "ann", dry_run=False)
    assert [rows_of(each, "ann") for each in (former, current, others)] == [0, 0, 1]
    assert [rows_of(each, "bob") for each in (former, current)] == [1, 1]
    operating.clear(mine, open_store(mine), None, dry_run=False)
    assert [rows_of(each, "bob") for each in (former, current)] == [0, 0]


def test_the_index_is_filled_again_from_results_whose_latents_are_there(
    settings: Settings, topics: dict[str, list[Incoming]]
) -> None:
    plan = a_plan(reuse=a_reuse_plan(check=None))
    writing = Writing(plan, Topic())
    writing.store = store = open_store(settings)  # type: ignore[assignment]
    for n in range(3):
        writing.end(f"r-{n}")
    gone = writing.end("gone")
    topics[RESULTS] += writing.topic.logs[0]
    (latent,) = [each.uri for each in store.list(2**60) if "gone" in each.uri and each.uri.endswith("safetensors")]
    store.delete(latent)
    assert gone.image_uri
    found = operating.rebuild(settings, a_catalog(), store, plan)
    assert found == {"results": 4, "latents": 3, "unlisted": 0, "gone": 1, "rows": 3}
    assert operating.rebuild(settings, a_catalog(), store, plan)["rows"] == 3
    assert operating.status(settings, plan)["store"]["rows"] == 3

    class WithoutList(FolderImageStore):
        """The store, which has lost the list of its objects."""

        def list(self, older_than_ms: int) -> Iterator[Stored]:
            del older_than_ms
            return iter(())

    listless = WithoutList(settings.home / "images")
    found = operating.rebuild(settings, a_catalog(), listless, plan)
    assert found == {"results": 4, "latents": 4, "unlisted": 4, "gone": 0, "rows": 4}
    assert operating.status(settings, plan)["store"]["rows"] == 4, "none is deleted by a list that is not whole"

    for uri in sorted(each.uri for each in store.list(2**60) if each.uri.endswith("safetensors"))[:2]:
        store.delete(uri)
    found = operating.rebuild(settings, a_catalog(), store, plan)
    assert found == {"results": 4, "latents": 1, "unlisted": 0, "gone": 3, "rows": 1}
    assert operating.status(settings, plan)["store"]["rows"] == 1, "a row without its latent is useless"


def test_what_cannot_be_rebuilt_says_what_to_do(settings: Settings, topics: dict[str, list[Incoming]]) -> None:
    del topics
    store = open_store(settings)
    with pytest.raises(PochadeError, match="has no reuse group"):
        operating.rebuild(settings, a_catalog(), store, a_plan())
    with pytest.raises(PochadeError, match=r"vectors\.url names no vector store: set it"):
        operating.rebuild(load({"home": settings.home}), a_catalog(), store, a_plan(reuse=a_reuse_plan()))
