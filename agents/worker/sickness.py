"""The faults of a worker's device, in a file that outlives its process: after three within an hour it stays away.

One line a fault, as JSON: when, in epoch ms; the requests in hand; the reason. A fault with a request in hand that has
ended several workers does not count: that one is to blame, and is refused since. An operator who has replaced the
device removes the file.
"""

import contextlib
import json
import logging
import pathlib
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from schemas.errors import EndsProcess
from streams.security.private_folder import create_private

log = logging.getLogger(__name__)

SICK: Final = 69  # exit status of a process whose device failed (EX_UNAVAILABLE of sysexits.h)
DOUBLED: Final = 78  # of a process whose worker.id another has (EX_CONFIG)
MAX_FAULTS: Final = 3
WITHIN_MS: Final = 3_600_000


class SickWorker(EndsProcess):
    """A worker that only a new process can make well; it has handed back what it had."""

    status = SICK


class DoubledWorker(EndsProcess):
    """A worker whose id another process has, which lives."""

    status = DOUBLED


class Fault(NamedTuple):
    """A fault that counted when it came."""

    at_ms: int
    request_ids: list[str]  # in hand
    reason: str


class FaultHistory:
    """The recent faults of one worker's device."""

    def __init__(self, file: pathlib.Path, is_poison: Callable[[str], bool] = lambda _request_id: False) -> None:
        """`is_poison`: whether a request has ended several workers."""
        self.file, self._is_poison = file, is_poison

    def add(self, request_ids: Iterable[str], reason: str, now_ms: int) -> None:
        """Write down a fault. A disk that does not take it is logged: the worker has worse to report."""
        faults = [*self._recent(now_ms), Fault(now_ms, list(request_ids), reason)]
        try:
            create_private(self.file.parent)
            self.file.write_text("".join(f"{json.dumps(fault)}\n" for fault in faults))
        except OSError as error:
            log.warning("a fault of the device is not written down: %s", error)

    def away_until_ms(self, now_ms: int) -> tuple[int, str]:
        """Return until when the worker stays away, and the last reason; (0, "") if it may serve."""
        found = [fault for fault in self._recent(now_ms) if not any(map(self._is_poison, fault.request_ids))]
        if len(found) < MAX_FAULTS:
            return 0, ""
        return found[-MAX_FAULTS].at_ms + WITHIN_MS, found[-1].reason

    def _recent(self, now_ms: int) -> list[Fault]:
        """Read the faults of the last hour; a line that is none, as of a disk that was full, does not count."""
        faults = list[Fault]()
        with contextlib.suppress(OSError):
            for line in self.file.read_text(errors="replace").splitlines():
                with contextlib.suppress(ValueError, TypeError):
                    faults.append(Fault(*json.loads(line)))
        return [fault for fault in faults if now_ms - fault.at_ms < WITHIN_MS]
