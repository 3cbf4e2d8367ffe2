"""Request records: one line per request of a run, stored in its folder, to simulate the run without a broker."""

import json
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from planner.catalog.model import Catalog
from planner.serving.routing.cascades import cascade_of
from replay.load.record.history import History
from replay.load.record.observed import Observed, columns
from replay.traces.writing import opened
from schemas.errors import PochadeError
from schemas.messages import Plan, Result, Stage
from streams.operator.explain import steps_of

OPEN = "OPEN"  # in place of a status: no end was seen


class RequestRecord(NamedTuple):
    """Everything that a run showed of one request, as the simulator needs it."""

    number: int
    request_id: str
    status: str
    latency_ms: float | None
    level: str | None
    hardness: float | None
    model_class: str | None
    scores: list[list[str | float]]  # [level, discriminator, confidence]


def request_records(history: History, ids: Sequence[str]) -> list[RequestRecord]:
    """A record of every request of the trace; what never ended is `OPEN`."""
    plans = {plan.version: plan for plan in history.plans}
    return [
        _request_record(number, request_id, history.results.get(number), plans) for number, request_id in enumerate(ids)
    ]


def _request_record(number: int, request_id: str, result: Result | None, plans: Mapping[int, Plan]) -> RequestRecord:
    if result is None:
        return RequestRecord(number, request_id, OPEN, None, None, None, None, [])
    scores = list(_scores(steps_of(result), plans))
    return RequestRecord(
        number, request_id, str(result.status), result.latency_ms, result.level, result.hardness, result.class_models,
        scores,
    )  # fmt: skip


def _scores(steps: Iterable[Stage], plans: Mapping[int, Plan]) -> Iterator[list[str | float]]:
    for step in steps:
        plan = plans.get(step.plan_version)
        cascade = cascade_of(plan, step.level) if plan else None
        if cascade is not None and step.confidence is not None:
            yield [step.level, cascade.discriminator, step.confidence]


def observed(seen: Sequence[RequestRecord], catalog: Catalog, seed: int = 0) -> Observed:
    """The draws that agree with what was seen."""
    hardness = np.array([np.nan if each.hardness is None else each.hardness for each in seen])
    scores = [{(str(level), str(judge)): float(score) for level, judge, score in each.scores} for each in seen]
    return Observed(catalog, seed, hardness, columns(scores), [each.model_class for each in seen])


def write(seen: Iterable[RequestRecord], path: pathlib.Path) -> None:
    """Write records as JSON lines. Raises PochadeError where the file cannot be written."""
    with opened(path) as file:
        file.writelines(json.dumps(each._asdict()) + "\n" for each in seen)


def read(path: pathlib.Path) -> list[RequestRecord]:
    """Read records that `write` wrote. Raises PochadeError."""
    try:
        return [RequestRecord(**json.loads(line)) for line in path.read_text("utf-8").splitlines()]
    except (OSError, ValueError, TypeError) as error:
        raise PochadeError(f"{path} holds no requests of a live run: {error}") from None
