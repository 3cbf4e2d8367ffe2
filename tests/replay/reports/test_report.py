import json
from typing import Any

import pytest

from replay.load.driver import Audit, audit
from replay.reports.demo_report import (
    CompletedImage,
    RunFacts,
    build,
    identical_images,
    open_images,
    percentiles,
    verdict,
)
from replay.reports.summary import rows
from schemas.messages import Result, Status
from tests.builders import a_plan, an_image_ref
from tests.memory_store import MemoryImageStore
from tests.replay.runs import a_generated_result, a_result, a_step, an_escalated_result, png, stored


def facts(**changes: Any) -> RunFacts:
    values: dict[str, Any] = {
        "started": "2026-01-01T00:00:00+00:00", "seconds": 9.87, "first_image_s": 4.56, "ready_s": 3.0,
        "lateness_ms": (1.0, 3.0), "restarts": {"worker-1": 1}, "plans": (a_plan(version=2),), "versions": {},
        "settings": {},
    }  # fmt: skip
    return RunFacts(**(values | changes))


def report_of(results: list[Result], store: MemoryImageStore, accepted: list[str]) -> dict[str, Any]:
    audited = audit(accepted, results)
    return build(audited, *open_images(audited.results, store), facts())


def test_a_report_counts_outcomes_levels_and_escalations() -> None:
    store = MemoryImageStore()
    results = [
        a_generated_result(store, request_id="a"),
        an_escalated_result(store, request_id="b"),
        a_result(request_id="c", status=Status.EXPIRED, reason="too late"),
    ]
    report = report_of(results, store, ["a", "b", "c"])
    assert report["accepted"] == 3
    assert report["outcomes"] == {"COMPLETED": 2, "EXPIRED": 1}
    assert report["by_level"] == {"light": 1, "heavy": 1}
    assert report["escalated"] == 1
    assert report["plan_versions"] == [2]
    assert [picture["request_id"] for picture in report["pictures"]] == ["a", "b"]
    assert report["pictures"][0]["width"] == 32
    assert verdict(report) is None
    json.dumps(report)


def test_a_report_counts_what_was_refined() -> None:
    over = a_step(stage=1, level="heavy", confidence=None, threshold=None, refine_from_step=3, image=None)
    drafted = [a_result(a_step(confidence=0.3), over, request_id=name) for name in ("a", "b")]
    report = report_of(
        [*drafted, an_escalated_result(MemoryImageStore(), request_id="c")], MemoryImageStore(), list("abc")
    )
    assert (report["escalated"], report["painted_over"]) == (3, 2)
    assert rows(report)["escalated"] == "3, 2 of them over the draft"


def test_latency_is_that_of_completed_requests_only() -> None:
    store = MemoryImageStore()
    results = [a_generated_result(store, request_id=f"r{n}", latency_ms=n) for n in range(1, 101)]
    results.append(a_result(request_id="late", status=Status.EXPIRED, latency_ms=10**6))
    report = report_of(results, store, [result.request_id for result in results])
    assert report["latency_ms"] == {"p50": 50.5, "p95": 95.0, "p99": 99.0}


def test_percentiles_of_nothing_are_none() -> None:
    assert percentiles([], (50, 99)) == {"p50": None, "p99": None}


@pytest.mark.parametrize("data", [b"not an image", png()[:-30], b"\0"], ids=["text", "cut off", "nothing"])
def test_bytes_that_are_no_image_are_reported_and_fail_the_run(data: bytes) -> None:
    store = MemoryImageStore()
    report = report_of([a_generated_result(store, data, request_id="a")], store, ["a"])
    assert "does not decode" in report["undecodable"][0]
    assert "do not decode" in str(verdict(report))


def test_an_image_whose_bytes_are_not_those_of_its_result_is_reported() -> None:
    store = MemoryImageStore()
    lying = an_image_ref(uri=store.put("x", png()), sha256="0" * 64)
    _, broken = open_images([a_result(a_step(image=lying))], store)
    assert "its result says" in broken[0]


def test_an_image_that_has_gone_is_reported() -> None:
    _, broken = open_images([a_result(a_step())], MemoryImageStore())
    assert "is not an image of this store" in broken[0]


def test_a_lost_request_and_a_second_result_fail_the_run() -> None:
    store = MemoryImageStore()
    result = a_generated_result(store, request_id="a")
    report = report_of([result, result], store, ["a", "b"])
    assert (report["lost"], report["duplicates"], report["lost_ids"]) == (1, 1, ["b"])
    assert verdict(report) == "1 of 2 accepted requests have no result (b); 1 results came twice"


def test_a_run_that_nothing_accepted_is_not_a_success() -> None:
    assert verdict(build(Audit((), (), 0), [], [], facts())) == "no request was accepted"


def test_different_prompts_with_the_same_image_are_counted_and_a_repeated_prompt_is_not() -> None:
    def picture(prompt: str, sha256: str) -> CompletedImage:
        return CompletedImage(
            request_id="r", prompt=prompt, level="light", confidence=None, uri="u", sha256=sha256, width=1, height=1
        )

    shown = [picture("a", "1"), picture("b", "1"), picture("c", "2"), picture("c", "2"), picture("d", "3")]
    assert identical_images(shown) == 2


def test_the_store_keeps_what_a_step_names() -> None:
    store = MemoryImageStore()
    images, broken = open_images([a_result(a_step(image=stored(store, png(size=(64, 48)))))], store)
    assert not broken
    assert (images[0].width, images[0].height) == (64, 48)
