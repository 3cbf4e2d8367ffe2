"""The breaker: nothing waits for a store that fails, and it comes back without flapping."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from planner.reuse.lookups.breaker import Breaker, BreakerRule, Call, Probe, unanswered_share
from tests.stateful.depth import depth

ANSWERED = Call(costs_ms=5)
CUT = Call(costs_ms=100, has_failed=True)
GOOD, SLOW, DEAD = Probe(10, 100), Probe(60, 100), Probe(100, 100, has_failed=True)


def after(breaker: Breaker, *calls: Call, now_ms: float = 0.0) -> Breaker:
    for call in calls:
        breaker = breaker.after_call(call, now_ms)
    return breaker


def probed(breaker: Breaker, *probes: Probe, begin_ms: float = 0.0) -> Breaker:
    for n, probe in enumerate(probes, start=1):
        breaker = breaker.after_probe(probe, begin_ms + 5000.0 * n)
    return breaker


def test_five_failures_in_twenty_calls_open_it_and_four_do_not() -> None:
    assert not after(Breaker(), *[CUT] * 4, *[ANSWERED] * 16).is_open
    assert after(Breaker(), *[CUT, ANSWERED, ANSWERED] * 4, CUT).is_open


def test_old_failures_are_forgotten() -> None:
    assert not after(Breaker(), *([CUT] + [ANSWERED] * 5) * 20).is_open


def test_lookups_that_are_answered_and_find_nothing_leave_it_closed() -> None:
    """Whether they pay is for the plan to say: who stopped asking here would never see that prompts repeat again."""
    assert after(Breaker(), *[ANSWERED] * 1000) == Breaker(recent=(False,) * 20)


def test_it_closes_after_five_good_probes_and_begins_with_a_clean_record() -> None:
    opened = after(Breaker(), *[CUT] * 5)
    assert probed(opened, *[GOOD] * 4).is_open
    assert probed(opened, *[GOOD] * 5) == Breaker()


def test_a_slow_or_failed_probe_begins_the_count_anew() -> None:
    opened = after(Breaker(), *[CUT] * 5)
    for bad in (SLOW, DEAD):
        assert probed(opened, *[GOOD] * 4, bad, *[GOOD] * 4).is_open


def test_calls_that_were_begun_before_it_opened_change_nothing() -> None:
    opened = after(Breaker(), *[CUT] * 5)
    assert after(opened, CUT, ANSWERED) == opened


def test_probes_are_due_while_it_is_open_every_five_seconds() -> None:
    opened = after(Breaker(), *[CUT] * 5, now_ms=1000)
    assert not Breaker().wants_probe(10**9)
    assert not opened.wants_probe(5999)
    assert opened.wants_probe(6000)
    assert not opened.after_probe(DEAD, 6000).wants_probe(10_999)
    assert opened.wants_probe(0), "a clock that jumps back must not stop the probes"


def test_failed_probes_open_a_closed_one_before_a_job_has_to_wait() -> None:
    """While nothing is looked up nobody else would notice; and the window of calls begins anew when it closes again."""
    assert not probed(Breaker(), *[DEAD] * 4, *[GOOD] * 20).is_open
    dead = probed(Breaker(), *[DEAD] * 5)
    assert dead.is_open
    assert probed(Breaker(), *[GOOD] * 100) == replace(Breaker(), recent=(False,) * 20), "they cost nobody anything"


def test_unanswered_lookups_are_a_share_of_all() -> None:
    assert unanswered_share([CUT, *[ANSWERED] * 3]) == 0.25
    assert unanswered_share([]) == 0.0


class BreakerMachine(RuleBasedStateMachine):
    """A breaker against a plain log of what happened."""

    def __init__(self) -> None:
        super().__init__()
        self.rules = BreakerRule(calls=6, max_failures=3, good_probes=3)
        self.breaker = Breaker(self.rules)
        self.now_ms = 0.0
        self.answers: list[bool] = []  # since it closed: whether each of these and of the probes failed
        self.probes: list[bool] = []  # since it opened

    @rule(failed=st.booleans())
    def a_lookup_ends(self, failed: bool) -> None:
        was_open = self.breaker.is_open
        self.breaker = self.breaker.after_call(Call(5.0, failed), self.now_ms)
        if not was_open:
            self.answers.append(failed)
            assert self.breaker.is_open == (sum(self.answers[-6:]) >= 3)
            self.probes = []

    @rule(took=st.sampled_from([1.0, 49.0, 50.0, 99.0]), failed=st.booleans(), ms=st.sampled_from([100.0, 5000.0]))
    def a_probe_ends(self, took: float, failed: bool, ms: float) -> None:
        self.now_ms += ms
        was_open = self.breaker.is_open
        self.breaker = self.breaker.after_probe(Probe(took, 100.0, failed), self.now_ms)
        if was_open:
            self.probes.append(took < 50 and not failed)
            if not self.breaker.is_open:
                assert self.probes[-3:] == [True] * 3
                self.answers = []
        else:
            self.answers.append(failed)
            assert self.breaker.is_open == (sum(self.answers[-6:]) >= 3)
            self.probes = []

    @invariant()
    def a_closed_one_holds_less_than_what_would_open_it(self) -> None:
        if not self.breaker.is_open:
            assert sum(self.breaker.recent) < 3

    @invariant()
    def what_is_kept_is_bounded(self) -> None:
        assert len(self.breaker.recent) <= 6


TestBreaker = BreakerMachine.TestCase
TestBreaker.settings = depth(60)
