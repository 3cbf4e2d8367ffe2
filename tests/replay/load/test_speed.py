from itertools import count

from replay.load.speed import probe
from replay.simulation.draws.hop_latencies import RANKS


def test_the_probe_says_how_long_a_piece_of_work_takes_by_rank() -> None:
    ticks = count()
    found = probe(20.0, clock=lambda: next(ticks))  # each look at the clock is a second later
    assert len(found) == len(RANKS)
    assert set(found) == {1000.0}


def test_a_probe_of_no_time_is_not_made() -> None:
    assert probe(0) == ()
