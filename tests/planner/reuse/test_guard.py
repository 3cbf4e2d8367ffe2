"""The guard's shares come from the plan alone."""

import pytest

from planner.reuse.guard import Comparison, Difference, GuardShares, InvalidShares, Verdict, allowed_share


def test_shares_are_the_plans_and_of_several_differences_the_least_counts() -> None:
    shares = GuardShares(equal=0.5, style=0.4, unsure=0.1, differs={Difference.STYLE: 0.4, Difference.COUNT: 0.2})
    assert allowed_share(shares, Comparison(Verdict.EQUAL)) == 0.5
    assert allowed_share(shares, Comparison(Verdict.STYLE, frozenset({Difference.STYLE}))) == 0.4
    assert allowed_share(shares, Comparison(Verdict.UNSURE)) == 0.1
    count = frozenset({Difference.COUNT})
    assert allowed_share(shares, Comparison(Verdict.DIFFERS, count)) == 0.2
    assert allowed_share(shares, Comparison(Verdict.DIFFERS, count | {Difference.COLOUR})) == 0.0


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InvalidShares):
        GuardShares(equal=share)
