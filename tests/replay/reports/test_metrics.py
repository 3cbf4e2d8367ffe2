"""METRICS.md, the schema, the table of metrics and report.json say the same."""

import importlib.resources
import json
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from replay.load.record.outcome import outcome
from replay.load.record.request_records import request_records
from replay.reports.metrics import METRICS, OF, format_value, is_fid, signed
from replay.traces import poisson
from schemas.errors import Unknown
from streams.cli import main
from tests.paths import ROOT
from tests.replay.load.record.test_outcome import CREATED, IDS, TRACE, facts
from tests.replay.load.runs import a_history, answered, judging_plan

OF_COMPONENTS = {"bytes_moved", "loads", "prefetches", "load_s", "hits_by_tier", "replicas", "cold_starts", "updates"}
DOCUMENT = (ROOT / "replay" / "METRICS.md").read_text()
BY_NAME = ("by_level", "interval", "by_seed", "workers", "thresholds", "batch")  # keys below are names of the catalog's
WHOLE = ("setup", "made.versions", "policies.NAME.series.", "policies.NAME.planned.heavy_share",
         "policies.NAME.planned.admitted", "live.hops", "live.hops_by_time")  # reported as one  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A report by the command itself: two seeds, a cascade, a worker that dies."""
    place = tmp_path_factory.mktemp("report")
    (place / "trace.csv").write_text("\n".join(["arrival_ms", *(f"{ms:.0f}" for ms in poisson(20, 300, 1))]))
    (place / "failures.csv").write_text("at_s,worker,change\n4,w-0,down\n9,w-0,up\n")
    options = ["--policy", "diffserve", "--workers", "3", "--catalog", "profile", "--slo", "2", "--seeds", "2"]
    options += ["--price-per-hour", "2.5"]
    asked = ["simulate", str(place / "trace.csv"), *options, "--failures", str(place / "failures.csv")]
    ran = CliRunner().invoke(main, [*asked, "--report", str(place)])
    assert ran.exit_code == 0, ran.output
    return place


@pytest.fixture(scope="module")
def report(folder: pathlib.Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return read


def keys_of(value: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Every key with a value, as METRICS.md writes it."""
    for key, inner in value.items():
        here = path + ("NAME" if path == "policies." else key)
        is_whole = here in WHOLE or path in WHOLE or key in BY_NAME
        if isinstance(inner, Mapping) and not is_whole:
            yield from keys_of(inner, f"{here}.")
        elif isinstance(inner, list) and inner and isinstance(inner[0], Mapping):
            yield from (f"{here}[].{name}" for name in inner[0])
        else:
            yield here


def documented() -> set[str]:
    """The keys of the tables of METRICS.md; a heading with a key in it is what stands before them."""
    prefix, found = "", set()
    for line in DOCUMENT.splitlines():
        if line.startswith("## "):
            inside = re.search(r"`(policies\.[^`]*|live)`", line)
            prefix = f"{inside[1]}." if inside else ""
        elif key := re.match(r"\| `([^`]+)` \|", line):
            found.add(prefix + key[1])
    return found


def test_every_key_of_a_report_is_documented_and_none_that_is_not_there(report: dict[str, Any]) -> None:
    groups = {"policies.NAME.series", "policies.NAME.changes", "policies.NAME.planned"}
    sometimes = {"policies.NAME.planned.admitted", "policies.NAME.by_tier"}  # where plans shed; where tiers differ
    sometimes |= {"policies.NAME.by_tenant", "policies.NAME.stores"}  # where tenants do; where the store was away
    sometimes |= {"policies.NAME.reuse"}  # where a plan asked for it
    sometimes |= {f"policies.NAME.{key}" for key in OF_COMPONENTS}  # where requests need some
    sometimes |= {"policies.NAME.scale"}  # where workers come and go
    found, reported = set(keys_of(report)), {key for key in documented() if not key.startswith("live.")}
    assert found - reported == set()
    assert reported - found - groups == sometimes


def test_what_only_a_live_run_tells_is_documented_and_no_more() -> None:
    history = a_history({0: answered(IDS[0])}, CREATED, (judging_plan(),))
    live = outcome(facts(), TRACE, IDS, history, request_records(history, IDS.all))["live"]
    assert set(keys_of(live, "live.")) == {key for key in documented() if key.startswith("live.")}


def test_a_report_keeps_to_its_schema_which_knows_nothing_else(report: dict[str, Any]) -> None:
    schema = json.loads(importlib.resources.files("schemas").joinpath("report.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(report)
    sometimes = {"interval", "by_tier", "by_tenant", "stores", "reuse", "scale", *OF_COMPONENTS}
    for name, figures in report["policies"].items():
        assert schema["$defs"]["policy"]["properties"].keys() == figures.keys() | sometimes, name
    for breaking in ({"version": 2}, {"extra": 1}, {"policies": {}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(schema).validate(report | breaking)


def test_every_figure_of_a_policy_is_a_metric_and_each_metric_is_there(report: dict[str, Any]) -> None:
    apart = {"by_level", "planned", "interval", "by_seed", "series", "changes"}
    for figures in report["policies"].values():
        flat = {key for key in keys_of(figures) if key.split(".")[0].split("[")[0] not in apart}
        assert flat == OF.keys()
        assert figures["by_seed"].keys() == {key for key in OF if not is_fid(key)}
        assert all(len(values) == 2 for values in figures["by_seed"].values())


def test_the_page_is_written_beside_the_report_and_tells_how_to_make_it_again(folder: pathlib.Path) -> None:
    page = (folder / "report.html").read_text()
    assert "pochade simulate" in page
    assert "--seeds 2" in page
    assert "--report" not in page


def test_the_split_by_chance_is_simulated_though_nobody_asked(report: dict[str, Any]) -> None:
    assert report["baseline"] in report["policies"]
    assert report["setup"]["seeds"] == 2


def test_numbers_are_reported_in_their_units() -> None:
    assert format_value("violation_rate", 0.0123) == "1.23 %"
    assert format_value("fid", 17.361) == "17.36"
    assert format_value("quality", 0.98765) == "0.9877"
    assert format_value("cost_worker_s", 5564.25) == "5,564"
    assert format_value("switches", 3.5) == "3.5"
    assert format_value("quality", None) == "–"  # noqa: RUF001
    assert signed("violation_rate", -0.0123) == "-1.23 points"
    assert signed("latency_s.p99", 0.5) == "+0.50"


def test_an_unknown_metric_is_reported_with_the_nearest() -> None:
    with pytest.raises(Unknown, match="did you mean 'quality'"):
        format_value("qualty", 1.0)
    assert len(OF) == len(METRICS)
