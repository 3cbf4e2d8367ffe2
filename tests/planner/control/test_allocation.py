"""Who serves what: counts and moves."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from planner.control.allocation import assign, split
from planner.observation.workers import WorkerView
from tests.builders import a_worker

VARIANTS = ("a", "b", "c")
WORK = st.dictionaries(st.sampled_from(VARIANTS), st.floats(0.001, 1000), min_size=1)
FLEET = st.lists(st.sampled_from(("", *VARIANTS)), max_size=8).map(
    lambda variants: tuple(a_worker(f"w-{i}", variant) for i, variant in enumerate(variants))
)


@given(WORK, st.integers(0, 40))
def test_split_counts_sum_to_the_workers_and_leave_no_variant_out_where_possible(work: dict, n_workers: int) -> None:
    counts = split(work, n_workers)
    assert sum(counts.values()) == n_workers
    assert set(counts) == set(work)
    assert min(counts.values()) >= (1 if n_workers >= len(work) else 0)


@given(WORK, st.integers(0, 40))
def test_split_gives_more_work_no_fewer_workers(work: dict, n_workers: int) -> None:
    counts = split(work, n_workers)
    for more, less in itertools.permutations(work, 2):
        assert work[more] <= work[less] or counts[more] >= counts[less]


@given(WORK, st.integers(10, 40))
def test_split_is_within_one_worker_of_the_quota_unless_it_rounds_up_to_one(work: dict, n_workers: int) -> None:
    counts, total = split(work, n_workers), sum(work.values())
    quotas = {name: n_workers * work[name] / total for name in work}
    assert all(count == 1 or count < quotas[name] + 1 for name, count in counts.items())
    lifted = sum(1 for quota in quotas.values() if quota < 1)
    assert all(count > quotas[name] - 1 - lifted for name, count in counts.items())


def test_a_variant_without_work_gets_no_worker() -> None:
    assert split({"a": 1.0, "b": 0.0}, 3) == {"a": 3, "b": 0}


def test_with_fewer_workers_than_variants_those_with_most_work_are_served() -> None:
    assert split({"a": 1.0, "b": 3.0, "c": 2.0}, 2) == {"a": 0, "b": 1, "c": 1}
    assert split({"a": 1.0}, 0) == {"a": 0}


def homes(workers: tuple[WorkerView, ...], variant: str) -> int:
    return sum(worker.home == variant for worker in workers)


@given(FLEET, st.lists(st.sampled_from(VARIANTS), min_size=8, max_size=8))
def test_assign_meets_the_counts_with_the_fewest_moves(workers: tuple[WorkerView, ...], wanted: list[str]) -> None:
    counts = {variant: wanted[: len(workers)].count(variant) for variant in VARIANTS}
    allocation = assign(counts, workers)
    assert {v: list(allocation.values()).count(v) for v in VARIANTS} == counts
    stayed = sum(allocation[worker.worker_id] == worker.home for worker in workers)
    assert stayed == sum(min(counts[v], homes(workers, v)) for v in VARIANTS)  # no allocation can keep more


@given(FLEET, st.permutations(range(8)))
def test_assign_does_not_depend_on_the_order_of_workers(workers: tuple[WorkerView, ...], order: list[int]) -> None:
    counts = split({"a": 2.0, "b": 1.0}, len(workers))
    shuffled = [workers[i] for i in order if i < len(workers)]
    assert assign(counts, workers) == assign(counts, shuffled)


@given(FLEET)
def test_planning_again_moves_nobody(workers: tuple[WorkerView, ...]) -> None:
    counts = split({"a": 2.0, "b": 1.0, "c": 1.0}, len(workers))
    first = assign(counts, workers)
    on_their_way = [a_worker(w.worker_id, w.variant, allocated=first[w.worker_id]) for w in workers]
    assert assign(counts, on_their_way) == first


def test_of_too_many_workers_those_with_the_smallest_ids_stay() -> None:
    workers = [a_worker("w-2", "a"), a_worker("w-1", "a"), a_worker("w-3", "a")]
    assert assign({"a": 1, "b": 2}, workers) == {"w-1": "a", "w-2": "b", "w-3": "b"}


def test_workers_beyond_the_counts_are_not_named_and_missing_workers_leave_the_last_variants_short() -> None:
    assert assign({"a": 1}, [a_worker("w-1", "a"), a_worker("w-2", "a")]) == {"w-1": "a"}
    assert assign({"a": 1, "b": 1}, [a_worker("w-1", "")]) == {"w-1": "a"}
