"""The object store goes away: workers and the discriminator wait for it in place, as the live ones do."""

import importlib.resources
import json
import pathlib
from typing import Any

import jsonschema
import numpy as np
from click.testing import CliRunner

from planner.observation.workers import STALLED
from planner.serving.dispatch.worker import WorkerLogic
from replay.reports.page import render
from replay.simulation.draws.hop_latencies import RANKS, HopLatencies
from replay.simulation.event_queue import EventQueue
from replay.simulation.results.figures import figures_of
from replay.simulation.roles.workers.stores import ObjectStore
from replay.simulation.roles.workers.worker import Worker
from replay.simulation.run import Ran
from replay.simulation.session import report_of
from replay.simulation.setup import OBJECT_STORE, STORES, Timing
from replay.traces import poisson
from schemas.messages import Status
from streams.cli import main
from tests.builders import a_catalog, a_discriminator, a_variant
from tests.replay.simulation.roles.workers.test_group import a_job
from tests.replay.simulation.runs import SERVICE_MS, a_setup, arrivals, down, one_level, ran, timed, up

LATE: dict[str, Any] = {"drops": False, "slo_ms": 1000.0}


def alone(at_ms: float, *outages: Any, **changes: Any) -> Ran:
    """One request then, one worker, one level that takes 20 ms."""
    values = {"catalog": one_level(), "policy": "clipper-light", "workers": 1, "outages": outages} | LATE | changes
    return ran(a_setup(**values), np.array([at_ms]))


def latency_ms(run: Ran) -> float:
    mean = run.tally.latencies.mean()
    assert mean is not None
    return mean


def cascade(threshold: float, **changes: Any) -> dict[str, Any]:
    catalog = a_catalog(discriminators={"look": a_discriminator(latency_ms=0.0)})
    values = {"catalog": catalog, "policy": "diffserve-static", "parameters": {"threshold": threshold}, "workers": 2}
    return values | LATE | changes


def test_an_image_is_kept_at_the_first_try_after_the_store_came_back() -> None:
    gone, back = down(1, OBJECT_STORE), up(2, OBJECT_STORE)
    assert latency_ms(alone(500, gone, back)) == SERVICE_MS
    waits_ms = 100 + 200 + 400 + 800  # from 1,020 on: tries at 1,120, 1,320, 1,720 and 2,520
    run = alone(1000, gone, back)
    assert latency_ms(run) == SERVICE_MS + waits_ms
    assert run.stores == {"object_down_s": 1.0, "waits": 1, "waited_s": waits_ms / 1000, "hung": 0, "on_blank": 0}


def test_a_run_whose_store_stays_tells_nothing_of_it() -> None:
    run = alone(500, down(30, "w-0"))
    assert run.stores == {}
    assert "stores" not in figures_of(run)


def test_what_waits_behind_a_waiting_worker_expires_at_its_deadline() -> None:
    outages = (down(1, OBJECT_STORE), up(21, OBJECT_STORE))
    setup = a_setup(catalog=one_level(), policy="clipper-light", workers=2, outages=outages)
    tally = ran(setup, np.arange(600) * 50.0).tally
    assert tally.open == 0
    assert tally.ends[Status.FAILED] == 0
    lost = tally.ends[Status.EXPIRED]
    assert 380 < lost < 520  # 20 s of 20 a second, and what came until the tries after it
    assert tally.ends[Status.COMPLETED] == 600 - lost


def test_the_discriminator_waits_too_and_all_that_comes_behind() -> None:
    """Generated and kept before the outage, on their way for 100 ms, fetched at the first one's try at 4.22 s."""
    on_its_way = Timing(hops=HopLatencies(judge=((100.0,) * len(RANKS),)))
    outages = (down(1.05, OBJECT_STORE), up(3, OBJECT_STORE))
    run = ran(a_setup(**cascade(0.0, timing=on_its_way, outages=outages)), np.array([1000.0, 1040.0]))
    assert run.stores["waits"] == 2  # the first one's image at the judge, the second's at its worker
    assert run.stores["waited_s"] == 3.1 + 3.1
    assert run.tally.ends == {Status.COMPLETED: 2}
    both = ran(a_setup(**cascade(0.0, timing=on_its_way, outages=outages)), np.array([1000.0, 1001.0]))
    assert both.stores["waits"] == 1
    assert latency_ms(both) == (3220 + 3219) / 2


def test_thousands_behind_one_are_judged_when_it_is() -> None:
    on_its_way = Timing(hops=HopLatencies(judge=((30_000.0,) * len(RANKS),)))
    outages = (down(30, OBJECT_STORE), up(55, OBJECT_STORE))
    run = ran(a_setup(**cascade(0.0, timing=on_its_way, outages=outages)), arrivals(90, 1800))
    assert run.tally.ends == {Status.COMPLETED: 1800}
    assert run.stores["waits"] == 1


