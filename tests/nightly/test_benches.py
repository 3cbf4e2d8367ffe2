"""`pochade bench` of overhead, ledger, a killed router and a storm of retries, in short: nothing is lost or doubled."""

import pathlib
from collections.abc import Callable

import pytest

from streams.broker import address, probe
from streams.kafka import clients
from streams.settings import Settings, load
from tests.integration.benches import QUICK, reported, there
from tests.integration.waiting import poll_until

__all__ = ["there"]


def test_overhead_is_reported_with_its_baseline(there: tuple[pathlib.Path, list[str]]) -> None:
    report = reported(*there, "overhead", "--count", "10", "--rate", "10", "--warm-up", "1")
    assert report["lost"] == 0
    assert {"p50", "p99"} <= set(report["overhead_ms"]) & set(report["baseline_ms"])
    assert report["ratio_p50"] == pytest.approx(report["overhead_ms"]["p50"] / report["baseline_ms"]["p50"], rel=0.01)


def test_a_ledger_is_reported_and_leaves_no_topics_on_a_configured_cluster(
    there: tuple[pathlib.Path, list[str]],
) -> None:
    report = reported(*there, "ledger", "--count", "200", "--existing", "500", "--repeats", "1")
    assert (report["lost"], report["duplicates"]) == (0, 0)
    assert report["outcomes_per_s"]["median"] > 0
    assert report["recovery"]["first_result_after_s"] > 0
    home, _ = there

    def is_clean() -> bool:  # a deletion is done before every broker's metadata says so
        topics = probe.probe(clients.client_config(load({"home": home})), 10).topics
        return not [name for name in topics if name.startswith("t-bench-")]

    poll_until(is_clean, "the topics gone")


def test_a_killed_router_loses_nothing_and_the_benchs_own_broker_ends(new_home: Callable[[], pathlib.Path]) -> None:
    home = new_home()
    report = reported(home, QUICK, "router", "--count", "400", "--repeats", "1", "--kill")
    assert report["lost"] == report["killed"]["lost"] == 0
    assert report["records_per_s"]["median"] > 0
    assert address.find(Settings(home=home)) is None


def test_a_storm_of_retries_is_generated_once_a_request(there: tuple[pathlib.Path, list[str]]) -> None:
    asked = ("--seconds", "2", "--rate", "4", "--times", "3", "--workers", "1")
    report = reported(*there, "crowd", "storm", *asked)
    assert report["repetitions"] == 3 * report["crowded"]["requests"] > 0
    judged = ("painted_again", "duplicate_results", "refused", "lost")
    assert {name: report[name] for name in judged} == dict.fromkeys(judged, 0)
    assert report["targets"].keys() == {*judged, "p95_added_ms"}
