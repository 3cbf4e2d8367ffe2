"""What papers claim, held against redraws."""

import pytest

from replay.bench.comparison import AHEAD, BEHIND, EVEN, UNDECIDED
from replay.bench.papers.answers import Mean
from replay.bench.papers.claims import FID, VIOLATIONS, Claim, judge
from tests.replay.bench.papers.found import found


def fids(*values: float) -> Mean:
    return Mean([found(quality=-value) for value in values])


def late(*shares: float) -> Mean:
    return Mean([found(violations=share) for share in shares])


GOOD, BAD, NOISY = fids(17.0, 17.1, 17.2), fids(18.0, 18.1, 18.2), fids(16.0, 19.0, 17.5)


def claim(first: Mean, second: Mean, figure: str = FID) -> Claim:
    return Claim("a claim", "5 % (4.3)", first, second, figure)


@pytest.mark.parametrize(
    ("first", "second", "figure", "verdict"),
    [
        (GOOD, BAD, FID, AHEAD), (BAD, GOOD, FID, BEHIND), (GOOD, GOOD, FID, EVEN), (NOISY, GOOD, FID, UNDECIDED),
        (late(0.01, 0.011), late(0.1, 0.101), VIOLATIONS, AHEAD),
        (late(0.01, 0.01), late(0.012, 0.012), VIOLATIONS, EVEN),
    ],
)  # fmt: skip
def test_a_claim_is_judged_by_the_figure_it_is_of(first: Mean, second: Mean, figure: str, verdict: str) -> None:
    assert [each.verdict for each in judge([claim(first, second, figure)])] == [verdict]
