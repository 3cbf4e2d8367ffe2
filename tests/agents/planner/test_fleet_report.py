"""What `pochade fleet` and `plan show|diff` say of components."""

import dataclasses
import json
from typing import Any

import pytest
from click.testing import CliRunner

from agents.commands.fleet import fleet
from agents.commands.plan_tables import print_plan
from agents.planner import live
from agents.planner.describing import differences
from agents.planner.fleet_report import device_in_words, fleet_report
from agents.planner.live import Live
from planner.observation.components import ComponentLog, ObservedComponents
from planner.observation.observation import Observation
from planner.observation.workers import ReceivedHeartbeat
from schemas.messages import GenerateOptions, Plan, ResidencyPlan, WorkerComponents, WorkerDevice
from streams.settings import load
from tests.builders import NOW_MS, a_catalog, a_heartbeat, a_plan, a_worker, sized_variant

CATALOG = a_catalog(on_request={"styles": sized_variant()})
WORKERS = {
    "w-1": WorkerComponents(
        held={"device": ("base:poster",), "host": ("base:poster",), "volume": ("base:poster", "base:chalk")},
        held_bytes={"device": 1000, "host": 1000, "volume": 2000},
        budget_bytes={"device": 1500, "host": 4000, "volume": 9000},
        hits={"device": 6, "host": 1, "volume": 1, "remote": 2},
        moved_bytes={"volume": 2000, "host": 2000, "device": 3000},
        loads=4,
    ),
    "w-2": WorkerComponents(held={"device": ("base:poster", "adapter:candy")}, hits={"device": 10}),
}
RESIDENCY = ResidencyPlan(
    workers={"w-1": {"base:poster": "device", "base:chalk": "host"}, "w-2": {"base:poster": "device"}}
)
PLAN = a_plan(allocation={"w-1": "styles", "w-2": "styles", "w-3": "light"}, residency=RESIDENCY)


def an_observed_fleet(workers: dict[str, WorkerComponents] = WORKERS) -> Observation:
    log = ComponentLog(CATALOG)
    for n in range(10):
        log.on_request(GenerateOptions(model="chalk" if n < 4 else "poster"), "", NOW_MS)
    beats = {
        w: ReceivedHeartbeat(a_heartbeat(worker_id=w, variant="styles", components=each), NOW_MS)
        for w, each in workers.items()
    }
    views = (a_worker("w-1", "styles"), a_worker("w-2", "styles"), a_worker("w-3", "light"))
    return Observation(
        now_ms=NOW_MS,
        demand_rps=1.0,
        workers=views,
        components=log.observed(beats, ("w-1", "w-2", "w-3"), None, NOW_MS),
    )


def test_every_component_and_tier_of_every_worker_is_listed_with_what_it_lacks() -> None:
    found = fleet_report(an_observed_fleet(), PLAN)
    rows = {row["worker"]: row for row in found["workers"]}
    assert rows["w-1"]["held"] == {
        "device": ["base:poster"], "host": ["base:poster"], "volume": ["base:chalk", "base:poster"],
    }  # fmt: skip
    assert rows["w-1"]["hit_rates"] == {"device": 0.6, "host": 0.1, "volume": 0.1, "remote": 0.2}
    assert (rows["w-1"]["missing"], rows["w-2"]["missing"]) == (["base:chalk"], [])
    assert rows["w-3"]["reports_components"] is False
    assert (found["hits"], found["loads"]) == ({"device": 16, "host": 1, "volume": 1, "remote": 2}, 4)
    assert found["moved_bytes"] == {"device": 3000, "host": 2000, "volume": 2000}


def test_components_are_counted_by_the_nearest_tier_that_holds_them_and_by_demand() -> None:
    found = {row["component"]: row for row in fleet_report(an_observed_fleet(), PLAN)["components"]}
    assert [*found] == ["base:poster", "base:chalk", "adapter:candy"]
    poster, chalk = found["base:poster"], found["base:chalk"]
    assert (poster["popularity"], poster["requests"], poster["device"], poster["wanted"]) == ("hot", 6.0, 2, 2)
    assert (chalk["device"], chalk["host"], chalk["volume"], chalk["wanted"]) == (0, 0, 1, 1)


def test_the_mismatch_is_that_of_demand_with_what_devices_hold_and_with_all_alike() -> None:
    """.6 and .4 are asked for: all alike would be .5 each, held is 1 and 0."""
    assert fleet_report(an_observed_fleet(), PLAN)["mismatch"] == {
        "styles": {"uniform": 0.2, "held": 0.8, "misplaced_share": 0.4}
    }