def test_the_store_counts_who_waits_for_it_and_for_how_long() -> None:
    events = EventQueue()
    store = ObjectStore(events)
    store.change(is_up=False)
    store.waited(100.0, is_first=True)
    store.waited(200.0, is_first=False)
    store.waited(100.0, is_first=True)
    events.at(9000, store.change, True)
    events.advance(30_000)
    told = store.as_table(30_000)
    assert told["waits"] == 2
    assert (told["waited_s"], told["object_down_s"]) == (0.4, 9.0)


def test_a_worker_that_waits_for_long_takes_no_more_jobs_until_it_goes_on() -> None:
    worker = Worker("w-0", 0.0)
    worker.state, worker.since_ms, worker.logic = "painting", 1000.0, WorkerLogic(a_variant(latency_ms={1: 20.0}))
    worker.logic.begin([1], 1)
    assert worker.reported_state(9000.0) == "painting"
    worker.call = [a_job(1)]
    assert worker.reported_state(1500.0) == "painting"
    assert worker.reported_state(9000.0) == STALLED


def test_a_worker_waits_for_the_store_for_as_long_as_it_takes_and_no_job_fails_for_that() -> None:
    run = alone(1000, down(0.5, OBJECT_STORE), up(3600, OBJECT_STORE))
    assert run.tally.ends == {Status.COMPLETED: 1}
    assert run.stores["hung"] == run.tally.retried == 0


def test_a_draft_that_does_not_come_in_time_is_generated_from_noise() -> None:
    """The judge sends it on as the store goes away: 6.3 s of tries, then from the beginning."""
    parameters = {"threshold": 1.0, "paint_over_step": 10.0}
    trace = np.array([1000.0])
    catalog = a_catalog(discriminators={"look": a_discriminator(latency_ms=10.0)})
    values = cascade(1.0, catalog=catalog, parameters=parameters)
    there = ran(a_setup(**values), trace)
    gone = ran(a_setup(**values, outages=(down(1.025, OBJECT_STORE), up(9, OBJECT_STORE))), trace)
    assert (there.stores, gone.stores["on_blank"]) == ({}, 1)
    saved_ms = 200 - (latency_ms(there) - 20 - 20)
    assert saved_ms > 0
    assert latency_ms(gone) > 6300 + 200


def test_an_outage_of_both_stores_is_reported(tmp_path: pathlib.Path) -> None:
    trace, failures = tmp_path / "trace.csv", tmp_path / "failures.csv"
    trace.write_text("\n".join(["arrival_ms", *(f"{ms:.0f}" for ms in poisson(20, 200, 1))]))
    rows = [f"{at},{store},{change}" for at, change in ((2, "down"), (6, "up")) for store in STORES]
    failures.write_text("\n".join(["at_s,worker,change", *rows]))
    options = ["--policy", "clipper-light", "--workers", "3", "--catalog", "profile", "--slo", "2", "--seeds", "2"]
    done = CliRunner().invoke(main, ["simulate", str(trace), *options, "--failures", str(failures)])
    assert done.exit_code == 0, done.output
    assert "--failures: 2 of the 4 changes are of the vector-store and change nothing" in done.output
    assert "clipper-light: object store away 4 s, 3 waits for it of 6.3 s" in " ".join(done.output.split())


def test_an_outage_is_in_the_report_and_on_its_page() -> None:
    setup = a_setup(outages=(down(2, OBJECT_STORE), up(6, OBJECT_STORE), down(7, "w-0")))
    trace = timed(arrivals(20, 200))
    report = report_of(trace, {"random-split": [ran(setup, trace.arrival_ms)] * 2})
    assert report["policies"]["random-split"]["stores"]["object_down_s"] == 4.0
    made = {"made": {"command": "", "versions": {}}}
    schema = json.loads(importlib.resources.files("schemas").joinpath("report.schema.json").read_text("utf-8"))
    jsonschema.validate(json.loads(json.dumps(report | made)), schema)
    reported = render.setup(report | made)
    assert reported["workers"] == "4, 1 time one is lost"
    assert reported["outages of the object-store"] == "1"


def test_traffic_after_an_outage_is_served_as_before_it() -> None:
    trace = arrivals(20, 1200)
    setup = a_setup(policy="diffserve-static", workers=6, outages=(down(10, OBJECT_STORE), up(20, OBJECT_STORE)))
    timeline = ran(setup, trace).timeline
    at = int(35_000 // timeline.width_ms)
    arrived, in_time = timeline.arrived[at:].sum(), sum(timeline.in_time[at:])
    assert in_time >= 0.98 * arrived
