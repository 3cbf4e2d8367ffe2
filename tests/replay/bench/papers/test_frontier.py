"""Who paints best at so many violations."""

from replay.bench.papers.answers import Mean
from replay.bench.papers.cells import Cell
from replay.bench.papers.frontier import LEVELS, Setting, best_at, cells, compared, settings
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


def test_a_difference_within_chance_is_no_lead_but_meets_the_slack() -> None:
    swept = {OURS: mean(0.0, -16.9, -17.3, -17.0), OTHER: mean(0.0, -17.0, -17.2, -17.1)}
    row = compared(0.01, swept, 0.05, [JOINT], [HADIS])
    assert row.is_met
    assert not row.is_better


def test_a_lead_in_every_seed_is_one_beyond_chance() -> None:
    swept = {OURS: mean(0.0, -16.5, -16.61, -16.7), OTHER: mean(0.0, -17.0, -17.1, -17.21)}
    row = compared(0.01, swept, 0.05, [JOINT], [HADIS])
    assert row.ahead is not None
    assert round(row.ahead.mean, 2) == 0.5
    assert row.is_better


def test_more_than_the_slack_behind_is_not_met_and_neither_is_too_many_violations() -> None:
    behind = {OURS: mean(0.0, -17.1, -17.1), OTHER: mean(0.0, -17.0, -17.0)}
    assert not compared(0.01, behind, 0.05, [JOINT], [HADIS]).is_met
    late = {OURS: mean(0.2, -16.0, -16.0), OTHER: mean(0.0, -17.0, -17.0)}
    row = compared(0.01, late, 0.05, [JOINT], [HADIS])
    assert (row.ours, row.is_met, row.is_better) == (None, False, False)


def test_who_alone_is_within_the_violations_is_ahead() -> None:
    alone = {OURS: mean(0.0, -19.0, -19.0), OTHER: mean(0.2, -17.0, -17.0)}
    assert compared(0.01, alone, 0.05, [JOINT], [HADIS]).is_better


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
