"""Reuse on the real broker: an image begins from a similar one's latent, of its own tenant alone, and says so."""

import json
import math
import pathlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from agents.commands.forget import forget
from agents.commands.reuse import reuse as reuse_command
from agents.indexer.operating import is_latent
from schemas.ids import new_request_id
from schemas.messages import GenerateOptions, GenerateRequest, Plan, Result, ReuseGuard, ReuseHealth, Route, Status
from schemas.record import Outgoing
from schemas.topics import PLAN, PLAN_KEY
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.operator.doctor import examine
from streams.operator.explain import steps_of
from streams.operator.gc import choose, needed
from streams.operator.verdicts import Verdict
from streams.settings import Settings, load
from streams.store.open import open_store
from streams.vectors.open import open_vectors
from streams.vectors.port import Selection
from tests.builders import a_cascade, a_plan, a_reuse_plan
from tests.integration.pipeline import Pipeline
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

LAYOUT = {
    "rest": ["classifier", "router", "discriminator", "ledger"],
    "worker-1": ["worker"],
    "indexer": ["indexer"],
}
PROMPT, LIKE = "two red hearts above a blue star", "above a blue star two red hearts"
KEY = "words-128-1"  # digest of the encoder that the plan names


def the_plan() -> Plan:
    """All on `heavy`, up to 12 of its 25 steps from a stored latent; every image is stored."""
    return a_plan(
        strategy="reuse", routes=(Route(levels={"heavy~k12": 1.0}),), cascades=(), allocation={"worker-1": "heavy"},
        batch={"heavy": 1}, created_ms=now_ms(), reuse=a_reuse_plan(guard=None, check=None),
    )  # fmt: skip


class Reusing(Pipeline):
    """A pipeline without a planner, under a plan of the test's own."""

    def start(self) -> "Reusing":
        send_all(self.producer, [Outgoing(topic=PLAN, key=PLAN_KEY.encode(), value=encode(the_plan()))])
        super().start()
        return self

    def ask(self, prompt: str, tenant: str, reuse: str = "own") -> Result:
        """Ask for an image, and wait for it; once more where a busy machine cut the lookup, which is no fault."""
        for _ in range(10):
            result = self._ask(prompt, tenant, reuse)
            if result.reuse_miss != "timeout":
                break
        return result

    def first(self, prompt: str, tenant: str) -> Result:
        """Ask for an image that nothing of its tenant is near to."""
        result = self._ask(prompt, tenant, "own")
        assert (result.reused, result.reuse_miss in ("none", "floor", "timeout")) == (False, True), result
        return result

    def _ask(self, prompt: str, tenant: str, reuse: str) -> Result:
        request = GenerateRequest(
            request_id=new_request_id(), prompt=prompt, created_ms=now_ms(), tenant=tenant, seed=7,
            options=GenerateOptions(reuse=reuse),
        )  # fmt: skip
        self.write(encode(request), request.request_id.encode())
        (result,) = self.wait_all([request.request_id])
        assert result.status is Status.COMPLETED, result.reason
        return result

    def health(self) -> ReuseHealth | None:
        """What the worker's last heartbeat says of its lookups."""
        return self.heartbeats["worker-1"][1].reuse


@pytest.fixture(scope="module")
def pipeline(broker_home: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reusing]:
    settings = load({"home": broker_home, "kafka": {"prefix": "reuse", "session_timeout_ms": 3000}})
    create_topics(settings, ["light", "heavy"])
    running = Reusing(settings, tmp_path_factory.mktemp("logs"), extra=["vectors.url=exact"], roles=LAYOUT)
    try:
        yield running.start()
    finally:
        running.close()


NOBODY = ReuseHealth(breaker="", lookups=0, unanswered=0.0, p50_ms=0.0, p95_ms=0.0)


def rows(pipeline: Reusing) -> int:
    """Rows of the index."""
    store = open_vectors(of_operator(pipeline), KEY)
    assert store is not None
    try:
        return store.probe(PATIENCE_S).rows or 0
    finally:
        store.close()


def latents(pipeline: Reusing) -> int:
    """Number of latents in the object store."""
    return len(stored_latents(pipeline))


