"""The bench of scaling: its three fleets, constant load, and who gets a job."""

from click.testing import CliRunner

from replay.bench.scale import Asked, arrivals_of, run
from streams.cli import main
from tests.builders import a_catalog

SMALL = Asked(
    workers=2, before_s=10, burst_s=15, after_s=40, steady_s=30, max_workers=16, warm=6, period_s=1, start_s=5, seeds=1,
    slo_s=3,
)  # fmt: skip


def test_the_pool_serves_more_in_time_than_none_and_the_fixed_fleet_costs_as_much() -> None:
    measured = run(a_catalog(), SMALL, lambda _text: None)
    pool, none, fixed = (measured["burst"][name] for name in ("pool", "no_pool", "fixed"))
    assert pool["in_time"]["mean"] > none["in_time"]["mean"]
    assert abs(fixed["workers_mean"]["mean"] - pool["workers_mean"]["mean"]) <= 1
    assert pool["cold_starts"]["mean"] > 0 == fixed["cold_starts"]["mean"]
    assert measured["targets"].keys() == {"in_time_with_pool", "ahead_of_fixed", "target_changes_at_constant_load"}
    unlike = measured["latency_s_of_unlike_jobs"]
    assert unlike["pull"]["p90"] < unlike["round_robin"]["p90"]


def test_arrivals_have_the_rates_of_their_spans() -> None:
    arrivals_ms = arrivals_of([(10, 100), (100, 10)], 1)
    assert abs(sum(arrivals_ms < 100_000) - 1000) < 150
    assert abs(sum(arrivals_ms >= 100_000) - 1000) < 150
    assert list(arrivals_ms) == sorted(arrivals_ms)


def test_the_command_says_what_it_measures() -> None:
    shown = CliRunner().invoke(main, ["bench", "scale", "--help"])
    assert shown.exit_code == 0
    assert "worker-seconds" in shown.output
