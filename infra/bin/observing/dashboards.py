"""Grafana dashboards, made from the table of metrics: a metric's kind, unit and labels say how it is shown."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, Final, NamedTuple

import streams.metrics  # noqa: F401  declares the metrics
from streams.observing.metric import TABLE, Metric

UNITS: Final = {
    "seconds": "s", "bytes": "bytes", "share": "percentunit", "requests a second": "reqps", "quality": "none",
    "ratio": "none",
}  # fmt: skip
QUANTILES: Final = (0.5, 0.95, 0.99)
WINDOW: Final = "$__rate_interval"
WIDTH, HEIGHT, COLUMNS = 8, 8, 3  # of a panel, in Grafana's grid of 24, and panels a row
SCHEMA: Final = 39  # of Grafana 10 and later, which migrate it by themselves


class Panel(NamedTuple):
    """A diagram over time: a query and a legend for each of its lines."""

    title: str
    text: str
    unit: str  # of Grafana
    lines: Sequence[tuple[str, str]]


class Row(NamedTuple):
    """Panels under a heading."""

    title: str
    panels: Sequence[Panel]


class Dashboard(NamedTuple):
    """One page: its file's name, its title, and its rows."""

    name: str
    title: str
    rows: Sequence[Row]


def panel(name: str) -> Panel:
    """The panel of one metric: rates of counters, quantiles of histograms, means of summaries."""
    metric = TABLE[name]
    unit = UNITS.get(metric.unit, "short")
    by = f" by ({', '.join(metric.labels)})" if metric.labels else ""
    legend = " ".join(f"{{{{{label}}}}}" for label in metric.labels)
    title = name.removeprefix("pochade_").removesuffix("_total").replace("_", " ")
    if metric.kind == "histogram":
        return Panel(title, metric.text, unit, [*_quantiles(metric, legend)])
    if metric.kind == "summary":
        mean = f"sum{by} (rate({name}_sum[{WINDOW}])) / sum{by} (rate({name}_count[{WINDOW}]))"
        return Panel(title, metric.text, unit, [(mean, legend or "mean")])
    if metric.kind == "gauge":  # each process shows its own: planners that stand by show 0
        is_of_many = metric.roles == ("planner",) or not {"role", "uuid"}.isdisjoint(metric.labels)
        how = "max" if is_of_many else "sum"
        return Panel(title, metric.text, unit, [(f"{how}{by} ({name})", legend or "now")])
    is_busy = metric.unit == "seconds"  # seconds a second are a share
    per_s = "percentunit" if is_busy else "Bps" if metric.unit == "bytes" else "ops"
    return Panel(title, metric.text, per_s, [(f"sum{by} (rate({name}[{WINDOW}]))", legend or "a second")])


def _quantiles(metric: Metric, legend: str) -> Iterator[tuple[str, str]]:
    by = ", ".join([*metric.labels, "le"])
    for quantile in QUANTILES:
        query = f"histogram_quantile({quantile}, sum by ({by}) (rate({metric.name}_bucket[{WINDOW}])))"
        yield query, f"p{quantile * 100:g} {legend}".strip()


def _panels(*names: str) -> list[Panel]:
    return [panel(f"pochade_{name}") for name in names]


_ENDED = "pochade_request_seconds_count"
_RESULTS = Panel(
    "ended", "Requests that ended, by status", "ops",
    [(f"sum by (status) (rate({_ENDED}[{WINDOW}]))", "{{status}}")],
)  # fmt: skip
_LAG = Panel(
    "lag", "Work that waits or runs before each worker of a variant", "s",
    [("sum by (variant) (pochade_backlog_seconds) / sum by (variant) (pochade_serving_workers)", "{{variant}}")],
)  # fmt: skip
_IN_TIME = Panel(
    "late", "Share of the completed requests with a deadline that were late", "percentunit",
    [(
        f'sum by (tier) (rate(pochade_deadline_slack_seconds_bucket{{le="0.0"}}[{WINDOW}])) '
        f'/ sum by (tier) (rate(pochade_deadline_slack_seconds_bucket{{le="+Inf"}}[{WINDOW}]))', "{{tier}}",
    )],
)  # fmt: skip
_QUALITY = Panel(
    "quality of what was served",
    "Facts that hold in images that were checked, beside their levels' quality in the catalog, and the plan's",
    "none",
    [
        (f"sum(rate(pochade_{kind}_quality_sum[{WINDOW}])) / sum(rate(pochade_{kind}_quality_count[{WINDOW}]))", kind)
        for kind in ("checked", "modelled")
    ] + [("max(pochade_expected_quality)", "expected")],
)  # fmt: skip
_BUSY = Panel(
    "busy workers", "Share of the time that workers have jobs in hand, by themselves and by the planner's looks",
    "percentunit",
    [
        (f"avg(rate(pochade_worker_busy_seconds_total[{WINDOW}]))", "workers"),
        ("max by (of) (pochade_utilization)", "{{of}}"),
    ],
)  # fmt: skip
_HITS = Panel(
    "reuse hits", "Share of the jobs that began from a stored latent, of those for which one was looked for",
    "percentunit",
    [(
        f'sum(rate(pochade_reuse_jobs_total{{outcome="hit"}}[{WINDOW}])) '
        f"/ sum(rate(pochade_reuse_jobs_total[{WINDOW}]))", "hits",
    )],
)  # fmt: skip

