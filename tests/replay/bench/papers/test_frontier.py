"""Who paints best at so many violations."""

from replay.bench.comparison import AHEAD, BEHIND, EVEN, UNDECIDED
from replay.bench.papers.answers import Mean
from replay.bench.papers.cells import Cell
from replay.bench.papers.frontier import LEVELS, Setting, best_at, cells, compared, decided, settings
from replay.bench.papers.names import DIFFSERVE, HADIS, JOINT, LIGHT, OVERPROVISIONED, RANDOM
from tests.replay.bench.papers.found import found

OURS, SAFE, OTHER = Setting(JOINT, "x 1", ()), Setting(JOINT, "x 2", ()), Setting(HADIS, "x 1", ())


def mean(violations: float, *qualities: float) -> Mean:
    return Mean([found(violations, quality) for quality in qualities])


def test_the_best_quality_counts_among_settings_with_at_most_so_many_violations() -> None:
    swept = {OURS: mean(0.03, -16.0, -16.0), SAFE: mean(0.004, -17.0, -17.0)}
    assert best_at(0.05, swept, [JOINT]) == OURS
    assert best_at(0.02, swept, [JOINT]) == SAFE
    assert best_at(0.001, swept, [JOINT]) is None
    assert best_at(0.05, swept, [HADIS]) is None


def verdict(swept: dict[Setting, Mean], figure: str = "quality") -> str:
    return decided([compared("a trace", 0.01, swept, [JOINT], [HADIS], figure)], 0.05)[0].verdict


def test_a_difference_within_chance_is_undecided() -> None:
    swept = {OURS: mean(0.0, -16.9, -17.3, -17.0), OTHER: mean(0.0, -17.0, -17.2, -17.1)}
    assert verdict(swept) == UNDECIDED


def test_a_lead_in_every_seed_is_one_beyond_chance_and_so_is_a_lag() -> None:
    swept = {OURS: mean(0.0, -16.5, -16.61, -16.7), OTHER: mean(0.0, -17.0, -17.1, -17.21)}
    assert verdict(swept) == AHEAD
    assert verdict({OURS: swept[OTHER], OTHER: swept[OURS]}) == BEHIND


def test_a_sure_difference_below_the_margin_is_even() -> None:
    assert verdict({OURS: mean(0.0, -17.01, -17.01), OTHER: mean(0.0, -17.0, -17.0)}) == EVEN


def test_who_is_alone_within_the_violations_is_ahead_and_who_is_not_within_them_behind() -> None:
    late, within = mean(0.2, -16.0, -16.0), mean(0.0, -19.0, -19.0)
    assert verdict({OURS: late, OTHER: within}) == BEHIND
    assert verdict({OURS: within, OTHER: late}) == AHEAD
    assert verdict({OURS: late, OTHER: late}) == UNDECIDED


def test_each_judge_has_its_own_best_settings() -> None:
    runs = Mean([found(0.0, -16.0, quality_run=-18.0)] * 2)
    swept = {OURS: runs, SAFE: Mean([found(0.0, -17.0, quality_run=-15.0)] * 2)}
    assert best_at(0.01, swept, [JOINT]) == OURS
    assert best_at(0.01, swept, [JOINT], "quality_run") == SAFE


def test_settings_that_meet_at_several_levels_are_one_comparison() -> None:
    close = {OURS: mean(0.0, *(-16.9 + 0.03 * at for at in range(6))), OTHER: mean(0.0, *[-17.0] * 6)}
    rows = [compared("a trace", level, close, [JOINT], [HADIS]) for level in LEVELS]
    alone = decided(rows[:1], 0.05)[0].verdict
    assert [row.verdict for row in decided(rows, 0.05)] == [alone] * len(LEVELS)


def test_overprovisioning_is_swept_for_every_policy_that_plans_for_some() -> None:
    swept = settings(32.0, is_quick=False)
    for policy in OVERPROVISIONED:
        assert len([s for s in swept if s.policy == policy and dict(s.parameters)["overprovision"]]) >= 2
    assert len([s for s in swept if s.policy == RANDOM]) > 1
    assert [s for s in swept if s.policy == LIGHT] == [Setting(LIGHT, "", ())]
    assert sorted(LEVELS) == list(LEVELS)


def test_a_setting_becomes_a_cell_of_its_policy() -> None:
    base = Cell(catalog="diffserve-sdturbo", trace="azure-1to8", policy=JOINT, slo_s=5)
    setting = Setting(DIFFSERVE, "x 1.2", (("overprovision", 1.2),))
    assert cells(base, [setting]) == {
        setting: Cell(
            catalog="diffserve-sdturbo",
            trace="azure-1to8",
            policy=DIFFSERVE,
            slo_s=5,
            parameters=(("overprovision", 1.2),),
        )
    }
