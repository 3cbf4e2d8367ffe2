import dataclasses
import importlib.resources
import json
import pathlib

import jsonschema  # type: ignore[import-untyped]
import numpy as np
import pytest

from planner.scaling.fleet import ScaleRules
from replay.bench.validation import setup_of
from replay.load.identity import Ids
from replay.load.record.outcome import Facts, fault, lateness, outcome, policy_of
from replay.load.record.request_records import request_records
from replay.reports import files
from replay.simulation.draws.hop_latencies import NO_LATENCIES
from schemas.errors import PochadeError
from schemas.messages import ScalePlan
from streams.settings import Settings
from tests.builders import NOW_MS, a_catalog, a_classified, a_job, a_request, an_image
from tests.replay.load.runs import a_history, a_trace, answered, judging_plan, painted_again

IDS = Ids("run", "abc", 4)
TRACE = a_trace([0.0, 100.0, 200.0, 300.0])
CREATED = {number: NOW_MS + 100 * number for number in range(3)}  # the fourth was never published


def facts(lateness_ms: tuple[float, ...] = (0.5, 1.5)) -> Facts:
    return Facts(
        name="run", settings=Settings(), catalog=a_catalog(), slo_ms=200.0, drops=True, workers=2, before=1,
        lateness_ms=lateness_ms, refused=1, scale=ScaleRules(warm=1, minimum={"heavy": 1}),
    )  # fmt: skip


def test_a_live_run_is_reported_in_the_keys_of_a_simulated_one() -> None:
    history = a_history({0: answered(IDS[0]), 1: painted_again(IDS[1])}, CREATED, (judging_plan(),))
    found = outcome(facts(), TRACE, IDS, history, request_records(history, IDS.all))
    assert {"version", "trace", "setup", "policies", "baseline"} <= set(found)
    assert found["policies"]["test"]["requests"] == 4
    assert found["policies"]["test"]["completed"] == 2
    live = found["live"]
    assert (live["published"], live["lost"], live["refused"], live["before"]) == (3, 1, 1, 1)
    assert live["lateness_ms"] == {"requests": 2, "p50": 1.0, "p95": 1.45, "max": 1.5}


def test_a_live_run_of_a_scaled_fleet_is_simulated_again_as_it_was_scaled() -> None:
    fixed, scaled = judging_plan(), dataclasses.replace(judging_plan(), scale=ScalePlan(targets={"heavy": 1}))
    setups = []
    for plan in (fixed, scaled):
        history = a_history({0: answered(IDS[0])}, CREATED, (plan,))
        found = outcome(facts(), TRACE, IDS, history, request_records(history, IDS.all))
        setups.append(setup_of(found, a_catalog(), NO_LATENCIES, 30_000.0))
    assert [(setup.workers, setup.scale.when) for setup in setups] == [(2, "never"), (1, "always")]
    assert dataclasses.replace(setups[1].scale, when="policy") == facts().scale


def test_nothing_published_is_no_run() -> None:
    with pytest.raises(PochadeError, match="nothing of the trace was published"):
        outcome(facts(), TRACE, IDS, a_history({}, {}), request_records(a_history({}, {}), IDS.all))


def test_the_policy_is_the_one_that_most_requests_ended_under() -> None:
    results = {n: answered(IDS[n]) for n in range(3)}
    assert policy_of(a_history(results)) == "test"
    assert policy_of(a_history({}, CREATED)) == "test"  # the plan's


def test_what_must_not_have_happened_is_reported() -> None:
    fine = {"lost": 0, "duplicates": 0, "published_twice": 0, "refused": 0}
    assert fault(fine) is None
    assert fault(fine | {"lost": 2, "published_twice": 1}) == (
        "2 published requests have no result; 1 requests were published twice"
    )


def test_a_session_that_published_nothing_was_not_late() -> None:
    assert lateness([]) == {"requests": 0, "p50": None, "p95": None, "max": None}
    assert lateness(list(np.arange(101.0)))["p95"] == 95


def test_a_live_report_is_what_the_schema_says(tmp_path: pathlib.Path) -> None:
    schema = json.loads(importlib.resources.files("schemas").joinpath("report.schema.json").read_text("utf-8"))
    images = tuple(an_image(a_job(a_classified(a_request(request_id=IDS[n])))) for n in range(2))
    history = a_history({0: answered(IDS[0])}, CREATED, (judging_plan(),), images=images)
    found = outcome(facts(), TRACE, IDS, history, request_records(history, IDS.all)) | {
        "made": {"command": "", "versions": {}}
    }
    jsonschema.validate(json.loads(json.dumps(found)), schema)
    (tmp_path / files.JSON_NAME).write_text(files.text_of(found))
    assert files.read(tmp_path) == json.loads(json.dumps(found))
