"""Follows the results of a deployment, and says when its images have become worse: then a classifier is learned again.

Source: ARGUS 4.1, 5.5. The score of an image is the confidence of its deployment's discriminator in the first image of
a request, which every request of a cascade has, whatever became of it.
"""

import json
import queue
from collections.abc import Iterator
from contextlib import closing

from planner.observation.drift import Drift, DriftWatch
from schemas.errors import InvalidRecord
from schemas.record import Incoming
from schemas.topics import RESULTS
from streams.codec.avro import decode_result
from streams.kafka.consumers.consumer import TopicTailer
from streams.settings import Settings


def drifts(settings: Settings, watch: DriftWatch) -> Iterator[Drift]:
    """Yield each drift of the results that come from now on, for ever."""
    found = queue.SimpleQueue[Drift]()

    def take(record: Incoming) -> None:
        score = first_confidence(record)
        drift = None if score is None else watch.add(score)
        if drift is not None:
            found.put(drift)

    with closing(TopicTailer(settings, [RESULTS], take, since_ms=None).start()):
        while True:
            yield found.get()


def first_confidence(record: Incoming) -> float | None:
    """Return the confidence in the first image of a result; None where it was not judged."""
    try:
        stages = json.loads(decode_result(record.value).path)
    except (InvalidRecord, ValueError):
        return None
    confidence = stages[0].get("confidence") if stages else None
    return None if confidence is None else float(confidence)
