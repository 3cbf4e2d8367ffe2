"""Without measured quality, on a running deployment: what asks for heavy, or what only heavy honours, gets it."""

import pathlib
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from agents.commands.plan import plan
from planner.catalog.option_limits import AS_IT_IS
from schemas.ids import new_request_id
from schemas.messages import GenerateOptions, Result
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.kafka.topics import create_topics
from streams.settings import Settings, load
from tests.builders import a_request
from tests.integration.pipeline import Pipeline

pytestmark = pytest.mark.broker

ROLES = {"front": ["classifier", "router", "discriminator", "ledger", "planner"], "worker-1": ["worker"],
         "worker-2": ["worker"]}  # fmt: skip
LEVEL = """
[variants.{name}]
engine = "profile"
model = ""
scheduler = ""
steps = 4
guidance = 1.0
width = 192
height = 128
latency_ms = {{ 1 = {ms} }}
load_ms = 50
"""
ADAPTED = """bases = ["plain"]
adapters = ["candy"]

[bases.plain]
source = "plain"

[adapters.candy]
source = "candy"
"""
SECONDS = 20  # where a request without a worker waited for minutes


@pytest.fixture(scope="module")
def settings(broker_home: pathlib.Path) -> Settings:
    kafka = {"prefix": "unmeasured", "session_timeout_ms": 20000}
    return load({"home": broker_home, "kafka": kafka, "planner": {"policy": "clipper-light"}})


@pytest.fixture(scope="module")
def pipeline(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    create_topics(settings, ["light", "heavy"])
    folder = tmp_path_factory.mktemp("unmeasured")
    catalog = folder / "own.toml"
    catalog.write_text(LEVEL.format(name="light", ms=20) + LEVEL.format(name="heavy", ms=200) + ADAPTED)
    extra = ["planner.period_ms=1000", "planner.worker_timeout_ms=20000"]
    running = Pipeline(settings, folder, catalog=str(catalog), extra=extra, roles=ROLES)
    try:
        yield running.start()
    finally:
        running.close()


def asked(pipeline: Pipeline, quality: str = "auto", options: GenerateOptions = AS_IT_IS) -> Result:
    """The only result of one request, which came within SECONDS."""
    request = a_request(request_id=new_request_id(), quality=quality, options=options, created_ms=now_ms())
    pipeline.write(encode(request), request.request_id.encode())
    (result,) = pipeline.completed([request.request_id])
    assert now_ms() - request.created_ms < 1000 * SECONDS
    return result


def test_heavy_answers_what_asks_for_it_though_the_plan_sends_all_else_to_light(pipeline: Pipeline) -> None:
    plain = asked(pipeline)
    assert plain.level == "light"
    high = asked(pipeline, "high")
    assert (high.level, high.overridden) == ("heavy", ())


def test_a_named_level_with_an_adapter_gets_a_worker(pipeline: Pipeline) -> None:
    adapted = asked(pipeline, options=GenerateOptions(model="heavy", adapters=("candy",)))
    assert adapted.level == "heavy"
    assert "adapter:candy@1" in adapted.components
    only_heavy = asked(pipeline, options=GenerateOptions(adapters=("candy",)))
    assert only_heavy.level == "heavy"


def test_the_default_policy_serves_the_best_level_and_says_that_it_goes_by_run_times(
    pipeline: Pipeline, settings: Settings
) -> None:
    done = CliRunner().invoke(plan, ["pin", "joint"], obj=lambda: settings, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    pipeline.until(lambda: pipeline.plans[-1][1].policy == "joint", "the pinned plan")
    assert asked(pipeline).level == "heavy"
    assert "no quality is measured" in pipeline.plans[-1][1].reason
