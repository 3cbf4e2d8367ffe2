"""Traces of a live pipeline: a span for each hop with the right parents, and a collector that hangs stops nobody."""

import contextlib
import pathlib
import threading
from collections import defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from schemas.ids import new_request_id
from schemas.messages import GenerateRequest
from schemas.record import Outgoing
from schemas.topics import PROMPTS
from streams.clock import now_ms
from streams.codec.avro import encode
from streams.kafka.producers.writing import send_all
from streams.kafka.topics import create_topics
from streams.settings import load
from streams.tracing import conventions as names
from tests.integration.pipeline import Pipeline

CLIENT_SPAN = "cd" * 8


class Collector:
    """Takes spans over OTLP, and keeps them by trace; while it hangs it answers nobody."""

    def __init__(self) -> None:
        self.traces: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.hangs, self.ends = threading.Event(), threading.Event()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if collector.hangs.is_set():
                    collector.ends.wait()
                    return
                collector.take(body)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_words: object) -> None:
                """Keep quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}/v1/traces"

    def take(self, body: bytes) -> None:
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = {each.key: each.value.string_value for each in group.resource.attributes}
            for span in (span for scope in group.scope_spans for span in scope.spans):
                attributes = {each.key: each.value.string_value or each.value.int_value for each in span.attributes}
                self.traces[span.trace_id.hex()].append(
                    {
                        "role": resource[names.SERVICE].removeprefix("pochade-"),
                        "name": span.name,
                        "id": span.span_id.hex(),
                        "parent": span.parent_span_id.hex(),
                        "times": (span.start_time_unix_nano, span.end_time_unix_nano),
                        **attributes,
                    }
                )


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    serving = threading.Thread(target=collector.server.serve_forever)
    serving.start()
    try:
        yield collector
    finally:
        collector.ends.set()
        collector.server.shutdown()
        serving.join()
        collector.server.server_close()


def traced(pipeline: Pipeline, trace: str) -> str:
    """Submit a prompt within a client's recorded span; its id."""
    request_id = new_request_id()
    request = GenerateRequest(request_id=request_id, prompt="a red heart", created_ms=now_ms())
    headers = {"traceparent": f"00-{trace}-{CLIENT_SPAN}-01".encode()}
    record = Outgoing(topic=PROMPTS, key=request_id.encode(), value=encode(request), headers=headers)
    send_all(pipeline.producer, [record])
    return request_id


def test_a_request_has_a_span_for_each_hop_and_a_collector_that_hangs_stops_none(
    broker_home: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    kafka = {"prefix": "traced", "session_timeout_ms": 3000}
    settings = load({"home": broker_home, "kafka": kafka, "planner": {"policy": "diffserve-static"}})
    create_topics(settings, ["light", "heavy"])
    with collecting() as collector:
        extra = [f"tracing.endpoint={collector.endpoint}", "tracing.ratio=0"]
        pipeline = Pipeline(settings, tmp_path, extra=extra)
        try:
            pipeline.start()
            traces = [f"{number:032x}" for number in range(1, 21)]
            ids = [traced(pipeline, trace) for trace in traces]
            untraced = pipeline.submit(5)
            results = pipeline.completed([*ids, *untraced])
            escalated = {result.request_id for result in results if result.escalated}
            assert escalated, "some of twenty escalate"
            hops = {trace: 7 if i in escalated else 5 for trace, i in zip(traces, ids, strict=True)}
            pipeline.until(
                lambda: all(len(processed(collector.traces[trace])) == count for trace, count in hops.items()),
                lambda: f"spans of all hops: { ({t: len(s) for t, s in collector.traces.items()}) }",
            )
            assert set(collector.traces) == set(traces), "requests that nobody samples have no spans"
            for trace, request_id in zip(traces, ids, strict=True):
                holds_together(collector.traces[trace], request_id, is_escalated=request_id in escalated)
            collector.hangs.set()
            more = [traced(pipeline, f"{number:032x}") for number in range(100, 120)]
            assert len(pipeline.completed(more)) == 20
        finally:
            pipeline.close()


def processed(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [span for span in spans if span["name"].startswith("process ")]


def holds_together(spans: list[dict[str, Any]], request_id: str, *, is_escalated: bool) -> None:
    """Each hop is the child of the one before, the first one of the client's span, and calls are children of hops."""
    by_parent = defaultdict(list)
    for span in spans:
        by_parent[span["parent"]].append(span)
    expected = ["classifier", "router", "worker", "discriminator", "ledger"]
    if is_escalated:
        expected[4:] = ["worker", "discriminator", "ledger"]
    parent, way = CLIENT_SPAN, []
    while hops := processed(by_parent[parent]):
        (hop,) = hops
        way.append(hop["role"])
        assert hop[names.REQUEST] == request_id
        assert hop["times"][0] <= hop["times"][1]
        calls = [child for child in by_parent[hop["id"]] if child not in processed(spans)]
        wanted = {"worker": "generate_content ", "discriminator": "score "}.get(hop["role"])
        assert all(call["name"].startswith(wanted or "none") for call in calls)
        if hop["role"] == "worker":
            (call,) = calls
            assert call[names.GENERATION] == names.GENERATE
        parent = hop["id"]
    assert way == expected
