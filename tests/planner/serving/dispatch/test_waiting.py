"""Jobs that wait for idle workers: in which order they go, what ends them, and whom they keep waiting."""

import itertools
from collections import defaultdict
from typing import NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from planner.serving.decisions import DEADLINE, ENDED, Rejection
from planner.serving.dispatch.dispatch import ONE, Call, Retry, queued_ms
from planner.serving.dispatch.waiting import Forward, PullQueues, Waiting
from schemas.messages import Plan, Status
from tests.builders import a_plan
from tests.stateful.depth import depth

PULL, PUSH = a_plan(dispatch="pull"), a_plan(dispatch="least-work")
HOLD, CALL = a_plan(holds=True), Call(4, 2, 40.0)
NOW_MS = 1000.0


class Worker(NamedTuple):
    name: str
    remaining_ms: float = 0.0


class Workers:
    """The workers of each variant that take jobs; None for a variant that nobody serves."""

    def __init__(self, remaining_ms: float = 0.0, **idle: int | None) -> None:
        self.idle, self._remaining_ms = idle, remaining_ms

    def choose(self, waiting: Waiting[str]) -> Worker | Retry | None:
        count = self.idle[waiting.job]
        if count is None:
            return None
        if not count:
            return Retry(5.0, 70.0)
        self.idle[waiting.job] = count - 1
        return Worker(f"{waiting.job}-{count}", self._remaining_ms)


def to(name: str) -> Forward[Worker]:
    """The decision to send a job to an idle worker."""
    return Forward(Worker(name))


def a_waiting(name: str, variant: str = "light", **changes: object) -> Waiting[str]:
    values: dict[str, object] = {"tier": "standard", "deadline_ms": None, "least_ms": 20.0}
    return Waiting(variant, name, **(values | changes))  # type: ignore[arg-type]


def gone(
    queues: PullQueues[str], variant: str, workers: Workers, plan: Plan = PULL, call: Call = ONE
) -> dict[str, object]:
    found = queues.forward(variant, plan, NOW_MS, workers.choose, call)
    return {waiting.request_id: decision for waiting, decision in found}


@pytest.fixture
def queues() -> PullQueues[str]:
    return PullQueues({"cancelled"})


def test_as_many_jobs_go_as_workers_are_idle_and_the_rest_wait_in_order(queues: PullQueues[str]) -> None:
    for name in ("r-1", "r-2", "r-3"):
        queues.add("light", a_waiting(name))
    assert list(gone(queues, "light", Workers(light=2))) == ["r-1", "r-2"]
    assert queues.count("light") == 1
    assert queues.idle_in_ms() == 70.0
    assert list(gone(queues, "light", Workers(light=2))) == ["r-3"]
    assert queues.variants() == []
    assert queues.idle_in_ms() == float("inf")


def test_what_waits_for_a_busy_variant_keeps_no_job_of_another_variant_waiting(queues: PullQueues[str]) -> None:
    workers = Workers(light=0, heavy=1)
    queues.add("light", a_waiting("r-1"))
    queues.add("heavy", a_waiting("r-2", "heavy"))
    assert gone(queues, "light", workers) == {}
    assert gone(queues, "heavy", workers) == {"r-2": to("heavy-1")}


def test_interactive_requests_go_first_and_batch_requests_when_no_other_waits(queues: PullQueues[str]) -> None:
    for name, tier in (("b-1", "batch"), ("r-1", "standard"), ("b-2", "batch"), ("i-1", "interactive")):
        queues.add("light", a_waiting(name, tier=tier))
    assert list(gone(queues, "light", Workers(light=3))) == ["i-1", "r-1", "b-1"]


def test_a_standard_request_goes_after_four_interactive_ones_however_many_come(queues: PullQueues[str]) -> None:
    """A standard job with n of its lane before it goes after at most 4 (n + 1) interactive ones."""
    for number in range(3):
        queues.add("light", a_waiting(f"r-{number}"))
    order = list[str]()
    for number in range(20):  # two come for each that goes: the lane is never empty
        queues.add("light", a_waiting(f"i-{number}", tier="interactive"))
        queues.add("light", a_waiting(f"j-{number}", tier="interactive"))
        order += gone(queues, "light", Workers(light=1))
    assert [order.index(f"r-{number}") for number in range(3)] == [4, 9, 14]


def test_a_worker_gets_a_call_of_jobs_at_once_and_fewer_beside_an_interactive_one(queues: PullQueues[str]) -> None:
    for number in range(9):
        queues.add("light", a_waiting(f"r-{number}"))
    assert list(gone(queues, "light", Workers(light=1), HOLD, CALL).values()) == [to("light-1")] * 4
    queues.add("light", a_waiting("i-1", tier="interactive"))
    decided = gone(queues, "light", Workers(light=1), HOLD, CALL)
    assert list(decided) == ["i-1", "r-4"]
    assert queues.count("light") == 4


def test_a_standard_request_goes_after_four_interactive_ones_where_a_call_goes_at_once(
    queues: PullQueues[str],
) -> None:
    order = list[str]()
    for number in range(20):
        queues.add("light", a_waiting(f"r-{number}"))
        for name in "ijk":
            queues.add("light", a_waiting(f"{name}-{number}", tier="interactive"))
        order += gone(queues, "light", Workers(light=1), HOLD, CALL)
    assert len(order) == 40
    assert [order.index(f"r-{number}") for number in range(3)] == [4, 9, 14]


def test_a_late_job_goes_to_its_worker_where_the_plan_holds_as_that_may_send_it_to_another_level(
    queues: PullQueues[str],
) -> None:
    queues.add("light", a_waiting("late", deadline_ms=NOW_MS))
    assert gone(queues, "light", Workers(light=1, remaining_ms=40.0), HOLD, CALL) == {
        "late": Forward(Worker("light-1", 40.0))
    }


