"""The worker's side of `pochade bench in-flight`: its driver with the engine `openai`, a store in memory, no broker.

Each line of standard input is a turn, as JSON: the number of images, and whether jobs join the calls that run. The
answer to it is a line with images a second. Arguments: the server's URL, requests in flight, and ms of an image.
"""

import json
import sys
import time

from agents.engines import open_engine
from agents.runtime.request_views import PoisonView
from agents.worker.driving import WindowDriver
from agents.worker.jobs import Taken
from agents.worker.work import WorkerViews
from planner.catalog.entries import Variant
from planner.catalog.model import Catalog
from planner.catalog.server import Server
from planner.serving.routing.refuge import RefugeLogic
from schemas import ids
from schemas.messages import ClassifiedRequest, GenerateJob, GenerateRequest
from schemas.record import Incoming, Outgoing
from schemas.topics import IMAGES, jobs_topic
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.codec.headers import stamp
from streams.store.port import key_of

PX = 64


class KeepsNothing:
    """Takes in images and forgets them."""

    def put(self, name: str, data: bytes, extension: str = "png") -> str:
        """Return a key."""
        return key_of(name, data, extension)


def rate(variant: Variant, images: int, *, joins: bool) -> float:
    """Return the images a second of a worker's driver."""
    catalog = Catalog(name="bench", variants={variant.name: variant}, discriminators={}, cascades=(), class_cuts={})
    engine = open_engine("openai", variant, 1)
    views = WorkerViews(engine, variant, catalog, lambda: None, set(), PoisonView())  # type: ignore[arg-type]
    driver = WindowDriver("worker-1", views, KeepsNothing(), RefugeLogic(catalog), 3)  # type: ignore[arg-type]
    waiting, written = [_taken(variant.name, number) for number in range(images)], list[Outgoing]()

    def take(most: int) -> list[Taken]:
        window = waiting[:most]
        del waiting[:most]
        return window

    began = time.monotonic()
    while waiting:
        driver.begin(take(driver.worker.max_jobs(1)), 1)
        driver.run(written.append, more=take if joins else None)
        driver.logic.end()
    took_s = time.monotonic() - began
    driver.close()
    engine.close()
    assert sum(record.topic == IMAGES for record in written) == images, "every job has its image"
    return images / took_s


def _taken(level: str, number: int) -> Taken:
    at_ms = now_ms()
    request = GenerateRequest(request_id=f"r-{number}", prompt="a red heart", created_ms=at_ms, seed=number)
    classified = ClassifiedRequest(
        request=request, hardness=0.5, classes={}, classifier="bench/1", received_ms=at_ms, classified_ms=at_ms
    )
    job = GenerateJob(
        job_id=ids.job_id(request.request_id, 0, level), classified=classified, level=level, variant=level, stage=0,
        attempt=1, probability=1.0, plan_version=1, worker_id="", routed_ms=at_ms,
    )  # fmt: skip
    headers = stamp({}, kind="GenerateJob", source="bench", subject=request.request_id, time_ms=at_ms)
    record = Incoming(
        topic=jobs_topic(level, 1).name, partition=0, offset=number, timestamp_ms=at_ms, key=b"k", value=encode(job),
        headers=dict(headers),
    )  # fmt: skip
    return Taken(record, 1)


def main() -> None:
    """Answer each line of standard input."""
    url, calls, image_ms = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    variant = Variant(
        name="heavy", engine="openai", model="", scheduler="", steps=4, guidance=1.0, width=PX, height=PX,
        latency_ms={1: image_ms, calls: image_ms}, load_ms=0.0,
        server=Server(url=url, dialect="vllm-omni", in_flight=calls),
    )  # fmt: skip
    for line in sys.stdin:
        images, joins = json.loads(line)
        print(rate(variant, images, joins=joins), flush=True)


if __name__ == "__main__":
    main()
