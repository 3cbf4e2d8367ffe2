"""`pochade profile cascades`: what it writes, says and refuses."""

import json
import pathlib

import numpy as np
from click.testing import CliRunner, Result

from agents.commands.profile import profile
from streams.cli import LazySettings
from streams.parsing.profile import parse
from streams.shipped import INFRA

FOLDER = INFRA / "profiles"
FEW = 256  # prompts of the shipped profile's 4,096: a sweep takes a tenth of the time
BY_ANOTHER = ("levels", "cost_ms", "judged", "over_k", "strategies")  # what has no row for each prompt


def some_prompts() -> dict[str, np.ndarray]:
    """The table of the shipped profile, of its first prompts."""
    with np.load(FOLDER / "tiny-quality.npz") as arrays:
        return {name: array if name in BY_ANOTHER else array[:FEW] for name, array in arrays.items()}


def a_copy(folder: pathlib.Path, has_table: bool = True) -> pathlib.Path:
    """The shipped profile without its settings, and with few of its prompts."""
    kept = {key: value for key, value in json.loads((FOLDER / "tiny.json").read_text()).items() if key != "settings"}
    file = folder / "tiny.json"
    file.write_text(json.dumps(kept))
    if has_table:
        np.savez(folder / "tiny-quality.npz", allow_pickle=False, **some_prompts())
    return file


def reported(*options: str) -> Result:
    run = ["cascades", "--catalog", "tiny", "--resamples", "100", *options]
    return CliRunner().invoke(profile, run, obj=LazySettings({}, None))


def test_the_rows_are_written_into_the_profile(tmp_path: pathlib.Path) -> None:
    file = a_copy(tmp_path)
    found = reported("--profile", str(file))
    assert found.exit_code == 0, found.output
    table = parse(file.read_text(), "tiny.json").settings
    assert table
    assert len(table.rows) > 5
    costs = [row.row.latency_ms for row in table.rows]
    assert costs == sorted(costs)
    assert "light > heavy" in found.output


def test_a_dry_run_writes_nothing(tmp_path: pathlib.Path) -> None:
    file = a_copy(tmp_path)
    before = file.read_text()
    assert reported("--profile", str(file), "--dry-run").exit_code == 0
    assert file.read_text() == before


def test_a_profile_without_prompts_cannot_be_swept(tmp_path: pathlib.Path) -> None:
    found = reported("--profile", str(a_copy(tmp_path, has_table=False)))
    assert "has no tiny-quality.npz beside it" in str(found.exception)


def test_a_profile_without_a_judged_cascade_cannot_be_swept(tmp_path: pathlib.Path) -> None:
    file = a_copy(tmp_path)
    kept = some_prompts()
    kept |= {"judged": np.zeros(0, str), "confidence": np.zeros((len(kept["prompts"]), 0))}
    np.savez(tmp_path / "tiny-quality.npz", allow_pickle=False, **kept)
    assert "nothing to sweep" in str(reported("--profile", str(file)).exception)


def test_a_catalog_without_a_profile_is_told_to_be_measured() -> None:
    found = CliRunner().invoke(profile, ["cascades", "--catalog", "hadis-l40s"], obj=LazySettings({}, None))
    assert "has no profile to sweep: measure it" in str(found.exception)
