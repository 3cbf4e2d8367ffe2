"""Alert rules for Prometheus, made from the table of metrics; each links the paragraph of the runbook that ends it."""

from typing import Any, Final, NamedTuple

RUNBOOK: Final = "streams/operator/RUNBOOK.md"
CRITICAL, WARNING = "critical", "warning"  # somebody must look now; before the week is over


class Alert(NamedTuple):
    """One rule: what is wrong, for how long, and what an operator reads first."""

    name: str  # CamelCase; its paragraph in the runbook has it as heading
    query: str
    lasts: str  # for how long, as Prometheus writes it; "0s": at once
    severity: str
    summary: str  # one sentence, with the labels' values

    @property
    def runbook(self) -> str:
        """The paragraph of the runbook."""
        return f"{RUNBOOK}#{self.name.lower()}"


def _grew(counter: str, by: str, window: str, more_than: int = 0) -> str:
    """Whether a counter grew within a window, or is there since less than that: its first value is no increase."""
    total = f"sum by ({by}) ({counter})"
    new = f"({total} unless sum by ({by}) ({counter} offset {window})) > {more_than}"
    return f"sum by ({by}) (increase({counter}[{window}])) > {more_than} or {new}"


def _or_0(query: str) -> str:
    return f"({query} or vector(0))"


_ENDED = "pochade_request_seconds_count"
_EXPIRED = _or_0(f'sum(rate({_ENDED}{{status="EXPIRED"}}[10m]))')
_LATE = _or_0('sum(rate(pochade_deadline_slack_seconds_bucket{le="0.0"}[10m]))')
# a histogram with buckets below 0 has no _count
_IN_ALL = _or_0('sum(rate(pochade_deadline_slack_seconds_bucket{le="+Inf"}[10m]))')
_DEMAND = 'sum(pochade_demand_rps{of="seen"})'


def _mean(summary: str) -> str:
    return f"(sum(rate({summary}_sum[1h])) / sum(rate({summary}_count[1h])))"


def _share(status: str) -> str:
    return f'sum(rate({_ENDED}{{status="{status}"}}[10m])) / sum(rate({_ENDED}[10m]))'