def test_interactive_requests_that_go_while_no_standard_one_waits_have_overtaken_none(queues: PullQueues[str]) -> None:
    for number in range(9):
        queues.add("light", a_waiting(f"i-{number}", tier="interactive"))
    gone(queues, "light", Workers(light=5))
    queues.add("light", a_waiting("r-1"))
    assert list(gone(queues, "light", Workers(light=9))) == ["i-5", "i-6", "i-7", "i-8", "r-1"]


def test_an_interactive_request_that_takes_no_worker_has_overtaken_none(queues: PullQueues[str]) -> None:
    queues.add("light", a_waiting("r-1"))
    for number in range(9):
        late = {} if number > 3 else {"deadline_ms": NOW_MS}
        queues.add("light", a_waiting(f"i-{number}", tier="interactive", **late))
    assert list(gone(queues, "light", Workers(light=9)))[-2:] == ["r-1", "i-8"]


def test_a_request_that_has_a_result_takes_no_worker(queues: PullQueues[str]) -> None:
    queues.add("light", a_waiting("cancelled"))
    queues.add("light", a_waiting("r-1"))
    assert gone(queues, "light", Workers(light=1)) == {"cancelled": ENDED, "r-1": to("light-1")}


def test_a_job_that_no_worker_can_end_by_its_deadline_ends_before_one_is_idle(queues: PullQueues[str]) -> None:
    queues.add("light", a_waiting("late", deadline_ms=NOW_MS + 19))
    queues.add("light", a_waiting("in time", deadline_ms=NOW_MS + 20))
    decided = gone(queues, "light", Workers(light=0))
    (decision,) = decided.values()
    assert isinstance(decision, Rejection)
    assert (decision.status, decision.code) == (Status.EXPIRED, DEADLINE)
    assert "after deadline_ms 1019" in decision.reason
    assert queues.count("light") == 1


def test_a_job_that_its_worker_cannot_end_in_time_after_the_work_before_it_ends_and_the_next_one_goes(
    queues: PullQueues[str],
) -> None:
    queues.add("light", a_waiting("late", deadline_ms=NOW_MS + 119))
    queues.add("light", a_waiting("in time", deadline_ms=NOW_MS + 120))
    decided = gone(queues, "light", Workers(light=2, remaining_ms=100.0))
    decision = decided["late"]
    assert isinstance(decision, Rejection)
    assert "after deadline_ms 1119.0: its next worker was busy for 100 ms more" in decision.reason
    assert isinstance(decided["in time"], Forward)


def test_what_waits_leaves_at_once_under_a_plan_that_pushes(queues: PullQueues[str]) -> None:
    for name in ("r-1", "r-2"):
        queues.add("light", a_waiting(name))
    decided = gone(queues, "light", Workers(light=9), PUSH)
    assert list(decided.values()) == [to("light-9"), to("light-8")]


def test_a_variant_without_workers_keeps_its_jobs_while_the_plan_gives_it_one(queues: PullQueues[str]) -> None:
    queues.add("light", a_waiting("r-1"))
    assert gone(queues, "light", Workers(light=None)) == {}
    without = a_plan(dispatch="pull", allocation={"w-2": "heavy"})
    assert gone(queues, "light", Workers(light=None), without) == {"r-1": Forward(None)}


def test_what_another_owner_serves_is_forgotten(queues: PullQueues[str]) -> None:
    queues.add("light", a_waiting("r-1"))
    queues.remove("light", lambda _job: True)
    assert gone(queues, "light", Workers(light=1)) == {}


def test_a_queue_lengthens_the_wait_by_its_work_shared_among_the_workers() -> None:
    assert queued_ms(jobs=6, image_ms=20.0, workers=4) == 30.0
    assert queued_ms(jobs=6, image_ms=20.0, workers=0) == 0.0


def test_an_interactive_request_overtakes_a_queue_as_long_as_standard_ones_make_it_and_waits_for_the_rest() -> None:
    assert queued_ms(6, 20.0, 4, "interactive") == 0.0
    assert queued_ms(6, 20.0, 4, "batch") == 30.0
    assert queued_ms(1000, 200.0, 4, "interactive") == 50_000 - 48_000


class WaitingMachine(RuleBasedStateMachine):
    """Jobs of two variants and lanes: each goes once, in the order of its lane, and only to an idle worker."""

    def __init__(self) -> None:
        super().__init__()
        self.queues, self.numbers = PullQueues[str](), itertools.count()
        self.expected: defaultdict[tuple[str, bool], list[str]] = defaultdict(list)  # variant, is batch -> in order

    @rule(variant=st.sampled_from(["light", "heavy"]), is_batch=st.booleans())
    def a_job_comes(self, variant: str, is_batch: bool) -> None:
        name = f"r-{next(self.numbers)}"
        self.queues.add(variant, a_waiting(name, variant, tier="batch" if is_batch else "interactive"))
        self.expected[variant, is_batch].append(name)

    @rule(variant=st.sampled_from(["light", "heavy"]), idle=st.integers(0, 3))
    def workers_are_idle(self, variant: str, idle: int) -> None:
        urgent, batch = self.expected[variant, False], self.expected[variant, True]
        assert list(gone(self.queues, variant, Workers(**{variant: idle}))) == (urgent + batch)[:idle]
        batch[:] = batch[max(0, idle - len(urgent)) :]
        urgent[:] = urgent[idle:]

    @invariant()
    def nothing_is_lost(self) -> None:
        for variant in ("light", "heavy"):
            assert self.queues.count(variant) == sum(
                len(self.expected[variant, is_batch]) for is_batch in (True, False)
            )


TestWaiting = WaitingMachine.TestCase
TestWaiting.settings = depth(20)
