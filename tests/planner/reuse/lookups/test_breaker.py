"""The breaker: nothing waits for a store that fails or does not pay, and it comes back without flapping."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from planner.reuse.lookups.breaker import Breaker, BreakerRule, Call, Opened, Probe, unanswered_share
from tests.stateful.depth import depth

HIT = Call(costs_ms=5, saved_ms=100)
MISS = Call(costs_ms=5)
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
    assert not after(Breaker(), *[CUT] * 4, *[HIT] * 16).is_open
    assert after(Breaker(), *[CUT, HIT, HIT] * 4, CUT).opened is Opened.FAILING


def test_old_failures_are_forgotten() -> None:
    assert not after(Breaker(), *([CUT] + [HIT] * 5) * 20).is_open


def test_three_windows_that_do_not_pay_open_it() -> None:
    assert not after(Breaker(), *[MISS] * 59).is_open
    assert after(Breaker(), *[MISS] * 60).opened is Opened.UNPROFITABLE


def test_a_window_that_pays_begins_the_count_anew() -> None:
    assert not after(Breaker(), *[MISS] * 40, *[MISS] * 18, HIT, HIT, *[MISS] * 40).is_open


def test_hits_that_save_less_than_lookups_cost_do_not_pay() -> None:
    less, even = ([Call(costs_ms=5, saved_ms=saved_ms), MISS] * 30 for saved_ms in (9, 10))
    assert after(Breaker(), *less).opened is Opened.UNPROFITABLE
    assert after(Breaker(), *even).opened is Opened.NOT


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
    assert after(opened, CUT, HIT) == opened


def test_an_unprofitable_one_stays_open_for_a_while_that_doubles() -> None:
    breaker = after(Breaker(), *[MISS] * 60)
    assert probed(breaker, *[GOOD] * 11).is_open
    breaker = probed(breaker, *[GOOD] * 12)
    assert not breaker.is_open
    breaker = after(breaker, *[MISS] * 60, now_ms=60_000)
    assert breaker.rest_ms == 120_000
    assert not after(after(Breaker(rests=3), *[HIT] * 20), *[MISS] * 20).rests


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
    assert dead.opened is Opened.FAILING
    assert probed(Breaker(), *[GOOD] * 100) == replace(Breaker(), recent=(False,) * 20), "they cost nobody anything"


def test_unanswered_lookups_are_a_share_of_all() -> None:
    assert unanswered_share([CUT, HIT, MISS, MISS]) == 0.25
    assert unanswered_share([]) == 0.0


class BreakerMachine(RuleBasedStateMachine):
    """A breaker against a plain log of what happened."""

    def __init__(self) -> None:
        super().__init__()
        self.rules = BreakerRule(calls=6, max_failures=3, max_losses=2, good_probes=3, rest_ms=8000)
        self.breaker = Breaker(self.rules)
        self.now_ms = 0.0
        self.calls: list[Call] = []  # since it closed
        self.answers: list[bool] = []  # since it closed: whether each of these and of the probes failed
        self.probes: list[bool] = []  # since it opened

    @rule(failed=st.booleans(), saved=st.sampled_from([0.0, 4.0, 50.0]))
    def a_lookup_ends(self, failed: bool, saved: float) -> None:
        was_open = self.breaker.is_open
        call = Call(5.0, 0.0 if failed else saved, failed)
        self.breaker = self.breaker.after_call(call, self.now_ms)
        if not was_open:
            self.calls.append(call)
            self.answers.append(failed)
            if self.breaker.is_open:
                failures = sum(self.answers[-6:])
                windows = [self.calls[n : n + 6] for n in range(0, len(self.calls) - 5, 6)]
                losses = [sum(each.saved_ms - each.costs_ms for each in window) < 0 for window in windows]
                assert failures >= 3 or losses[-2:] == [True, True]
                self.probes = []

    @rule(took=st.sampled_from([1.0, 49.0, 50.0, 99.0]), failed=st.booleans(), ms=st.sampled_from([100.0, 5000.0]))
    def a_probe_ends(self, took: float, failed: bool, ms: float) -> None:
        self.now_ms += ms
        was_open, opened_ms = self.breaker.is_open, self.breaker.opened_ms
        why = self.breaker.opened
        self.breaker = self.breaker.after_probe(Probe(took, 100.0, failed), self.now_ms)
        if was_open:
            self.probes.append(took < 50 and not failed)
            if not self.breaker.is_open:
                assert self.probes[-3:] == [True] * 3
                assert why is Opened.FAILING or self.now_ms - opened_ms >= 8000
                self.calls, self.answers = [], []
        else:
            self.answers.append(failed)
            assert self.breaker.is_open == (sum(self.answers[-6:]) >= 3), "the balance leaves probes out"
            self.probes = []

    @invariant()
    def a_closed_one_holds_less_than_what_would_open_it(self) -> None:
        if not self.breaker.is_open:
            assert sum(self.breaker.recent) < 3
            assert self.breaker.losses < 2
            assert self.breaker.counted < 6

    @invariant()
    def what_is_kept_is_bounded(self) -> None:
        assert len(self.breaker.recent) <= 6


TestBreaker = BreakerMachine.TestCase
TestBreaker.settings = depth(60)


@given(st.lists(st.booleans(), max_size=120))
def test_a_store_that_always_answers_profitably_is_never_shut_out(hits: list[bool]) -> None:
    calls = [Call(1.0, 100.0 if hit else 2.0) for hit in hits]
    assert not after(Breaker(), *calls).is_open
