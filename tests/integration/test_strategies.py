"""`argus` on the real broker: both strategies and the way between them, while the vector store is frozen and thawed.

Two workers of the engine `profile` and the shipped classifiers. The vector store is the file of `exact`: a pipe in its
place answers nobody, as a frozen server does. Probes are made oftener than every five seconds, and nothing else is.
"""

import contextlib
import itertools
import json
import os
import pathlib
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from click.testing import CliRunner

from agents.commands.plan import plan as plan_command
from planner.catalog.entries import reuse_step, variant_of
from replay.local.processes import RoleProcess
from schemas.ids import new_request_id
from schemas.messages import GenerateJob, GenerateRequest, Heartbeat, Plan, Stage, StageReuse, Status
from schemas.record import Incoming
from schemas.topics import FLEET, jobs_topic
from streams.clock import now_ms
from streams.codec.avro import decode, encode
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.topics import create_topics
from streams.operator.explain import steps_of
from streams.settings import Settings, load
from streams.vectors.lite import vectors_home
from streams.vectors.open import collection_of
from tests.integration.pipeline import Pipeline
from tests.integration.waiting import ask

pytestmark = pytest.mark.integration

LAYOUT = {
    "rest": ["classifier", "router", "discriminator", "ledger", "planner", "indexer"],
    "worker-1": ["worker"],
    "worker-2": ["worker"],
}
VARIANTS = ("light", "heavy")
RATE = 3.3  # requests a second: more than both workers generate in full, fewer than they do from step 6
SURGE = 12.0  # more than they do from step 6
STEPS = 8
OFTENER = """
import functools
from planner.reuse.lookups import breaker, worker
worker.Breaker = functools.partial(breaker.Breaker, breaker.BreakerRule(probe_ms=400))
"""
# One prompt of each pair of classes: light or heavy of models, heavy~k4, heavy~k2 or heavy of reuse
PROMPTS = (
    "two blue stars",
    "a red heart",
    "three red hearts above a blue star",
    "four orange fish below two purple boats next to three white trees that are not red",
    "a red heart above a blue star",
    "a green moon",
)

COLOURS = ("green", "golden", "purple", "orange", "white", "black", "pink", "yellow")

# Images a second of a worker: heavy 1, from step 2 on 1.33, from step 4 on 2, from step 6 on 4, light 3
CATALOG = """
[variants.light]
engine = "profile"
model = ""
scheduler = ""
steps = 1
guidance = 1.0
width = 48
height = 48
latency_ms = { 1 = 333 }
load_ms = 1500
quality = 0.7

[variants.heavy]
engine = "profile"
model = ""
scheduler = ""
steps = 8
guidance = 2.0
width = 48
height = 48
latency_ms = { 1 = 1000 }
load_ms = 50
quality = 1.0

[reuse]
heavy = [
    { k = 2, cost_share = 0.75, quality = 0.98 },
    { k = 4, cost_share = 0.5, quality = 0.95 },
    { k = 6, cost_share = 0.25, quality = 0.9 },
]

[reuse_profile]
key = "words"
neighbours = [{ similarity = -1.0, share = 1.0 }]

[classifiers.models]
engine = "learned"
folder = "models/classifiers/models"
strategy = "models"
levels = ["light", "heavy"]

[classifiers.reuse]
engine = "learned"
folder = "models/classifiers/reuse"
strategy = "reuse"
levels = ["heavy~k6", "heavy~k4", "heavy~k2", "heavy"]
"""


class Load:
    """Asks for images at a rate, from a thread of its own, until it is closed."""

    def __init__(self, pipeline: "Fleet") -> None:
        self._pipeline = pipeline
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self.rate = RATE
        self.ids: list[str] = []

    def start(self) -> "Load":
        self._thread.start()
        return self

    def _run(self) -> None:
        for prompt in itertools.cycle(PROMPTS):
            if self._stopping.wait(1 / self.rate):
                return
            self.ids.append(self._pipeline.ask(prompt))

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()


