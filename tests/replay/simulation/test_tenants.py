"""Tenants have the rights of the live router: a rate, and their share of a crowded backlog; and are counted apart."""

import importlib.resources
import json
import pathlib
from typing import Any

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

from planner.serving.admission.quotas import Quota
from replay.simulation.draws.hop_latencies import RANKS, HopLatencies
from replay.simulation.results.figures import figures_of
from replay.simulation.run import Ran
from replay.simulation.session import report_of, simulate
from replay.simulation.setup import Timing
from replay.traces.trace import Overrides, Trace
from schemas.messages import GenerateOptions, Status
from streams.cli import main
from tests.replay.simulation.runs import a_setup, arrivals, asking

ACME, OTHER = Overrides(tenant="acme"), Overrides(tenant="other")


def run_of(trace: Trace, **changes: Any) -> Ran:
    return simulate(a_setup(policy="clipper-light", **changes), trace, 1, lambda _requests: None)[0]


def test_a_tenant_without_others_and_without_a_quota_is_not_counted_apart() -> None:
    trace = asking(arrivals(10, 100), [ACME])
    reported = figures_of(run_of(trace, quotas={"other": Quota(rate_rps=1)}))
    assert "by_tenant" not in reported
    assert reported == figures_of(run_of(asking(arrivals(10, 100), [Overrides()])))


def test_who_sends_faster_than_his_rate_is_refused_and_nobody_else() -> None:
    trace = asking(np.arange(600) * 50.0, [ACME, OTHER])  # 10 a second each, for 30 s
    reported = figures_of(run_of(trace, quotas={"acme": Quota(rate_rps=2, burst=5)}))["by_tenant"]
    assert list(reported) == ["acme", "other"]
    assert reported["acme"]["completed"] == 5 + 2 * 29.9 // 1
    assert reported["acme"]["over_quota"] == reported["acme"]["shed"] == 300 - reported["acme"]["completed"]
    assert (reported["other"]["completed"], reported["other"]["over_quota"]) == (300, 0)


@pytest.mark.parametrize("hops", [{}, {"hops": HopLatencies(arrive=((30.0,) * len(RANKS),))}], ids=["no hops", "hops"])
def test_what_a_quota_refuses_is_not_planned_for(hops: dict[str, Any]) -> None:
    trace = asking(np.arange(1200) * 50.0, [ACME, OTHER])  # 10 a second each, for a minute
    timing = Timing(**hops)

    def planned_rps(**changes: Any) -> float:
        plans = run_of(trace, timing=timing, is_cold=True, **changes).plans
        return max(plan.expected.demand_rps for plan in plans[-3:] if plan.expected)

    asked = planned_rps()
    assert planned_rps(quotas={"acme": Quota(rate_rps=2, burst=1)}) == pytest.approx(0.6 * asked, rel=0.05)


def test_every_image_of_a_request_takes_a_token() -> None:
    four = Overrides(tenant="acme", options=GenerateOptions(n=4))
    tally = run_of(asking(np.zeros(4), [four]), quotas={"acme": Quota(rate_rps=0.001, burst=8)}).tally
    assert tally.ends == {Status.COMPLETED: 2, Status.REJECTED: 2}
    assert tally.over_quota == {"acme": 2}


def test_in_a_crowded_backlog_a_flood_has_its_share_and_leaves_the_others_theirs() -> None:
    wishes = [ACME] * 9 + [OTHER]
    tight = Timing(interactive_backlog_ms=6000.0)
    changes: dict[str, Any] = {"drops": False, "workers": 1, "parameters": {"batch": 1.0}, "timing": tight}
    trace = asking(np.arange(2000) * 2.5, wishes)  # 400 a second, where 50 can be generated
    reported = figures_of(run_of(trace, **changes))["by_tenant"]
    assert reported["acme"]["shed"] > 0.5 * reported["acme"]["requests"]
    assert reported["other"]["shed"] < 0.05 * reported["other"]["requests"]
    assert reported["acme"]["over_quota"] == 0, "it has none: more workers would serve it"
    heavier = figures_of(run_of(trace, quotas={"acme": Quota(weight=4)}, **changes))["by_tenant"]
    assert heavier["acme"]["shed"] < reported["acme"]["shed"]


