from dataclasses import asdict

import pytest

from planner.catalog import Catalog
from replay.live.folder import RunFolder
from replay.live.seen import Seen
from replay.simulation.figures import Figures, figures_of
from replay.simulation.hops import NO_HOPS, Hops, whole
from replay.simulation.run import Simulation
from replay.simulation.session import report_of
from replay.simulation.setup import Setup, Timing
from replay.simulation.validation import held, hops_of, look_ms, simulated
from replay.traces.trace import Wish
from tests.builders import a_catalog
from tests.replay.simulation.runs import arrivals, asking, timed

TRACE = arrivals(12, 600)
SLOW = Hops(arrive=whole([(0.0, 20.0), (0.0, 30.0), (0.0, 60.0)]), rest=whole([(0.0, 10.0)]))


def a_run(catalog: Catalog, hops: Hops, seed: int = 5) -> tuple[RunFolder, Figures]:
    """Simulated itself, in place of a live one: with draws that the second simulation does not know."""
    setup = Setup(
        catalog=catalog, policy="diffserve-static", workers=3, slo_ms=2000.0, seed=seed, learns=True, is_cold=True,
        sheds=True, timing=Timing(hops=hops),
    )  # fmt: skip
    ran = Simulation(setup, TRACE).run()
    draws = Simulation(setup, TRACE)._source(0, len(TRACE))
    judged = draws.confidence("light", "look")
    seen = [
        Seen(n, f"{seed}-{n}", "COMPLETED", 1.0, "light", draws.hardness[n], None, [["light", "look", judged[n]]])
        for n in range(len(TRACE))
    ]
    report = report_of(timed(TRACE), {"diffserve-static": [ran]}) | {"live": {"hops": asdict(hops)}}
    return RunFolder(report, timed(TRACE), seen), figures_of(ran)


def again(run: RunFolder, hops: Hops) -> list[Figures]:
    return simulated(run, a_catalog(), hops)


def test_a_run_that_is_simulated_again_as_it_was_agrees() -> None:
    run, live = a_run(a_catalog(), SLOW)
    rows = held(live, again(run, hops_of(run.report)))
    assert {row.name for row in rows} == {
        "p50 latency",
        "p95 latency",
        "violations",
        "share of heavy",
        "share of light",
    }
    assert all(row.is_within for row in rows), rows
    assert [row.apart for row in rows if row.name.startswith("share")] == pytest.approx([0, 0], abs=0.003)


def test_a_simulation_that_leaves_out_what_it_takes_to_get_there_does_not() -> None:
    run, live = a_run(a_catalog(), SLOW)
    apart = [row.name for row in held(live, again(run, NO_HOPS)) if not row.is_within]
    assert "p50 latency" in apart


def test_what_requests_wish_and_tenants_may_is_simulated_again_too() -> None:
    run, _ = a_run(a_catalog(), NO_HOPS)
    wishes = [Wish(tier="interactive", tenant="acme"), Wish(tier="batch", tenant="other")]
    setup = run.report["setup"] | {"quotas": {"acme": {"rate_rps": 1.0, "burst": 1.0, "weight": 1.0}}}
    told = again(RunFolder(dict(run.report) | {"setup": setup}, asking(TRACE, wishes), run.seen), NO_HOPS)[0]
    assert list(told["by_tier"]) == ["interactive", "batch"]
    assert told["by_tenant"]["acme"]["over_quota"] > 200
    assert told["by_tenant"]["other"]["over_quota"] == 0


def test_plans_tell_how_often_their_planner_looked() -> None:
    assert look_ms([-5225.0, 70_738.0, 75_841.0, 81_019.0], 5000) == pytest.approx(204.1, abs=0.1)
    assert look_ms([0.0, 5050.0, 6700.0], 5000) == pytest.approx(202)  # the last was asked for by a backlog
    assert look_ms([], 5000) is look_ms([0.0], 5000) is None


def test_limits_are_scaled_for_models_that_really_paint() -> None:
    run, live = a_run(a_catalog(), SLOW)
    rows = held(live, again(run, NO_HOPS), scale=2)
    assert [row.limit for row in rows[:3]] == pytest.approx([0.2, 0.2, 0.06])


def test_a_run_without_answers_has_no_latency_to_compare() -> None:
    run, live = a_run(a_catalog(), SLOW)
    nothing = live | {"latency_s": {"p50": None, "p95": None}}
    assert not held(nothing, again(run, SLOW))[0].is_within