class Fleet(Pipeline):
    """A pipeline that remembers all jobs and heartbeats, and whose vector store can be frozen."""

    def __init__(self, settings: Settings, logs: pathlib.Path, catalog: pathlib.Path) -> None:
        extra = [
            "vectors.url=exact", "planner.period_ms=500", "planner.forecast=ewma", "planner.parameters.return_s=1",
            "planner.load_shedding=false",
        ]  # fmt: skip
        super().__init__(settings, logs, str(catalog), extra, LAYOUT)
        self.jobs: list[GenerateJob] = []
        self.beats: list[tuple[int, Heartbeat]] = []  # (broker time, heartbeat)
        self._thawed: list[int] = []  # pipes, which stay open for who has yet to read them
        self._watching = TopicTailer(
            settings, [*(jobs_topic(variant, 1).name for variant in VARIANTS), FLEET], self._watch
        )

    def start(self) -> "Fleet":
        self._watching.start()
        super().start()
        return self

    def close(self) -> None:
        self._watching.close()
        super().close()
        for pipe in self._thawed:
            os.close(pipe)

    def process(self, name: str) -> RoleProcess:
        usual = super().process(name)
        python, flag, start, *options = usual.command
        return replace(usual, command=(python, flag, OFTENER + start, *options))

    def _watch(self, record: Incoming) -> None:
        if record.topic == FLEET:
            self.beats.append((record.timestamp_ms, decode(record.value, Heartbeat)))
        else:
            self.jobs.append(decode(record.value, GenerateJob))

    def ask(self, prompt: str) -> str:
        request = GenerateRequest(request_id=new_request_id(), prompt=prompt, created_ms=now_ms(), tenant="ann")
        self.write(encode(request), request.request_id.encode())
        return request.request_id

    def begun(self, prompts: Sequence[str]) -> StageReuse:
        """How an image of a prompt was begun; of the next where a busy machine cut the lookup, no fault."""
        for prompt in prompts:
            (result,) = self.wait_all([self.ask(prompt)])
            (stage,) = steps_of(result)
            assert stage.reuse is not None, result
            if stage.reuse.miss != "timeout":
                break
        return stage.reuse

    def stages_since(self, version: int) -> list[str]:
        """The stages of the switch, as plans from this version on name them, each once in a row."""
        named = [stage_of(plan) for _, plan in self.plans if plan.version >= version]
        return [stage for stage, _ in itertools.groupby(named)]

    def stage(self) -> str:
        return stage_of(self.plans[-1][1])

    def served(self, since_ms: int) -> list[Stage]:
        """The first stages of what was generated under plans of this moment or later."""
        versions = {plan.version for _, plan in self.plans if plan.created_ms >= since_ms}
        ended = [result for results in list(self.results.values()) for result in results]
        firsts = [stages[0] for result in ended if (stages := steps_of(result))]
        return [stage for stage in firsts if stage.plan_version in versions]

    def metric(self, name: str) -> float:
        address = re.findall(r"health and metrics on (\S+)/livez", self.log("rest"))[-1]
        found = re.search(rf"^{name} (\S+)$", ask(f"{address}/metrics")[1], re.MULTILINE)
        return float(found[1]) if found else 0.0

    @contextlib.contextmanager
    def frozen_store(self) -> Iterator[None]:
        """A vector store that answers nobody: whoever opens its file waits."""
        ours = collection_of(self.settings.kafka.prefix, "").rpartition("_")[0]  # other modules' stores lie beside it
        (file,) = vectors_home(self.settings).glob(f"{ours}*.jsonl")
        aside = file.with_suffix(".aside")
        file.rename(aside)
        os.mkfifo(file)
        try:
            yield
        finally:
            self._thawed.append(os.open(file, os.O_RDWR))  # those who wait read an empty file
            aside.rename(file)


def stage_of(plan: Plan) -> str:
    return str(json.loads(plan.memory).get("stage", "none"))


