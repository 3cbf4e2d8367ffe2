"""What doctor and `reuse clear --stale` see of the index: who writes it, whether it fits, what nobody can use."""

import dataclasses
import json
import pathlib
from typing import Any

import pytest
from click.testing import CliRunner

from agents.commands.reuse import reuse
from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import completed
from schemas.messages import LatentRef, Plan, Route
from schemas.record import Incoming
from schemas.topics import RESULTS
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.control import history as plan_reading
from streams.control.history import Published
from streams.control.reuse import is_asked_for
from streams.operator import doctor, indexed, reuse_index
from streams.operator.checks import Attendance
from streams.operator.reuse_checks import (
    check_collection,
    check_indexer,
    check_stale_rows,
    check_store_named,
)
from streams.operator.reuse_index import (
    SIDE_BY_SIDE_MS,
    Collection,
    clear_stale,
    collection,
    delete_rows,
    stored_latents,
)
from streams.operator.verdicts import Check, Verdict
from streams.settings import Settings, load
from streams.store.open import open_store
from streams.vectors.keys import WORDS_DIGEST, WORDS_DIMENSION
from streams.vectors.open import open_vectors
from streams.vectors.port import (
    Latent,
    Probed,
    Selection,
    Source,
    VectorRow,
    VectorStore,
    WrongCollection,
    row_id,
)
from tests.builders import a_classified, a_job, a_plan, a_request, a_reuse_plan, an_image
from tests.streams.vectors.rows import DIMENSION, a_row

OK, WARN, FAIL = Verdict.OK, Verdict.WARN, Verdict.FAIL
CALL_S = 30.0
TTL_S = 3600.0
VARIANTS = frozenset({"light", "heavy"})
ASKING = (Route(levels={"light": 0.5, "heavy~k12": 0.5}),)
PLAN = a_plan(reuse=a_reuse_plan(), routes=ASKING)


@pytest.fixture
def settings(tmp_path: pathlib.Path) -> Settings:
    where = {"bootstrap_servers": "127.0.0.1:1"}
    return load({"home": tmp_path, "vectors": {"url": "exact"}, "kafka": where, "catalog": "chaos"})


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> list[Incoming]:
    """What lies on `results`."""
    records: list[Incoming] = []

    def past(_settings: Any, names: list[str], *, since_ms: int, keep: Any, timeout_s: float) -> list[Incoming]:
        assert (names, timeout_s > 0) == ([RESULTS], True)
        return [record for record in records if record.timestamp_ms >= since_ms and keep(record)]

    monkeypatch.setattr("streams.kafka.consumers.snapshot.past", past)
    return records


def an_end(autoencoder: str, uri: str, level: str = "heavy", age_ms: int = 0) -> Incoming:
    """A result whose image was decoded by this autoencoder."""
    ended_ms = now_ms() - age_ms
    latent = LatentRef(uri=uri, sha256="ab", bytes=1, autoencoder=autoencoder)
    job = a_job(a_classified(a_request()), level=level, variant=level.partition("~")[0])
    made = an_image(job, latent=latent)
    outcome = completed(made, None, None, reason="", by="t", policy="p", now_ms=ended_ms)
    value = encode(result_of(outcome))
    return Incoming(topic=RESULTS, partition=0, offset=0, timestamp_ms=ended_ms, key=b"r", value=value)


@pytest.mark.parametrize(
    ("seen", "verdict", "words"),
    [
        (Attendance(1, 3), OK, "1 member, 3 records of results"),
        (Attendance(0, 0), WARN, "no member serves"),
        (Attendance(0, 5000), WARN, "no member serves, 5,000 records"),
        (Attendance(2, 5000), WARN, "5,000 records"),
        (Attendance(None, 1), WARN, "may not see its members"),
    ],
)
def test_an_index_that_nobody_writes_or_late_is_reported_but_loses_no_request(
    seen: Attendance, verdict: Verdict, words: str
) -> None:
    check = check_indexer(seen)
    assert (check.verdict, words in check.found) == (verdict, True), check.found


def test_a_collection_must_be_there_and_fit_the_plan_s_encoder(settings: Settings) -> None:
    assert check_collection(collection(settings, "words")).verdict is WARN
    store = open_vectors(settings, WORDS_DIGEST)
    assert store is not None
    store.ensure(WORDS_DIMENSION, CALL_S)
    found = collection(settings, "words")
    assert (found.dimension, found.rows, check_collection(found).verdict) == (WORDS_DIMENSION, 0, OK)
    other = check_collection(Collection(name="reuse_x", dimension=4, wanted=128))
    assert (other.verdict, "of 4 dimensions, the plan's encoder makes 128" in other.found) == (FAIL, True)
    assert "drop the collection reuse_x" in other.do


