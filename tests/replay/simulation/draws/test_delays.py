import numpy as np
import pytest

from replay.simulation.draws.delays import Delay
from replay.simulation.draws.hop_latencies import HopLatencies, Slots, of_kinds, whole
from replay.simulation.event_queue import EventQueue
from replay.simulation.results.figures import figures_of
from replay.simulation.run import Simulation
from replay.simulation.setup import Timing
from tests.replay.simulation.runs import SERVICE_MS, a_setup, down, one_level

APART = np.arange(0.0, 50_000.0, 500.0)  # nobody waits


def always(ms: float) -> Slots:
    return whole([(0.0, ms)])


def test_without_a_distribution_it_happens_at_once() -> None:
    events, done = EventQueue(), list[int]()
    Delay(events, (), 1000.0, 0, "x").before(done.append)(1)
    assert done == [1]


def test_with_one_it_happens_later() -> None:
    events, done = EventQueue(), list[int]()
    Delay(events, always(7.0), 1000.0, 0, "x").before(done.append)(1)
    events.advance(6.9)
    assert done == []
    events.advance(7.0)
    assert done == [1]


def test_what_it_takes_is_that_of_its_time() -> None:
    events = EventQueue()
    delay = Delay(events, (*always(7.0), *always(70.0)), 1000.0, 0, "x")
    assert delay.next_ms() == 7
    events.advance(1500)
    assert delay.next_ms() == 70
    events.advance(9000)
    assert delay.next_ms() == 70


@pytest.mark.parametrize(("hop", "adds"), [("arrive", 30), ("fetch", 30), ("paint", 30), ("judge", 30), ("rest", 0)])
def test_what_a_deployment_takes_beside_generation_adds_to_latency(hop: str, adds: float) -> None:
    hops = of_kinds({hop: always(30.0)})
    setup = a_setup(catalog=one_level(), policy="clipper-light", timing=Timing(hops=hops))
    p50 = figures_of(Simulation(setup, APART).run())["latency_s"]["p50"]
    assert 1000 * p50 == pytest.approx(SERVICE_MS + adds, rel=0.01)


def test_a_worker_that_rests_between_calls_serves_less() -> None:
    busy = np.arange(0.0, 20_000.0, 1.1 * SERVICE_MS)  # nearly all it can, without rest
    p95 = []
    for rest_ms in (0.0, 10.0):
        timing = Timing(hops=HopLatencies(rest=always(rest_ms)))
        setup = a_setup(catalog=one_level(), policy="clipper-light", workers=1, timing=timing, drops=False)
        p95.append(figures_of(Simulation(setup, busy).run())["latency_s"]["p95"])
    assert p95[0] < 0.03
    assert p95[1] > 1


def test_nothing_ends_twice_when_a_worker_dies_between_its_images_and_the_next_call() -> None:
    timing = Timing(hops=of_kinds({"rest": always(400.0), "judge": always(100.0)}))
    outages = tuple(down(5.1, f"w-{number}") for number in range(3))
    setup = a_setup(catalog=one_level(), policy="clipper-light", timing=timing, outages=outages, drops=False)
    simulation, ended = Simulation(setup, np.arange(0.0, 20_000.0, 250.0)), list[int]()
    simulation.tally.on_result = lambda job, _status, _code: ended.append(job.number)
    simulation.run()
    assert sorted(ended) == list(range(80))