ALERTS: Final = (
    Alert(
        "PochadeNoPlanner", "max(pochade_planner_leads) < 1 or absent(pochade_planner_leads)", "1m", CRITICAL,
        "No planner leads: the plan in force stays, whatever the load.",
    ),
    Alert(
        "PochadeNobodyServes", f"{_DEMAND} > 0 unless sum(pochade_serving_workers) > 0", "1m", CRITICAL,
        "Requests come, and no worker takes jobs.",
    ),
    Alert(
        "PochadeNoResults", f"{_DEMAND} > 0 unless sum(rate({_ENDED}[5m])) > 0", "2m", CRITICAL,
        "Requests come, and none has ended for five minutes.",
    ),
    Alert(
        "PochadeLate", f"({_LATE} + {_EXPIRED}) / ({_IN_ALL} + {_EXPIRED}) > 0.05", "5m", CRITICAL,
        "{{ $value | humanizePercentage }} of the requests with a deadline were late or expired.",
    ),
    Alert(
        "PochadeFailing", f"{_share('FAILED')} > 0.01", "5m", CRITICAL,
        "{{ $value | humanizePercentage }} of the requests ended FAILED.",
    ),
    Alert(
        "PochadeRejecting", f"{_share('REJECTED')} > 0.05", "5m", WARNING,
        "{{ $value | humanizePercentage }} of the requests were REJECTED.",
    ),
    Alert(
        "PochadeSaturated", "max(pochade_desired_workers) > max(pochade_live_workers)", "5m", WARNING,
        "The demand needs {{ $value }} workers, and there are fewer.",
    ),
    Alert(
        "PochadeBacklog",
        "sum by (variant) (pochade_backlog_seconds) / sum by (variant) (pochade_serving_workers) > 60", "2m", WARNING,
        "Each worker of {{ $labels.variant }} has {{ $value | humanizeDuration }} of work before it.",
    ),
    Alert(
        "PochadeQueueSlow",
        'histogram_quantile(0.95, sum by (role, le) (rate(pochade_queue_seconds_bucket{role!="worker"}[5m]))) > 5',
        "5m", WARNING, "Records wait {{ $value | humanizeDuration }} until the {{ $labels.role }} takes them.",
    ),
    Alert(
        "PochadeDemandUnplanned",
        'max(pochade_demand_rps{of="seen"}) > 1.5 * max(pochade_demand_rps{of="expected"})', "5m", WARNING,
        "{{ $value }} requests a second come, half as many again as the plan in force was made for.",
    ),
    Alert(
        "PochadeWorkersSilent", 'max(pochade_workers{state="silent"}) > 0', "1m", WARNING,
        "{{ $value }} workers send no heartbeats any more.",
    ),
    Alert(
        "PochadeWorkersSick", 'max(pochade_workers{state="sick"}) > 0', "1m", WARNING,
        "{{ $value }} workers stay away, as their devices fail.",
    ),
    Alert(
        "PochadeRestarts", _grew("pochade_role_restarts_total", "role", "15m", 2), "0s", WARNING,
        "The {{ $labels.role }} began again {{ $value }} times in a quarter of an hour.",
    ),
    Alert(
        "PochadeDeadLetters", _grew('pochade_dead_letters_total{error!="InvalidRequest"}', "role, error", "15m"), "0s",
        WARNING,
        "The {{ $labels.role }} sent records to the dlq: {{ $labels.error }}.",
    ),
    Alert(
        "PochadeDeletedUnread", _grew("pochade_deleted_unread_total", "role", "15m"), "0s", CRITICAL,
        "Up to {{ $value }} records were deleted before the {{ $labels.role }} had read them.",
    ),
    Alert(
        "PochadeUnusableRecords", _grew("pochade_unusable_records_total", "topics", "15m"), "0s", WARNING,
        "Readers of {{ $labels.topics }} passed over records that they could not use.",
    ),
    Alert(
        "PochadePlanRefused", _grew("pochade_plans_refused_total", "role", "15m"), "0s", WARNING,
        "The {{ $labels.role }} does not obey a newer plan, as it does not fit its catalog.",
    ),
    Alert(
        "PochadePlansDiffer", "max(pochade_plan_version) - min(pochade_plan_version) > 0", "2m", WARNING,
        "Roles obey plans that are {{ $value }} versions apart.",
    ),
    Alert(
        "PochadeOldRelease", _grew("pochade_awaited_schemas_total", "role", "15m"), "0s", WARNING,
        "The {{ $labels.role }} met records of a newer release and waits for their schema.",
    ),
    Alert(
        "PochadeFallbacks", "sum by (role, kind) (rate(pochade_fallbacks_total[10m])) > 0.1", "10m", WARNING,
        "The {{ $labels.role }} goes without what it wants: {{ $labels.kind }}.",
    ),
    Alert(
        "PochadeQualityLow",
        f"{_mean('pochade_checked_quality')} < {_mean('pochade_modelled_quality')} - 0.1 "
        "and sum(increase(pochade_checked_quality_count[1h])) >= 30",
        "10m", WARNING, "Checked images have a quality of {{ $value }}, .1 below their levels'.",
    ),
    Alert(
        "PochadeGatewayErrors",
        'sum(rate(pochade_gateway_requests_total{status=~"5.."}[5m])) / sum(rate(pochade_gateway_requests_total[5m])) '
        "> 0.05",
        "5m", WARNING, "The gateway answers {{ $value | humanizePercentage }} of the requests with an error of ours.",
    ),
    Alert(
        "PochadeWebhooksLost", _grew('pochade_gateway_webhooks_total{outcome="dead-lettered"}', "event", "15m"), "0s",
        WARNING, "Webhooks were given up and lie on the dlq.",
    ),
    Alert(
        "PochadeSpansLost", 'sum(rate(pochade_spans_total{outcome!="sent"}[10m])) > 0', "10m", WARNING,
        "Spans do not reach the collector: {{ $value }} a second.",
    ),
)  # fmt: skip


def rules() -> dict[str, Any]:
    """The rules as Prometheus reads them."""
    return {
        "groups": [
            {
                "name": "pochade",
                "rules": [
                    {
                        "alert": alert.name,
                        "expr": alert.query,
                        "for": alert.lasts,
                        "labels": {"severity": alert.severity},
                        "annotations": {"summary": alert.summary, "runbook": alert.runbook},
                    }
                    for alert in ALERTS
                ],
            }
        ]
    }
