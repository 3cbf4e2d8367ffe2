"""The index writer's account: bounded by bytes and age in each partition, and by each tenant's rate."""

from typing import Any

import pytest

from planner.reuse.eligibility import Asked, Consent
from planner.reuse.eviction import Entry
from planner.reuse.indexing.index import MAX_TENANTS, IndexLogic
from planner.reuse.indexing.writing import Ended, NotWritten, Unwritten, Write, is_stored
from planner.reuse.terms import terms_of
from schemas.messages import ReuseStorage, Status
from tests.builders import NOW_MS, a_reuse_plan

HOUR_MS = 3_600_000


def terms(**storage: Any) -> Any:
    return terms_of(a_reuse_plan(check=None, storage=ReuseStorage(**storage)))


def entry(n: int, size: int = 100, age_ms: int = 0) -> Entry:
    return Entry(key=f"k-{n:03}", created_ms=NOW_MS - age_ms + n, bytes=size, latent_uri=f"uri-{n}")


def keys(left: list[tuple[int, Entry]]) -> list[str]:
    return [each.key for _, each in left]


def test_the_oldest_leave_a_full_partition_until_a_little_is_free() -> None:
    logic = IndexLogic(2)
    for n in range(20):
        logic.enter(0, entry(n))
    logic.enter(1, entry(99))
    left = logic.leaving(terms(max_bytes=2000), NOW_MS)  # 1000 each
    assert keys(left) == [f"k-{n:03}" for n in range(11)]
    assert {partition for partition, _ in left} == {0}
    assert (logic.rows, logic.bytes) == (10, 1000)
    assert logic.leaving(terms(max_bytes=2000), NOW_MS) == []


def test_the_expired_leave_once_a_minute() -> None:
    logic, rule = IndexLogic(1), terms(ttl_s=3600.0)
    assert logic.leaving(rule, NOW_MS) == []
    logic.enter(0, entry(0, age_ms=2 * HOUR_MS))
    logic.enter(0, entry(1))
    assert logic.leaving(rule, NOW_MS + 59_999) == []
    assert keys(logic.leaving(rule, NOW_MS + 60_000)) == ["k-000"]


def test_a_row_that_is_written_again_counts_once() -> None:
    logic = IndexLogic(1)
    for size in (100, 300):
        logic.enter(0, entry(1, size))
    assert (logic.rows, logic.bytes) == (1, 300)
    logic.forget([0, 7])
    assert (logic.rows, logic.bytes) == (0, 0)


def test_each_tenant_has_its_rate_and_names_without_end_cost_no_memory() -> None:
    logic, rule = IndexLogic(1), terms(tenant_rps=1.0, tenant_burst=2.0)
    assert [logic.admit("loud", rule, NOW_MS) for _ in range(3)] == [None, None, NotWritten(Unwritten.CAPPED)]
    assert logic.admit("loud", rule, NOW_MS + 1000) is None
    assert logic.admit("quiet", rule, NOW_MS) is None
    for n in range(MAX_TENANTS + 10):
        logic.admit(f"t-{n}", rule, NOW_MS)
    assert len(logic._buckets) == MAX_TENANTS


@pytest.mark.parametrize(
    ("changes", "decision"),
    [
        ({}, Write(None)),
        ({"has_latent": False}, NotWritten(Unwritten.UNSTORED)),
        ({"ended_ms": NOW_MS - 5 * HOUR_MS}, NotWritten(Unwritten.STALE)),
        ({"reuse_steps": (0, 3), "has_latent": False}, NotWritten(Unwritten.DERIVED)),
        ({"status": Status.EXPIRED, "has_latent": False}, NotWritten(Unwritten.STATUS)),
    ],
)
def test_what_enters(changes: dict[str, Any], decision: object) -> None:
    values = {"request_id": "r", "status": Status.COMPLETED, "asked": Asked(), "ended_ms": NOW_MS}
    assert IndexLogic(1).examine(Ended(**(values | changes)), terms(), NOW_MS) == decision  # type: ignore[arg-type]


def test_a_worker_stores_a_drawn_share_of_what_may_enter() -> None:
    stored = [is_stored(f"r-{n}", Asked(), [0], 0.25) for n in range(1000)]
    assert 200 < sum(stored) < 300
    assert stored == [is_stored(f"r-{n}", Asked(), [0], 0.25) for n in range(1000)]
    assert not is_stored("r", Asked(), [0, 2], 1.0)
    assert not is_stored("r", Asked(consent=Consent.OFF), [], 1.0)
    assert is_stored("r", Asked(has_seed=True), [], 1.0)