def stored_latents(pipeline: Reusing) -> set[str]:
    """URIs of the latents in the object store."""
    return {each.uri for each in open_store(of_operator(pipeline)).list(2**60) if is_latent(each.uri)}


def latents_of(result: Result) -> set[str]:
    """URIs of the latents that a result names."""
    return {stage.latent.uri for stage in steps_of(result) if stage.latent is not None}


def orphans(pipeline: Reusing, grace_ms: int = 0) -> set[str]:
    """URIs of the latents that `pochade gc --orphans` would delete."""
    settings = of_operator(pipeline)
    stored, now = list(open_store(settings).list(now_ms() + 1)), now_ms() + 1
    there = needed(settings)
    assert not [each for each in there.troubles if " reuse " in each]
    chosen = choose(stored, now, math.inf, there.uris, there.results_kept_ms, grace_ms).orphans
    return {each.uri for each in chosen if is_latent(each.uri)}


def test_a_similar_prompt_of_the_same_tenant_skips_steps_and_another_tenants_does_not(pipeline: Reusing) -> None:
    pipeline.until(lambda: pipeline.health() is not None, "the worker can look latents up")
    first = pipeline.first(PROMPT, "ann")
    assert (first.reuse_step, first.similarity) == (None, None)
    (stage,) = steps_of(first)
    assert stage.latent is not None
    pipeline.until(lambda: rows(pipeline) >= 1, "the first image is in the index")

    again = pipeline.ask(LIKE, "ann")
    assert (again.reused, again.reuse_step, again.reuse_miss) == (True, 12, "")
    assert again.similarity == pytest.approx(1.0)
    (stage,) = steps_of(again)
    assert stage.reuse is not None
    assert (stage.reuse.step, stage.reuse.steps, stage.latent) == (12, 25, None)
    assert again.generate_ms < 0.8 * first.generate_ms

    other = pipeline.first(LIKE, "bob")
    assert (other.reuse_step, other.similarity) == (None, None)
    pipeline.until(lambda: rows(pipeline) >= 2, "bob's image is in the index")
    assert pipeline.ask(LIKE, "bob").reused

    off = pipeline.ask(PROMPT, "ann", reuse="off")
    (stage,) = steps_of(off)
    assert (off.reused, off.reuse_miss, stage.latent) == (False, "ineligible/opted-out", None)
    pipeline.until(lambda: (pipeline.health() or NOBODY).hits >= 2, "the heartbeat says that there were hits")


def test_a_killed_index_writer_goes_on_where_it_was_and_writes_nothing_twice(pipeline: Reusing) -> None:
    before = rows(pipeline)
    pipeline.kill("indexer")
    pipeline.first("five green trees", "eve")
    pipeline.heal()
    pipeline.until(lambda: rows(pipeline) > before, "the row of what ended meanwhile")
    assert pipeline.ask("five green trees", "eve").reused


def of_operator(pipeline: Reusing) -> Settings:
    kafka = {"prefix": pipeline.settings.kafka.prefix}
    return load({"home": pipeline.settings.home, "kafka": kafka, "vectors": {"url": "exact"}, "catalog": "profile"})


