"""Small live runs for tests."""

import dataclasses
from typing import Any

import numpy as np

from replay.load.record.history import History, Published
from replay.traces.trace import Trace, of_arrivals
from replay.traces.wording import TURN, worded
from schemas.messages import Heartbeat, ImageGenerated, Plan, Result
from tests.builders import NOW_MS, a_cascade, a_plan
from tests.replay.runs import a_result, a_step


def a_trace(times: list[float], prompts: tuple[str, ...] = ("one", "two")) -> Trace:
    return worded(of_arrivals(np.array(times), "test", "test"), prompts, TURN, 0)


def a_history(
    results: dict[int, Result], created_ms: dict[int, int] | None = None, plans: tuple[Plan, ...] | None = None,
    beats: tuple[tuple[int, Heartbeat], ...] = (), images: tuple[ImageGenerated, ...] = (), duplicates: int = 0,
) -> History:  # fmt: skip
    created = created_ms if created_ms is not None else dict.fromkeys(results, NOW_MS)
    return History(Published(created), results, duplicates, plans or (a_plan(created_ms=NOW_MS),), beats, images)


def answered(request_id: str, latency_ms: int = 40, level: str = "light", **changes: Any) -> Result:
    """Completed by one image, judged where the level is light."""
    judged = {"confidence": 0.82, "threshold": 0.5} if level == "light" else {"confidence": None, "threshold": None}
    result = a_result(a_step(level=level, **judged), request_id=request_id, latency_ms=latency_ms)
    return dataclasses.replace(result, policy="test", **changes)


def painted_again(request_id: str, confidence: float = 0.31, latency_ms: int = 300) -> Result:
    draft, last = a_step(confidence=confidence, threshold=0.5), a_step(stage=1, level="heavy", confidence=None)
    return dataclasses.replace(a_result(draft, last, request_id=request_id, latency_ms=latency_ms), policy="test")


def judging_plan(**changes: Any) -> Plan:
    return a_plan(cascades=(a_cascade(),), **changes)
