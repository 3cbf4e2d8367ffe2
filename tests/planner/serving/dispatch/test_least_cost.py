"""Dispatch by cost: a worker that holds what a job needs is worth waiting for, as long as loading takes longer."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.components.component import Component, Tier
from planner.components.eviction import ReuseEstimate, lru
from planner.components.tiers import Budgets, WorkerTiers
from planner.serving.dispatch.least_cost import KINDS, Option, pick
from schemas.errors import Unknown

OPTIONS = st.lists(
    st.builds(Option, st.sampled_from([0.0, 5.0, 9.0]), st.sampled_from([0.0, 4.0]), st.just(1.0)),
    min_size=1,
    max_size=8,
)


def test_a_job_waits_for_the_worker_that_holds_its_base_while_loading_takes_longer() -> None:
    cold_idle, warm_busy = Option(0, 22_000, 4_000), Option(20_000, 0, 4_000)
    assert pick("least-cost", [cold_idle, warm_busy], "r", 0) == 1
    assert pick("least-cost", [cold_idle, warm_busy._replace(queued_ms=23_000)], "r", 0) == 0


def test_a_load_counts_once_more_for_each_job_that_will_wait_behind_it() -> None:
    cold, warm = Option(20_000, 35_000, 10_000), Option(90_000, 0, 10_000)
    assert pick("least-cost", [cold, warm], "r", 0) == 1, "alone the job would end 35 s sooner on the cold worker"
    assert pick("least-cost", [cold, warm._replace(queued_ms=130_000)], "r", 0) == 0
    assert pick("least-cost", [cold._replace(queued_ms=0), warm], "r", 0) == 0, "nobody waits behind an idle worker"


@given(OPTIONS, st.text(), st.integers(0, 99), st.sampled_from(sorted(KINDS)))
def test_each_kind_keeps_its_rule_and_decides_equally_when_asked_again(
    options: list[Option], request_id: str, sent: int, kind: str
) -> None:
    place = pick(kind, options, request_id, sent)
    assert place == pick(kind, options, request_id, sent)
    if kind == "least-cost":
        assert place is not None
        assert options[place].cost_ms == min(option.cost_ms for option in options)
    if kind == "round-robin":
        assert place == sent % len(options)
    if kind == "pull":
        idle = [option for option in options if option.queued_ms == 0]
        assert (place is None) == (not idle)
        assert place is None or options[place] == min(idle, key=lambda option: option.load_ms)


def test_ties_and_random_spread_over_the_workers() -> None:
    options = [Option(0, 0, 1)] * 4
    for kind in ("least-cost", "pull", "random"):
        counts = Counter(pick(kind, options, f"r{n}", 0) for n in range(400))
        assert set(counts) == {0, 1, 2, 3}
        assert max(counts.values()) < 150


def test_nobody_gets_a_job_where_there_is_no_worker_and_an_unknown_kind_lists_the_known() -> None:
    assert pick("least-cost", [], "r", 0) is None
    with pytest.raises(Unknown, match="least-cost, pull, random, round-robin"):
        pick("cheapest", [], "r", 0)


@pytest.mark.parametrize("busy", [0.4, 0.8])
def test_on_a_skewed_trace_least_cost_loads_less_than_half_as_many_bases_as_round_robin(busy: float) -> None:
    loads = {kind: _base_loads(kind, busy) for kind in ("least-cost", "round-robin")}
    assert loads["least-cost"] < loads["round-robin"] / 2


def _base_loads(kind: str, busy: float) -> int:
    """Loads of bases over 3,000 requests for 40 Zipf-popular bases on 8 workers that hold two each."""
    bases = [f"base:{n}" for n in range(40)]
    components = {each: Component(id=each, bytes=1, load_ms={Tier.REMOTE: 20.0}) for each in bases}
    budgets = Budgets(volume=0, host=0, device=2)
    workers = [WorkerTiers(components, budgets, ReuseEstimate(1000.0, 1000.0), lru) for _ in range(8)]
    free_ms, dice, now_ms = [0.0] * 8, random.Random(1), 0.0
    for n in range(3000):
        now_ms += dice.expovariate(busy * 8 / 15.0)
        base = dice.choices(bases, [1 / (rank + 1) ** 1.3 for rank in range(40)])[0]
        options = [
            Option(max(0.0, at - now_ms), components[base].load_from(worker.tier_of(base)), 10.0)
            for at, worker in zip(free_ms, workers, strict=True)
        ]
        place = pick(kind, options, f"r{n}", n)
        assert place is not None
        workers[place].use([base], now_ms)
        free_ms[place] = now_ms + options[place].queued_ms + options[place].load_ms + 10.0
    return sum(worker.loads for worker in workers)


def test_of_jobs_that_differ_pulled_ones_end_sooner_than_pushed_ones_and_no_worker_idles_while_one_waits() -> None:
    pull, idle = _latencies("pull")
    assert idle == 0
    for kind in ("random", "round-robin"):
        push, idle = _latencies(kind)
        assert idle > 0.1
        for share in (0.9, 0.99):
            assert _quantile(pull, share) < 0.7 * _quantile(push, share)


def _latencies(kind: str) -> tuple[list[float], float]:
    """Latencies of 4,000 jobs of 1 or 8 s on 8 workers at .7, and the share that waits while a worker is idle."""
    dice, free_ms, now_ms, latencies, waits = random.Random(2), [0.0] * 8, 0.0, [], 0
    for n in range(4000):
        now_ms += dice.expovariate(0.7 * 8 / 2400.0)
        run_ms = 8000.0 if dice.random() < 0.2 else 1000.0
        at_ms = max(now_ms, min(free_ms)) if kind == "pull" else now_ms  # one queue, or one a worker
        options = [Option(max(0.0, each - at_ms), 0.0, run_ms) for each in free_ms]
        place = pick(kind, options, f"r{n}", n)
        assert place is not None
        waits += options[place].queued_ms > 0 and min(free_ms) <= now_ms
        free_ms[place] = max(at_ms, free_ms[place]) + run_ms
        latencies.append(free_ms[place] - now_ms)
    return latencies, waits / len(latencies)


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[int(share * len(values))]
