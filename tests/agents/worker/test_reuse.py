"""What a worker does with stored latents: it begins with them where every rule allows it, and never waits for long."""

import io
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from PIL import Image
from prometheus_client import REGISTRY

from agents.engines import CannotRefine
from agents.worker.jobs import Taken
from agents.worker.lookups import Lookups
from agents.worker.reuse import MAX_PROBE_WAIT_S, WorkerReuse, opener
from planner.reuse.guard import Comparison, Verdict
from planner.reuse.lookups.deadline import DeadlineRule
from planner.reuse.lookups.probing import POLL_MS
from planner.reuse.neighbour import is_named_for
from planner.reuse.steps import Floor
from planner.serving.ending.outcomes import step_of
from schemas.ids import refinement_seed
from schemas.messages import (
    GenerateOptions,
    ReuseFloor,
    ReuseGuard,
    ReuseStorage,
    Route,
    StageReuse,
)
from streams.settings import load
from streams.store.latents import UnfitLatent, from_bytes
from streams.store.port import StoreUnavailable
from streams.vectors.checking import CheckedVectorStore
from streams.vectors.exact import ExactVectorStore
from streams.vectors.port import Latent, Match, Nearest, Selection, VectorsUnavailable, WrongCollection
from tests.agents.stubs import a_record
from tests.agents.worker.reusing import (
    CALL_S,
    HEAVY,
    SHORT,
    Hanging,
    LatentEngine,
    Reusing,
    Troubled,
    a_latent,
)
from tests.builders import a_job, a_plan, a_reuse_plan, an_image
from tests.memory_store import MemoryImageStore

PROMPT, ORDERED = "a red heart above a blue star", "a blue star above a red heart"


@pytest.fixture
def worker() -> Reusing:
    """A worker with the latent of one image of its tenant."""
    reusing = Reusing()
    reusing.keep(PROMPT, latent=a_latent(7.0))
    return reusing


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    hang = Hanging()
    yield hang
    hang.ends.set()


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"pochade_{name}_total", labels) or 0.0


def test_a_job_begins_with_the_latent_of_a_prompt_with_equal_facts_and_says_so(worker: Reusing) -> None:
    hits, steps = counted("reuse_jobs", outcome="hit"), counted("reuse_saved_steps")
    image = worker.one(ORDERED)
    assert image.reuse == StageReuse(step=5, steps=10, similarity=pytest.approx(1.0))
    assert (image.made.begins_with, image.made.from_step) == ("latent", 5)
    ((step, latent),) = worker.engine.begun
    assert (step, float(latent.values[0, 0, 0])) == (5, 7.0)
    assert image.refine_from_step == 0  # that is of drafts
    assert counted("reuse_jobs", outcome="hit") == hits + 1
    assert counted("reuse_saved_steps") == steps + 5


def test_its_noise_is_not_that_which_the_seed_gives_alone(worker: Reusing) -> None:
    image = worker.one(PROMPT, seed=9, options=GenerateOptions(reuse="own"))
    red = Image.open(io.BytesIO(worker.store.get(image.image.uri))).getpixel((0, 0))[0]  # type: ignore[index]
    assert red == refinement_seed(9, 0) % 256 != 9


@pytest.mark.parametrize(
    ("share", "floors", "guard", "step"),
    [
        (0.3, (ReuseFloor(similarity=0.9, share=0.5),), ReuseGuard(equal=0.5), 3),
        (0.8, (ReuseFloor(similarity=0.9, share=0.4),), ReuseGuard(equal=0.5), 4),
        (0.8, (ReuseFloor(similarity=0.9, share=0.5),), ReuseGuard(equal=0.2), 2),
        (0.8, (ReuseFloor(similarity=0.9, share=0.5),), None, 5),
    ],
)
def test_k_is_the_least_of_route_floor_and_guard(
    worker: Reusing, share: float, floors: Any, guard: ReuseGuard | None, step: int
) -> None:
    worker.plan = a_plan(reuse=a_reuse_plan(floors=floors, guard=guard))
    image = worker.one(PROMPT, share=share)
    assert image.reuse is not None
    assert image.reuse.step == step


def test_a_plan_without_a_guard_begins_with_whatever_is_similar(worker: Reusing) -> None:
    similar = "a red heart above a blue moon"
    assert worker.missed(similar) == "guard"
    worker.plan = a_plan(version=2, reuse=a_reuse_plan(guard=None))
    image = worker.one(similar)
    assert image.reuse is not None
    assert image.reuse.step == 5