NOW: Final = Dashboard(
    "now", "Pochade: now",
    [
        Row("Demand and results", [*_panels("demand_rps"), _RESULTS, _IN_TIME]),
        Row("Backlog and fleet", [_LAG, *_panels("workers"), _BUSY]),
        Row("Trouble", _panels("fallbacks_total", "dead_letters_total", "role_restarts_total")),
    ],
)  # fmt: skip
WAY: Final = Dashboard(
    "way", "Pochade: the way of a request",
    [
        Row("Whole", _panels("request_seconds", "deadline_slack_seconds", "outcomes_total")),
        Row("Hops", _panels("queue_seconds", "hop_seconds", "records_total")),
        Row("Generation", _panels("job_queue_seconds", "generation_seconds", "generation_part_seconds")),
        Row("Batches, store", _panels("batch_jobs", "store_seconds", "generated_jobs_total")),
        Row("Scoring, ledger", _panels("scoring_seconds", "escalations_total", "ledger_transaction_seconds")),
    ],
)  # fmt: skip
PLAN: Final = Dashboard(
    "plan", "Pochade: plan and quality",
    [
        Row("Expected and seen", [*_panels("demand_rps", "utilization"), _QUALITY]),
        Row("Levels", _panels("expected_heavy_share", "completed_requests_total", "quality_checks_total")),
        Row("Plans", _panels("plan_version", "plans_refused_total", "foreign_plans_total", "planner_leads")),
        Row("Workers", _panels("desired_workers", "live_workers", "workers_wanted")),
        Row("Fleet", _panels("workers_warm", "serving_workers", "backlog_seconds")),
        Row("Reuse", [_HITS, *_panels("reuse_jobs_total", "reuse_lookup_seconds")]),
    ],
)  # fmt: skip


def rest(shown: Sequence[Dashboard]) -> Dashboard:
    """A page of every metric that no other page shows, by who exposes it."""
    seen = " ".join(query for each in shown for row in each.rows for one in row.panels for query, _ in one.lines)
    left = [metric for metric in TABLE.values() if metric.name not in seen]
    who = dict.fromkeys(metric.roles for metric in left)
    rows = [Row(", ".join(roles), [panel(each.name) for each in left if each.roles == roles]) for roles in who]
    return Dashboard("rest", "Pochade: everything else, by role", rows)


def all_dashboards() -> list[Dashboard]:
    """Every page."""
    pages = [NOW, WAY, PLAN]
    return [*pages, rest(pages)]


def grafana(dashboard: Dashboard) -> dict[str, Any]:
    """A dashboard as Grafana imports it."""
    ids, top, panels = count(1), 0, list[dict[str, Any]]()
    for row in dashboard.rows:
        panels.append({
            "id": next(ids), "type": "row", "title": row.title, "collapsed": False, "panels": [],
            "gridPos": {"x": 0, "y": top, "w": 24, "h": 1},
        })  # fmt: skip
        top += 1
        for place, each in enumerate(row.panels):
            line, column = divmod(place, COLUMNS)
            panels.append(_panel_json(each, next(ids), column * WIDTH, top + line * HEIGHT))
        top += HEIGHT * -(-len(row.panels) // COLUMNS)
    return {
        "uid": f"pochade-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["pochade"],
        "schemaVersion": SCHEMA,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}]
        },
        "links": [{"type": "dashboards", "tags": ["pochade"], "title": "Pochade", "asDropdown": False}],
        "panels": panels,
    }


def _panel_json(panel: Panel, number: int, left: int, top: int) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.text,
        "datasource": source,
        "gridPos": {"x": left, "y": top, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": None if "slack" in panel.title else 0}},
        "targets": [
            {"refId": chr(ord("A") + n), "datasource": source, "expr": query, "legendFormat": legend}
            for n, (query, legend) in enumerate(panel.lines)
        ],
    }


def queries() -> list[str]:
    """Every query of every page."""
    return [query for page in all_dashboards() for row in page.rows for each in row.panels for query, _ in each.lines]
