"""SIGTERM in the middle of a job: it is finished and written once, or, past the time for it, left to another worker."""

import pathlib
from collections.abc import Iterator

import pytest

from schemas.messages import ImageGenerated, Status
from schemas.record import Incoming
from schemas.topics import IMAGES
from streams.codec.avro import decode
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.topics import create_topics
from streams.settings import Settings, load
from tests.integration.pipeline import Pipeline
from tests.paths import CATALOGS
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.broker

MEASURED = "latency_ms = { 1 = 200, 2 = 243, 4 = 413, 8 = 763 }"
JOB_MS = 2000


class Stopped:
    """A pipeline whose jobs, all of them heavy, take two seconds, and the images that they write."""

    def __init__(self, settings: Settings, folder: pathlib.Path, drain_s: float) -> None:
        text = (CATALOGS / "profile.toml").read_text()
        assert MEASURED in text
        catalog = folder / "slow.toml"
        catalog.write_text(text.replace(MEASURED, f"latency_ms = {{ 1 = {JOB_MS} }}", 1))
        self.pipeline = Pipeline(settings, folder, catalog=str(catalog))
        self.pipeline._options += ["--set", "planner.policy=clipper-heavy", "--set", f"shutdown_timeout_s={drain_s}"]
        self.images: list[ImageGenerated] = []
        self._follower = TopicTailer(settings, [IMAGES], self._receive)

    def _receive(self, record: Incoming) -> None:
        self.images.append(decode(record.value, ImageGenerated))

    def start(self) -> "Stopped":
        self._follower.start()
        self.pipeline.start()
        return self

    def close(self) -> None:
        self._follower.close()
        self.pipeline.close()

    def stop_the_generating_worker(self) -> tuple[str, int]:
        """SIGTERM to the worker that is in the middle of a job; its name and how it ended."""
        self.pipeline.until(lambda: bool(self._painting()), "a worker in the middle of a job")
        name = self._painting()[0]
        process = self.pipeline._processes[name]
        process.terminate()
        return name, process.wait(PATIENCE_S)

    def _painting(self) -> list[str]:
        beats = list(self.pipeline.heartbeats.items())
        return [name for name, (_, beat) in beats if beat.state == "painting"]


def started(home: pathlib.Path, folder: pathlib.Path, prefix: str, drain_s: float) -> Stopped:
    settings = load({"home": home, "kafka": {"prefix": prefix, "session_timeout_ms": 3000}})
    create_topics(settings, ["light", "heavy"])
    return Stopped(settings, folder, drain_s)


@pytest.fixture(scope="module")
def patient(broker_home: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    run = started(broker_home, tmp_path_factory.mktemp("patient"), "patient", 20)
    try:
        yield run.start()
    finally:
        run.close()


@pytest.fixture
def run(patient: Stopped) -> Stopped:
    """The module's pipeline, whole again after the test before."""
    patient.pipeline.heal()
    patient.pipeline.until(patient.pipeline.is_ready, "all roles back")
    patient.images.clear()
    return patient


def test_a_job_in_hand_is_finished_and_written_once(run: Stopped) -> None:
    ids = run.pipeline.submit(1)
    name, status = run.stop_the_generating_worker()
    assert status == 0
    [result] = run.pipeline.wait_all(ids)
    assert result.status == Status.COMPLETED
    run.pipeline.until(lambda: bool(run.images), "the image on its topic")
    [image] = run.images
    assert (image.worker_id, image.attempt) == (name, 1)


def test_the_jobs_behind_it_go_to_others_at_once(run: Stopped) -> None:
    ids = run.pipeline.submit(6)
    name, status = run.stop_the_generating_worker()
    assert status == 0
    run.pipeline.completed(ids)
    run.pipeline.until(lambda: len(run.images) >= len(ids), "all images on their topic")
    assert len(run.images) == len(ids), "a job was generated twice"
    assert 1 <= sum(image.worker_id == name for image in run.images) <= 2, "it took new work after the signal"


def test_every_role_ends_well_when_it_is_told_to(run: Stopped) -> None:
    run.pipeline.wait_all(run.pipeline.submit(2))
    processes = run.pipeline._processes
    for process in processes.values():
        process.terminate()
    assert {name: process.wait(PATIENCE_S) for name, process in processes.items()} == dict.fromkeys(processes, 0)


def test_past_its_time_the_process_ends_and_another_worker_generates_the_job(
    broker_home: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    run = started(broker_home, tmp_path, "impatient", 0.3)
    try:
        ids = run.start().pipeline.submit(1)
        name, status = run.stop_the_generating_worker()
        assert status == 1
        assert "did not finish within shutdown_timeout_s = 0.3" in (tmp_path / f"{name}.log").read_text()
        [result] = run.pipeline.wait_all(ids)
        assert result.status == Status.COMPLETED
        [image] = run.images
        assert image.worker_id != name
        assert image.attempt == 2
    finally:
        run.close()
