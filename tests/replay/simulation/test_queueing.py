"""The simulated queues against what queueing theory says of them."""

import math

import numpy as np
import pytest

from planner.solvers.queueing import erlang_c
from replay.simulation.run import Ran
from tests.replay.simulation.runs import SERVICE_MS, a_setup, arrivals, one_level, ran


def mean_wait_ms(run: Ran) -> float:
    mean = run.tally.latencies.mean()
    assert mean is not None
    return mean - SERVICE_MS


def served(utilization: float, workers: int, count: int, seed: int = 5, **changes: object) -> Ran:
    setup = a_setup(catalog=one_level(), policy="clipper-light", workers=workers, drops=False, **changes)
    return ran(setup, arrivals(1000 * workers * utilization / SERVICE_MS, count, seed))


@pytest.mark.parametrize("utilization", [0.5, 0.8])
def test_one_worker_with_constant_service_waits_as_an_md1_queue_does(utilization: float) -> None:
    wait_ms = utilization * SERVICE_MS / (2 * (1 - utilization))  # Pollaczek-Khinchine
    assert mean_wait_ms(served(utilization, 1, 10_000)) == pytest.approx(wait_ms, rel=0.05)


def test_least_work_on_four_workers_waits_as_one_queue_with_four_servers_does() -> None:
    utilization, c = 0.8, 4
    mmc_ms = float(erlang_c([c], np.array([utilization]))[0, 0]) * SERVICE_MS / (c * (1 - utilization))
    factor = 1 + (1 - utilization) * (c - 1) * (math.sqrt(4 + 5 * c) - 2) / (16 * c * utilization)  # Cosmetatos, M/D/c
    assert mean_wait_ms(served(utilization, c, 10_000)) == pytest.approx(mmc_ms / 2 * factor, rel=0.08)


def test_random_dispatch_waits_as_four_queues_of_their_own_do_and_least_work_far_less() -> None:
    utilization = 0.8
    alone_ms = utilization * SERVICE_MS / (2 * (1 - utilization))
    at_random = mean_wait_ms(served(utilization, 4, 10_000, dispatch="random"))
    assert at_random == pytest.approx(alone_ms, rel=0.12)
    assert mean_wait_ms(served(utilization, 4, 2000)) < at_random / 3


@pytest.mark.parametrize("dispatch", ["pull", "round-robin"])
def test_other_dispatches_serve_everything_too(dispatch: str) -> None:
    run = served(0.7, 4, 3000, dispatch=dispatch)
    assert run.tally.violations == run.tally.late
    assert mean_wait_ms(run) < mean_wait_ms(served(0.7, 4, 3000, dispatch="random"))


def test_a_pulled_job_waits_for_workers_of_its_own_variant_alone() -> None:
    """Four workers, two of them ten times slower: as many requests to each, and only the slow ones queue up."""
    runs = [ran(a_setup(workers=4, slo_ms=400.0, dispatch=kind), arrivals(60, 1500)) for kind in ("pull", "least-work")]
    pulled, pushed = (run.tally for run in runs)
    assert pulled.violations <= pushed.violations + 15
    assert pulled.latencies.mean() == pytest.approx(pushed.latencies.mean(), rel=0.05)


def test_pulled_jobs_fill_batches_as_pushed_ones_do() -> None:
    """Two workers of 80 images a second in batches of 4, 50 one by one."""
    runs = [
        ran(a_setup(policy="clipper-light", workers=2, parameters={"batch": 4.0}, dispatch=kind), arrivals(140, 6000))
        for kind in ("pull", "least-work")
    ]
    pulled, pushed = (run.tally for run in runs)
    assert pulled.violations <= pushed.violations + 60
    assert runs[0].busy_ms < 6000 * 15  # ms an image: 11 in full batches, 20 alone


def test_in_a_cascade_pulled_jobs_are_as_rarely_late_as_pushed_ones() -> None:
    """Discriminators do not see what is forwarded: who forwards keeps the drafts of those that would be late."""
    setups = [a_setup(policy="diffserve", workers=4, slo_ms=700.0, dispatch=kind) for kind in ("pull", "least-work")]
    pulled, pushed = (ran(setup, arrivals(50, 1500)).tally for setup in setups)
    assert pulled.violations <= pushed.violations + 10  # 92 of 1,500 late where the work before a worker is not asked
    assert pulled.rejected <= pushed.rejected + 10


def test_workers_are_as_busy_as_the_load_says() -> None:
    run = served(0.6, 4, 8000)
    assert run.busy_ms / run.up_ms == pytest.approx(0.6, rel=0.03)


def test_a_job_that_a_full_batch_would_make_late_is_generated_before_it() -> None:
    """Two wait for the first one's 20 ms: alone the older of them takes 20 more, with the other 30."""
    setup = a_setup(policy="clipper-light", workers=1, parameters={"batch": 4.0}, slo_ms=48.0)
    run = ran(setup, np.array([0.0, 1.0, 19.0]))
    assert (run.tally.violations, run.busy_ms) == (0, 3 * 20)


def test_a_full_batch_takes_the_time_that_was_measured_for_it() -> None:
    setup = a_setup(policy="clipper-light", workers=1, parameters={"batch": 4.0}, drops=False)
    run = ran(setup, np.array([0.0] * 5))
    latencies = sorted(run.tally.latencies.counts.elements())
    assert run.busy_ms == 20 + 44  # the first alone, as nothing else had arrived; then four
    assert len(latencies) == 5
    assert run.ended_ms >= 64
