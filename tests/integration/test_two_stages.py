"""`diffserve` and `hadis` on the real broker: how drafts and hard prompts fare under their plans as the load changes.

Two workers of the engine `profile`, whose confidences are drawn, so that f(t) = t. Hardness is by the shipped rules.
"""

import pathlib
from collections.abc import Iterator

import pytest

from schemas.ids import new_request_id
from schemas.messages import GenerateRequest, Plan, Result, Stage
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.kafka.topics import create_topics
from streams.operator.explain import steps_of
from streams.settings import load
from tests.integration.load import Load, order
from tests.integration.pipeline import Pipeline

pytestmark = pytest.mark.broker

LAYOUT = {
    "rest": ["classifier", "router", "discriminator", "ledger", "planner"],
    "worker-1": ["worker"],
    "worker-2": ["worker"],
}
HARD = "four orange fish below two purple boats next to three white trees that are not red"
PROMPTS = (HARD, "a red heart", "a green moon", "two blue stars")
FEW, MANY = (
    2.0,
    7.0,
)  # requests a second: heavy generates three of four of the first, less than one of four of the second
LEVEL = """
[variants.{name}]
engine = "profile"
model = ""
scheduler = ""
steps = 4
guidance = 1.0
width = 48
height = 48
latency_ms = {{ 1 = {ms} }}
load_ms = 20
quality = {quality}
"""
# Images a second of a worker: light 16, middle 2.8, heavy 1.6. With a worker on each of a pair middle is too slow for
# three of four of seven a second; light is not, and heavy generates one of five again.
CATALOG = (
    "".join(
        LEVEL.format(name=name, ms=ms, quality=quality)
        for name, ms, quality in (("light", 60, 0.6), ("middle", 350, 0.9), ("heavy", 600, 1.0))
    )
    + """
[discriminators.look]
engine = "profile"
folder = ""
threshold = 0.3
deferral = [{}]
latency_ms = 1
""".format(", ".join(f"{{ threshold = {t / 10}, deferred = {t / 10} }}" for t in range(11)))
    + """
[[cascades]]
light = "light"
heavy = "heavy"
discriminator = "look"
settings = [{ router_ratio = 0, disc_ratio = 0.2, latency_ms = 130, quality = 0.8, hardness = 1.0, threshold = 0.2 }]

[[cascades]]
light = "middle"
heavy = "heavy"
discriminator = "look"
settings = [{ router_ratio = 0.5, disc_ratio = 0.2, latency_ms = 300, quality = 0.95, hardness = 0.5, threshold = 0.2 }]
"""
)


class Fleet(Pipeline):
    """A pipeline that says what its plans and results come to."""

    def ask(self, prompt: str) -> str:
        request = GenerateRequest(request_id=new_request_id(), prompt=prompt, created_ms=now_ms())
        self.write(encode(request), request.request_id.encode())
        return request.request_id

    @property
    def plan(self) -> Plan:
        return self.plans[-1][1]

    def threshold(self) -> float:
        """Of the newest plan's cascade."""
        return self.plan.cascades[0].threshold

    def drafts(self, ids: list[str], low: float, high: float) -> list[tuple[Stage, bool]]:
        """The drafts of ended requests that a threshold within these bounds judged; whether heavy made another."""
        paths = [steps_of(result) for result in self.ended_of(ids)]
        return [(path[0], len(path) > 1) for path in paths if low <= (path[0].threshold or 0.0) <= high]

    def ended_of(self, ids: list[str]) -> list[Result]:
        asked = set(ids.copy())
        return [each for each in self.results if each.request_id in asked]


@pytest.fixture(scope="module")
def fleet(broker_home: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    catalog = tmp_path_factory.mktemp("catalogs") / "two-stages.toml"
    catalog.write_text(CATALOG)
    kafka = {"prefix": "stages", "session_timeout_ms": 20000}
    settings = load({"home": broker_home, "catalog": str(catalog), "kafka": kafka, "planner": {"policy": "diffserve"}})
    create_topics(settings, ["light", "middle", "heavy"])
    started = Fleet(settings, tmp_path_factory.mktemp("logs"), str(catalog), ["planner.period_ms=500"], LAYOUT)
    try:
        started.start()
        yield started
    finally:
        started.close()


def test_diffserve_judges_drafts_by_a_threshold_that_falls_in_a_burst_and_rises_after_it(fleet: Fleet) -> None:
    low, high = 0.3, 0.5
    stream = Load(fleet.ask, PROMPTS, FEW).start()
    try:
        fleet.until(lambda: high <= fleet.threshold() < 1, lambda: f"a high threshold: {fleet.plan.reason}")
        fleet.until(lambda: bool(fleet.drafts(stream.ids, high, 0.99)), "drafts that it judged")
        stream.rate = MANY
        fleet.until(lambda: fleet.threshold() <= low, lambda: f"a low threshold: {fleet.plan.reason}")
        fleet.until(
            lambda: any(low < (draft.confidence or 0) < high for draft, _ in fleet.drafts(stream.ids, 0.01, low)),
            "a draft that is kept now, and was not before",
        )
    finally:
        stream.close()
    fleet.until(lambda: fleet.threshold() >= high, lambda: f"a high threshold again: {fleet.plan.reason}")
    fleet.completed(stream.ids)
    judged = fleet.drafts(stream.ids, 0, 1)
    assert len(judged) == len(stream.ids)
    for draft, is_again in judged:
        assert draft.confidence is not None
        assert draft.threshold is not None
        assert is_again == (draft.confidence < draft.threshold), draft


def test_hadis_sends_hard_prompts_past_the_draft_and_changes_its_pair_with_the_load(fleet: Fleet) -> None:
    order(fleet.settings, "pin", "hadis")

    def pair() -> tuple[str, set[str]]:
        return fleet.plan.cascades[0].level, set(fleet.plan.allocation.values())

    def first(prompt: str, version: int) -> set[str]:
        """The levels that a plan of this version or later chose for a prompt's first image."""
        ended = [each for each in fleet.ended_of(stream.ids) if each.prompt == prompt]
        return {s.level for s in (steps_of(each)[0] for each in ended) if s.probability and s.plan_version >= version}

    fleet.until(lambda: fleet.plan.policy == "hadis" and pair() == ("middle", {"middle", "heavy"}), "the better pair")
    fleet.until(fleet.is_ready, "workers on the better pair")
    stream, version = Load(fleet.ask, PROMPTS, FEW).start(), fleet.plan.version
    try:
        fleet.until(lambda: all(first(prompt, version) for prompt in PROMPTS), "an image of each prompt")
        assert pair()[0] == "middle", fleet.plan.reason
        assert [first(prompt, version) for prompt in PROMPTS] == [{"heavy"}, {"middle"}, {"middle"}, {"middle"}]
        stream.rate = MANY
        fleet.until(lambda: pair() == ("light", {"light", "heavy"}), lambda: f"a lighter pair: {fleet.plan.reason}")
        version = fleet.plan.version
        fleet.until(lambda: first(HARD, version) == {"light"}, "its row sends no prompt past light")
    finally:
        stream.close()
    fleet.until(lambda: pair()[0] == "middle", lambda: f"the better pair again: {fleet.plan.reason}")
    fleet.completed(stream.ids)
