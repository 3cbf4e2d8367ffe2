import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.policies.joint import PARAMETERS
from planner.solvers.joint.rises import Rise, memory_of, remembered, rise_in

NOW_MS = 1_000_000
AWAY_S, SLO_S = 6.5, 5.0  # until a moved worker serves again; reckoned over 9 s
KEEP_S = PARAMETERS["remember_s"].default
CALM = [20] * 40


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


def test_a_jump_that_many_plans_see_is_remembered_once_and_by_the_most_of_it() -> None:
    known: tuple[Rise, ...] = ()
    counts = [*CALM, *[120] * 30]
    for second in range(42, 70):
        new = rise_in(counts[:second], NOW_MS + 1000 * second, AWAY_S, SLO_S)
        known = remembered(memory_of(known), KEEP_S, new, NOW_MS + 1000 * second)
    assert len(known) == 1
    assert known[0].peak_rps == pytest.approx(120)
    assert known[0].lost == pytest.approx(735, rel=0.05)


def test_jumps_are_forgotten_in_time_and_those_of_the_future_at_once() -> None:
    old, late = Rise(1000, 20.0, 120.0, 700.0), Rise(2000, 20.0, 90.0, 500.0)
    memory = memory_of((old, late))
    assert remembered(memory, KEEP_S, None, 1_600_000) == (old,), "the clock was set back"
    assert remembered(memory, KEEP_S, None, 2_100_000) == (late,)
    assert remembered(memory, 0.0, late, 2_100_000) == ()


@pytest.mark.parametrize("told", [{"rises": 3}, {"rises": [[1]]}, {"rises": [["a", "b", "c", "d"]]}, {"other": 1}])
def test_a_memory_of_another_release_is_none(told: dict[str, object]) -> None:
    assert remembered(told, KEEP_S, None, NOW_MS) == ()


@given(st.lists(st.integers(0, 300), max_size=60), st.floats(0, 40), st.floats(0.1, 90))
def test_whatever_came_a_jump_is_above_the_calm_before_it(counts: list[int], away_s: float, slo_s: float) -> None:
    found = rise(counts, away_s, slo_s)
    assert found is None or (found.lost > 0 and found.peak_rps > found.calm_rps)
