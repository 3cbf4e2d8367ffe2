import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planner.policies.joint import PARAMETERS
from planner.solvers.joint.reserve import (
    MAX_WEIGHT,
    Bet,
    Reserve,
    Rise,
    jumps_of,
    memory_of,
    rise_in,
    share_of,
    updated,
)

NOW_MS = 1_000_000
AWAY_S, SLO_S = 6.5, 5.0  # until a moved worker serves again; reckoned over 9 s
KEEP_S = PARAMETERS["remember_s"].default
CALM = [20] * 40
LATE = 5.0  # units of quality
BET = Bet(PARAMETERS["stake_rate"].default, PARAMETERS["stake"].default)


def rise(counts: list[int], away_s: float = AWAY_S, slo_s: float = SLO_S) -> Rise | None:
    return rise_in(counts, NOW_MS, away_s, slo_s)


def test_a_jump_costs_what_comes_before_workers_can_be_moved_beyond_reserves_and_queues() -> None:
    found = rise(CALM + [120] * 20)
    assert found is not None
    assert found.calm_rps == pytest.approx(20, abs=1)
    assert found.peak_rps == pytest.approx(120)
    assert found.at_s == NOW_MS // 1000 - 20
    assert found.lost == pytest.approx(9 * 120 - 1.5 * 20 * (9 + 2.5), rel=0.05)


def test_a_jump_that_has_just_begun_is_seen_in_part() -> None:
    part, whole = rise([*CALM, 120, 120, 120]), rise(CALM + [120] * 20)
    assert part is not None
    assert whole is not None
    assert 0 < part.lost < whole.lost


@pytest.mark.parametrize(
    "counts",
    [
        [],
        [200],
        [20] * 60,
        [20 + 2 * second for second in range(60)],  # workers can be moved meanwhile
        [*CALM, 150, *[20] * 19],  # queues take it in
        [100] * 30 + [20] * 30,
        [5, 5, 5, 60] * 15,  # nothing but usual
    ],
    ids=["nothing", "one second", "steady", "a ramp", "a spike", "a fall", "always jumping"],
)
def test_what_workers_and_queues_take_in_is_no_jump(counts: list[int]) -> None:
    assert rise(counts) is None


def test_who_waits_longer_or_moves_sooner_fears_less() -> None:
    counts = CALM + [60] * 20
    slow, patient, quick = rise(counts), rise(counts, slo_s=30.0), rise(counts, away_s=0.0)
    assert slow is not None
    assert patient is None
    assert quick is None


def reserve(memory: dict[str, object], new: Rise | None, now_s: int, keep_s: float = KEEP_S) -> Reserve:
    return updated(memory, BET, keep_s, new, 1000 * now_s, LATE)


def after(*rises: Rise) -> Reserve:
    """What is remembered of jumps, one after the other, where readiness costs nothing."""
    known = Reserve()
    for new in rises:
        known = reserve(memory_of(known), new, new.at_s)
    return known


def burst(at_s: int, lost: float = 500.0, peak_rps: float = 120.0) -> Rise:
    return Rise(at_s, 20.0, peak_rps, lost)


def test_a_jump_that_many_plans_see_is_remembered_once_and_by_the_most_of_it() -> None:
    known, counts, begun_s = Reserve(), [*CALM, *[120] * 30], NOW_MS // 1000
    for second in range(42, 70):
        new = rise_in(counts[:second], NOW_MS + 1000 * second, AWAY_S, SLO_S)
        known = reserve(memory_of(known), new, begun_s + second)
    assert len(known.rises) == 1
    assert known.rises[0].peak_rps == pytest.approx(120)
    assert known.rises[0].lost == pytest.approx(735, rel=0.05)


def test_jumps_are_forgotten_in_time_and_those_of_the_future_at_once() -> None:
    old, late = Rise(1000, 20.0, 120.0, 700.0), Rise(2000, 20.0, 90.0, 500.0)
    memory = memory_of(after(old, late))
    assert reserve(memory, None, 1600, 600).rises == (old,), "the clock was set back"
    assert reserve(memory, None, 2100, 600).rises == (late,)
    assert reserve(memory, late, 2100, 0.0).rises == ()


