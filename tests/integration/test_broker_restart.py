"""A broker that stops and comes back: every role goes on, and requests of before and after end once."""

import pathlib
from collections.abc import Callable, Iterator

import pytest

from streams.broker import address, embedded
from streams.settings import load
from tests.integration.pipeline import Pipeline, all_completed, running_pipeline

pytestmark = pytest.mark.integration


@pytest.fixture
def pipeline(new_home: Callable[[], pathlib.Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    home = new_home()
    settings = load({"home": home, "kafka": {"prefix": "restart", "session_timeout_ms": 3000}})
    try:
        embedded.ensure(settings)
        with running_pipeline(settings, tmp_path_factory.mktemp("logs")) as pipeline:
            yield pipeline
    finally:
        embedded.stop(settings)
        assert address.find(settings) is None, f"a broker still runs in {home}"


def test_requests_of_before_and_after_a_restart_of_the_broker_end_once(pipeline: Pipeline) -> None:
    all_completed(pipeline.wait_all(pipeline.submit(10)))
    before = pipeline.submit(10)
    embedded.stop(pipeline.settings)
    embedded.ensure(pipeline.settings)
    pipeline.until(pipeline.is_ready, "all roles back")
    all_completed(pipeline.wait_all([*before, *pipeline.submit(20)]))
