"""A profile of reuse that cannot be is refused with what to do."""

import pytest

from planner.catalog.reuse import Neighbours, ReuseProfile, check_reuse_profile
from planner.catalog.validate import InvalidCatalog
from schemas.errors import Unknown
from schemas.messages import ReuseFloor
from tests.builders import a_catalog


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"neighbours": (Neighbours(0.9, 0.5), Neighbours(0.8, 0.1))}, "neighbours must be rising"),
        ({"neighbours": (Neighbours(1.5, 0.5),)}, "neighbours must be rising"),
        ({"image_neighbours": (Neighbours(0.1, 0.6), Neighbours(0.2, 0.6))}, "image_neighbours must be shares of all"),
        ({"neighbours": (Neighbours(0.9, 0.5, {"equal": 0.5}),)}, "verdicts at 0.9 must be shares that sum to 1"),
        ({"floors": (ReuseFloor(similarity=0.9, share=1.0),)}, "floors must be similarities"),
        ({"floors": tuple(ReuseFloor(similarity=s, share=0.1) for s in (0.9, 0.8))}, "floors must be rising"),
        ({"hits": {"heavy~k4": 1.1}}, "hits of heavy~k4 must be in"),
        ({"retrieval_ms": -1.0}, "retrieval_ms must be >= 0"),
    ],
)
def test_impossible_figures_are_refused(changes: dict[str, object], fault: str) -> None:
    with pytest.raises(InvalidCatalog, match=fault):
        a_catalog(reuse_profile=ReuseProfile(**changes))


def test_an_unknown_verdict_lists_the_known_ones() -> None:
    with pytest.raises(Unknown, match="colour"):
        check_reuse_profile(ReuseProfile(neighbours=(Neighbours(0.9, 0.5, {"color": 1.0}),)), "here")
