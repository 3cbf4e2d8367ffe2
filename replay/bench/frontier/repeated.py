"""Compares the signs of a second run with other redraws: how many are kept, and whether one turns beyond chance.

sign      of a comparison: + ours is better by more than the margin, - the other is, 0 within the margin; who is
          alone within the violations is better
kept      the same sign in both runs, or within the margin in one and not decided in the other
turned    ahead beyond chance in one run and behind beyond chance in the other
"""

import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from replay.bench.comparison import AHEAD, BEHIND
from replay.bench.frontier.cells import Figures
from replay.bench.frontier.grid import GridCell
from replay.bench.frontier.results import read_results
from replay.bench.frontier.tables import Row, word_of
from schemas.errors import PochadeError

WANTED: Final = 0.95  # share of the signs. Ours

Comparison = tuple[str, str, str, str, float]
"""Catalog, trace, truth, judge and level of violations."""


class Repeated(NamedTuple):
    """The agreement of two runs with different redraws."""

    comparisons: int  # that are in both
    kept: int
    turned: tuple[Comparison, ...]
    lost: tuple[Comparison, ...]  # whose sign is not kept, those turned among them

    @property
    def share(self) -> float:
        """Share of the signs that were kept; 1 of no comparison."""
        return self.kept / self.comparisons if self.comparisons else 1.0

    @property
    def holds(self) -> bool:
        """Whether enough signs were kept and none turned."""
        return self.share >= WANTED and not self.turned

    def record(self) -> dict[str, Any]:
        """Return it for a JSON document."""
        return {
            "comparisons": self.comparisons, "kept": self.kept, "share": self.share, "holds": self.holds,
            "turned": [list(name) for name in self.turned], "lost": [list(name) for name in self.lost],
        }  # fmt: skip


def other_results(folder: pathlib.Path, digest: str, own: Sequence[GridCell]) -> list[tuple[GridCell, Figures]]:
    """Return the results of another run's folder that are of the same part of the grid as `own`.

    Raises PochadeError for a folder of another state of the code, without a result, or with redraws of `own`.
    """
    places = {(cell.catalog, cell.trace, cell.truth) for cell in own}
    found = [(GridCell.of_key(key), figures) for key, figures in read_results(folder, digest).items()]
    found = [(cell, figures) for cell, figures in found if (cell.catalog, cell.trace, cell.truth) in places]
    if not found:
        raise PochadeError(
            f"{folder} has no results of the cells that are compared: run them there with another --seed"
        )
    shared = {cell.seed for cell in own} & {cell.seed for cell, _ in found}
    if shared:
        raise PochadeError(
            f"{folder} has redraws of this run, from seed {min(shared)} on: run it there with a --seed beyond them"
        )
    return found


def repeated(first: Iterable[Row], second: Iterable[Row]) -> Repeated:
    """Compare the comparisons of two runs."""
    again = {_comparison(row): row for row in second}
    pairs = {_comparison(row): (row, again[_comparison(row)]) for row in first if _comparison(row) in again}
    lost = tuple(name for name, (one, other) in pairs.items() if not _is_reproduced(one, other))
    turned = tuple(name for name in lost if {word_of(row) for row in pairs[name]} == {AHEAD, BEHIND})
    return Repeated(len(pairs), len(pairs) - len(lost), turned, lost)


def _comparison(row: Row) -> Comparison:
    return row.catalog, row.trace, row.truth, row.judge, row.level


def _is_reproduced(one: Row, other: Row) -> bool:
    signs = _sign(one), _sign(other)
    if signs[0] == signs[1]:
        return True
    return 0 in signs and {word_of(one), word_of(other)}.isdisjoint({AHEAD, BEHIND})


def _sign(row: Row) -> int:
    if row.difference is None:
        return (row.ours is not None) - (row.other is not None)
    return (row.difference.mean > row.margin) - (row.difference.mean < -row.margin)


def in_words(found: Repeated) -> list[str]:
    """Return what two runs agree on, a line each."""
    lines = [
        f"{found.kept} of {found.comparisons} signs kept ({found.share:.1%}, wanted {WANTED:.0%}), "
        f"{len(found.turned)} turned beyond chance: {'holds' if found.holds else 'does not hold'}"
    ]
    turned = set(found.turned)
    for name in found.lost:
        catalog, trace, truth, judge, level = name
        word = "turned beyond chance" if name in turned else "sign not kept"
        lines.append(f"{word}: {catalog}, {trace}, {truth}, {judge}, up to {level:.0%}")
    return lines