@pytest.mark.parametrize("told", [{"rises": 3}, {"rises": [[1]]}, {"rises": [["a", "b", "c", "d"]]}, {"other": 1}])
def test_a_memory_of_another_release_is_none(told: dict[str, object]) -> None:
    assert reserve(told, None, NOW_MS // 1000).rises == ()


def test_a_memory_of_a_release_without_stakes_is_a_jump_that_has_just_been_seen() -> None:
    read = reserve({"rises": [list(burst(900))]}, None, 1000)
    assert read.weight(BET) == BET.stake


def test_what_is_remembered_survives_a_restart_whole() -> None:
    known = after(burst(1000), burst(1100))._replace(cost=0.5, at_s=1100)
    paid = reserve(memory_of(known), None, 1105)
    assert paid.weight(BET) == pytest.approx(known.weight(BET) * (1 - BET.rate * 0.5 * 5 / (LATE * 500)), rel=1e-3)


def test_each_jump_that_readiness_would_have_met_makes_it_worth_more_and_its_price_makes_it_worth_less() -> None:
    one, two = after(burst(1000)), after(burst(1000), burst(1100))
    assert share_of(one.weight(BET)) < share_of(two.weight(BET))
    waited = memory_of(two._replace(cost=1.0, at_s=1100))
    shares = [share_of(reserve(waited, None, now_s).weight(BET)) for now_s in (1110, 1200, 1300, 1500)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == 0.0, "it has cost more than a jump does"


def test_a_jump_beyond_the_peak_that_was_known_is_met_by_half_as_far_as_that_reaches() -> None:
    met, beyond = after(burst(1000), burst(1100)), after(burst(1000), burst(1100, 500.0, 220.0))
    assert beyond.weight(BET) < met.weight(BET)
    assert beyond.weight(BET) == pytest.approx(BET.stake * (1 + BET.rate / 2))


def test_a_share_of_readiness_goes_that_far_to_the_peak() -> None:
    known = after(burst(1000))
    demands = [jumps_of(known, share, 20.0, AWAY_S, 120.0, 1_060_000) for share in (1.0, 0.5, 0.0)]
    assert [[rps for rps, _ in jumps] for jumps in demands] == [[120.0], [70.0], []]
    assert jumps_of(known, 1.0, 100.0, AWAY_S, 120.0, 1_060_000) == (), "it is there"
    assert demands[0][0][1] > jumps_of(known, 1.0, 20.0, AWAY_S, 120.0, 1_600_000)[0][1], "it becomes unlikely"


GAINS = st.one_of(st.floats(-1 / BET.rate, 0), st.floats(0, 1))


def regret(bet: Bet, jumps: int) -> float:
    """Return the bound on what all of it costs more than never being ready, in scales."""
    return (jumps + 1) * math.log1p(bet.stake) / bet.rate


def regret_to_ready(bet: Bet, gains: Sequence[float]) -> float:
    """Return the bound on what all of it costs more than always being ready with these gains, in scales."""
    if min(gains, default=0.0) <= -1 / bet.rate:
        return math.inf
    capped = sum(gain > 0 for gain in gains) * math.log1p(1 / MAX_WEIGHT)
    learning = math.fsum(gain - math.log1p(bet.rate * gain) / bet.rate for gain in gains)
    return learning + (math.log1p(1 / bet.stake) + capped) / bet.rate


def played(
    gains: Sequence[float] | Callable[[float], float], bet: Bet = BET, rounds: int = 400
) -> tuple[float, float, float, int]:
    """What the bet gains, what being ready always would, the bound on that, and how many jumps came.

    A positive gain is a jump. The first stakes the bet, as before it nothing is known.
    """
    weight, own, all_gains = bet.stake, 0.0, list[float]()
    for at in range(len(gains) if isinstance(gains, Sequence) else rounds):
        share = share_of(weight)
        gain = gains[at] if isinstance(gains, Sequence) else gains(share)
        own += share * gain
        all_gains.append(gain)
        weight = bet.after(weight, gain)
        if gain > 0:
            weight = bet.raised(weight)
    return own, math.fsum(all_gains), regret_to_ready(bet, all_gains), 1 + sum(gain > 0 for gain in all_gains)


@given(st.lists(GAINS, max_size=200), st.floats(0.05, 50))
@example([-1 / BET.rate] * 20, 1.0)
@example([1.0] * 20, 1.0)
@example(([-0.02] * 40 + [1.0]) * 4, 1.0)
def test_whatever_comes_the_bet_loses_no_more_than_its_bounds(gains: list[float], stake: float) -> None:
    bet = Bet(BET.rate, stake)
    own, ready, to_ready, jumps = played(gains, bet)
    assert own >= -regret(bet, jumps) - 1e-9
    assert own >= ready - to_ready - 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_by_chance_and_against_an_adversary_who_sees_the_share_the_bet_keeps_its_bounds(seed: int) -> None:
    dice = np.random.default_rng(seed)
    by_chance = [float(gain) for gain in np.where(dice.random(2000) < 0.02, 1.0, -dice.random(2000) * 0.05)]
    against = lambda share: 1.0 if share < 0.02 * (1 + seed) else -0.3 / BET.rate  # noqa: E731
    for gains in (by_chance, against):
        own, ready, to_ready, jumps = played(gains)
        assert own >= -regret(BET, jumps)
        assert own >= ready - to_ready


@given(st.lists(GAINS, max_size=60), st.lists(GAINS, max_size=60), st.floats(1, 20))
def test_a_jump_greater_than_any_before_leaves_one_stake_more_to_lose(
    small: list[float], large: list[float], times: float
) -> None:
    weight, own = BET.stake, 0.0
    for scale, gains in ((1 / times, small), (1.0, large)):
        for gain in gains:
            own += scale * share_of(weight) * gain
            weight = BET.after(weight, gain)
        weight = BET.rescaled(weight, times) if scale < 1 else weight
    assert own >= -regret(BET, 1) - 1e-9


@given(st.lists(st.integers(0, 300), max_size=60), st.floats(0, 40), st.floats(0.1, 90))
def test_whatever_came_a_jump_is_above_the_calm_before_it(counts: list[int], away_s: float, slo_s: float) -> None:
    found = rise(counts, away_s, slo_s)
    assert found is None or (found.lost > 0 and found.peak_rps > found.calm_rps)
