"""Every alert rule, by promtool: it fires on the series that it is for, and stays silent on those of a healthy run."""

import json
import pathlib
import subprocess

import pytest

from infra.bin.observing.alerts import ALERTS, RUNBOOK, Alert
from infra.bin.observing.documents import FOLDER
from tests.nightly.prometheus import binary

MINUTES = 90  # after which the rules are evaluated; series have a sample a minute

DEMAND, NO_DEMAND = ('pochade_demand_rps{of="seen"}', "4+0x90"), ('pochade_demand_rps{of="seen"}', "0+0x90")
ENDED = 'pochade_request_seconds_count{{status="{}",tier="standard"}}'
LATE, IN_ALL = (f'pochade_deadline_slack_seconds_bucket{{le="{end}",tier="standard"}}' for end in ("0.0", "+Inf"))
SERVES, SERVES_NOT = (('pochade_serving_workers{variant="light"}', f"{n}+0x90") for n in (2, 0))
EXPECTED = 'pochade_demand_rps{of="expected"}'
QUEUE = 'pochade_queue_seconds_bucket{{role="{}",le="{}"}}'

Series = list[tuple[str, str]]


def new(series: str) -> Series:
    """A counter that is there since its first increase alone, as one with labels is."""
    return [(series, f"{'_ ' * (MINUTES - 5)}1+0x5")]


def still(series: str, value: int = 5) -> Series:
    """A counter that has not grown for long."""
    return [(series, f"{value}+0x{MINUTES}")]


def quality(checked: float, count: int) -> Series:
    """Sums and counts of an hour's checks of images, whose levels have a quality of .8."""
    values = {"checked": checked, "modelled": 0.8}
    sums = [(f'pochade_{kind}_quality_sum{{level="light"}}', f"0+{q * count / 60:g}x90") for kind, q in values.items()]
    counts = [(f'pochade_{kind}_quality_count{{level="light"}}', f"0+{count / 60:g}x90") for kind in values]
    return [*sums, *counts]


