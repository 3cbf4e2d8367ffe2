"""Which models of a pool are worth profiling in pairs."""

from planner.solvers.two_stage.candidates import ADJACENT, DOMINATED, INTERMEDIATE, Candidate, Tolerance, pruned


def test_of_eight_models_four_survive_each_dropped_by_its_rule() -> None:
    pool = [
        Candidate("quick", 500, 0.0),
        Candidate("quick-too", 480, -0.1),  # 4 % quicker, 1 % of the range worse
        Candidate("light", 1300, 4.5),
        Candidate("worse", 1500, 3.0),  # slower and worse than light
        Candidate("medium", 13000, 9.1),
        Candidate("between", 20000, 9.4),  # on the segment from medium to large
        Candidate("large", 27000, 9.8),
        Candidate("slow", 30000, 9.8),  # slower and no better than large
    ]
    assert pruned(pool) == {"worse": DOMINATED, "slow": DOMINATED, "quick-too": ADJACENT, "between": INTERMEDIATE}


def test_a_model_between_neighbours_that_are_far_apart_stays() -> None:
    pool = [Candidate("a", 100, 0), Candidate("b", 1000, 5), Candidate("c", 1900, 10)]
    assert pruned(pool) == {}
    assert pruned(pool, Tolerance(close=20)) == {"b": INTERMEDIATE}


def test_a_model_well_above_the_segment_stays() -> None:
    assert pruned([Candidate("a", 100, 0), Candidate("b", 150, 9), Candidate("c", 200, 10)]) == {}


def test_one_model_or_none_is_left_alone() -> None:
    assert pruned([]) == {}
    assert pruned([Candidate("a", 1, 0)]) == {}


def test_the_four_models_of_the_paper_stay() -> None:
    """SDXL-Lightning, SD3.5-Turbo, -Medium and -Large: run times of HADIS 4.1, FID of SOURCES.md 4."""
    pool = [Candidate(str(ms), ms, -fid) for ms, fid in ((500, 29.75), (1300, 25.22), (13000, 20.61), (27000, 19.95))]
    assert pruned(pool) == {}
