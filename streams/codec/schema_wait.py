"""What a role does with a record whose schema nobody has told it: the record waits, and so do those behind it.

Between roles such a record is a newer release's, and serving it is a matter of time: it becomes readable when its
writer or a registry tells the schema, or its reader is upgraded. On a public topic it may be anybody's garbage, which
must not stop a partition: it gets one short wait now and then, and is refused.
"""

import logging
import time
from collections.abc import Callable

from schemas.errors import UnknownSchema
from schemas.later import may_come
from schemas.record import Incoming
from schemas.topics import PUBLIC
from streams import metrics

log = logging.getLogger(__name__)

AGAIN_S = 0.2  # between two looks
GRACE_S = 2.0  # of a record on a public topic: who wrote it told its schema just before, and a registry takes a moment
GRACE_EVERY_S = 60.0  # a flood of bad records may hold up good ones for this part of the time: 3 %


class SchemaWait:
    """Of one reader. `why` may be read by any thread."""

    def __init__(self, role: str, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._role, self._clock_s = role, clock_s
        self.why = ""  # what the role waits for
        self._grace_s = -GRACE_EVERY_S  # when the last one began

    def waits(self, record: Incoming, error: UnknownSchema) -> bool:
        """Whether to look at the record again in AGAIN_S; False: it is refused."""
        if record.topic in PUBLIC:
            return self._has_grace()
        if not may_come(error.schema_id):
            return False
        self.for_schema(record.topic, record.partition, record.offset, error.schema_id)
        return True

    def for_schema(self, topic: str, partition: int, offset: int, schema_id: int) -> None:
        """A record waits: told once, and by `why` until `ends`."""
        why = (
            f"unknown schema id {schema_id} of topic {topic} at {partition}@{offset}: "
            "upgrade this role, or set registry.url to a registry that has it"
        )
        if why != self.why:
            self.why = why
            metrics.AWAITED_SCHEMAS.labels(self._role).inc()
            log.error("%s waits: %s", self._role, why)

    def _has_grace(self) -> bool:
        since_s = self._clock_s() - self._grace_s
        if since_s >= GRACE_EVERY_S:
            self._grace_s = self._clock_s()
            return True
        return since_s < GRACE_S

    def ends(self) -> None:
        """What was waited for is readable, or somebody else's by now."""
        if self.why:
            log.warning("%s goes on: the schema is known", self._role)
            self.why = ""
