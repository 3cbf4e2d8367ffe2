"""Questions to the broker by a client of their own, which is replaced once it has failed."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

T = TypeVar("T")


class Asking:
    """Any thread may ask."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = dict(config)
        self._admin = AdminClient(self._config)

    def ask(self, question: Callable[[AdminClient], T]) -> T:
        """What the question answers. Raises what it raises.

        A client that failed is replaced: after a broker's death one answered no more, and its worker's heartbeats named
        no partition for ever (seen). The replaced one lives on here while another thread waits for its answers: they
        would never come (seen too: a worker that wished to change variant painted no more).
        """
        client = self._admin
        try:
            return question(client)
        except (KafkaException, TimeoutError):
            if self._admin is client:
                self._admin = AdminClient(self._config)
            raise
