"""A level that a server of others generates, on the real broker: workers overlap calls, and one of them is killed."""

import pathlib
from collections import Counter
from collections.abc import Iterator

import pytest

from replay.bench.image_server import ImageServer
from streams.kafka.topics import create_topics
from streams.settings import load
from tests.integration.pipeline import Pipeline

pytestmark = pytest.mark.broker

CATALOG = """
[variants.light]
engine = "openai"
steps = 4
guidance = 1.0
width = 32
height = 32
latency_ms = {{ 1 = 300, 4 = 300 }}

[variants.light.server]
url = "{url}"
dialect = "vllm-omni"
in_flight = 4
"""


@pytest.fixture
def server() -> Iterator[ImageServer]:
    found = ImageServer(slots=8, service_s=0.3, jitter=0.5).start()
    yield found
    found.close()


@pytest.fixture
def pipeline(
    server: ImageServer, broker_home: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pipeline]:
    settings = load({"home": broker_home, "kafka": {"prefix": "served", "session_timeout_ms": 3000}})
    create_topics(settings, ["light"])
    catalog = tmp_path_factory.mktemp("catalog") / "mine.toml"
    catalog.write_text(CATALOG.format(url=server.url))
    found = Pipeline(settings, tmp_path_factory.mktemp("logs"), str(catalog))
    try:
        yield found.start()
    finally:
        found.close()


def test_every_request_ends_once_while_calls_overlap_and_a_worker_is_killed(
    pipeline: Pipeline, server: ImageServer
) -> None:
    ids = pipeline.submit(60)
    pipeline.until(lambda: pipeline.ended(ids) >= 12, "some have ended")
    pipeline.kill("worker-1")
    pipeline.start_role("worker-1")
    pipeline.completed(ids)
    assert server.most > 4, "both workers had several calls open"
    made = Counter(body["prompt"] for body in server.bodies)
    assert set(made) == {f"prompt number {n}" for n in range(60)}
    again = sum(made.values()) - len(made)
    assert again <= 24, "no more than the killed worker had in hand, and was handed out again as partitions moved"