@pytest.mark.parametrize("components", [None, ObservedComponents()])
def test_a_fleet_without_components_is_reported_as_such(components: ObservedComponents | None) -> None:
    seen = dataclasses.replace(an_observed_fleet(), components=components)
    found = fleet_report(seen, a_plan())
    assert (found["components"], found["mismatch"], found["hit_rates"]) == ([], {}, {})
    assert found["places_components"] is False


def shown(
    monkeypatch: pytest.MonkeyPatch, plan: Plan | None, *options: str, workers: dict[str, WorkerComponents] = WORKERS,
    out: dict[str, str] | None = None, devices: dict[str, WorkerDevice] | None = None,
) -> str:  # fmt: skip
    seen = Live(an_observed_fleet(workers), plan, None, out or {}, devices or {})
    monkeypatch.setattr(live, "observe_once", lambda *_: seen)
    done = CliRunner().invoke(fleet, [*options], obj=lambda: load({"catalog": "tiny"}))
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_prints_it_for_people_and_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, PLAN)
    assert "plan 1 by test says who holds what" in text
    assert "components of jobs found in device 80%, host 5%, volume 5%, remote 10%" in text
    assert "4 loads that a job waited for, 3 KB into device, 2 KB into host, 2 KB into volume moved" in text
    assert "mismatch of styles's bases: 0.80 as held, 0.20 if all were held alike; 40%" in text
    assert "no plan is in force" in shown(monkeypatch, None)
    values: dict[str, Any] = json.loads(shown(monkeypatch, PLAN, "-o", "json"))
    assert values == json.loads(json.dumps(fleet_report(an_observed_fleet(), PLAN)))


def test_a_worker_that_is_sick_is_shown_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "worker w-9 is sick: CUDA error" in shown(monkeypatch, PLAN, out={"w-9": "sick: CUDA error"})


CARD = WorkerDevice(
    device="cuda:0", index=3, uuid="GPU-1", model="NVIDIA H200", used_bytes=71_300_000_000, free_bytes=69_700_000_000,
    temperature_c=64, utilisation=0.97, age_ms=900,
)  # fmt: skip
OLD = dataclasses.replace(CARD, age_ms=61_000, used_bytes=None)


@pytest.mark.parametrize(
    ("device", "words"),
    [
        (None, ""),
        (WorkerDevice(device="cpu"), "cpu"),
        (WorkerDevice(device="cuda:0", index=5), "card 5"),
        (CARD, "card 3 NVIDIA H200, 71.3 of 141 GB, 64 °C, 97 % busy"),
        (dataclasses.replace(CARD, utilisation=None, temperature_c=None), "card 3 NVIDIA H200, 71.3 of 141 GB"),
        (OLD, "card 3 NVIDIA H200, 64 °C, 97 % busy, read 61 s before"),
    ],
)
def test_a_device_is_described_as_far_as_it_is_known(device: WorkerDevice | None, words: str) -> None:
    assert device_in_words(device) == words


def test_each_workers_card_is_shown_to_people_and_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "w-1 runs on card 3 NVIDIA H200, 71.3 of 141 GB, 64 °C" in shown(monkeypatch, PLAN, devices={"w-1": CARD})
    values = json.loads(shown(monkeypatch, PLAN, "-o", "json", devices={"w-1": CARD}))
    assert values["devices"] == {"w-1": dataclasses.asdict(CARD)}


def test_workers_that_have_left_the_bases_are_not_said_to_have_used_none(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, PLAN, workers={})
    assert "no live worker serves a variant that has bases" in text
    assert "no job has used a component" not in text
    assert "base:poster" in text, "demand is listed all the same"
    assert "no job has used a component of these workers" in shown(
        monkeypatch, PLAN, workers={"w-1": WorkerComponents()}
    )


def test_plans_are_shown_and_compared_with_their_residency(capsys: pytest.CaptureFixture[str]) -> None:
    print_plan(PLAN, None)
    text = capsys.readouterr().out
    assert "base:poster: device of 2" in text
    assert "base:chalk: host of 1" in text
    before = dataclasses.replace(PLAN, residency=None)
    assert differences(PLAN, PLAN) == []
    assert differences(before, PLAN) == [
        ("who holds components", "as each worker used last", "as the plan says"),
        ("components of w-1", "-", "base:chalk in host, base:poster in device"),
        ("components of w-2", "-", "base:poster in device"),
    ]
