"""What a worker lacks of a job's components: as its heartbeat says, and as what was sent since will have changed it."""

import pytest

from planner.catalog.options import resolve_options
from planner.serving.dispatch.dispatch import JobCost, Retry, WorkerChoice
from planner.serving.dispatch.lacking import Need, Needs
from planner.serving.dispatch.worker_loads import LoadView
from schemas.messages import GenerateOptions, WorkerComponents
from tests.builders import NOW_MS, a_catalog, a_heartbeat, a_plan, owned, sized_variant

CATALOG = a_catalog(on_request={"styles": sized_variant(latency_ms={1: 10.0}, load_ms=100.0)})
POSTER, CHALK = GenerateOptions(model="poster"), GenerateOptions(model="chalk")
CANDY = GenerateOptions(adapters=("candy",))
SILENT_MS = 3000


def need(options: GenerateOptions) -> Need:
    return Needs(CATALOG).of("styles", resolve_options(options, CATALOG.level("styles")).components)


def a_view(**held: tuple[str, ...]) -> LoadView:
    """Workers by name, each with what it holds on the device."""
    view = LoadView()
    for partition, (worker, ids) in enumerate(held.items()):
        beat(view, worker, partition, ids, NOW_MS)
    return view


def beat(view: LoadView, worker: str, partition: int, ids: tuple[str, ...], at_ms: int, remaining_ms: int = 0) -> None:
    report = WorkerComponents(held={"device": ids})
    heartbeat = a_heartbeat(
        worker_id=worker,
        variant="styles",
        components=report,
        partitions=(owned(partition, end_offset=9, remaining_ms=remaining_ms),),
    )
    view.on_heartbeat(heartbeat, at_ms)


def lacking(view: LoadView, options: GenerateOptions, at_ms: int = NOW_MS) -> dict[str, float]:
    pool = view.pool("styles", at_ms, SILENT_MS)
    return {worker.worker_id: pool.lacking_ms(n, need(options)) for n, worker in enumerate(pool.workers)}


def chosen(view: LoadView, options: GenerateOptions, kind: str, at_ms: int = NOW_MS) -> str | Retry | None:
    pool = view.pool("styles", at_ms, SILENT_MS)
    cost = JobCost(10.0, lambda place: pool.lacking_ms(place, need(options)))
    place = WorkerChoice(CATALOG).choose(a_plan(dispatch=kind), "styles", "r-1", pool.free, at_ms, cost)
    return pool.workers[place].worker_id if isinstance(place, int) else place


def test_a_worker_lacks_what_it_holds_in_no_tier_and_pays_for_farther_ones() -> None:
    assert lacking(a_view(a=("base:poster",), b=(), c=("base:poster", "adapter:candy")), CANDY) == {
        "a": 10.0, "b": 110.0, "c": 0.0,
    }  # fmt: skip


def test_a_fused_base_stands_for_its_parts_with_these_weights_alone() -> None:
    view = a_view(a=("fused:poster+candy@1",))
    assert lacking(view, CANDY) == {"a": 0.0}
    assert lacking(view, GenerateOptions(adapters=("candy",), adapter_weights=(0.5,))) == {"a": 110.0}
    assert lacking(view, GenerateOptions(adapters=("candy",), controls=("outline",), control_images=("u",))) == {
        "a": 30.0
    }


def test_a_job_goes_to_the_worker_that_holds_its_base_until_its_queue_is_longer_than_the_load() -> None:
    view = a_view(a=("base:poster",), b=("base:chalk",))
    assert chosen(view, POSTER, "least-cost") == "a"
    assert chosen(view, CHALK, "least-cost") == "b"
    beat(view, "a", 0, ("base:poster",), NOW_MS, remaining_ms=99)
    assert chosen(view, POSTER, "least-cost") == "a"
    beat(view, "a", 0, ("base:poster",), NOW_MS, remaining_ms=101)
    assert chosen(view, POSTER, "least-cost") == "b"


def test_pull_gives_a_job_to_the_idle_worker_that_lacks_least_and_to_no_busy_one() -> None:
    view = a_view(a=("base:poster",), b=("base:chalk",), c=())
    assert chosen(view, CHALK, "pull") == "b"
    for partition, worker in enumerate("abc"):
        beat(view, worker, partition, ("base:chalk",), NOW_MS, remaining_ms=50)
    assert isinstance(chosen(view, CHALK, "pull"), Retry)


@pytest.mark.parametrize("kind", ["least-work", "round-robin", "random"])
def test_other_kinds_do_not_ask_what_workers_lack(kind: str) -> None:
    def asks(place: int) -> float:
        raise AssertionError(f"asked about {place}")

    pool = a_view(a=(), b=()).pool("styles", NOW_MS, SILENT_MS)
    cost = JobCost(10.0, asks)
    assert WorkerChoice(CATALOG).choose(a_plan(dispatch=kind), "styles", "r-1", pool.free, NOW_MS, cost) is not None


def test_what_was_sent_counts_as_held_until_it_should_be_done_and_then_the_heartbeat_says() -> None:
    view = a_view(a=())
    view.on_sent("styles", 0, 9, 10.0, NOW_MS, need(CANDY))
    assert lacking(view, CANDY) == {"a": 0.0}
    assert view.loads("styles", NOW_MS, SILENT_MS)[0].remaining_ms == 120.0, "110 ms to load, 10 to generate"
    beat(view, "a", 0, (), NOW_MS + 50)
    assert lacking(view, CANDY, NOW_MS + 50) == {"a": 0.0}, "it has not begun, or loads"
    beat(view, "a", 0, ("base:chalk",), NOW_MS + 121)
    assert lacking(view, CANDY, NOW_MS + 121) == {"a": 110.0}, "it was evicted meanwhile"


def test_a_worker_that_serves_its_variant_again_after_a_change_is_asked_anew() -> None:
    view = a_view(a=("base:poster",))
    view.on_heartbeat(a_heartbeat(worker_id="a", variant="light"), NOW_MS)
    view.on_heartbeat(a_heartbeat(worker_id="a", variant="styles"), NOW_MS)
    assert lacking(view, POSTER) == {"a": 100.0}
    view.on_heartbeat(a_heartbeat(worker_id="a", variant="styles", partitions=(owned(0), owned(1))), NOW_MS)
    beat(view, "a", 0, ("base:poster",), NOW_MS)
    assert lacking(view, POSTER) == {"a": 0.0}


def test_needs_are_worked_out_once() -> None:
    needs = Needs(CATALOG)
    selection = resolve_options(CANDY, CATALOG.level("styles")).components
    assert needs.of("styles", selection) is needs.of("styles", selection)
