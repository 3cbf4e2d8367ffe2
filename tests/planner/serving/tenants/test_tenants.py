"""The rights of tenants: what is refused takes nothing, what was let in is open until it ends."""

from hypothesis import given
from hypothesis import strategies as st

from planner.serving.tenants.quotas import Quota
from planner.serving.tenants.tenants import OPEN_MS, Rights, Work


def work(number: int, tenant: str = "a", ms: float = 10.0, pictures: int = 1) -> Work:
    return Work(f"r-{number}", tenant, pictures, ms)


def test_what_the_crowded_backlog_refuses_takes_no_tokens() -> None:
    rights = Rights({"a": Quota(rate_rps=1, burst=2)})
    refused = rights.refuse(work(0, ms=1000), 100, 0)
    assert refused is not None
    assert (refused.code, refused.retry_after_ms) == ("overloaded", 1001)
    assert [rights.refuse(work(n), 100, 0) is None for n in (1, 2, 3)] == [True, True, False]


def test_what_has_no_tokens_is_not_open() -> None:
    rights = Rights({"a": Quota(rate_rps=1, burst=1)})
    assert rights.refuse(work(0, ms=40), 100, 0) is None
    for n in range(1, 50):
        refused = rights.refuse(work(n, ms=40), 100, 0)
        assert refused is not None
        assert "pictures a second" in refused.reason
    assert rights.refuse(work(50, ms=40), 100, 1000) is None


def test_what_is_open_is_let_in_again_for_nothing_as_long_as_its_job_can_be_there() -> None:
    rights = Rights({"a": Quota(rate_rps=0.001, burst=1)})
    assert rights.refuse(work(0), 100, 0) is None
    assert rights.refuse(work(0), 100, OPEN_MS - 1) is None
    assert rights.is_open("r-0", OPEN_MS - 1)
    assert not rights.is_open("r-0", OPEN_MS)
    assert rights.refuse(work(0), 100, OPEN_MS) is None, "3.6 tokens have come, one at most is kept"
    assert rights.refuse(work(1), 100, OPEN_MS) is not None


def test_a_tenant_without_a_name_is_one_too() -> None:
    rights = Rights({})
    for n in range(100):
        assert rights.refuse(work(n, tenant="", ms=60), 100, 0) is None
        rights.ended(f"r-{n}")


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("ab"), st.floats(0.1, 50), st.booleans()), max_size=100))
def test_when_all_has_ended_nothing_is_open(steps: list[tuple[int, str, float, bool]]) -> None:
    rights = Rights({})
    for number, tenant, ms, ends in steps:
        rights.refuse(work(number, tenant, ms), 100, 0)
        if ends:
            rights.ended(f"r-{number}")
    for number in range(10):
        rights.ended(f"r-{number}")
    assert rights.refuse(work(0, "b", 99), 100, 0) is None
