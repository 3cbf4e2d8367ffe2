"""Previews of denoising steps: who gets them, what is told of them, and what becomes of those that cannot be stored."""

import io
import json
import queue
import threading
from typing import Any

import pytest
from PIL import Image
from prometheus_client import REGISTRY

from agents.features.previews import MAX_PENDING, MAX_SIDE, PreviewStage, PreviewWriter, previews_of
from agents.worker.jobs import Taken
from agents.worker.stages import Stages
from schemas.messages import Event, GenerateOptions
from schemas.record import Outgoing
from schemas.topics import IMAGES
from streams.codec.headers import PREVIEWS
from streams.store.port import StoreUnavailable
from tests.agents.stubs import StubEngine, a_record, read, topics_of
from tests.agents.worker.driving import a_driver, answers
from tests.builders import a_classified, a_job, a_request, a_variant
from tests.memory_store import MemoryImageStore


@pytest.mark.parametrize(
    ("text", "number"), [(b"2", 2), (b"99", 8), (b"0", 0), (b"-1", 0), (b"9999", 0), (b"two", 0), (b"", 0)]
)
def test_as_many_are_wanted_as_the_headers_say(text: bytes, number: int) -> None:
    assert previews_of({PREVIEWS: text}) == number


class Showing(StubEngine):
    """Shows one preview of each task of which some are wanted."""

    shows_previews = True

    def generate(self, *args: Any, previews: Any = None, **more: Any) -> Any:
        self.wanted = dict(previews.wanted) if previews else {}
        for task in self.wanted:
            previews.show(task, 3, 8, Image.new("RGB", (1024, 512), "blue"))
        return super().generate(*args, **more)


class Studio:
    """A worker that tells of previews to a queue."""

    def __init__(self, store: MemoryImageStore | None = None, judged_ms: float = 0) -> None:
        self.told: queue.Queue[Outgoing] = queue.Queue()
        self.engine, self.store = Showing(), store or MemoryImageStore()
        self.writer = PreviewWriter(self.store, self.told.put, Stages().check)
        self.driver = a_driver(
            "w-9", self.engine, a_variant(latency_ms={1: 20.0}), self.store, set(), 3, judged_ms=judged_ms,
            stages=Stages([PreviewStage(self.writer)]),
        )  # fmt: skip


def taken(request_id: str = "r-1", previews: bytes = b"2", **options: Any) -> Taken:
    request = a_request(request_id=request_id, tenant="studio", options=GenerateOptions(**options))
    headers = {PREVIEWS: previews} if previews else {}
    return Taken(a_record(a_job(a_classified(request)), key=request_id.encode(), headers=headers), 1)


def outcomes(name: str) -> float:
    return REGISTRY.get_sample_value("pochade_previews_total", {"outcome": name}) or 0.0


def test_a_preview_is_stored_small_and_told_of_with_its_tenant() -> None:
    studio = Studio()
    assert topics_of(answers(studio.driver, [taken()])) == [IMAGES]
    event = read(studio.told.get(timeout=30), Event)
    detail = json.loads(event.detail)
    with Image.open(io.BytesIO(studio.store.get(detail.pop("preview")))) as preview:
        assert (preview.size, preview.getpixel((9, 9))) == ((MAX_SIDE, MAX_SIDE // 2), (0, 0, 255))
    assert (event.request_id, event.kind) == ("r-1", "preview")
    assert detail == {"level": "light", "stage": 0, "step": 3, "steps": 8, "tenant": "studio"}
    studio.writer.close()


def test_who_asks_for_previews_gets_those_of_its_own_first_image_and_nobody_else_any() -> None:
    studio = Studio()
    answers(studio.driver, [taken("a", b"", n=2), taken("b", n=2)])
    assert studio.engine.wanted == {2: 2}
    assert read(studio.told.get(timeout=30), Event).request_id == "b"
    answers(studio.driver, [taken("c", b"")])
    assert studio.engine.wanted == {}
    studio.writer.close()


def test_an_image_that_is_judged_shows_no_steps_as_it_is_shown_itself() -> None:
    studio = Studio(judged_ms=5)
    answers(studio.driver, [taken()])
    assert studio.engine.wanted == {}
    studio.writer.close()


class Away(MemoryImageStore):
    """Takes no preview, and holds the first one until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = threading.Event(), threading.Event()

    def put(self, name: str, data: bytes, extension: str = "png") -> str:  # noqa: ARG002  the port's names
        self.asked.set()
        assert self.go_on.wait(30)
        raise StoreUnavailable("away")


def test_a_store_that_is_away_or_slow_costs_previews_alone() -> None:
    store, before = Away(), (outcomes("left-out"), outcomes("unstored"))
    writer, job = PreviewWriter(store, lambda _record: None, Stages().check), a_job()
    for _ in range(MAX_PENDING + 2):
        writer.show(job, 1, 8, Image.new("RGB", (8, 8)))
    assert store.asked.wait(30)
    store.go_on.set()
    writer.close()
    assert outcomes("left-out") - before[0] == 2
    assert 1 <= outcomes("unstored") - before[1] <= MAX_PENDING