def run(pipeline: Reusing, *words: str) -> Any:
    """What `pochade reuse WORDS -o json` prints."""
    settings = of_operator(pipeline)
    done = CliRunner().invoke(reuse_command, [*words, "-o", "json"], obj=lambda: settings, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_an_operator_sees_explains_clears_and_fills_the_index_again(pipeline: Reusing) -> None:
    prompt = "a green moon under a yellow sun"
    first = pipeline.first(prompt, "zoe")
    pipeline.until(lambda: pipeline.ask(prompt, "zoe").reused, "the first image is in the index")
    pipeline.until(lambda: rows(pipeline) == latents(pipeline), "every stored latent has its row")
    before = rows(pipeline)
    shown = run(pipeline, "status")
    assert (shown["plan"], shown["store"]["rows"], shown["workers"][0]["worker"]) == (1, before, "worker-1")
    assert shown["reuse"]["key"] == "words"
    (stage,) = run(pipeline, "explain", first.request_id)["stages"]
    assert not stage["reused"]
    assert stage["why"] in ("no stored image of its tenant was near", "the stores did not answer in time")

    checks = {check.name: check for check in examine(of_operator(pipeline))}
    assert [checks[name].verdict for name in ("indexer", "index", "stale rows")] == [Verdict.OK] * 3, checks
    assert "1 member" in checks["indexer"].found
    assert run(pipeline, "clear", "--stale") == [], "every variant has the autoencoder of its latents"
    assert rows(pipeline) == before
    assert run(pipeline, "clear", "--tenant", "zoe", "--dry-run")[0]["latents"] >= 1
    assert rows(pipeline) == before
    assert run(pipeline, "clear", "--tenant", "nobody")[0]["latents"] == 0
    run(pipeline, "rebuild")
    assert rows(pipeline) == before, "rows that are there stay"
    vectors = open_vectors(
        load({"home": pipeline.settings.home, "vectors": {"url": "exact"}, "kafka": {"prefix": "reuse"}}), KEY
    )
    assert vectors is not None
    vectors.delete(Selection(), PATIENCE_S)
    assert rows(pipeline) == 0
    assert run(pipeline, "rebuild")[0]["rows"] == before
    assert rows(pipeline) == before

    assert orphans(pipeline) == set(), "the index names every latent"
    forgotten = latents_of(first)
    vectors.delete(Selection(tenant="zoe"), PATIENCE_S)
    assert forgotten <= orphans(pipeline) < stored_latents(pipeline), "and others keep theirs"
    assert not forgotten & orphans(pipeline, grace_ms=3_600_000), "it may yet be named, as long as it is young"
    assert run(pipeline, "rebuild")[0]["rows"] == before
    assert orphans(pipeline) == set()

    done = CliRunner().invoke(forget, ["zoe", "-o", "json"], obj=lambda: of_operator(pipeline), catch_exceptions=False)
    gone = {row["what"]: row for row in json.loads(done.stdout)}
    assert (done.exit_code, gone["images"]["count"] >= 2, gone["latents"]["count"] >= 1) == (0, True, True), done.output
    assert gone["records on prompts.v1"]["until"] > "2026", "in UTC, to the second"
    assert rows(pipeline) < before
    assert not pipeline.first(prompt, "zoe").reused
    assert pipeline.ask("five green trees", "eve").reused, "others keep theirs"


def guarded_plan(pipeline: Reusing) -> None:
    """Let facts be compared, have the images of hits judged, and make those that fail in full; wait for its worker."""
    judged = a_cascade(level="heavy~k12", next_level="heavy", threshold=0.5)
    group = a_reuse_plan(guard=ReuseGuard(equal=0.5), check=None)
    plan = replace(the_plan(), version=2, created_ms=now_ms(), cascades=(judged,), reuse=group)
    send_all(pipeline.producer, [Outgoing(topic=PLAN, key=PLAN_KEY.encode(), value=encode(plan))])
    guarded = "encoder 'words', guard True"
    pipeline.until(lambda: guarded in pipeline.log("worker-1"), "the worker reads facts")


def test_guarded_reuse_compares_facts_and_makes_in_full_what_its_check_does_not_trust(pipeline: Reusing) -> None:
    guarded_plan(pipeline)
    first = pipeline.first(PROMPT, "ida")
    (stage,) = steps_of(first)
    assert stage.confidence is None, "what is made in full is not judged again"
    pipeline.until(lambda: pipeline.ask(LIKE, "ida").reuse_miss != "none", "the first image is in the index")
    assert pipeline.ask(PROMPT.replace("two", "three"), "ida").reuse_miss == "guard"

    paths = [steps_of(pipeline.ask(LIKE, "ida")) for _ in range(12)]
    begun = [path for path in paths if path[0].reuse is not None and path[0].reuse.step == 12]
    kept, again = [path for path in begun if len(path) == 1], [path for path in begun if len(path) > 1]
    assert kept
    assert again
    assert all(path[0].confidence is not None and path[0].confidence >= 0.5 for path in kept)
    for draft, last in again:
        assert draft.confidence is not None
        assert draft.confidence < 0.5
        assert (last.level, last.reuse and (last.reuse.step, last.reuse.miss)) == ("heavy", (0, "route"))
