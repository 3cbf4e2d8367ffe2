"""The facts of images that a live pipeline of the tiny family kept are checked, beside their levels' quality."""

import pathlib
import re

from schemas.ids import new_request_id
from schemas.messages import GenerateRequest
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.kafka.topics import create_topics
from streams.settings import load
from tests.integration.pipeline import Pipeline
from tests.integration.waiting import ask

PROMPTS = ("a red heart", "a yellow star", "a blue circle", "a green square")


def test_a_live_pipeline_shows_the_quality_of_what_it_served(broker_home: pathlib.Path, tmp_path: pathlib.Path) -> None:
    settings = load({"home": broker_home, "kafka": {"prefix": "checked", "session_timeout_ms": 3000}})
    create_topics(settings, ["light", "middle", "heavy"])
    pipeline = Pipeline(settings, tmp_path, catalog="tiny", extra=["quality.checked_share=1"])
    try:
        pipeline.start()
        ids = [new_request_id() for _ in PROMPTS]
        for request_id, prompt in zip(ids, PROMPTS, strict=True):
            request = GenerateRequest(request_id=request_id, prompt=prompt, created_ms=now_ms())
            pipeline.write(encode(request), request_id.encode())
        pipeline.completed(ids)

        def counts(name: str) -> float:
            (address,) = re.findall(r"health and metrics on (\S+)/livez", pipeline.log("discriminator"))
            scraped = ask(f"{address}/metrics")[1]
            return sum(float(value) for value in re.findall(rf"^{name}{{.*}} (\S+)$", scraped, re.MULTILINE))

        pipeline.until(lambda: counts("pochade_quality_checks_total") == len(PROMPTS), "each was checked or skipped")
        checked = counts("pochade_checked_quality_count")
        assert 0 < checked == counts("pochade_modelled_quality_count")
        assert 0 <= counts("pochade_checked_quality_sum") <= checked
        assert 0 < counts("pochade_modelled_quality_sum") < checked
    finally:
        pipeline.close()