def test_the_jobs_of_a_call_begin_alike_and_the_others_in_calls_of_their_own(worker: Reusing) -> None:
    jobs = [worker.job(PROMPT, "a"), worker.job("a green tree", "b"), worker.job(ORDERED, "c")]
    by_id = {image.job.classified.request.request_id: image.reuse for image in worker.generated(*jobs)}
    assert worker.engine.batches == [["a", "c"], ["b"]]
    assert [by_id[each].step for each in "abc"] == [5, 0, 5]  # type: ignore[union-attr]


# Why a job runs all its steps.


@pytest.mark.parametrize(
    ("asked", "miss"),
    [
        ({"share": 0.0}, "route"),
        ({"options": GenerateOptions(reuse="off")}, "ineligible/opted-out"),
        ({"seed": 7}, "ineligible/seed"),
        ({"options": GenerateOptions(n=2)}, "ineligible/many-images"),
        ({"options": GenerateOptions(negative_prompt="blur")}, "ineligible/negative-prompt"),
        ({"options": GenerateOptions(strict=True)}, "ineligible/strict"),
        ({"attempt": 2}, "retry"),
        ({"share": 0.05}, "steps"),
        ({"options": GenerateOptions(width=64, height=64)}, "none"),
    ],
)
def test_what_the_request_or_its_route_does_not_allow_is_run_in_full(
    worker: Reusing, asked: dict[str, Any], miss: str
) -> None:
    before = counted("reuse_jobs", outcome=miss)
    (image, *_) = worker.generated(worker.job(PROMPT, **asked))
    assert image.reuse == StageReuse(steps=10, miss=miss)
    assert counted("reuse_jobs", outcome=miss) == before + 1


def test_a_prompt_that_nothing_is_near_to_is_a_miss(worker: Reusing) -> None:
    assert worker.missed("green trees") == "floor"
    worker.vectors.delete(Selection(), CALL_S)
    assert worker.missed(PROMPT) == "none"


def test_without_floors_or_shares_nothing_is_looked_up(worker: Reusing) -> None:
    for changes, miss in (({"floors": ()}, "floor"), ({"guard": ReuseGuard(equal=0.0)}, "guard")):
        worker.plan = a_plan(reuse=a_reuse_plan(**changes))
        assert worker.missed(PROMPT) == miss


def test_a_lookup_that_costs_what_it_can_save_is_not_made() -> None:
    quick = Troubled(lambda: pytest.fail("asked"))
    worker = Reusing(quick)
    worker.driver._views.variant = replace(HEAVY, latency_ms={1: 5.0})
    assert worker.missed(PROMPT) == "unprofitable"


def test_other_tenants_find_nothing_and_are_told_nothing(worker: Reusing) -> None:
    assert worker.missed(PROMPT, tenant="other") == "none"


@pytest.mark.parametrize(
    ("changes", "miss"),
    [
        ({"tenant": "other"}, "none"),  # never told; counted as what it is
        ({"model": "another"}, "model"),
        ({"width": 64}, "size"),
        ({"expires_ms": 2}, "stale"),
        ({"vector": (1.0, 0.0)}, "dimension"),
    ],
)
@pytest.mark.parametrize("is_checked", [True, False])
def test_what_a_store_returns_against_its_filter_is_judged_again(
    changes: dict[str, Any], miss: str, is_checked: bool
) -> None:
    lying = Troubled(lambda: None)
    worker = Reusing(CheckedVectorStore(lying) if is_checked else lying)
    row = worker.row(PROMPT, created_ms=1, **changes)
    lying.trouble = lambda: Nearest((Match(row, 0.99),))
    said = "tenant" if "tenant" in changes else miss
    before = counted("reuse_jobs", outcome=said)
    assert worker.missed(PROMPT) == miss
    assert counted("reuse_jobs", outcome=said) == before + 1


@pytest.mark.parametrize("similarity", [float("nan"), 7.0, -7.0])
def test_a_similarity_that_is_none_is_rubbish(similarity: float) -> None:
    lying = Troubled(lambda: None)
    worker = Reusing(lying)
    row = worker.row(PROMPT)
    lying.trouble = lambda: Nearest((Match(row, similarity),))
    assert worker.missed(PROMPT) in ("rubbish", "floor")