def test_a_new_name_for_each_request_takes_no_more_from_the_others_than_one_name() -> None:
    seconds, tight = 60, Timing(interactive_backlog_ms=2000.0)
    fair, greedy = Overrides(tenant="fair"), Overrides(tenant="greedy")
    sybils = [Overrides(tenant=f"sybil-{n}") for n in range(40 * seconds)]
    changes: dict[str, Any] = {"drops": False, "workers": 1, "parameters": {"batch": 1.0}, "timing": tight}
    for quotas in ({}, {"fair": Quota()}):

        def ends(flood: list[Overrides], quotas: dict[str, Quota] = quotas) -> tuple[int, int]:
            rest = iter(flood)
            wishes = [fair if n % 21 == 0 else next(rest) for n in range(42 * seconds)]  # 2 and 40 a unit of time
            ran = run_of(asking(np.arange(len(wishes)) * 6.0, wishes), quotas=quotas, **changes)
            reported = ran.tally.tenants
            shed = sum(part.ends[Status.REJECTED] for name, part in reported.items() if name != "fair")
            return reported["fair"].ends[Status.REJECTED], shed

        one, many = ends([greedy] * len(sybils)), ends(sybils)
        assert min(one[1], many[1]) > len(sybils) / 2, "the flood is far more than can be generated"
        assert many[0] <= one[0], f"of the fair tenant's {2 * seconds} requests"


@pytest.mark.parametrize("rarely", [20, 400])
def test_a_modest_tenant_is_never_refused_beside_a_flood_and_waits_for_the_allowed_backlog_at_most(rarely: int) -> None:
    """Two workers generate 100/s, and acme asks for 200/s. 2 s of work may wait at each worker, 1.6 of `standard`."""
    tight = Timing(interactive_backlog_ms=2000.0, most_backlog_ms=1600.0)
    changes: dict[str, Any] = {"drops": False, "workers": 2, "parameters": {"batch": 1.0}, "timing": tight}
    trace = asking(arrivals(200, 8000), [ACME] * rarely + [OTHER])
    reported = figures_of(run_of(trace, **changes))["by_tenant"]["other"]
    assert (reported["shed"], reported["completed"]) == (0, reported["requests"])
    assert reported["latency_s"]["p95"] <= 2.0


@pytest.mark.parametrize("quotas", [{}, {"acme": Quota(rate_rps=40)}])
def test_what_a_plan_sheds_is_shed_from_who_floods(quotas: dict[str, Quota]) -> None:
    trace = asking(arrivals(210, 4200), [ACME] * 20 + [OTHER])  # of the 100 a second that can be generated
    reported = figures_of(run_of(trace, workers=2, parameters={"batch": 1.0}, sheds=True, slo_ms=2000.0, quotas=quotas))
    assert reported["by_tenant"]["other"]["shed"] == 0
    assert reported["by_tenant"]["acme"]["shed"] > 0.4 * 4000


def test_what_has_ended_is_open_no_more() -> None:
    """A second of work may wait, 50 requests of 20 ms; ten times as many come one after the other."""
    tight, trace = Timing(interactive_backlog_ms=1000.0), asking(np.arange(500) * 25.0, [ACME, OTHER])
    assert not run_of(trace, workers=1, timing=tight).tally.over_quota


def test_quotas_come_from_the_settings_and_refusals_are_reported(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "trace.jsonl"
    asked = [{"arrival_ms": 10 * n, "prompt": "a", "tenant": ("acme", "other")[n % 2]} for n in range(100)]
    path.write_text("\n".join(map(json.dumps, asked)))
    words = [
        "simulate",
        str(path),
        "--policy",
        "clipper-light",
        "--workers",
        "4",
        "--catalog",
        "profile",
        "--slo",
        "2",
        "--no-hops",
    ]
    quota = ["--set", "tenants.acme.rate_rps=1", "--set", "tenants.acme.burst=3"]
    ran = CliRunner().invoke(main, [*quota, *words])
    assert ran.exit_code == 0, ran.output
    assert "acme 50 requests" in ran.output
    assert "47 over quota" in ran.output


def test_reports_have_tenants_as_the_schema_says() -> None:
    trace = asking(arrivals(20, 100), [ACME, OTHER])
    runs = [run_of(trace, quotas={"acme": Quota(rate_rps=1)})] * 2
    report = report_of(trace, {"clipper-light": runs}) | {"made": {"command": "", "versions": {}}}
    assert report["setup"]["quotas"] == {"acme": {"rate_rps": 1, "burst": 10.0, "weight": 1.0}}
    schema = json.loads(importlib.resources.files("schemas").joinpath("report.schema.json").read_text("utf-8"))
    jsonschema.validate(json.loads(json.dumps(report)), schema)
    reported = report["policies"]["clipper-light"]["by_tenant"]
    assert reported["acme"]["over_quota"] == runs[0].tally.over_quota["acme"] > 0