FIRES_AND_SILENT: dict[str, tuple[Series, Series]] = {
    "PochadeNoPlanner": (still("pochade_planner_leads", 0), still("pochade_planner_leads", 1)),
    "PochadeNobodyServes": ([DEMAND, SERVES_NOT], [DEMAND, SERVES]),
    "PochadeNoResults": ([DEMAND, *still(ENDED.format("COMPLETED"))], [DEMAND, (ENDED.format("EXPIRED"), "0+9x90")]),
    "PochadeLate": (
        [(LATE, "0+1x90"), (IN_ALL, "0+100x90"), (ENDED.format("EXPIRED"), "0+6x90")],
        [(LATE, "0+1x90"), (IN_ALL, "0+100x90"), (ENDED.format("EXPIRED"), "0+2x90")],
    ),
    "PochadeFailing": (
        [(ENDED.format("FAILED"), "0+2x90"), (ENDED.format("COMPLETED"), "0+98x90")],
        [(ENDED.format("FAILED"), "1+0x90"), (ENDED.format("COMPLETED"), "0+98x90")],
    ),
    "PochadeRejecting": (
        [(ENDED.format("REJECTED"), "0+6x90"), (ENDED.format("COMPLETED"), "0+94x90")],
        [(ENDED.format("REJECTED"), "0+4x90"), (ENDED.format("COMPLETED"), "0+96x90")],
    ),
    "PochadeSaturated": (
        still("pochade_desired_workers", 4) + still("pochade_live_workers", 3),
        still("pochade_desired_workers", 3) + still("pochade_live_workers", 3),
    ),
    "PochadeBacklog": (
        [SERVES, ('pochade_backlog_seconds{variant="light"}', "130+0x90")],
        [SERVES, ('pochade_backlog_seconds{variant="light"}', "110+0x90")],
    ),
    "PochadeQueueSlow": (
        [(QUEUE.format("router", le), f"0+{n}x90") for le, n in (("5.0", 90), ("10.0", 100), ("+Inf", 100))],
        [(QUEUE.format("router", le), f"0+{n}x90") for le, n in (("5.0", 97), ("10.0", 100), ("+Inf", 100))]
        + [(QUEUE.format("worker", le), f"0+{n}x90") for le, n in (("5.0", 0), ("10.0", 100), ("+Inf", 100))],
    ),
    "PochadeDemandUnplanned": ([DEMAND, (EXPECTED, "2+0x90")], [DEMAND, (EXPECTED, "3+0x90")]),
    "PochadeWorkersSilent": (
        still('pochade_workers{state="silent"}', 1),
        still('pochade_workers{state="silent"}', 0) + still('pochade_workers{state="failed"}', 1),
    ),
    "PochadeWorkersSick": (
        still('pochade_workers{state="sick"}', 1),
        still('pochade_workers{state="sick"}', 0) + still('pochade_workers{state="failed"}', 1),
    ),
    "PochadeRestarts": (
        [('pochade_role_restarts_total{role="ledger"}', "0+1x90")],
        [('pochade_role_restarts_total{role="ledger"}', "0+0x80 1+0x5 2+0x5")],
    ),
    "PochadeDeadLetters": (
        new('pochade_dead_letters_total{role="router",error="InvalidRecord"}'),
        still('pochade_dead_letters_total{role="router",error="InvalidRecord"}'),
    ),
    "PochadeDeletedUnread": (
        new('pochade_deleted_unread_total{role="router"}'),
        still('pochade_deleted_unread_total{role="router"}'),
    ),
    "PochadeUnusableRecords": (
        [('pochade_unusable_records_total{topics="fleet"}', "1+0x85 2+0x5")],
        still('pochade_unusable_records_total{topics="fleet"}'),
    ),
    "PochadePlanRefused": (
        new('pochade_plans_refused_total{role="router"}'),
        still('pochade_plans_refused_total{role="router"}'),
    ),
    "PochadePlansDiffer": (
        [('pochade_plan_version{role="router"}', "7+0x90"), ('pochade_plan_version{role="worker"}', "6+0x90")],
        [('pochade_plan_version{role="router"}', "7+0x90"), ('pochade_plan_version{role="worker"}', "6+0x89 7")],
    ),
    "PochadeOldRelease": (
        new('pochade_awaited_schemas_total{role="ledger"}'),
        still('pochade_awaited_schemas_total{role="ledger"}'),
    ),
    "PochadeFallbacks": (
        [('pochade_fallbacks_total{role="router",kind="no-owner"}', "0+9x90")],
        [('pochade_fallbacks_total{role="router",kind="no-owner"}', "0+3x90")],
    ),
    "PochadeQualityLow": (quality(0.65, 60), [*quality(0.75, 60)]),
    "PochadeGatewayErrors": (
        [
            ('pochade_gateway_requests_total{handler="generate",status="503"}', "0+6x90"),
            ('pochade_gateway_requests_total{handler="generate",status="200"}', "0+94x90"),
        ],
        [
            ('pochade_gateway_requests_total{handler="generate",status="429"}', "0+50x90"),
            ('pochade_gateway_requests_total{handler="generate",status="200"}', "0+94x90"),
        ],
    ),
    "PochadeWebhooksLost": (
        new('pochade_gateway_webhooks_total{event="completed",outcome="dead-lettered"}'),
        [('pochade_gateway_webhooks_total{event="completed",outcome="failed"}', "0+9x90")],
    ),
    "PochadeSpansLost": (
        [('pochade_spans_total{outcome="dropped"}', "0+9x90")],
        [('pochade_spans_total{outcome="sent"}', "0+9x90"), *still('pochade_spans_total{outcome="failed"}')],
    ),
}


def test_every_alert_has_a_case() -> None:
    assert FIRES_AND_SILENT.keys() == {alert.name for alert in ALERTS}


@pytest.fixture(scope="module")
def promtool() -> str:
    return binary("promtool")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
@pytest.mark.parametrize("fires", [True, False], ids=["fires", "silent"])
def test_it_fires_on_what_it_is_for_and_is_silent_beside(
    alert: Alert, fires: bool, promtool: str, tmp_path: pathlib.Path
) -> None:
    series = FIRES_AND_SILENT[alert.name][0 if fires else 1]
    test = {
        "rule_files": [str(FOLDER / "alerts.yaml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{alert.name}",alertstate="firing"}}) or vector(0)',
                        "eval_time": f"{MINUTES}m",
                        "exp_samples": [{"labels": "{}", "value": int(fires)}],
                    }
                ],
            }
        ],
    }
    file = tmp_path / "test.yaml"
    file.write_text(json.dumps(test))
    ran = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_promtool_finds_no_fault_in_the_rules(promtool: str) -> None:
    ran = subprocess.run(
        [promtool, "check", "rules", str(FOLDER / "alerts.yaml")], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{len(ALERTS)} rules found" in ran.stdout
    assert all(alert.runbook.startswith(RUNBOOK) for alert in ALERTS)
