"""What a paper claims of two sides, held against redraws by the rule of `replay/bench/comparison.py`."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from replay.bench.comparison import (
    AHEAD,
    BEHIND,
    EVEN,
    FID_MARGIN,
    UNDECIDED,
    PairedDifference,
    in_words,
    paired,
    verdicts,
)  # fmt: skip
from replay.bench.papers.answers import Mean, Table

FID, OPTIMISTIC, VIOLATIONS, P99 = "FID", "FID, blind mixtures at their upper bound", "violations, points", "p99, s"
FIGURES: Final = {FID: "quality_run", OPTIMISTIC: "quality_run_optimistic", VIOLATIONS: "violations", P99: "p99_s"}
SIGNS: Final = {FID: 1.0, OPTIMISTIC: 1.0, VIOLATIONS: -100.0, P99: -1.0}  # so that more is better
MARGINS: Final = {FID: FID_MARGIN, OPTIMISTIC: FID_MARGIN, VIOLATIONS: 1.0, P99: 0.1}  # that do not matter. Ours


class Claim(NamedTuple):
    """The first side is better than the second."""

    what: str
    paper: str  # its figure, with the section
    first: Mean
    second: Mean
    figure: str  # of FIGURES


class Judged(NamedTuple):
    """A claim, by how much the first side is better, and the verdict."""

    claim: Claim
    difference: PairedDifference
    verdict: str


def judge(claims: Sequence[Claim]) -> list[Judged]:
    """Return the verdict on each claim of a question, which are one table of comparisons."""
    differences = [paired(_values(claim.first, claim.figure), _values(claim.second, claim.figure)) for claim in claims]
    words = verdicts(differences, [MARGINS[claim.figure] for claim in claims])
    return [Judged(*each) for each in zip(claims, differences, words, strict=True)]


def _values(mean: Mean, figure: str) -> list[float]:
    return [SIGNS[figure] * value for value in mean.each(FIGURES[figure])]


def claims_table(judged: Sequence[Judged]) -> Table:
    """Return the claims as a table."""
    rows = tuple(
        (claim.what, claim.figure, in_words(difference), claim.paper, verdict) for claim, difference, verdict in judged
    )
    columns = ("claim", "in", "better by [interval]", "paper", "verdict")
    return Table(title="Claims, paired over redraws, Holm-corrected", columns=columns, rows=rows)


def in_a_word(judged: Sequence[Judged], *facts: bool) -> str:
    """Return whether a question's claims, and its other facts, hold: all, some, or none of them."""
    held = [each.verdict == AHEAD for each in judged] + list(facts)
    return "Held" if all(held) else "Held in part" if any(held) else "Not held"


def counted(judged: Sequence[Judged]) -> str:
    """Return how many claims got which verdict, in words."""
    counts = Counter(each.verdict for each in judged)
    found = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (AHEAD, EVEN, BEHIND, UNDECIDED) if counts[verdict])
    return f"of {len(judged)} claims {found}"
