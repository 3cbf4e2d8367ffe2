"""What a gateway adds is the difference of two distributions, told with how sure it is."""

from replay.bench.gateway.cost import added, intervals

KAFKA = [float(50 + n % 20) for n in range(200)]


def test_what_every_request_pays_is_found_in_median_and_tail_and_lies_in_their_intervals() -> None:
    http = [ms + 4 for ms in KAFKA]
    assert added(http, KAFKA) == {"added_p50_ms": 4.0, "added_p99_ms": 4.0}
    for low, high in intervals(http, KAFKA).values():
        assert low <= 4 <= high


def test_what_few_requests_pay_is_in_the_tail_alone() -> None:
    http = [ms + (100 if n % 50 == 0 else 0) for n, ms in enumerate(KAFKA)]
    assert added(http, KAFKA)["added_p50_ms"] <= 1
    assert added(http, KAFKA)["added_p99_ms"] > 50


def test_equal_ways_differ_by_an_interval_around_nothing() -> None:
    for low, high in intervals(KAFKA, KAFKA).values():
        assert low <= 0 <= high
