"""What lookups and probes count as: the time that they cost a job, beyond what the job does beside them anyway."""

from planner.reuse.lookups.breaker import Probe
from planner.reuse.lookups.worker import GeneratedJobs, LookupLogic
from planner.reuse.neighbour import Miss
from planner.reuse.steps import FullRun

MISSED = FullRun(Miss.FLOOR)


def median_ms(logic: LookupLogic) -> float:
    return logic.report(GeneratedJobs()).p50_ms


def test_a_lookup_costs_what_it_takes_beyond_its_jobs_own_work_and_never_less_than_nothing() -> None:
    logic = LookupLogic(0.0)
    for took_ms, costs_ms in ((28.0, 8.0), (15.0, 0.0)):
        logic = LookupLogic(0.0)
        logic.finish(MISSED, took_ms, 10.0, own_ms=20.0)
        assert median_ms(logic) == costs_ms


def test_a_probe_costs_what_a_lookup_would_have_beside_the_usual_work_of_jobs() -> None:
    logic = LookupLogic(0.0)
    logic.probed(Probe(28.0, 100.0), 1.0)
    assert median_ms(logic) == 28.0, "no job has told yet what it does beside a lookup"
    for own_ms in (19.0, 20.0, 90.0):
        logic.finish(MISSED, 21.0, 10.0, own_ms)
    for at_ms in range(5):
        logic.probed(Probe(28.0, 100.0), 20.0 + at_ms)
    assert median_ms(logic) == 8.0


def test_a_breaker_closes_by_probes_that_would_cost_a_job_less_than_half_their_budget() -> None:
    def closes(own_ms: float) -> bool:
        logic = LookupLogic(0.0)
        for number in range(5):
            logic.finish(FullRun(Miss.TIMEOUT), 100.0, float(number), own_ms)
        assert logic.is_open
        return any(logic.probed(Probe(60.0, 100.0), 100.0 + number) for number in range(5))

    assert [closes(own_ms) for own_ms in (5.0, 20.0)] == [False, True]