def test_rows_are_stale_whose_autoencoder_no_variant_has_any_more(settings: Settings, results: list[Incoming]) -> None:
    results += [
        an_end("old", "a", age_ms=2 * SIDE_BY_SIDE_MS),
        an_end("new", "b", level="heavy~k4"),
        an_end("small", "c", level="light", age_ms=3 * SIDE_BY_SIDE_MS),  # nothing newer of light: still its own
        an_end("gone", "d", level="medium"),  # no variant of the catalog
        an_end("expired", "e", age_ms=round(2000 * TTL_S)),
        Incoming(topic=RESULTS, partition=0, offset=0, timestamp_ms=now_ms(), key=b"r", value=b"nonsense"),
    ]
    assert stored_latents(settings, VARIANTS, TTL_S).stale() == {"gone": {"d"}, "old": {"a"}}


def test_while_two_releases_of_a_model_serve_side_by_side_neither_s_rows_are_stale(
    settings: Settings, results: list[Incoming]
) -> None:
    results += [an_end("old", "a", age_ms=SIDE_BY_SIDE_MS // 2), an_end("new", "b")]
    assert stored_latents(settings, VARIANTS, TTL_S).stale() == {}


def test_stale_rows_are_named_with_what_clears_them() -> None:
    check = check_stale_rows({"abc": {"x", "y"}, "def": {"z"}})
    assert (check.verdict, check.do) == (WARN, "pochade reuse clear --stale")
    assert "2 latents of abc, 1 latent of def" in check.found
    assert check_stale_rows({}).verdict is OK


class Index:
    """Rows and latents of a live and of a stale autoencoder, and the results that name them."""

    def __init__(self, settings: Settings, results: list[Incoming]) -> None:
        store = open_vectors(settings, WORDS_DIGEST)
        assert store is not None
        self.vectors: VectorStore = store
        self.store = open_store(settings)
        self.vectors.ensure(WORDS_DIMENSION, CALL_S)
        for name, age_ms in (("old", 2 * SIDE_BY_SIDE_MS), ("new", 0)):
            uri = self.store.put(name, name.encode(), "safetensors")
            results.append(an_end(name, uri, level="light", age_ms=age_ms))
            row = VectorRow(
                id=row_id("default", name), vector=(1.0,) * WORDS_DIMENSION, tenant="default", model=name, width=32,
                height=32, created_ms=now_ms() - 1, expires_ms=now_ms() + 3_600_000,
                latent=Latent(uri=uri, sha256="ab", bytes=3),
                source=Source(request_id="r", image_uri="u", prompt="p"),
            )  # fmt: skip
            self.vectors.upsert([row], CALL_S)

    @property
    def rows(self) -> int | None:
        return self.vectors.probe(CALL_S).rows

    @property
    def latents(self) -> int:
        return len(list(self.store.list(now_ms() + 1)))


def test_what_is_stale_is_cleared_from_both_stores_and_nothing_else(
    settings: Settings, results: list[Incoming], monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index(settings, results)
    monkeypatch.setattr(plan_reading, "published", lambda _settings, *_versions: Published([PLAN], None))

    def cleared(*options: str) -> list[dict[str, Any]]:
        done = CliRunner().invoke(
            reuse, ["clear", "--stale", "-o", "json", *options], obj=lambda: settings, catch_exceptions=False
        )
        assert done.exit_code == 0, done.output
        found: list[dict[str, Any]] = json.loads(done.output)
        return found

    assert cleared("--dry-run") == [{"autoencoder": "old", "latents": 1, "deleted": False}]
    assert (index.rows, index.latents) == (2, 2)
    assert cleared() == [{"autoencoder": "old", "latents": 1, "deleted": True}]
    assert (index.rows, index.latents) == (1, 1)


def test_stale_rows_of_former_encoders_are_cleared_too(settings: Settings) -> None:
    former = open_vectors(settings, "words-64-0")
    assert former is not None
    former.ensure(DIMENSION, CALL_S)
    former.upsert([a_row(id=name, model=name) for name in ("old", "new")], CALL_S)
    clear_stale(settings, open_store(settings), {"old": {"u"}}, dry_run=False)
    assert former.latents(["old", "new"], CALL_S).keys() == {"new"}


def test_a_collection_that_is_not_ours_stays_and_is_reported_once_the_others_are_done(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Store:
        def __init__(self, name: str) -> None:
            self.name = name

        def probe(self, _timeout_s: float) -> Probed:
            if self.name == "foreign":
                raise WrongCollection("foreign is not one of ours")
            return Probed(rows=None, dimension=None if self.name == "dropped" else 8)

        def delete(self, _selection: Selection, _timeout_s: float) -> None:
            asked.append(self.name)

        def close(self) -> None:
            asked.append(f"{self.name} closed")

    names = ("dropped", "foreign", "ours")
    monkeypatch.setattr(reuse_index, "open_all", lambda *_about: [Store(name) for name in names])
    with pytest.raises(WrongCollection, match="foreign is not one of ours"):
        delete_rows(settings, Selection(tenant="ann"))
    assert asked == ["ours", "ours closed", "foreign closed", "dropped closed"]


def test_stale_rows_are_cleared_of_all_tenants_or_of_none(settings: Settings) -> None:
    refused = CliRunner().invoke(reuse, ["clear", "--stale", "--tenant", "ann"], obj=lambda: settings)
    assert (refused.exit_code, "leave out --tenant" in refused.output) == (2, True)


def doctors(settings: Settings, plan: Plan) -> dict[str, Check]:
    assert plan.reuse is not None
    return {check.name: check for check in doctor._reuse(settings, plan.reuse, is_asked=is_asked_for(plan))}


def test_doctor_checks_writer_collection_and_stale_rows_where_the_plan_asks_for_reuse(
    settings: Settings, results: list[Incoming], monkeypatch: pytest.MonkeyPatch
) -> None:
    Index(settings, results)
    asked: list[tuple[str, str]] = []

    def attendance(_settings: Settings, role: str, reads: str) -> Attendance:
        asked.append((role, reads))
        return Attendance(1, 0)

    monkeypatch.setattr(doctor, "attendance", attendance)
    monkeypatch.setattr(indexed, "positions", lambda *_about: {0: 0})
    found = doctors(settings, PLAN)
    verdicts = {"indexer": OK, "index": OK, "stale rows": WARN, "missing rows": OK}
    assert {name: check.verdict for name, check in found.items()} == verdicts
    assert asked == [("indexer", RESULTS)]
    assert "1 latent of old" in found["stale rows"].found


def test_doctor_counts_the_images_without_a_row_whose_latents_the_store_has(
    settings: Settings, results: list[Incoming], monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index(settings, results)  # whose rows are of other images than the results'
    monkeypatch.setattr(doctor, "attendance", lambda *_about: Attendance(1, 0))

    def found(read_to: int = 1) -> Check:
        monkeypatch.setattr(indexed, "positions", lambda *_about: {0: read_to})
        return doctors(settings, PLAN)["missing rows"]

    check = found()
    assert (check.verdict, check.do) == (WARN, "pochade reuse rebuild")
    assert "1 of 1 image whose latents results name have no row; 1 of 1 latent of these that were read" in check.found
    assert found(read_to=0).verdict is OK, "the index writer has not read the results"
    for each in list(index.store.list(now_ms() + 1)):
        index.store.delete(each.uri)
    assert found().verdict is OK, "what was evicted has no latent any more"


def test_doctor_says_where_a_plan_asks_for_reuse_and_no_vector_store_is_named() -> None:
    (check,) = doctors(load({}), PLAN).values()
    assert (check.name, check.verdict) == ("reuse", WARN)
    assert "vectors.url names no vector store" in check.found


def test_doctor_names_an_encoder_that_is_unknown_here(
    settings: Settings, results: list[Incoming], monkeypatch: pytest.MonkeyPatch
) -> None:
    del results
    monkeypatch.setattr(doctor, "attendance", lambda *_about: Attendance(1, 0))
    plan = dataclasses.replace(PLAN, reuse=a_reuse_plan(key="text-image"))
    check = doctors(settings, plan)["index"]
    assert (check.verdict, "unknown encoder of prompts 'text-image'" in check.found) == (FAIL, True)


def test_a_missing_store_is_a_warning_only_where_a_route_of_the_plan_asks_for_reuse() -> None:
    """Plans of `joint` say how images may begin from others before anybody has looked anything up."""
    plans = a_plan(reuse=a_reuse_plan()), PLAN
    assert [is_asked_for(plan) for plan in plans] == [False, True]
    named = [check_store_named("", is_asked=is_asked_for(plan)) for plan in plans]
    assert [check.verdict for check in named if check] == [OK, WARN]
    assert check_store_named("lite", is_asked=True) is None
