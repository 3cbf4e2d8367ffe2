"""The views of single requests that some roles have: those in flight, and those that ended their workers.

The views take in records and load no client; `following.py` reads the topics.
"""

import threading
from collections import OrderedDict

from agents.runtime.views import MAX_ENDED, EndedView
from planner.serving.poison import PoisonMarks
from planner.serving.requests import OPEN_MS
from schemas.messages import GenerateRequest, PoisonMark
from schemas.record import Incoming
from streams.codec.avro import decode
from streams.codec.request_ids import request_id_of


class InFlightView:
    """The ids of requests that were classified within the last hour (OPEN_MS) and have no result. Thread-safe.

    An older request may have lost its job, as to a topic's retention: another record with its id is served.
    """

    def __init__(self, ended: EndedView) -> None:
        self._ended = ended
        self._classified_ms: OrderedDict[str, int] = OrderedDict()  # id -> epoch ms, by the broker's clock
        self._lock = threading.Lock()
        ended.on_end.append(self._on_end)

    def on_record(self, record: Incoming) -> None:
        """Take in a record of `classified`; the key is enough: nothing is decoded."""
        request_id = request_id_of(record)
        with self._lock:
            if request_id in self._ended:  # asked behind the lock: another thread may end it now
                return
            self._classified_ms.setdefault(request_id, record.timestamp_ms)
            oldest_ms = next(iter(self._classified_ms.values()))
            if len(self._classified_ms) > MAX_ENDED or oldest_ms <= record.timestamp_ms - OPEN_MS:
                self._classified_ms.popitem(last=False)

    def _on_end(self, request_id: str) -> None:
        with self._lock:
            self._classified_ms.pop(request_id, None)

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._classified_ms


class PoisonView:
    """The marks of requests that ended their workers, behind one lock: a worker adds its own before it reads them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._marks = PoisonMarks()

    def on_record(self, record: Incoming) -> None:
        """Take in a mark; one without a value takes the mark of its request away."""
        request_id = (record.key or b"").decode(errors="replace")
        if record.value is None:
            with self._lock:
                self._marks.remove(request_id)
        else:
            self.add(request_id, decode(record.value, PoisonMark), record.timestamp_ms)

    def add(self, request_id: str, mark: PoisonMark, at_ms: int) -> None:
        """Refuse requests equal to this one from now on."""
        with self._lock:
            self._marks.add(request_id, mark, at_ms)

    def __contains__(self, request_id: str) -> bool:
        """Whether this request has ended its workers."""
        with self._lock:
            return request_id in self._marks

    def equal_to(self, request: GenerateRequest, at_ms: int) -> str | None:
        """Return the id of an equal request that ended its workers within the hour; None if there is none."""
        with self._lock:
            return self._marks.equal_to(request, at_ms)
