"""Results and images for the tests of this room."""

import hashlib
import io
from typing import Any

from PIL import Image

from planner.serving.ending.ledger import result_of
from schemas.messages import ImageRef, Result, Stage, Status
from streams.store.port import ImageStore
from tests.builders import NOW_MS, a_classified, a_request, an_image_ref, an_outcome


def png(colour: str = "red", size: tuple[int, int] = (32, 32), kind: str = "PNG") -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, colour).save(out, kind)
    return out.getvalue()


def stored(store: ImageStore, data: bytes) -> ImageRef:
    return an_image_ref(uri=store.put("job", data), sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))


def a_step(**changes: Any) -> Stage:
    values: dict[str, Any] = {
        "stage": 0, "level": "light", "worker_id": "w-1", "plan_version": 1, "queue_ms": 5, "generate_ms": 20,
        "batch": 1, "attempt": 1, "confidence": 0.82, "threshold": 0.55, "image": an_image_ref(),
    }  # fmt: skip
    return Stage(**(values | changes))


def a_result(
    *path: Stage, request_id: str = "r-1", prompt: str = "a red heart", status: Status = Status.COMPLETED,
    reason: str = "", latency_ms: int = 40,
) -> Result:  # fmt: skip
    """As the ledger would write it."""
    request = a_request(request_id=request_id, prompt=prompt)
    return result_of(
        an_outcome(
            request_id=request_id, status=status, reason=reason, ended_ms=NOW_MS + latency_ms, request=request,
            classified=a_classified(request), path=path,
        )
    )  # fmt: skip


def a_generated_result(store: ImageStore, data: bytes | None = None, **changes: Any) -> Result:
    return a_result(a_step(image=stored(store, data or png())), **changes)


def an_escalated_result(store: ImageStore, **changes: Any) -> Result:
    draft = a_step(confidence=0.31, image=stored(store, png("grey")))
    final = a_step(
        stage=1, level="heavy", worker_id="w-2", confidence=None, threshold=None, image=stored(store, png("blue"))
    )
    return a_result(draft, final, **changes)
