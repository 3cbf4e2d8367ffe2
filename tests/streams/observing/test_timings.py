"""Our histogram is exposed as Prometheus's own is, and its bounds fit what is measured."""

import threading

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client import Histogram as TheirHistogram
from prometheus_client.parser import text_string_to_metric_families

from streams.observing.metric import LEFT_SECONDS, SECONDS
from streams.observing.timings import Histogram

VALUES = (0.0, 0.001, 0.0011, 0.3, 59.9, 60.0, 601.0)


def exposed(registry: CollectorRegistry) -> dict[tuple[str, str], float]:
    """What a scrape reads: name and bound -> value; but for when it was made."""
    return {
        (sample.name, sample.labels.get("le", "")): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_it_is_exposed_as_the_librarys_own_histogram_is() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    mine, own = Histogram("took", "Time", ["role"], SECONDS), TheirHistogram("took", "Time", ["role"], buckets=SECONDS)
    ours.register(mine)
    theirs.register(own)
    for value in VALUES:
        mine.labels("router").observe(value)
        own.labels("router").observe(value)
    found = exposed(ours)
    assert found == exposed(theirs)
    assert found["took_count", ""] == len(VALUES)


def test_a_value_met_several_times_counts_as_often() -> None:
    one, each = (Histogram("took", "Time", [], SECONDS) for _ in range(2))
    one.labels().observe(0.3, 5)
    for _ in range(5):
        each.observe(0.3)
    assert one.labels().snapshot()[0] == each.labels().snapshot()[0]


def test_threads_that_observe_together_lose_nothing() -> None:
    timings = Histogram("took", "Time", [], SECONDS).labels()

    def observe() -> None:
        for _ in range(2000):
            timings.observe(0.3)

    threads = [threading.Thread(target=observe) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert timings.snapshot()[0][-1] == ("+Inf", 8000)


def test_bounds_reach_from_a_millisecond_to_ten_minutes_on_both_sides_of_a_deadline() -> None:
    assert (SECONDS[0], SECONDS[-1]) == (0.001, 600)
    assert (LEFT_SECONDS[0], LEFT_SECONDS[-1]) == (-600, 600)
    assert 0 in LEFT_SECONDS
    assert [*LEFT_SECONDS] == sorted(LEFT_SECONDS)
