"""Two runs with other redraws: signs that are kept, and those that turn beyond chance."""

import json
import pathlib
from collections.abc import Sequence

import pytest
from click.testing import CliRunner, Result

from replay.bench.commands.bench import bench
from replay.bench.frontier.cells import Figures
from replay.bench.frontier.code_state import digest_of
from replay.bench.frontier.grid import GridCell, Setting
from replay.bench.frontier.plan import QUICK_REQUESTS
from replay.bench.frontier.repeated import Repeated, in_words, other_results, repeated
from replay.bench.frontier.results import ResultStore, read_results
from replay.bench.frontier.tables import JUDGES, Row, compare
from replay.bench.papers.runs.names import HADIS, JOINT
from schemas.errors import PochadeError
from streams.settings import Settings

ONE, OTHER = Setting(JOINT, (("overprovision", 1.05),)), Setting(HADIS, (("overprovision", 1.05),))
SURE, UNSURE = (0.4, 0.5, 0.61), (-0.5, 0.9, 0.2)


def rows(ahead: Sequence[float], first_seed: int = 0, late: float | Sequence[float] = 0.0) -> list[Row]:
    """The comparisons of a run in which ours is better by these differences, redraw by redraw."""
    return compare(results(ahead, first_seed, late), {"diffserve-sdturbo": "fid"})


def results(
    ahead: Sequence[float], first_seed: int = 0, late: float | Sequence[float] = 0.0
) -> list[tuple[GridCell, Figures]]:
    found, shares = [], [late] * len(ahead) if isinstance(late, float) else late
    for at, (gain, share) in enumerate(zip(ahead, shares, strict=True)):
        for setting, quality, violations in ((ONE, -17.0 + gain, share), (OTHER, -17.0, 0.0)):
            cell = GridCell(
                catalog="diffserve-sdturbo", trace="azure-1to8", truth="catalog", policy=setting.policy,
                parameters=setting.parameters, seed=first_seed + at,
            )  # fmt: skip
            found.append((cell, {"violation_rate": violations, "cpu_s": 1.0} | dict.fromkeys(JUDGES, quality)))
    return found


def turned(ahead: Sequence[float]) -> tuple[float, ...]:
    return tuple(-gain for gain in ahead)


def test_a_run_that_says_the_same_keeps_all_signs() -> None:
    found = repeated(rows(SURE), rows((0.7, 0.5, 0.66), 3))
    assert (found.comparisons, found.kept, found.turned) == (3 * len(JUDGES), 3 * len(JUDGES), ())
    assert found.holds
    assert in_words(found) == ["12 of 12 signs kept (100.0%, wanted 95%), 0 turned beyond chance: holds"]


def test_a_sign_that_turns_beyond_chance_is_told_and_nothing_holds() -> None:
    found = repeated(rows(SURE), rows(turned(SURE), 3))
    assert (found.kept, len(found.turned)) == (0, 3 * len(JUDGES))
    assert in_words(found)[1] == "turned beyond chance: diffserve-sdturbo, azure-1to8, catalog, quality, up to 1%"


def test_a_sign_may_be_lost_without_turning_beyond_chance() -> None:
    found = repeated(rows(SURE), rows(turned(UNSURE), 3))
    assert (found.kept, found.turned, found.holds) == (0, (), False)
    assert "sign not kept" in in_words(found)[1]


def test_what_is_within_the_margin_has_no_sign_to_lose_unless_the_other_run_is_sure() -> None:
    close = (0.01, -0.02, 0.0)
    assert repeated(rows(close), rows(turned(close), 3)).holds
    assert repeated(rows(close), rows(UNSURE, 3)).holds
    assert repeated(rows(close), rows(SURE, 3)).kept == 0


def test_who_is_alone_within_the_violations_has_a_sign_too() -> None:
    beaten = rows(SURE, 3, late=0.03)  # not within 1 and 2 %, ahead at 5
    found = repeated(rows(SURE), beaten)
    assert (found.kept, len(found.turned)) == (len(JUDGES), 2 * len(JUDGES))


def test_a_sign_that_turns_as_violations_exceed_a_level_by_chance_is_lost_and_not_turned() -> None:
    by_chance = rows(SURE, 3, late=(0.033, 0.0, 0.0))  # 1.1 % on average: within 2 and 5 %
    found = repeated(rows(SURE), by_chance)
    assert (len(found.lost), found.turned) == (len(JUDGES), ())


def test_one_sign_of_twenty_may_be_lost() -> None:
    name = ("tiny", "azure-1to8", "catalog", "quality", 0.01)
    assert Repeated(20, 19, (), (name,)).holds
    assert not Repeated(20, 18, (), (name, name)).holds
    assert not Repeated(200, 199, (name,), (name,)).holds


def keep(folder: pathlib.Path, found: Sequence[tuple[GridCell, Figures]], digest: str = "state") -> pathlib.Path:
    with ResultStore(folder, digest) as store:
        for cell, figures in found:
            store.add(cell.key, figures)
    return folder


def test_results_of_another_run_are_read_from_its_folder(tmp_path: pathlib.Path) -> None:
    kept = results(SURE, 3)
    own = [cell for cell, _ in results(SURE)]
    assert other_results(keep(tmp_path / "again", kept), "state", own) == kept
    with pytest.raises(PochadeError, match="redraws of this run, from seed 1 on"):
        other_results(keep(tmp_path / "same", results(SURE, 1)), "state", own)
    with pytest.raises(PochadeError, match="another state of the code"):
        other_results(tmp_path / "again", "another", own)
    with pytest.raises(PochadeError, match="no folder of results"):
        other_results(tmp_path, "state", own)
    elsewhere = [GridCell.of_key(cell.key.replace("azure-1to8", "azure-4to32")) for cell in own]
    with pytest.raises(PochadeError, match="no results of the cells"):
        other_results(tmp_path / "again", "state", elsewhere)


def test_two_quick_runs_are_compared_from_the_command_line(tmp_path: pathlib.Path) -> None:
    def frontier(*options: str) -> Result:
        asked = ["frontier", "--quick", "--jobs", "1", "--catalog", "tiny", "--trace", "azure-1to8", "--truth", "slow"]
        return CliRunner().invoke(bench, [*asked, *options], obj=Settings)

    first, again = tmp_path / "first", tmp_path / "again"
    assert frontier("--out", str(first)).exit_code == 0
    told = frontier("--out", str(again), "--seed", "2", "--against", str(first))
    assert "of 12 signs kept" in told.output
    found = json.loads(frontier("--out", str(again), "--seed", "2", "--against", str(first), "-o", "json").stdout)
    assert told.exit_code == (0 if found["repeated"]["holds"] else 1)
    assert found["repeated"]["comparisons"] == 12
    assert (first / "results.jsonl").read_text().count("\n") == 4, "the other folder is left as it is"
    kept = read_results(first, digest_of(QUICK_REQUESTS))
    assert [GridCell.of_key(key).key for key in kept] == list(kept)
