"""Writes `infra/observability/`: the table of metrics for readers, Grafana's dashboards, and Prometheus's alert rules.

What the chart has of the same, it has from here: the rules, the topics and users of Strimzi, the schema of settings.

`python -m infra.bin.observing.documents` (`infra/bin/observability`) writes the files anew after a metric has changed.
"""

import json
import pathlib
import re
from typing import Any

from infra.bin.observing.alerts import rules
from infra.bin.observing.dashboards import all_dashboards, grafana
from streams import catalogs
from streams.observing.metric import TABLE, Metric, Values
from streams.operator import strimzi
from streams.settings import Kafka, Settings
from streams.shipped import INFRA

FOLDER, CHART = INFRA / "observability", INFRA / "chart"
ENDINGS = ("_bucket", "_sum", "_count")  # of the series of histograms and summaries

HEAD = """# Metrics

Every process of a deployment exposes its own at `/metrics` ([how to scrape them](../../streams/README.md)). No label
has a request, tenant or prompt as value. Made by `infra/bin/observability` from `streams/metrics.py`; do not edit.

| metric | kind, unit | labels | what | from |
|---|---|---|---|---|
"""


def documents() -> dict[str, str]:
    """File below `infra/observability` -> its text."""
    pages = {f"dashboards/{page.name}.json": json.dumps(grafana(page), indent=1) + "\n" for page in all_dashboards()}
    table = HEAD + "".join(map(_line, TABLE.values()))
    return {"METRICS.md": table, "alerts.yaml": _yaml(), **pages}


def chart_files() -> dict[str, str]:
    """File below `infra/chart` -> its text."""
    variants = sorted(catalogs.load("tiny").served)
    schema = json.loads((CHART / "values.schema.json").read_text()) | {"$defs": settings_schema()}
    return {
        "files/alerts.yaml": documents()["alerts.yaml"],
        "files/strimzi.yaml": "\n".join(strimzi.objects(Kafka(), variants, "kafka", "scram-sha-512")) + "\n",
        "values.schema.json": json.dumps(schema, indent=1) + "\n",
    }


def settings_schema() -> dict[str, Any]:
    """Definitions of JSON Schema: `Settings`, every section that it names, and no words or defaults."""
    whole = Settings.model_json_schema()
    sections = {name: _bare(section) for name, section in whole.pop("$defs").items()}
    return {"Settings": _bare(whole), **sections}


def _bare(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    found = {
        key: _bare(value) for key, value in part.items() if key not in ("title", "description", "default", "format")
    }
    if "properties" in part:  # whose keys are names of settings
        found["properties"] = {name: _bare(each) for name, each in part["properties"].items()}
    return found


def _line(metric: Metric) -> str:
    labels = "; ".join(f"`{name}`: {_values(values)}" for name, values in metric.labels.items())
    unit = f", {metric.unit}" if metric.unit else ""
    return f"| `{metric.name}` | {metric.kind}{unit} | {labels} | {metric.text} | {', '.join(metric.roles)} |\n"


def _values(values: Values) -> str:
    return values if isinstance(values, str) else ", ".join(values)


def _yaml() -> str:
    """The rules as YAML. Values are JSON strings, which YAML takes as they are: no library is needed for it."""
    lines = ["# Made by infra/bin/observability from infra/bin/observing/alerts.py; do not edit.", "groups:"]
    for group in rules()["groups"]:
        lines += [f"  - name: {group['name']}", "    rules:"]
        for rule in group["rules"]:
            lines += [f"      - alert: {rule['alert']}", f"        expr: {json.dumps(rule['expr'])}"]
            lines += [f"        for: {rule['for']}"]
            for part in ("labels", "annotations"):
                lines += [f"        {part}:"]
                lines += [f"          {name}: {json.dumps(value)}" for name, value in rule[part].items()]
    return "\n".join(lines) + "\n"


def metrics_of(query: str) -> set[str]:
    """The metrics of ours that a query names, as the table has them."""
    names = set[str]()
    for name in re.findall(r"\bpochade_\w+", query):
        ending = next((each for each in ENDINGS if name.endswith(each) and name.removesuffix(each) in TABLE), "")
        names.add(name.removesuffix(ending))
    return names


def write(folder: pathlib.Path) -> None:
    """Write every document, and remove dashboards that are no more."""
    (folder / "dashboards").mkdir(parents=True, exist_ok=True)
    made = documents()
    for old in (folder / "dashboards").glob("*.json"):
        if f"dashboards/{old.name}" not in made:
            old.unlink()
    for name, text in made.items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    write(FOLDER)
    for name, text in chart_files().items():
        (CHART / name).write_text(text)
