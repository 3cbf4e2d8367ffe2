"""Crowds are made the same each time, and figures of the watched clients are apart from those of the crowd."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from planner.serving.ending.ledger import result_of
from planner.serving.ending.outcomes import rejected
from replay.bench.crowd import crowd, storm
from replay.bench.crowd.crowd import Asked, Crowd, Due, added_ms, stream
from replay.bench.environment import side
from replay.bench.environment.side import Side
from replay.bench.environment.topic_counter import Arrival
from schemas.messages import Status
from schemas.record import Outgoing
from schemas.topics import PROMPTS_BATCH
from streams.cli import main
from streams.codec.avro import encode
from streams.settings import Settings
from tests.builders import NOW_MS, a_request, an_outcome

ASKED = Asked(seconds=10, rate=4, times=10, workers=2)


class Sent:
    """A producer and what it was given."""

    def __init__(self) -> None:
        self.records: list[Outgoing] = []

    def send(self, record: Outgoing) -> None:
        self.records.append(record)


def a_crowd(*arrivals: Arrival) -> tuple[Crowd, Sent]:
    producer = Sent()
    results = SimpleNamespace(arrivals=list(arrivals), lost=lambda keys: len(keys))
    site = SimpleNamespace(check=lambda: None)
    return Crowd(site, Side(Settings(), producer, results)), producer  # type: ignore[arg-type]


def seen(outcome: Any, at_ms: int) -> Arrival:
    return Arrival(outcome.request_id.encode(), 0, at_ms * 10**6, encode(result_of(outcome)))


def test_the_watched_come_at_the_same_moments_in_every_phase_under_other_ids() -> None:
    calm, crowded = (ASKED.watched(name, tier="interactive") for name in ("calm", "crowded"))
    assert [due.at_ms for due in calm] == [due.at_ms for due in crowded]
    assert not {due.request.request_id for due in calm} & {due.request.request_id for due in crowded}
    assert {due.request.tier for due in calm} == {"interactive"}
    assert 25 < len(calm) <= 40
    assert max(due.at_ms for due in calm) < 10_000


def test_what_is_submitted_goes_in_the_order_of_its_times_to_its_own_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd.time, "sleep", lambda _: None)
    watched, flood = stream("w", 4, 5), stream("f", 40, 5, seed=2, topic=PROMPTS_BATCH, tier="batch")
    opened, producer = a_crowd()
    opened.submit(watched, flood)
    at_ms = {due.request.request_id.encode(): due.at_ms for due in (*watched, *flood)}
    order = [at_ms[record.key or b""] for record in producer.records]
    assert all(before <= after for before, after in itertools.pairwise(order))
    assert len(order) == len(watched) + len(flood)
    assert sum(record.topic == PROMPTS_BATCH for record in producer.records) == len(flood)


def test_refused_and_lost_ones_are_reported_and_latency_is_from_the_first_submission(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock_ns = itertools.chain([0] * 22, itertools.repeat(10**9))
    monkeypatch.setattr(side, "time", SimpleNamespace(time_ns=lambda: next(clock_ns)))
    done = [seen(an_outcome(request_id=f"r-{n}", status=Status.COMPLETED), 10 * n) for n in range(1, 21)]
    turned_away = seen(rejected(a_request(request_id="no"), reason="full", by="router", now_ms=NOW_MS), 5)
    opened, _ = a_crowd(*done, turned_away)
    names = [*(f"r-{n}" for n in range(1, 21)), "no", "lost"]
    watched = [Due(0, a_request(request_id=name)) for name in names]
    opened.submit(watched, watched)
    reported = opened.as_table(watched)
    assert {name: reported[name] for name in ("requests", "completed", "refused", "lost")} == {
        "requests": 22, "completed": 20, "refused": 1, "lost": 1,
    }  # fmt: skip
    assert reported["latency_ms"] == {"p50": 100.0, "p90": 180.0, "p95": 190.0, "p99": 200.0}
    assert added_ms({"latency_ms": {"p95": 250.5}}, {"latency_ms": {"p95": 200.0}}) == 50.5


def test_those_who_never_end_are_not_waited_for_past_the_limit_after_the_last_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s, looks_s = [0.0], list[float]()

    def sleep(seconds: float) -> None:
        now_s[0] += seconds

    def lost(keys: set[bytes]) -> int:
        """One of them ends 3 s after the beginning, the other never."""
        looks_s.append(now_s[0])
        assert len(looks_s) < 1000, "it waits for ever"
        return len(keys) - (now_s[0] >= 3)

    monkeypatch.setattr(crowd, "time", SimpleNamespace(monotonic=lambda: now_s[0], sleep=sleep))
    opened, _ = a_crowd()
    monkeypatch.setattr(opened.side.results, "lost", lost)
    opened.wait([Due(0, a_request(request_id=name)) for name in ("a", "b")], limit_s=5.0)
    assert looks_s[-1] == pytest.approx(3 + 5, abs=0.2)


@pytest.mark.parametrize("times", [1, 10, 13])
def test_retries_come_soon_and_then_every_second(times: int) -> None:
    again = storm.retry_times_ms(times)
    assert len(again) == times
    assert again == sorted(again)
    assert again[10:] == [2000.0, 3000.0, 4000.0][: max(0, times - 10)]


def test_a_question_that_nobody_asks_is_refused() -> None:
    reported = CliRunner().invoke(main, ["bench", "crowd", "flod"])
    assert reported.exit_code == 2
    assert "flood" in reported.output
