"""One pipeline as its users see it: when each request was submitted, and when its end was read."""

import time

from replay.bench.environment import traffic
from replay.bench.environment.topic_counter import TopicCounter
from schemas.messages import GenerateRequest
from schemas.topics import PROMPTS
from streams.kafka.producers.writing import RecordProducer
from streams.settings import Settings


class Side:
    """Sends requests, and knows when each was seen to have ended."""

    def __init__(self, settings: Settings, producer: RecordProducer, results: TopicCounter) -> None:
        self.settings, self._producer, self.results = settings, producer, results
        self.sent_ns: dict[str, int] = {}  # request -> epoch, when it was first submitted

    def send(self, request: GenerateRequest, topic: str = PROMPTS) -> None:
        """Submit one request."""
        record = traffic.record(topic, request, request.request_id)
        self.sent_ns.setdefault(request.request_id, time.time_ns())
        self._producer.send(record)

    def took_ms(self) -> dict[str, float]:
        """Request -> ms from its submission to its committed result being read, in the order of submission."""
        seen: dict[str, int] = {}
        for arrival in self.results.arrivals:
            seen.setdefault(arrival.key.decode(), arrival.seen_ns)
        return {name: (seen[name] - sent) / 1e6 for name, sent in self.sent_ns.items() if name in seen}