@pytest.fixture(scope="module")
def fleet(broker_home: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    catalog = tmp_path_factory.mktemp("catalogs") / "two-strategies.toml"
    catalog.write_text(CATALOG)
    kafka = {"prefix": "strategies", "session_timeout_ms": 3000}
    settings = load({"home": broker_home, "catalog": str(catalog), "kafka": kafka, "planner": {"policy": "argus"}})
    create_topics(settings, list(VARIANTS))
    running = Fleet(settings, tmp_path_factory.mktemp("logs"), catalog)
    try:
        yield running.start()
    finally:
        running.close()


@pytest.fixture(scope="module")
def stream(fleet: Fleet) -> Iterator[Load]:
    asking = Load(fleet).start()
    try:
        yield asking
    finally:
        asking.close()


def check_classes(fleet: Fleet, jobs: Sequence[GenerateJob]) -> None:
    """Every job is on a level of its own class under its plan's strategy, and classes differ in their levels."""
    plans, rows = {plan.version: plan for _, plan in fleet.plans}, dict[int, dict[str, dict[str, float]]]()
    for job in jobs:
        plan = plans[job.plan_version]
        if not job.probability:  # not drawn: it was sent to another variant, whose worker was there
            continue
        assert set(job.classified.classes) == {"models", "reuse"}, job
        label = job.classified.classes[plan.strategy]
        (route,) = (route for route in plan.routes if route.label == label)
        assert route.levels.get(job.level, 0.0) > 0, (job.level, label, route)
        rows.setdefault(plan.version, {})[label] = route.levels
    assert any(len({str(levels) for levels in row.values()}) > 1 for row in rows.values()), rows


def of_strategy(fleet: Fleet, strategy: str) -> list[GenerateJob]:
    versions = {plan.version for _, plan in fleet.plans if plan.strategy == strategy}
    return [job for job in list(fleet.jobs) if job.plan_version in versions]


def test_a_fleet_that_reuses_generates_all_on_one_variant_and_begins_at_the_step_of_the_level(
    fleet: Fleet,
    stream: Load,
) -> None:
    assert stream.rate == RATE, "more than is generated in full"

    def hits() -> list[Stage]:
        return [stage for stage in fleet.served(0) if stage.reuse is not None and stage.reuse.step]

    fleet.until(lambda: len(hits()) >= 12, "images that began from stored ones")
    jobs = of_strategy(fleet, "reuse")
    assert {job.variant for job in jobs} == {"heavy"}
    assert all(job.reuse_share == reuse_step(job.level) / STEPS for job in jobs)
    for stage in hits():
        assert stage.reuse is not None
        assert (stage.reuse.step, stage.reuse.steps) == (reuse_step(stage.level), STEPS)
    assert {job.classified.classes["reuse"] for job in jobs} == {"heavy~k4", "heavy~k2", "heavy"}
    assert {job.classified.classes["models"] for job in jobs} == {"light", "heavy"}
    check_classes(fleet, jobs)


def test_a_frozen_store_sends_the_fleet_to_smaller_models_and_a_healthy_one_brings_it_back(
    fleet: Fleet, stream: Load
) -> None:
    fleet.until(lambda: fleet.stage() == "reuse" and len(of_strategy(fleet, "reuse")) > 10, "a plan that reuses")
    frozen_ms, first = now_ms(), fleet.plans[-1][1].version
    with fleet.frozen_store():
        fleet.until(lambda: fleet.stage() == "models", lambda: f"smaller models: {fleet.stages_since(first)}")
        left_ms = now_ms()
        assert fleet.stages_since(first) == ["reuse", "leaving", "models"]
        fleet.until(lambda: len(fleet.served(left_ms)) >= 6, "images of models")
        assert fleet.stages_since(first) == ["reuse", "leaving", "models"], "it stays away while nobody answers"
        last = fleet.plans[-1][1].version
    fleet.until(lambda: fleet.stage() == "reuse", lambda: f"reuse again: {fleet.stages_since(last)}")
    back_ms = now_ms()
    assert fleet.stages_since(last) in (["models", "returning", "reuse"], ["models", "reuse"])
    fleet.until(
        lambda: any(stage.reuse is not None and stage.reuse.step for stage in fleet.served(back_ms)), "a hit again"
    )
    check_way(fleet, first, last)
    asked = stream.ids.copy()
    assert {result.status for result in fleet.wait_all(asked)} == {Status.COMPLETED}
    models = of_strategy(fleet, "models")
    back = {plan.version for _, plan in fleet.plans if stage_of(plan) == "returning"}
    reusing = {job.plan_version for job in models if reuse_step(job.level)}
    assert reusing <= back, "only on the way back, with those that are there"
    check_classes(fleet, models)
    while_away = [stage for stage in fleet.served(frozen_ms) if stage.level in VARIANTS]
    assert {stage.level for stage in while_away} == set(VARIANTS)


def check_way(fleet: Fleet, first: int, last: int) -> None:
    """From reuse to models: at once in full on who is there, then in waves, to more small models than it will need."""
    plans = [plan for _, plan in fleet.plans if first <= plan.version <= last]
    leaving = [plan for plan in plans if stage_of(plan) == "leaving"]
    assert all(plan.strategy == "models" and plan.reuse is not None for plan in leaving), "lookups go on being tested"
    assert {level for route in leaving[0].routes for level in route.levels} == {"heavy"}, "K = 0 at once"
    assert sorted(leaving[0].allocation.values()) == ["heavy", "light"], "half of the fleet goes first"
    for plan in leaving:
        routed = {variant_of(level) for route in plan.routes for level in route.levels}
        ready = {beat.variant for at, beat in fleet.beats if at <= plan.created_ms and serves(beat, at, plan)}
        assert routed <= ready, (plan.version, routed, ready)
    on_light = {sum(variant == "light" for variant in plan.allocation.values()) for plan in leaving}
    assert on_light == {1, 2}, "1.5 times the demand: both workers, where one would do"


def serves(beat: Heartbeat, at: int, plan: Plan) -> bool:
    return at > plan.created_ms - 3000 and beat.state in ("ready", "painting")


def test_a_fleet_that_the_deepest_level_cannot_save_asks_for_more_workers(fleet: Fleet, stream: Load) -> None:
    stream.rate = SURGE
    try:
        fleet.until(lambda: fleet.plans[-1][1].reason.count("saturated") > 0, "a plan that is saturated")
        plan = next(plan for _, plan in reversed(fleet.plans) if "saturated" in plan.reason)
        assert (plan.strategy, set(plan.allocation.values())) == ("reuse", {"heavy"})
        assert {level for route in plan.routes for level in route.levels} == {"heavy~k6"}
        fleet.until(lambda: fleet.metric("pochade_desired_workers") > 2, "more workers are wanted than there are")
    finally:
        stream.close()


@contextlib.contextmanager
def pinned(fleet: Fleet, policy: str) -> Iterator[Plan]:
    """The first plan of a policy that an operator has pinned, once workers obey it."""
    say(fleet.settings, "pin", policy)
    try:
        fleet.until(lambda: fleet.plans[-1][1].policy == policy, f"a plan of {policy}")
        fleet.until(fleet.is_ready, f"workers that obey {policy}")
        yield fleet.plans[-1][1]
    finally:
        say(fleet.settings, "unpin")


def say(settings: Settings, *arguments: str) -> None:
    done = CliRunner().invoke(plan_command, list(arguments), obj=lambda: settings, catch_exceptions=False)
    assert done.exit_code == 0, done.output


def test_nirvana_begins_as_far_along_as_the_neighbour_is_similar_on_the_best_model_alone(fleet: Fleet) -> None:
    with pinned(fleet, "nirvana") as plan:
        assert set(plan.allocation.values()) == {"heavy"}
        assert [dict(route.levels) for route in plan.routes] == [{"heavy~k4": 1.0}]
        known = "a red heart above a blue star"
        fleet.until(lambda: fleet.begun([known]).step > 0, "it is in the index")
        same = fleet.begun([known] * 9)
        edited = fleet.begun([f"a red heart above a {colour} star" for colour in COLOURS])
        assert (same.step, same.similarity) == (4, pytest.approx(1.0)), "25 of 50 steps"
        assert edited.similarity is not None
        assert 0.85 < edited.similarity < 0.95
        assert edited.step == (3 if edited.similarity >= 0.9 else 2), "20 or 15 of 50 steps"


@pytest.mark.parametrize(
    ("policy", "strategy", "variants"),
    [
        ("pac", "reuse", {"heavy"}),
        ("clipper-heavy", "models", {"heavy"}),
        ("proteus", "models", {"light", "heavy"}),
        ("clipper-light", "models", {"light"}),
    ],
)
def test_a_baseline_looks_at_no_prompt_and_serves_by_its_own_strategy(
    fleet: Fleet, policy: str, strategy: str, variants: set[str]
) -> None:
    with pinned(fleet, policy) as plan:
        assert plan.strategy == strategy
        assert set(plan.allocation.values()) <= variants
        assert [route.label for route in plan.routes] == [""], "one route for all"
        assert (plan.reuse is not None) == (strategy == "reuse")
        (result,) = fleet.wait_all([fleet.ask(PROMPTS[0])])
        (stage,) = steps_of(result)
        assert (stage.reuse is not None) == (strategy == "reuse")
        assert variant_of(stage.level) in variants
