"""What is made from the table of metrics is up to date, names only metrics that there are, and leaves none out."""

import json
import re

import pytest

from infra.bin.observing.alerts import ALERTS, RUNBOOK
from infra.bin.observing.dashboards import all_dashboards, grafana, queries
from infra.bin.observing.documents import FOLDER, documents, metrics_of
from streams.observing.metric import ROLES, TABLE, Metric
from tests.paths import ROOT

UNBOUNDED = {"request_id", "tenant", "prompt", "worker", "worker_id", "job_id", "trace_id"}
WITHIN = re.compile(r'(pochade_\w+)\{(\w+)(?:=|!=|=~)"([^"]*)"')


@pytest.mark.parametrize("name", sorted(documents()))
def test_the_files_are_those_that_the_table_makes(name: str) -> None:
    assert (FOLDER / name).read_text() == documents()[name], "run infra/bin/observability"


def test_no_dashboard_is_left_from_before() -> None:
    assert {f"dashboards/{path.name}" for path in (FOLDER / "dashboards").iterdir()} <= documents().keys()


@pytest.mark.parametrize("query", [*queries(), *(alert.query for alert in ALERTS)])
def test_a_query_names_only_metrics_labels_and_values_of_the_table(query: str) -> None:
    assert metrics_of(query)
    assert metrics_of(query) <= TABLE.keys()
    for found, label, value in WITHIN.findall(query):
        (name,) = metrics_of(found)
        if label != "le":
            values = TABLE[name].labels[label]
            assert isinstance(values, str) or value in values or "." in value, (name, label, value)


def test_every_metric_is_on_a_dashboard() -> None:
    assert set().union(*map(metrics_of, queries())) == TABLE.keys()


def test_panels_of_a_dashboard_do_not_overlap() -> None:
    for page in all_dashboards():
        cells = [
            (x, y)
            for panel in grafana(page)["panels"]
            for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
            for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
        ]
        assert len(cells) == len(set(cells))
        assert max(x for x, _ in cells) < 24
        json.dumps(grafana(page))


@pytest.mark.parametrize("metric", TABLE.values(), ids=lambda metric: metric.name)
def test_a_metric_is_named_as_prometheus_asks_and_its_labels_are_bounded(metric: Metric) -> None:
    assert re.fullmatch(r"pochade_[a-z_]+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.unit != "seconds" or "_seconds" in metric.name
    assert not UNBOUNDED & metric.labels.keys()
    assert all(metric.labels.values())
    assert metric.text
    assert set(metric.roles) <= {*ROLES, "every role", "pochade scale"}


def test_every_alert_has_its_paragraph_in_the_runbook_and_every_paragraph_its_alert() -> None:
    text = (ROOT / RUNBOOK).read_text()
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == [alert.name for alert in ALERTS]
    assert set(re.findall(r"\]\(#(\w+)\)", text)) <= {alert.name.lower() for alert in ALERTS}
