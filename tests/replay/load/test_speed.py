import itertools

from replay.load.speed import SpeedProbe
from replay.simulation.draws.hop_latencies import RANKS


def test_the_probe_measures_until_it_is_stopped_and_leaves_no_process() -> None:
    with SpeedProbe(pause_s=0.0) as probe:
        child = probe._child
        assert child is not None
        assert child.stdout is not None
        found = probe.stop()
        assert probe.stop() == ()
    assert child.returncode == 0
    assert found == () or (len(found) == len(RANKS) and all(a <= b for a, b in itertools.pairwise(found)))


def test_a_probe_that_nobody_stops_ends_with_its_context() -> None:
    with SpeedProbe() as probe:
        child = probe._child
    assert child is not None
    assert child.returncode == 0
