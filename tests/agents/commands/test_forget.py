"""`pochade forget` on topics that lie in memory: what is one tenant's goes, and nothing else."""

import json
import math
import pathlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agents.indexer import forgetting
from agents.runtime.records import event_record
from planner.reuse.neighbour import latent_name
from planner.serving.admission.inputs import input_name
from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import completed
from schemas.messages import ApiKey, EventKind, ImageRef, Webhook
from schemas.record import Incoming, Outgoing
from schemas.topics import EVENTS, IMAGES, KEYS, PROMPTS, RESULTS, WEBHOOKS, jobs_topic
from streams.cli import main
from streams.codec.avro import encode
from streams.operator.cluster import Found
from streams.security.api_keys import new_key
from streams.settings import Settings, load
from streams.store.open import open_store
from streams.store.port import ImageStore
from streams.vectors.keys import WORDS_DIGEST
from streams.vectors.open import open_vectors
from streams.vectors.port import row_id
from tests import next_release
from tests.builders import a_classified, a_job, a_request, an_image
from tests.schemas.examples import EXAMPLE_OF
from tests.streams.vectors.rows import CALL_S, DIMENSION, a_row

DAY_MS = 86_400_000


class Deployment:
    """The settings of one, its store, and what lies on its topics."""

    def __init__(self, home: pathlib.Path) -> None:
        self.options = [
            "--home",
            str(home),
            "--set",
            "vectors.url=exact",
            "--set",
            "kafka.bootstrap_servers=127.0.0.1:1",
        ]
        self.settings: Settings = load({"home": home, "vectors": {"url": "exact"}})
        self.store: ImageStore = open_store(self.settings)
        self.records: list[Incoming] = []
        self.sent: list[Outgoing] = []
        self.keys: list[ApiKey] = []

    def lies(self, topic: str, value: bytes | None, key: str = "r") -> None:
        self.records.append(
            Incoming(topic=topic, partition=0, offset=0, timestamp_ms=1, key=key.encode(), value=value)
        )  # fmt: skip

    def has(self, tenant: str) -> dict[str, str]:
        """Store one object of each kind for a tenant, named by its records; kind -> URI."""
        put = lambda name: self.store.put(name, f"{name} {tenant}".encode())  # noqa: E731
        uris = {name: put(f"{tenant}-{name}") for name in ("image", "draft", "preview")}
        uris["input"] = put(input_name(tenant))
        uris["latent"] = self.store.put(latent_name(tenant, "j-1"), tenant.encode(), "safetensors")
        job = a_job(a_classified(a_request(tenant=tenant)))
        image, draft = (
            an_image(job, image=ImageRef(uri=uris[name], sha256="x", width=4, height=4, bytes=3))
            for name in ("image", "draft")
        )
        self.lies(RESULTS, encode(result_of(completed(image, None, None, reason="", by="t", policy="p", now_ms=1))))
        self.lies(IMAGES, encode(draft))
        shown = event_record("r", EventKind.PREVIEW, "worker", 1, preview=uris["preview"], tenant=tenant)
        self.lies(EVENTS, shown.value)
        self.keys.append(new_key(tenant, ("read",), 1)[1])
        hook = next(message for message in EXAMPLE_OF.values() if isinstance(message, Webhook))
        for state in ("open", "ended"):
            self.lies(
                WEBHOOKS, encode(replace(hook, request_id=f"{tenant}-{state}", tenant=tenant)), f"{tenant}-{state}"
            )
        self.lies(WEBHOOKS, None, f"{tenant}-ended")
        return uris

    def there(self) -> set[str]:
        return {each.uri for each in self.store.list(2**60)}

    def forget(self, *words: str) -> Result:
        return CliRunner().invoke(main, [*self.options, "forget", *words, "-o", "json"])