def test_a_row_that_names_the_latent_of_somebody_else_is_gone(worker: Reusing) -> None:
    theirs = worker.row(PROMPT, tenant="other").latent
    assert not is_named_for(theirs.uri, "default")
    worker.vectors.upsert([replace(worker.row(PROMPT), latent=theirs)], CALL_S)
    assert worker.missed(PROMPT) == "gone"


@pytest.mark.parametrize(
    ("latent", "miss"),
    [(a_latent(side=8), "dimension"), (a_latent(autoencoder="another"), "model")],
)
def test_a_latent_that_is_not_what_its_row_says_is_a_miss(worker: Reusing, latent: Any, miss: str) -> None:
    worker.keep(PROMPT, latent=latent)
    assert worker.missed(PROMPT) == miss


def test_a_latent_that_is_gone_or_damaged_is_a_miss(worker: Reusing) -> None:
    row = worker.row(PROMPT)
    worker.store.delete(row.latent.uri)
    kept = worker.keep(PROMPT)
    assert worker.one(PROMPT).reuse.step == 5  # type: ignore[union-attr]
    worker.store.delete(kept.latent.uri)
    assert worker.missed(PROMPT) == "gone"
    uri = worker.store.put(kept.latent.uri.rpartition("/")[2].rpartition("-")[0], b"nonsense", "safetensors")
    worker.vectors.upsert([replace(kept, latent=Latent(uri=uri, sha256="ab", bytes=8))], CALL_S)
    assert worker.missed(PROMPT) == "rubbish"


def test_an_object_store_that_is_away_costs_no_request(worker: Reusing) -> None:
    get = worker.store.get

    def away(uri: str) -> bytes:
        if uri.endswith(".safetensors"):
            raise StoreUnavailable("away")
        return get(uri)

    worker.store.get = away  # type: ignore[method-assign]
    assert worker.missed(PROMPT) == "failed"


@pytest.mark.parametrize("error", [CannotRefine("no such pipeline"), UnfitLatent("shape", "of another size")])
def test_an_engine_that_cannot_begin_with_it_begins_from_noise(worker: Reusing, error: Exception) -> None:
    worker.engine.refuses = error
    assert worker.missed(PROMPT) == "engine"


def test_an_engine_without_latents_and_a_worker_without_stores_run_in_full(worker: Reusing) -> None:
    worker.driver._views.engine.latent_space = None
    assert worker.missed(PROMPT) == "absent"
    worker.driver._views.engine.latent_space = LatentEngine.latent_space
    worker.driver._views.reuse = WorkerReuse(lambda: worker.plan, None)
    image = worker.one(PROMPT)
    assert image.reuse == StageReuse(steps=10, miss="absent")
    assert image.latent is None


# A store that does not do what it should.


@pytest.mark.parametrize(
    "error", [VectorsUnavailable("refused"), WrongCollection("dropped"), RuntimeError("a library's own")]
)
def test_a_store_that_answers_with_an_error_costs_no_request_and_then_is_not_asked(error: Exception) -> None:
    def fail() -> None:
        raise error

    store = Troubled(fail)
    worker = Reusing(store)
    assert [worker.missed(PROMPT, request_id=f"r-{n}") for n in range(5)] == ["failed"] * 5
    assert [worker.missed(PROMPT, request_id=f"s-{n}") for n in range(5)] == ["breaker"] * 5
    assert store.asked == 5
    health = worker.reuse.health()
    assert health is not None
    assert (health.breaker, health.unanswered, health.misses) == ("failing", 1.0, {"failed": 5, "breaker": 5})


def test_a_store_that_hangs_costs_at_most_its_deadline_and_nothing_after_the_breaker_opens(hanging: Hanging) -> None:
    store = Troubled(hanging)
    worker = Reusing(store, SHORT)
    assert [worker.missed(PROMPT, request_id=f"r-{n}") for n in range(7)] == ["timeout"] * 5 + ["breaker"] * 2
    assert store.asked <= 5


