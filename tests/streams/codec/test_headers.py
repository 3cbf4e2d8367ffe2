"""Headers: traces continue, facts are text, unknown headers travel on."""

from streams.codec.headers import stamp


def a_stamp(incoming: dict[str, bytes]) -> dict[str, bytes]:
    return stamp(incoming, kind="GenerateJob", source="router", subject="r-1", time_ms=0, facts={"level": "light"})


def test_a_record_stays_in_the_trace_of_its_cause_with_a_span_of_its_own() -> None:
    first = a_stamp({})
    second = a_stamp(first)
    assert first["traceparent"].split(b"-")[1] == second["traceparent"].split(b"-")[1]
    assert first["traceparent"] != second["traceparent"]


def test_what_the_cause_says_of_sampling_is_said_on() -> None:
    cause = b"00-" + b"ab" * 16 + b"-" + b"cd" * 8 + b"-00"
    said = a_stamp({"traceparent": cause})["traceparent"]
    assert said.startswith(b"00-" + b"ab" * 16 + b"-")
    assert said.endswith(b"-00")
    assert b"cd" * 8 not in said


def test_a_broken_traceparent_begins_a_new_trace() -> None:
    assert len(a_stamp({"traceparent": b"nonsense"})["traceparent"]) == 55


def test_unknown_headers_travel_on_and_facts_are_readable() -> None:
    headers = a_stamp({"x-tenant-note": b"keep me"})
    assert headers["x-tenant-note"] == b"keep me"
    assert headers["pochade_level"] == b"light"
    assert headers["ce_type"] == b"pochade.GenerateJob"
    assert headers["ce_time"] == b"1970-01-01T00:00:00+00:00"