@pytest.fixture
def deployment(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    made = Deployment(tmp_path)

    def past(_settings: Any, names: Sequence[str], *, keep: Any) -> list[Incoming]:
        return [record for record in made.records if record.topic in names and keep(record)]

    class Producer:
        def __init__(self, _settings: Any) -> None: ...

        def close(self) -> None: ...

    kept = {"retention.ms": str(7 * DAY_MS), "segment.ms": str(DAY_MS // 2)}
    names = (PROMPTS, RESULTS, IMAGES, EVENTS, WEBHOOKS, KEYS, jobs_topic("light", 1).name)
    topics = {
        name: Found(name=name, partitions=1, replicas=1, config=kept, is_config_visible=name != EVENTS)
        for name in names
    }
    monkeypatch.setattr(forgetting.snapshot, "past", past)
    monkeypatch.setattr(forgetting.cluster, "topics", lambda _settings: topics)
    monkeypatch.setattr(forgetting, "stored", lambda _settings: made.keys)
    monkeypatch.setattr(forgetting, "KafkaRecordProducer", Producer)
    monkeypatch.setattr(forgetting, "send_all", lambda _producer, records, _limit_s: made.sent.extend(records))
    monkeypatch.setattr(forgetting, "now_ms", lambda: 2**60)
    monkeypatch.setattr(forgetting, "utc", lambda ms: "unbounded" if math.isinf(ms) else f"{ms - 2**60:.0f} ms on")
    return made


def test_all_that_is_one_tenants_goes_and_what_is_anothers_stays(deployment: Deployment) -> None:
    own, others = deployment.has("ann"), deployment.has("bob")
    vectors = open_vectors(deployment.settings, WORDS_DIGEST)
    assert vectors is not None
    vectors.ensure(DIMENSION, CALL_S)
    vectors.upsert([a_row(id=row_id(name, "image"), tenant=name) for name in ("ann", "bob")], CALL_S)
    done = deployment.forget("ann")
    assert done.exit_code == 0, done.output
    counts = {row["what"]: row["count"] for row in json.loads(done.stdout) if row["count"] is not None}
    assert counts == {"images": 3, "input images": 1, "latents": 1, "keys": 1, "webhooks": 1}
    assert deployment.there() == set(others.values())
    assert not set(own.values()) & deployment.there()
    assert [len(vectors.latents([row_id(name, "image")], CALL_S)) for name in ("ann", "bob")] == [0, 1]
    assert {(each.topic, each.key, each.value) for each in deployment.sent} == {
        (KEYS, deployment.keys[0].key_id.encode(), None), (WEBHOOKS, b"ann-open", None)
    }  # fmt: skip
    again = json.loads(deployment.forget("ann").stdout)
    assert [row["count"] for row in again if row["what"] in ("images", "input images", "latents")] == [0, 0, 0]


def test_a_dry_run_counts_and_deletes_nothing(deployment: Deployment) -> None:
    deployment.has("ann")
    before = deployment.there()
    rows = json.loads(deployment.forget("ann", "--dry-run").stdout)
    assert {row["deleted"] for row in rows} == {False}
    assert sum(row["count"] or 0 for row in rows) == 7
    assert (deployment.there(), deployment.sent) == (before, [])


def test_it_says_until_when_records_lie_on_topics(deployment: Deployment) -> None:
    deployment.has("ann")
    until = {row["what"]: row["until"] for row in json.loads(deployment.forget("ann", "--dry-run").stdout)}
    week = f"{7.5 * DAY_MS:.0f} ms on"
    assert until["records on prompts.v1"] == until["records on jobs.light.v1"] == week
    assert until["records on events.v1"] == "unknown", "this user may not see its retention"
    assert "compacts" in until["keys"]
    assert (until["images"], "records on keys.v1" in until) == (None, False)


def test_records_that_cannot_be_read_are_counted_and_fail(deployment: Deployment) -> None:
    deployment.has("ann")
    with next_release.written():
        deployment.has("ann")
    deployment.lies(EVENTS, b"garbage")
    done = deployment.forget("ann")
    assert done.exit_code == 1
    assert "cannot be read, and images that they may name are not deleted: upgrade this command" in done.stderr
