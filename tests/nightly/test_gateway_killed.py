"""A gateway is killed during 200 open requests: OpenAI's clients get their images by another, each generated once."""

import asyncio
import contextlib
import pathlib
import re
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from schemas.messages import ImageGenerated, Result, Status
from schemas.record import Incoming
from schemas.topics import IMAGES, PROMPTS, RESULTS
from streams.codec.avro import decode, decode_result
from streams.kafka.consumers.consumer import TopicTailer
from streams.kafka.topics import create_topics
from streams.settings import Settings
from tests.integration.pipeline import ROLES, Pipeline
from tests.integration.waiting import poll_until
from tests.nightly.official_clients import Where, said

pytestmark = pytest.mark.broker

OPEN = 200
FRONTS = ("front-1", "front-2")

ASKS = """
import asyncio, base64, json, sys
import openai
async def main():
    async with openai.AsyncOpenAI(base_url=sys.argv[1] + "/v1", api_key=sys.argv[2]) as client:
        async def ask(n):
            prompt = "a red heart" if n % 2 else f"a blue boat, {n}"
            raw = await client.images.with_raw_response.generate(prompt=prompt)
            made = raw.parse()
            image = base64.b64decode(made.data[0].b64_json)[1:4].decode()
            return made.model_extra["pochade"]["request_id"], raw.retries_taken, image
        return await asyncio.gather(*(ask(n) for n in range(int(sys.argv[3]))))
print(json.dumps(asyncio.run(main())))
"""


class Written:
    """Keys of the records on `prompts`, ids of generated jobs and results, each as often as it was written."""

    def __init__(self) -> None:
        self.prompts, self.jobs = Counter[str](), Counter[str]()
        self.results: list[Result] = []

    def on_record(self, record: Incoming) -> None:
        if record.topic == PROMPTS:
            self.prompts[(record.key or b"").decode()] += 1
        elif record.topic == IMAGES:
            self.jobs[decode(record.value, ImageGenerated).job.job_id] += 1
        else:
            self.results.append(decode_result(record.value))


@contextlib.contextmanager
def balanced(addresses: list[str]) -> Iterator[str]:
    """An address that leads to the first of these that takes a connection, as a load balancer with a standby does."""
    loop = asyncio.new_event_loop()

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while part := await source.read(65536):
                target.write(part)
                await target.drain()
        target.close()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for address in addresses:
            host, port = address.removeprefix("http://").split(":")
            with contextlib.suppress(OSError):
                back, there = await asyncio.open_connection(host, int(port))
                await asyncio.gather(copy(reader, there), copy(back, writer))
                return
        writer.close()

    async def end() -> None:
        server.close()
        copying = asyncio.all_tasks() - {asyncio.current_task()}
        for task in copying:
            task.cancel()
        await asyncio.gather(*copying, return_exceptions=True)

    server = loop.run_until_complete(asyncio.start_server(pass_on, "127.0.0.1", 0, backlog=OPEN))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(end())
        loop.close()


def test_a_gateway_killed_during_200_open_requests_costs_no_image_and_none_is_generated_twice(
    settings: Settings, tmp_path: pathlib.Path
) -> None:
    create_topics(settings, ["light", "heavy"])
    roles = {**ROLES, **{front: ["gateway"] for front in FRONTS}}
    pipeline, written = Pipeline(settings, tmp_path, extra=["gateway.port=0"], roles=roles), Written()
    tailer = TopicTailer(settings, [PROMPTS, IMAGES, RESULTS], written.on_record)
    try:
        pipeline.start()
        tailer.start()
        addresses = [re.findall(r"images API on (\S+)/v1", pipeline.log(front))[-1] for front in FRONTS]
        pipeline.kill("classifier")  # so that all are open at once
        with balanced(addresses) as address, ThreadPoolExecutor(1) as aside:
            asking = aside.submit(said, "openai", ASKS, Where(address, "none"), str(OPEN))
            poll_until(lambda: asking.done() or len(written.prompts) == OPEN, lambda: f"{len(written.prompts)} asked")
            assert not written.results
            pipeline.kill(FRONTS[0])
            pipeline.start_role("classifier")
            answers = asking.result()
        ids = [request_id for request_id, _, _ in answers]
        poll_until(lambda: len(written.results) >= OPEN, lambda: f"{len(written.results)} of {OPEN} ended")
        assert {image for _, _, image in answers} == {"PNG"}
        assert {retries for _, retries, _ in answers} <= {1, 2}, "each was open as its gateway was killed"
        assert set(ids) == set(written.prompts), "a client got another's image, or none"
        assert len(set(ids)) == OPEN
        assert set(written.prompts.values()) == {1}
        assert [result.status for result in written.results] == [Status.COMPLETED] * OPEN
        assert set(written.jobs.values()) == {1}
        jobs = sum(written.jobs.values())
        print(f"{OPEN} requests, {jobs} images, {Counter(retries for _, retries, _ in answers)} repetitions of clients")
    finally:
        tailer.close()
        pipeline.close()
