"""A worker on a server of others: deadlines, seeds, heartbeats, and `pochade try` by the page's block."""

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image

from agents.engines import open_engine, openai_client
from agents.worker import role as module
from agents.worker.jobs import Taken
from planner.catalog.entries import Variant
from planner.catalog.server import Server
from replay.bench.image_server import ImageServer, Misbehaviour
from schemas.messages import GenerateJob, GenerateOptions, Heartbeat, ImageGenerated, Outcome, Status
from schemas.record import Outgoing
from schemas.topics import FLEET, IMAGES, OUTCOMES
from streams.clock import now_ms
from tests.agents.in_process.test_try import tried
from tests.agents.stubs import a_record, read
from tests.agents.worker.driving import a_driver, answers
from tests.agents.worker.test_role import Shop
from tests.builders import a_catalog, a_classified, a_job, a_request, a_variant
from tests.memory_store import MemoryImageStore
from tests.planner.catalog.test_server import URL, block


@pytest.fixture
def server() -> Iterator[ImageServer]:
    found = ImageServer().start()
    yield found
    found.close()


def a_level(server: ImageServer, **changes: Any) -> Variant:
    return a_variant(engine="openai", server=Server(**({"url": server.url, "dialect": "vllm-omni"} | changes)))


def answer(variant: Variant, left_ms: int | None = None, **request: Any) -> Outgoing:
    """What a worker writes for a job, which has this long to its deadline."""
    opened = open_engine("openai", variant, 1)
    driver = a_driver("w-1", opened._engine, variant, MemoryImageStore())
    try:
        if left_ms is not None:
            request["deadline_ms"] = now_ms() + left_ms
        job = a_job(a_classified(a_request(**request)))
        (written,) = answers(driver, [Taken(a_record(job), 1)])
    finally:
        driver.close()
        opened.close()
    return written


def test_a_job_whose_server_has_not_answered_by_its_deadline_is_tried_again_and_then_too_late(
    server: ImageServer,
) -> None:
    server.next.append(Misbehaviour(hangs=True))
    again = answer(a_level(server), left_ms=200)
    assert again.topic not in (IMAGES, OUTCOMES)
    job = read(again, GenerateJob)
    assert job.attempt == 2
    asked = len(server.bodies)  # of the job, and of the worker's own call by which it knows that it is well
    late = answer(a_level(server), deadline_ms=job.classified.request.deadline_ms)
    assert read(late, Outcome).status is Status.EXPIRED
    assert len(server.bodies) == asked == 2


def test_a_worker_whose_server_goes_away_takes_nothing_more_and_fails_no_request(
    server: ImageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it fails in no time, is therefore the least busy, and is sent everything."""
    monkeypatch.setattr(openai_client, "BUSY_S", 0.001)
    variant, reasons = a_level(server), list[str]()
    opened = open_engine("openai", variant, 1)
    driver = a_driver(
        "w-1", opened._engine, variant, MemoryImageStore(), on_sick=lambda reason, _counts: reasons.append(reason)
    )
    server.close()
    try:
        jobs = [a_job(a_classified(a_request(request_id=f"r-{n}")), job_id=f"j-{n}") for n in range(8)]
        written = answers(driver, [Taken(a_record(job), 1) for job in jobs])
    finally:
        driver.close()
        opened.close()
        server.start()
    assert len(written) == len(jobs)
    assert not [record for record in written if record.topic in (IMAGES, OUTCOMES)]
    assert {read(record, GenerateJob).attempt for record in written} <= {1, 2}
    assert len(reasons) == 1
    assert "cannot be connected to" in reasons[0]


def test_a_seed_that_a_server_does_not_take_is_not_left_out_in_silence(server: ImageServer) -> None:
    said = read(answer(a_level(server, dialect="openai"), seed=7), ImageGenerated)
    assert said.job.overridden == ("seed: 7 -> the server's own",)
    assert (said.made.seed, said.made.engine) == (None, "openai")
    refused = read(answer(a_level(server, dialect="openai"), seed=7, options=GenerateOptions(strict=True)), Outcome)
    assert (refused.status, "the server's own" in refused.reason) == (Status.REJECTED, True)
    for taken in (answer(a_level(server), seed=7), answer(a_level(server, dialect="openai"))):
        assert read(taken, ImageGenerated).job.overridden == ()


def test_a_worker_s_heartbeats_say_how_its_server_is(
    server: ImageServer, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    server.metrics = "vllm_omni:num_requests_running 2.0\n"
    variant = a_level(server)
    shop = Shop(monkeypatch, a_catalog(), tmp_path)
    monkeypatch.setattr(module, "open_engine", lambda *_given: open_engine("openai", variant, 1))

    def details() -> set[str]:
        return {read(each, Heartbeat).detail for each in shop.producer.topics.get(FLEET, [])}

    try:
        shop.plan("light")
        shop.open().until(lambda: "server: ok, 2.0 running" in details())
        assert details() == {"", "server: ok, 2.0 running"}
    finally:
        shop.close()


def test_the_page_s_block_serves_prompts_by_the_command_that_shows_images_soonest(
    server: ImageServer, tmp_path: pathlib.Path
) -> None:
    server.models = ("Qwen/Qwen-Image",)
    file = tmp_path / "mine.toml"
    file.write_text(block().replace(URL, server.url))
    asked = ("a red heart", "--engine", "openai", "--catalog", str(file), "--steps", "9", "--out", str(tmp_path))
    code, said = tried(tmp_path, *asked, "--seed", "3")
    assert (code, said.count("COMPLETED")) == (0, 1), said
    (made,) = tmp_path.glob("*.png")
    with Image.open(made) as image:
        assert (image.size, image.convert("RGB").getpixel((0, 0))) == ((1024, 1024), (3, 0, 0))
    (body,) = server.bodies
    assert (body["num_inference_steps"], body["true_cfg_scale"]) == (9, 4.0)
