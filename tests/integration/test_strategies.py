"""`argus` on the real broker: both strategies and the way between them, while the vector store is frozen and thawed.

Two workers of the engine `profile` and the shipped classifiers. The vector store is the file of `exact`: a pipe in its
place answers nobody, as a frozen server does. Probes are made oftener than every five seconds, and lookups may take all
that a hit saves instead of 30 % of it, 100 ms at most: a busy machine alone should not cut them.
"""

import contextlib
import itertools
import json
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from planner.catalog.entries import reuse_step, variant_of
from replay.local.processes import RoleProcess
from schemas.ids import new_request_id
from schemas.messages import GenerateJob, GenerateRequest, Heartbeat, Plan, Stage, StageReuse
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
from tests.integration.load import Load, order
from tests.integration.pipeline import Pipeline
from tests.integration.waiting import ask

pytestmark = pytest.mark.broker

LAYOUT = {
    "rest": ["classifier", "router", "discriminator", "ledger", "planner", "indexer"],
    "worker-1": ["worker"],
    "worker-2": ["worker"],
}
VARIANTS = ("light", "heavy")
# Requests a second: more than both workers generate in full, fewer than one generates with the light model; with a
# margin of 1.05 * 1.5 more than one light and one heavy worker generate. The least such: a backlog takes its time.
RATE = 2.8
SURGE = 12.0  # more than they do from step 6
STEPS = 8
PATIENT = """
import functools
from agents.worker import lookups, reuse
from planner.reuse.lookups import breaker, deadline, worker
worker.Breaker = functools.partial(breaker.Breaker, breaker.BreakerRule(probe_ms=400))
reuse.Lookups = functools.partial(lookups.Lookups, deadlines=deadline.DeadlineRule(max_ms=1000, share=1.0))
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


class Fleet(Pipeline):
    """A pipeline that remembers all jobs and heartbeats, and whose vector store can be frozen."""

    def __init__(self, settings: Settings, logs: pathlib.Path, catalog: pathlib.Path) -> None:
        extra = [
            "vectors.url=exact", "planner.period_ms=500", "planner.forecast=ewma", "planner.parameters.return_s=1",
        ]  # fmt: skip
        super().__init__(settings, logs, str(catalog), extra, LAYOUT)
        self.jobs: list[GenerateJob] = []
        self.beats: list[tuple[int, Heartbeat]] = []  # (broker time, heartbeat)
        self._thawed: list[int] = []  # pipes, which stay open for who has yet to read them
        self._failed = ""  # what was waited for in vain
        self._is_lost = False  # and it did not get well either
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

    def until(self, condition: Callable[[], bool], what: str | Callable[[], str]) -> None:
        if self._is_lost:
            pytest.fail(f"no test waits for this fleet any more, as it did not get well after: {self._failed}")
        try:
            super().until(condition, what)
        except pytest.fail.Exception:
            self._is_lost = bool(self._failed)
            self._failed = self._failed or (what if isinstance(what, str) else what())
            raise

    def recover(self) -> None:
        """After a wait in vain, wait once more for a fleet that reuses; in vain too, and no test waits any more."""
        if self._failed:
            self.until(lambda: self.is_ready() and self.stage() == "reuse", f"a fleet well again after: {self._failed}")
            self._failed = ""

    def process(self, name: str) -> RoleProcess:
        usual = super().process(name)
        python, flag, start, *options = usual.command
        patched = PATIENT + start if name.startswith("worker") else start
        return replace(usual, command=(python, flag, patched, *options))

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

    def is_cut(self, since_ms: int) -> bool:
        """Whether a worker has said since then that lookups get no answer: a busy machine cuts them, too."""
        health = [beat.reuse for at_ms, beat in list(self.beats) if at_ms > since_ms and beat.reuse is not None]
        return any(each.breaker != "closed" or each.unanswered > 0.05 for each in health)

    def served(self, since_ms: int) -> list[Stage]:
        """The first stages of what was generated under plans of this moment or later."""
        versions = {plan.version for _, plan in self.plans if plan.created_ms >= since_ms}
        firsts = [stages[0] for result in self.results if (stages := steps_of(result))]
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
def running(broker_home: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    catalog = tmp_path_factory.mktemp("catalogs") / "two-strategies.toml"
    catalog.write_text(CATALOG)
    kafka = {"prefix": "strategies", "session_timeout_ms": 3000}
    settings = load({"home": broker_home, "catalog": str(catalog), "kafka": kafka, "planner": {"policy": "argus"}})
    create_topics(settings, list(VARIANTS))
    started = Fleet(settings, tmp_path_factory.mktemp("logs"), catalog)
    try:
        yield started.start()
    finally:
        started.close()


@pytest.fixture(scope="module")
def stream(running: Fleet) -> Iterator[Load]:
    with asking(running) as load:
        yield load


@pytest.fixture
def fleet(running: Fleet) -> Fleet:
    running.recover()
    return running


@contextlib.contextmanager
def asking(fleet: Fleet) -> Iterator[Load]:
    load = Load(fleet.ask, PROMPTS, RATE).start()
    try:
        yield load
    finally:
        load.close()


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
        fleet.until(lambda: "leaving" in fleet.stages_since(first), "a plan that leaves reuse")
        fleet.until(lambda: fleet.stage() == "models", lambda: f"smaller models: {fleet.stages_since(first)}")
        left_ms = now_ms()
        assert fleet.stages_since(first) == ["reuse", "leaving", "models"]
        fleet.until(lambda: len(fleet.served(left_ms)) >= 6, "images of models")
        assert fleet.stages_since(first) == ["reuse", "leaving", "models"], "it stays away while nobody answers"
        last = fleet.plans[-1][1].version
    fleet.until(lambda: fleet.stage() != "models", "a plan that returns to reuse")
    return_ms = next(plan.created_ms for _, plan in fleet.plans if plan.version > last and stage_of(plan) != "models")
    fleet.until(lambda: fleet.stage() == "reuse", lambda: f"reuse again: {fleet.stages_since(last)}")
    back_ms, stages = now_ms(), fleet.stages_since(last)
    assert stages in (["models", "returning", "reuse"], ["models", "reuse"]) or fleet.is_cut(return_ms), stages
    fleet.until(
        lambda: any(stage.reuse is not None and stage.reuse.step for stage in fleet.served(back_ms)), "a hit again"
    )
    check_way(fleet, first, last)
    asked = stream.ids.copy()
    fleet.completed(asked)
    models = of_strategy(fleet, "models")
    back = {plan.version for _, plan in fleet.plans if stage_of(plan) == "returning"}
    reusing = {job.plan_version for job in models if reuse_step(job.level)}
    assert reusing <= back, "only on the way back, with those that are there"
    check_classes(fleet, models)
    while_away = [stage for stage in fleet.served(frozen_ms) if stage.level in VARIANTS]
    assert {stage.level for stage in while_away} == set(VARIANTS)


def check_way(fleet: Fleet, first: int, last: int) -> None:
    """From reuse to models: at once in full on who is there, then in waves, to more small models than it will need."""
    found = [(at, plan) for at, plan in fleet.plans if first <= plan.version <= last and stage_of(plan) == "leaving"]
    leaving = [plan for _, plan in found]
    assert all(plan.strategy == "models" and plan.reuse is not None for plan in leaving), "lookups go on being tested"
    assert {level for route in leaving[0].routes for level in route.levels} == {"heavy"}, "K = 0 at once"
    assert sorted(leaving[0].allocation.values()) == ["heavy", "light"], "half of the fleet goes first"
    for written_ms, plan in found:  # heartbeats come while it is made, too
        routed = {variant_of(level) for route in plan.routes for level in route.levels}
        ready = {beat.variant for at, beat in fleet.beats if at <= written_ms and serves(beat, at, plan)}
        assert routed <= ready, (plan.version, routed, ready)
    on_light = {sum(variant == "light" for variant in plan.allocation.values()) for plan in leaving}
    assert on_light == {1, 2}, "1.5 times the demand: both workers, where one would do"


def serves(beat: Heartbeat, at: int, plan: Plan) -> bool:
    return at > plan.created_ms - 3000 and beat.state in ("ready", "painting")


def test_a_fleet_that_the_deepest_level_cannot_save_asks_for_more_workers(fleet: Fleet, stream: Load) -> None:
    stream.rate = SURGE
    try:
        fleet.until(lambda: fleet.plans[-1][1].reason.count("would serve all") > 0, "a plan that is saturated")
        plan = next(plan for _, plan in reversed(fleet.plans) if "would serve all" in plan.reason)
        assert (plan.strategy, set(plan.allocation.values())) == ("reuse", {"heavy"})
        assert {level for route in plan.routes for level in route.levels} == {"heavy~k6"}
        fleet.until(lambda: fleet.metric("pochade_desired_workers") > 2, "more workers are wanted than there are")
    finally:
        stream.close()


@contextlib.contextmanager
def pinned(fleet: Fleet, policy: str) -> Iterator[Plan]:
    """The first plan of a policy that an operator has pinned, once workers obey it."""
    order(fleet.settings, "pin", policy)
    try:
        fleet.until(lambda: fleet.plans[-1][1].policy == policy, f"a plan of {policy}")
        fleet.until(fleet.is_ready, f"workers that obey {policy}")
        yield fleet.plans[-1][1]
    finally:
        order(fleet.settings, "unpin")


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
    ("policy", "strategy", "quiet", "busy", "wanted"),
    [
        ("pac", "reuse", ["heavy", "heavy"], ["heavy", "heavy"], 2),
        ("clipper-heavy", "models", ["heavy", "heavy"], ["heavy", "heavy"], 3),
        ("proteus", "models", ["heavy", "heavy"], ["heavy", "light"], 2),
        ("sommelier", "models", ["heavy", "heavy"], ["light", "light"], 1),
        ("clipper-light", "models", ["light", "light"], ["light", "light"], 1),
    ],
)
def test_a_baseline_looks_at_no_prompt_and_answers_the_demand_by_its_own_rule(
    fleet: Fleet, policy: str, strategy: str, quiet: list[str], busy: list[str], wanted: int
) -> None:
    """`quiet`, `busy`: the workers' variants; `wanted`: workers that the demand takes at least, by its own choice."""

    mixes = policy in ("pac", "proteus")  # two levels as the demand grows

    def answers(variants: list[str], levels: int) -> bool:
        plan = fleet.plans[-1][1]
        return sorted(plan.allocation.values()) == variants and len(plan.routes[0].levels) == levels

    with pinned(fleet, policy) as first:
        fleet.until(lambda: answers(quiet, 1), lambda: f"{quiet} without demand: {fleet.plans[-1][1].reason}")
        with asking(fleet) as load:
            fleet.until(
                lambda: answers(busy, 1 + mixes) and fleet.metric("pochade_desired_workers") >= wanted,
                lambda: f"{busy} for {RATE}/s: {fleet.plans[-1][1].reason}",
            )
            fleet.until(lambda: is_blind(fleet, first.version, 1 + mixes), "prompts of each class on each level")
        fleet.completed(load.ids)
    plans = [plan for _, plan in fleet.plans if plan.version >= first.version and plan.policy == policy]
    for plan in plans:
        assert plan.strategy == strategy
        assert [route.label for route in plan.routes] == [""], "one route for all"
        assert (plan.reuse is not None) == (strategy == "reuse")
    served = [stage for stage in fleet.served(first.created_ms) if stage.plan_version >= first.version]
    assert {variant_of(stage.level) for stage in served} <= {*quiet, *busy}
    assert {stage.reuse is not None for stage in served} == {strategy == "reuse"}


def is_blind(fleet: Fleet, since: int, count: int) -> bool:
    """Whether a plan from version `since` on has `count` levels, and prompts of each class were sent to all of them."""
    levels = {plan.version: frozenset(plan.routes[0].levels) for _, plan in fleet.plans if plan.version >= since}
    sent: dict[frozenset[str], dict[str, set[str]]] = {}
    for job in list(fleet.jobs):
        if job.plan_version in levels and job.probability:
            label = job.classified.classes["models"]
            sent.setdefault(levels[job.plan_version], {}).setdefault(label, set()).add(job.level)
    return any(
        len(there) == count and len(classes) == 2 and all(seen == there for seen in classes.values())
        for there, classes in sent.items()
    )
