"""Images in S3: the whole pipeline generates into a bucket, and waits out an outage of it without losing anything."""

import contextlib
import pathlib
from collections.abc import Iterator

import pytest

from streams.kafka.topics import create_topics
from streams.settings import Settings, load
from streams.store.open import open_store
from streams.store.port import StoreUnavailable
from tests.integration.pipeline import Pipeline, all_completed
from tests.streams.store.s3_server import s3_server, set_up_credentials

pytestmark = pytest.mark.broker


class Bucket:
    """A server with one bucket that can go away and come back."""

    def __init__(self) -> None:
        self._running = contextlib.ExitStack()
        self.url = self._running.enter_context(s3_server("pictures"))

    def go(self) -> None:
        self._running.close()

    def come_back(self) -> None:
        self._running.enter_context(s3_server(port=int(self.url.rpartition(":")[2])))


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    set_up_credentials(monkeypatch)  # the roles inherit them, as they would in a deployment
    bucket = Bucket()
    yield bucket
    bucket.go()


@pytest.fixture
def settings(broker_home: pathlib.Path, bucket: Bucket) -> Settings:
    settings = load(
        {
            "home": broker_home,
            "kafka": {"prefix": "in-s3", "session_timeout_ms": 3000},
            "store": {"url": "s3://pictures/run", "s3_endpoint_url": bucket.url, "s3_region": "us-east-1"},
        }
    )
    create_topics(settings, ["light", "heavy"])
    return settings


@pytest.fixture
def pipeline(settings: Settings, tmp_path: pathlib.Path) -> Iterator[Pipeline]:
    pipeline = Pipeline(settings, tmp_path)
    for key, value in settings.store.model_dump(include={"url", "s3_endpoint_url", "s3_region"}).items():
        pipeline._options += ["--set", f"store.{key}={value}"]
    try:
        yield pipeline.start()
    finally:
        pipeline.close()


def test_images_lie_in_the_bucket_and_an_outage_of_it_loses_none(
    pipeline: Pipeline, settings: Settings, bucket: Bucket
) -> None:
    store = open_store(settings)
    before = pipeline.wait_all(pipeline.submit(5))
    bucket.go()
    with pytest.raises(StoreUnavailable):
        store.get(before[0].image_uri or "")
    ids = pipeline.submit(10)
    pipeline.until(lambda: is_painting(pipeline), "a worker with an image in hand")
    assert pipeline.ended(ids) == 0
    bucket.come_back()
    results = all_completed(before + pipeline.wait_all(ids))
    for result in results:
        assert (result.image_uri or "").startswith("s3://pictures/run/")
        assert store.get(result.image_uri or "")[:4] == b"\x89PNG"


def is_painting(pipeline: Pipeline) -> bool:
    return any(beat.state == "painting" for _, beat in list(pipeline.heartbeats.values()))