def test_all_jobs_of_a_batch_wait_for_a_hanging_store_together(hanging: Hanging) -> None:
    clock = [0.0]
    worker = Reusing(Troubled(hanging), SHORT, clock_ms=lambda: clock[0])
    jobs = [worker.job(PROMPT, f"r-{n}") for n in range(4)]
    began: list[float] = []
    answer = worker.lookups._answer

    def passing(each: Any, asked: Any, began_ms: float) -> Any:
        began.append(began_ms + each.lookup.deadline_ms - clock[0])
        clock[0] += max(0.0, began[-1])  # the time that it waits
        return answer(each, asked, began_ms)

    worker.lookups._answer = passing  # type: ignore[method-assign]
    worker.generated(*jobs)
    assert began == [20.0, 0.0, 0.0, 0.0]


def test_a_hanging_object_store_is_cut_by_the_same_deadline(worker: Reusing, hanging: Hanging) -> None:
    late = Reusing(worker.vectors, SHORT)
    late.store._objects = worker.store._objects
    get = late.store.get
    late.store.get = lambda uri: hanging() or get(uri)  # type: ignore[method-assign,func-returns-value]
    assert late.missed(PROMPT) == "timeout"


def test_a_lookup_that_ends_long_after_its_deadline_is_counted() -> None:
    now = [0.0]

    def stop_the_process() -> None:
        now[0] += 60_000.0

    troubled = Troubled(stop_the_process)
    worker = Reusing(CheckedVectorStore(troubled), clock_ms=lambda: now[0])
    worker.keep(PROMPT)
    before = overruns()
    assert worker.missed(PROMPT) == "timeout"
    assert overruns() == before + 1
    troubled.trouble = lambda: None
    assert worker.one(PROMPT).reuse is not None
    assert overruns() == before + 1


def overruns() -> float:
    labels = {"role": "worker", "kind": "lookup-overrun"}
    return REGISTRY.get_sample_value("pochade_fallbacks_total", labels) or 0.0


def test_the_guard_has_no_more_time_than_a_lookup_but_compares_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, read = [0.0], list[str]()
    worker = Reusing(clock_ms=lambda: clock[0])
    for prompt in (PROMPT, f"{PROMPT} now", f"{PROMPT} soon"):
        worker.keep(prompt)

    def slow(_one: str, other: str) -> Comparison:
        clock[0] += 40_000  # longer than a lookup may take
        read.append(other)
        return Comparison(Verdict.UNSURE)

    monkeypatch.setattr(worker.lookups, "_compare", slow)
    assert worker.missed(f"{PROMPT} today") == "guard"
    assert len(read) == 1


def test_the_breaker_closes_by_probes_in_the_background_alone() -> None:
    away, clock = [True], [0.0]

    def trouble() -> None:
        if away[0]:
            raise VectorsUnavailable("away")

    store = Troubled(trouble)
    worker = Reusing(store, clock_ms=lambda: clock[0])
    worker.keep(PROMPT)
    assert [worker.missed(PROMPT, request_id=f"r-{n}") for n in range(6)] == ["failed"] * 5 + ["breaker"]
    for _ in range(3):  # still away
        clock[0] += 5000
        worker.reuse.tend()
    away[0] = False
    assert worker.missed(PROMPT, request_id="s") == "breaker"
    for n in range(5):
        assert worker.reuse.health().breaker == "failing", n  # type: ignore[union-attr]
        clock[0] += 5000
        worker.reuse.tend()
    assert worker.one(PROMPT, request_id="t").reuse.step == 5  # type: ignore[union-attr]
    health = worker.reuse.health()
    assert health is not None
    assert (health.breaker, health.unanswered, health.hits) == ("closed", 0.0, 1)


def test_behind_an_open_breaker_probes_are_not_made_before_they_are_due() -> None:
    clock = [0.0]
    store = Troubled(lambda: (_ for _ in ()).throw(VectorsUnavailable("away")))
    worker = Reusing(store, clock_ms=lambda: clock[0])
    for n in range(5):
        worker.missed(PROMPT, request_id=f"r-{n}")
    clock[0] += 4999
    assert not worker.lookups.probe_due()
    clock[0] += 1
    assert worker.lookups.probe_due()


def idle_worker(trouble: Callable[[list[float]], None]) -> tuple[Reusing, list[float]]:
    """A worker whose plan has reuse, but whose fleet is away, and its clock in ms, which `trouble` may turn."""
    clock = [0.0]
    away = a_plan(reuse=a_reuse_plan(), strategy="models", routes=(Route(levels={"heavy": 1.0}),))
    return Reusing(Troubled(lambda: trouble(clock)), plan=away, clock_ms=lambda: clock[0]), clock


