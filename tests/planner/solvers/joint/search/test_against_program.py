import pytest

from tests.planner.solvers.joint.search.against_program import held, most


@pytest.mark.parametrize("seed", [*range(16), 100, 115, 122, 182, 194, 209])
def test_the_search_loses_at_most_a_hundredth_of_the_span_but_where_it_is_known_to_lose_more(seed: int) -> None:
    """The last few are hard: too few workers for all gates, or a step that promised little was not tried."""
    found = held(seed)
    assert found.faults == []
    assert found.lag <= most(seed)
