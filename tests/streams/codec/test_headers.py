"""Headers: traces continue, facts are text, unknown headers travel on."""

from streams.codec.headers import TRACEPARENT, stamp


def a_stamp(incoming: dict[str, bytes]) -> dict[str, bytes]:
    return stamp(incoming, kind="GenerateJob", source="router", subject="r-1", time_ms=0, facts={"level": "light"})


def test_a_record_stays_in_the_trace_of_its_cause_and_names_no_span_that_nobody_records() -> None:
    first = a_stamp({})
    assert a_stamp(first)["traceparent"] == first["traceparent"]
    assert a_stamp({})["traceparent"] != first["traceparent"]


def test_a_trace_that_begins_here_is_not_recorded_so_far() -> None:
    assert a_stamp({})["traceparent"].endswith(b"-00")


def test_what_the_cause_says_of_sampling_is_said_on() -> None:
    cause = b"00-" + b"ab" * 16 + b"-" + b"cd" * 8 + b"-00"
    said = a_stamp({"traceparent": cause})["traceparent"]
    assert said == cause


def test_a_broken_traceparent_begins_a_new_trace() -> None:
    for broken in (
        b"nonsense",
        b"00-" + b"0" * 32 + b"-" + b"a" * 16 + b"-01",
        b"00-" + b"a" * 32 + b"-" + b"b" * 9000,
    ):
        assert TRACEPARENT.fullmatch(a_stamp({"traceparent": broken})["traceparent"])


def test_unknown_headers_travel_on_and_facts_are_readable() -> None:
    headers = a_stamp({"x-tenant-note": b"keep me"})
    assert headers["x-tenant-note"] == b"keep me"
    assert headers["pochade_level"] == b"light"
    assert headers["ce_type"] == b"pochade.GenerateJob"
    assert headers["ce_time"] == b"1970-01-01T00:00:00+00:00"
