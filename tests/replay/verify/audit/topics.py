"""A deployment's topics made by hand, as an audit reads them."""

import dataclasses
import json
from typing import Any

from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import completed, failed
from replay.verify.audit.topic_figures import TopicFigures
from schemas.messages import Event, ImageGenerated, Outcome, Result
from schemas.record import Incoming
from schemas.topics import CLASSIFIED, DLQ, EVENTS, IMAGES, OUTCOMES, PROMPTS, RESULTS, jobs_topic
from streams.codec.avro import encode
from tests.builders import NOW_MS, a_classified, a_job, a_request, an_image

JOBS = jobs_topic("light", 1).name


class Topics:
    """Records in the order of writing; one partition each."""

    def __init__(self) -> None:
        self.records: list[Incoming] = []

    def write(self, topic: str, name: str, value: bytes | None, **changes: Any) -> Incoming:
        offset = sum(each.topic == topic for each in self.records)
        record = Incoming(
            topic=topic, partition=0, offset=offset, timestamp_ms=NOW_MS + offset, key=name.encode(), value=value
        )
        self.records.append(dataclasses.replace(record, **changes))
        return self.records[-1]

    def ask(self, name: str, topic: str = PROMPTS) -> None:
        self.write(topic, name, encode(a_request(request_id=name)))

    def send(self, name: str) -> None:
        """Classified, and a job of it."""
        classified = a_classified(a_request(request_id=name))
        self.write(CLASSIFIED, name, encode(classified))
        self.write(JOBS, name, encode(a_job(classified, job_id=f"job of {name}")))

    def begin(self, name: str, worker_id: str = "w-1", at_ms: int = NOW_MS + 15) -> None:
        detail = json.dumps({"level": "light", "worker": worker_id, "stage": 0})
        event = Event(request_id=name, kind="started", at_ms=at_ms, by="worker", detail=detail)
        self.write(EVENTS, name, encode(event))

    def paint(self, name: str, **changes: Any) -> ImageGenerated:
        job = a_job(a_classified(a_request(request_id=name)), job_id=f"job of {name}")
        image = an_image(job, **changes)
        self.write(IMAGES, name, encode(image))
        return image

    def say(self, outcome: Outcome) -> None:
        self.write(OUTCOMES, outcome.request_id, encode(outcome))

    def end(self, result: Result) -> None:
        self.write(RESULTS, result.request_id, encode(result))

    def serve(self, name: str, **generated: Any) -> ImageGenerated:
        """The whole way of a request that is completed."""
        self.ask(name)
        self.send(name)
        self.begin(name)
        image = self.paint(name, **generated)
        outcome = an_end(image)
        self.say(outcome)
        self.end(result_of(outcome))
        return image

    def bury(self, name: str) -> None:
        self.write(DLQ, name, b"whatever")

    def tally(self, waiting: dict[str, int] | None = None, **asked: Any) -> TopicFigures:
        """Everything read; `waiting`: topic -> from which offset on its reader has not committed."""
        ends = {each.topic: each.offset + 1 for each in self.records if each.topic not in (RESULTS, EVENTS, DLQ)}
        tally = TopicFigures({(topic, 0): offset for topic, offset in (ends | (waiting or {})).items()}, **asked)
        for each in sorted(self.records, key=lambda each: each.topic):
            tally.add(each)
        return tally


def an_end(image: ImageGenerated) -> Outcome:
    return completed(image, 0.9, 0.5, reason="kept", by="discriminator", policy="test", now_ms=NOW_MS + 40)


def a_failure(name: str, reason: str, at_ms: int = NOW_MS + 41) -> Outcome:
    return failed(a_request(request_id=name), reason=reason, by="worker", now_ms=at_ms)