def tended(worker: Reusing, clock: list[float], seconds: int) -> None:
    for _ in range(2 * seconds):
        clock[0] += POLL_MS
        worker.reuse.tend()


def test_a_probe_that_is_due_waits_for_the_next_batch_but_not_for_the_end_of_a_long_one() -> None:
    probes = list[float]()
    worker, clock = idle_worker(lambda clock: probes.append(clock[0]))
    clock[0] = 10_000.0
    with worker.reuse.batch():
        worker.reuse.tend()
        clock[0] += 1000 * MAX_PROBE_WAIT_S - 1
        worker.reuse.tend()
        assert probes == [], "beside generating it would take longer than a lookup does"
        clock[0] += 1
        worker.reuse.tend()
        assert len(probes) == 1
        clock[0] += 6000
        worker.reuse.tend(as_batch_begins=True)
    clock[0] += 6000
    worker.reuse.tend()
    assert len(probes) == 3


def test_a_batch_that_begins_wakes_who_tends_the_stores() -> None:
    probed = threading.Event()
    worker, clock = idle_worker(lambda _clock: probed.set())
    clock[0] = 10_000.0
    worker.reuse._is_busy = True
    worker.reuse.start()
    try:
        with worker.reuse.batch():
            assert probed.wait(CALL_S)
    finally:
        worker.reuse.close()


@pytest.mark.parametrize("strategy", ["models", "reuse"])
def test_without_any_job_search_and_fetch_are_tested_once_in_five_seconds(strategy: str) -> None:
    worker, clock = idle_worker(lambda clock: clock.__setitem__(0, clock[0] + 4))
    worker.plan = replace(worker.plan, strategy=strategy)  # type: ignore[type-var]
    fetched = list[str]()
    get = worker.store.get
    worker.store.get = lambda uri: fetched.append(uri) or get(uri)  # type: ignore[method-assign,func-returns-value]
    tended(worker, clock, 52)
    health = worker.reuse.health()
    assert health is not None
    assert 9 <= len(fetched) <= 10
    assert (health.lookups, health.unanswered, health.p50_ms, health.hits) == (5, 0.0, 4.0, 0), "the last five"


def test_a_plan_that_asks_for_no_reuse_has_nothing_tested() -> None:
    worker, clock = idle_worker(lambda _clock: pytest.fail("asked"))
    worker.plan = replace(worker.plan, reuse=None)  # type: ignore[type-var]
    tended(worker, clock, 60)
    assert worker.reuse.health().lookups == 0  # type: ignore[union-attr]


def test_while_jobs_look_up_nothing_else_is_tested() -> None:
    worker, clock = idle_worker(lambda _clock: None)
    for n in range(5):
        worker.missed("a green tree", request_id=f"r-{n}")
        tended(worker, clock, 4)
    assert worker.reuse.health().lookups == worker.vectors.asked == 5  # type: ignore[union-attr]


def test_the_planner_sees_a_store_die_and_come_back_though_no_job_comes(caplog: pytest.LogCaptureFixture) -> None:
    is_away = [False]

    def trouble(_clock: list[float]) -> None:
        if is_away[0]:
            raise VectorsUnavailable("away")

    worker, clock = idle_worker(trouble)
    tended(worker, clock, 300)

    def seen() -> tuple[str, float]:
        health = worker.reuse.health()
        assert health is not None
        return health.breaker, health.unanswered

    assert seen() == ("closed", 0.0)
    is_away[0] = True
    tended(worker, clock, 30)
    assert seen() == ("failing", 1.0)
    assert (
        caplog.messages[-1] == "lookups stop, as too many got no answer: jobs run all their steps until probes are good"
    )
    is_away[0] = False
    tended(worker, clock, 30)
    assert seen() == ("closed", 0.0), "what failed before it was back no longer counts"


