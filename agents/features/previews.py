"""Previews of denoising steps: stored and reported beside the call. No request waits for one; some are left out."""

import io
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from PIL import Image

from agents.engines import Previews
from agents.runtime.records import event_record
from agents.worker.images import Blocked
from agents.worker.stages import Check, Opening, Stage
from agents.worker.work import WorkerJob
from schemas.messages import EventKind, GenerateJob
from schemas.record import Headers, Outgoing
from streams import metrics
from streams.clock import now_ms
from streams.codec.headers import PREVIEWS
from streams.store.port import ImageStore

log = logging.getLogger(__name__)

ROLE: Final = "worker"
MAX_PREVIEWS: Final = 8  # of a request
MAX_SIDE: Final = 256  # px
MAX_PENDING: Final = 4  # that wait for the store; beyond them the next ones are left out


def previews_of(headers: Headers) -> int:
    """Return how many previews the headers of a job ask for; 0 where they say no such number."""
    text = headers.get(PREVIEWS, b"")
    return min(MAX_PREVIEWS, int(text)) if text.isdigit() and len(text) < 4 else 0


class PreviewWriter:
    """Writes previews in a thread of its own."""

    def __init__(self, store: ImageStore, note: Callable[[Outgoing], object], check: Check) -> None:
        """`note`: sends a record of `events`; any thread may call it. `check`: see `Stages.check`."""
        self._check = check
        self._store = store
        self._note = note
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="previews")
        self._free = threading.Semaphore(MAX_PENDING)

    def show(self, job: GenerateJob, step: int, steps: int, image: Image.Image) -> None:
        """Store what a job's first image looks like after a step, and report it; no-op where too many wait."""
        if not self._free.acquire(blocking=False):
            metrics.PREVIEWS.labels("left-out").inc()
            return
        self._pool.submit(self._write, job, step, steps, image)

    def _write(self, job: GenerateJob, step: int, steps: int, image: Image.Image) -> None:
        request = job.classified.request
        try:
            (safe,), out = self._check([image], request.tenant), io.BytesIO()
            small = safe.image.copy()
            small.thumbnail((MAX_SIDE, MAX_SIDE))
            small.save(out, "PNG")
            uri = self._store.put(f"{job.job_id}-preview", out.getvalue(), "png")
            detail = {
                "level": job.level, "stage": job.stage, "step": step, "steps": steps, "preview": uri,
                "tenant": request.tenant,
            }  # fmt: skip
            self._note(event_record(request.request_id, EventKind.PREVIEW, ROLE, now_ms(), **detail))
            metrics.PREVIEWS.labels("shown").inc()
        except Blocked:
            metrics.PREVIEWS.labels("blocked").inc()
        except Exception as error:  # a store that is away, a full queue: the image comes in any case
            metrics.PREVIEWS.labels("unstored").inc()
            log.warning("a preview of %s is not shown: %s", request.request_id, error)
        finally:
            self._free.release()

    def close(self) -> None:
        """Leave out what waits, and end the thread."""
        self._pool.shutdown(wait=True, cancel_futures=True)


class PreviewStage(Stage):
    """Asks the engine for the previews that jobs want, and writes them."""

    def __init__(self, writer: PreviewWriter) -> None:
        self._writer = writer

    def for_call(self, jobs: Sequence[WorkerJob], is_judged: Callable[[WorkerJob], bool]) -> Mapping[str, Any]:
        """Return the previews of a call: each job that asks for them gets those of its first image.

        A job whose image is judged gets none: its draft shows more than the steps do, and comes at their end.
        """
        asked: dict[int, tuple[GenerateJob, int]] = {}
        first = 0
        for each in jobs:
            headers = each.taken.record.headers
            if PREVIEWS in headers and (number := previews_of(headers)) and not is_judged(each):
                asked[first] = each.job, number
            first += each.how.n
        if not asked:
            return {}
        show = self._writer.show
        wanted = {task: number for task, (_, number) in asked.items()}
        return {"previews": Previews(wanted, lambda task, *seen: show(asked[task][0], *seen))}

    def close(self) -> None:
        """Leave out what waits."""
        self._writer.close()


def open_stage(opening: Opening) -> Stage:
    """Return the stage of a worker's process."""
    return PreviewStage(PreviewWriter(opening.store, opening.note, opening.check))
