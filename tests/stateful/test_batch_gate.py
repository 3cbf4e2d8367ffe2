"""The batch gate: nothing passes but into an idle worker's hands, however late loads are reported."""

import itertools

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from planner.serving.admission.batch_gate import UNREPORTED_MS, Occupation, batch_may_pass
from tests.stateful.depth import depth


class GateMachine(RuleBasedStateMachine):
    """The batch gate before a few workers, whose heartbeats come late."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0.0
        self.work = [0.0, 0.0, 0.0]  # of each worker, really
        self.told = [0.0, 0.0, 0.0]  # at the last beat
        self.passed: dict[int, float] = {}
        self.numbers = itertools.count()

    @rule()
    def a_batch_request_asks_to_pass(self) -> None:
        ages = [self.now_ms - at for at in self.passed.values()]
        workers = [Occupation(ms, 20.0) for ms in self.told]
        if not batch_may_pass(workers, ages):
            return
        recent = sum(age < UNREPORTED_MS for age in ages)
        assert recent < sum(ms == 0 for ms in self.told), "nobody is idle for it"
        self.passed[next(self.numbers)] = self.now_ms
        self.work[self.work.index(min(self.work))] += 20.0

    @rule(worker=st.integers(0, 2), ms=st.sampled_from([20.0, 300.0]))
    def another_tier_sends_a_job(self, worker: int, ms: float) -> None:
        self.work[worker] += ms

    @rule(ms=st.sampled_from([5.0, 50.0, 700.0]))
    def time_passes(self, ms: float) -> None:
        self.now_ms += ms
        self.work = [max(0.0, each - ms) for each in self.work]

    @rule()
    def workers_beat(self) -> None:
        self.told = list(self.work)

    @precondition(lambda self: self.passed)
    @rule()
    def one_ends(self) -> None:
        del self.passed[min(self.passed)]

    @rule()
    def the_gate_is_killed(self) -> None:
        """What passed is not known any more, but its work is."""
        self.passed.clear()

    @invariant()
    def no_more_are_on_their_way_than_there_are_workers(self) -> None:
        assert len(self.passed) <= len(self.told)


TestGate = GateMachine.TestCase
TestGate.settings = depth(40)