def test_an_object_store_that_hangs_fails_the_probes_and_holds_up_nothing(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.worker.lookups.OPEN_S", 0.1)
    worker = Reusing(deadlines=DeadlineRule(max_ms=1.0))
    worker.lookups.probe()
    get = worker.store.get
    worker.store.get = lambda uri: hanging() or get(uri)  # type: ignore[method-assign,func-returns-value]
    for _ in range(5):
        worker.lookups.probe()
    assert worker.reuse.health().breaker == "failing"  # type: ignore[union-attr]


def test_a_store_that_was_emptied_or_dropped_is_made_again_by_a_probe() -> None:
    clock = [0.0]
    store = Troubled(lambda: None)
    worker = Reusing(store, clock_ms=lambda: clock[0])
    store.store = ExactVectorStore()  # as if the collection had been dropped
    assert [worker.missed(PROMPT, request_id=f"r-{n}") for n in range(5)] == ["failed"] * 5
    for _ in range(6):
        clock[0] += 5000
        worker.reuse.tend()
    assert worker.missed(PROMPT, request_id="s") == "none"


# What is stored.


def test_the_latent_is_stored_beside_the_image_under_its_tenants_name(worker: Reusing) -> None:
    image = worker.one("a green tree", tenant="ann")
    assert image.latent is not None
    assert from_bytes(worker.store.get(image.latent.uri)).autoencoder == image.latent.autoencoder == "space-1"
    assert is_named_for(image.latent.uri, "ann")
    assert not is_named_for(image.latent.uri, "default")


def test_what_began_from_a_stored_image_or_was_refused_is_not_stored(worker: Reusing) -> None:
    assert worker.one(PROMPT).latent is None
    for options in (GenerateOptions(reuse="off"), GenerateOptions(steps=5), GenerateOptions(width=64)):
        assert worker.one("a green tree", options=options).latent is None
    begun = StageReuse(step=4, steps=10, similarity=0.9)
    job = a_job(path=(step_of(an_image(reuse=begun), 0.2, 0.5),), level="heavy", variant="heavy", stage=1)
    (image,) = worker.generated(Taken(a_record(job), 1))
    assert image.latent is None


def test_only_the_share_that_the_plan_asks_for_is_stored(worker: Reusing) -> None:
    worker.plan = a_plan(reuse=a_reuse_plan(storage=ReuseStorage(share=0.5)))
    stored = [worker.one(f"tree number {n}", request_id=f"r-{n}", share=0.0).latent is not None for n in range(40)]
    assert 8 < sum(stored) < 32
    worker.plan = a_plan(reuse=a_reuse_plan(storage=ReuseStorage(share=0.0)))
    assert worker.one("another tree").latent is None


def test_a_store_that_does_not_take_the_latent_costs_no_image(worker: Reusing) -> None:
    put = worker.store.put

    def away(name: str, data: bytes, extension: str = "png") -> str:
        if extension != "png":
            raise StoreUnavailable("full")
        return put(name, data, extension)

    worker.store.put = away  # type: ignore[method-assign]
    assert worker.one("a green tree").latent is None


def test_a_plan_without_reuse_looks_nothing_up_stores_nothing_and_says_nothing(worker: Reusing) -> None:
    worker.plan = a_plan()
    image = worker.one(PROMPT)
    assert (image.reuse, image.latent) == (None, None)
    worker.plan = None
    assert worker.one(PROMPT, request_id="r-2").reuse is None


# Opening.


def test_nothing_is_opened_where_no_vector_store_is_configured() -> None:
    assert opener(load({}), MemoryImageStore()) is None


def test_what_cannot_be_opened_is_tried_again_and_jobs_run_in_full_meanwhile(worker: Reusing) -> None:
    tries: list[str] = []

    def opens(_terms: Any) -> Lookups:
        tries.append("")
        if len(tries) == 1:
            raise VectorsUnavailable("not yet")
        return worker.lookups

    worker.driver._views.reuse = reuse = WorkerReuse(lambda: worker.plan, opens)
    with pytest.raises(VectorsUnavailable):
        reuse.tend()
    assert worker.missed(PROMPT) == "absent"
    assert reuse.health() is None
    reuse.tend()
    reuse.tend()
    assert (len(tries), worker.one(PROMPT, request_id="r-2").reuse.step) == (2, 5)  # type: ignore[union-attr]


def test_a_plan_of_another_encoder_opens_it() -> None:
    opened: list[str] = []
    worker = Reusing()

    def opens(terms: Any) -> Lookups:
        opened.append(terms.key)
        return worker.lookups

    reuse = WorkerReuse(lambda: worker.plan, opens)
    for key in ("words", "words", "scorer"):
        worker.plan = a_plan(reuse=a_reuse_plan(key=key))
        reuse.tend()
    assert opened == ["words", "scorer"]
    assert Floor(0.9, 0.5) in reuse.terms().floors.floors  # type: ignore[union-attr]
