"""`pochade evaluate` from fresh prompts to the report, on levels that draw cards, and on the shipped ones."""

import json
import pathlib
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

from agents.engines import EngineFailed, check_models
from agents.lab.commands.evaluate import evaluate
from agents.lab.evaluation import storage
from agents.lab.evaluation.generation import scope as prompt_scope
from agents.lab.evaluation.generation.samples import of_levels, sheet
from agents.lab.evaluation.generation.scope import Scope, fresh, levels, pairs, scope
from agents.lab.evaluation.summary import schema
from agents.lab.world.captions import parse
from agents.lab.world.stream import EASY
from agents.profiling.catalog import relocated
from agents.profiling.generation import orders, rankers
from agents.world.layout import SIZE
from schemas.errors import PochadeError
from streams.cli import LazySettings
from streams.parsing.catalog import parse as parse_catalog
from tests.agents.lab.evaluation.catalogs import (
    CATALOG,
    StubRules,
    a_catalog_file,
    a_small_catalog,
    no_rules_to_load,
    opening_in,
)

__all__ = ["no_rules_to_load"]  # a fixture


def run_evaluate(folder: pathlib.Path, *options: str) -> str:
    told = CliRunner().invoke(
        evaluate,
        ["--report", str(folder / "report"), "--seed", "5", "--count", "8", "--jobs", "1", "--quick", *options],
        obj=LazySettings({"home": folder / "home"}, None), catch_exceptions=False,
    )  # fmt: skip
    assert told.exit_code == 0, told.output
    return told.output


def evaluate_cards(folder: pathlib.Path, *options: str) -> str:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rankers, "_rules", lambda models: StubRules())  # noqa: ARG005
        patched.setattr(orders, "open_engine", opening_in(folder / "home"))
        where = ("--catalog", str(a_catalog_file(folder)), "--models", str(folder / "none"))
        return run_evaluate(folder, *where, *options)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's plots are made, but not drawn: those of `evaluated` are."""
    monkeypatch.setattr("agents.lab.evaluation.report.report.svg", lambda _: "<svg/>")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, str]:
    """The report's folder and what was told, of levels that draw cards."""
    folder = tmp_path_factory.mktemp("evaluated")
    return folder / "report", evaluate_cards(folder)


def test_evaluate_writes_figures_by_the_schema_a_report_and_what_both_were_made_of(
    evaluated: tuple[pathlib.Path, str],
) -> None:
    folder, told = evaluated
    summary = json.loads((folder / "evaluate.json").read_text())
    jsonschema.validate(summary, schema())
    assert (summary["prompts"], summary["seed"]) == (8, 5)
    assert set(summary["levels"]) == {"light", "middle", "heavy"}
    assert list(summary["pairs"]) == ["light and heavy", "middle and heavy"], "a strong light level beside the main one"
    assert set(summary["discriminators"]) == {"look"}
    assert summary["chosen_k"] == 2
    assert [point["k"] for point in summary["paint_over"]] == [1, 2, 3]
    assert summary["reuse"] == [], "there is no scorer to tell which prompts are alike"
    assert (folder / "report.html").read_text().startswith("<!doctype html>")
    assert storage.load(folder).levels["light"].quality.shape == (8,)
    assert "missing: the scorer" in told
    assert "missing: a learned classifier" in told
    assert json.loads((folder / "run.json").read_text())["missing"]


@pytest.mark.usefixtures("undrawn")
def test_the_same_seed_gives_the_same_figures(evaluated: tuple[pathlib.Path, str], tmp_path: pathlib.Path) -> None:
    told = evaluate_cards(tmp_path, "--against", str(evaluated[0] / "evaluate.json"))
    compared = json.loads((tmp_path / "report" / "compared.json").read_text())
    assert len(compared) > 5
    assert not any(figure["differs"] for figure in compared)
    assert f"of {len(compared)} figures {len(compared)} are in the range that the reference predicts" in told
    assert "and 0 differ" in told
    first, again = (
        {name: level["quality"] for name, level in json.loads((folder / "evaluate.json").read_text())["levels"].items()}
        for folder in (evaluated[0], tmp_path / "report")
    )
    assert first == again


@pytest.mark.usefixtures("undrawn")
def test_a_harder_stream_is_evaluated_by_the_captions_in_its_prompts(tmp_path: pathlib.Path) -> None:
    told = evaluate_cards(tmp_path, "--stream", "standard", "--count", "24")
    summary = json.loads((tmp_path / "report" / "evaluate.json").read_text())
    jsonschema.validate(summary, schema())
    assert summary["stream"] == "standard"
    assert all(np.isfinite(level["quality"]) for level in summary["levels"].values())
    assert "count wrong" in told
    loaded = storage.load(tmp_path / "report")
    assert loaded.stream == "standard"
    assert any(parse(prompt) is None for prompt in loaded.prompts), "none has words around its caption"
    assert "What images get wrong" in (tmp_path / "report" / "report.html").read_text()


def test_sets_of_prompts_differ_by_seed_and_by_what_they_are_for() -> None:
    drawn = {(seed, kind): fresh(seed, kind, 50) for seed in (1, 2) for kind in prompt_scope.KINDS}
    assert len({asked.prompts for asked in drawn.values()}) == len(drawn)
    assert fresh(1, "test", 10) == drawn[1, "test"].first(10)
    easy = fresh(1, "test", 50, EASY)
    assert all(parse(prompt) is not None for prompt in easy.prompts)
    assert easy.stated == easy.prompts != drawn[1, "test"].prompts


def test_a_level_that_cannot_be_judged_is_told_unless_the_main_pair_needs_it() -> None:
    missing: list[str] = []
    large = CATALOG.replace("[variants.middle]", "[variants.large]").replace("width = 48", "width = 64", 2)
    narrow = large.replace("width = 64", "width = 48", 1)  # light is as it was
    found = levels(parse_catalog(narrow, "small"), missing)
    assert set(found) == {"light", "heavy"}
    assert missing == ["level large: it generates 64 x 48 px, facts are read in 48 x 48"]
    with pytest.raises(PochadeError, match="level 'light' of the main pair cannot be evaluated"):
        levels(parse_catalog(large.replace("paint_over_step = 2\n", ""), "small"), [])


def test_the_step_that_the_cascade_uses_is_always_among_those_generated(tmp_path: pathlib.Path) -> None:
    text = CATALOG.replace("steps = 4", "steps = 50").replace("paint_over_step = 2", "paint_over_step = 30")
    steps = scope(parse_catalog(text, "small"), tmp_path, 1, 100).sweep_steps
    assert 30 in steps
    assert (len(steps), steps[0], steps[-1]) == (8, 1, 49)


def test_without_a_level_between_the_two_there_is_no_strong_light_pair() -> None:
    missing: list[str] = []
    catalog = a_small_catalog()
    two = {name: variant for name, variant in catalog.variants.items() if name != "middle"}
    assert list(pairs(catalog, two, missing).values()) == [("light", "heavy")]
    assert missing == ["a strong light level: none between light and heavy in cost"]


def test_models_are_looked_for_in_another_folder(tmp_path: pathlib.Path) -> None:
    text = CATALOG.replace('engine = "profile"\nmodel = ""', 'engine = "diffusers"\nmodel = "models/x"', 1)
    moved = relocated(parse_catalog(text, "small"), tmp_path)
    assert moved.level("light").model == str(tmp_path / "x")
    assert moved.level("heavy").model == ""


@pytest.mark.usefixtures("no_rules_to_load")
def test_a_broken_model_is_missing_and_no_crash(tmp_path: pathlib.Path) -> None:
    for name in ("classifiers/models", "discriminators/other", "scorer"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.json").write_text("{}")
    found = rankers.find(a_small_catalog(), tmp_path)
    assert set(found.discriminators) == {"look"}
    assert not found.predictors
    assert found.scorer is None
    told = "\n".join(found.missing)
    for word in ("discriminator other", "classifier models", "the scorer"):
        assert word in told


def test_a_sheet_shows_every_image_enlarged() -> None:
    rows = [np.full((3, SIZE, SIZE, 3), shade, np.uint8) for shade in (0, 90)]
    image = sheet(rows)
    assert image.size == (2 * (3 * (SIZE + 2) + 2), 2 * (2 * (SIZE + 2) + 2))
    grid = of_levels(("a", "b", "c"), np.array([2, 1, 1]), {"light": rows[0], "heavy": rows[1]})
    assert "(1) b (2) c (3) a" in grid.caption


@pytest.mark.usefixtures("undrawn")
def test_the_shipped_family_is_evaluated(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from streams import catalogs

    catalog = catalogs.load("tiny")
    try:
        check_models(catalog, "")
        levels(catalog, [])
    except (EngineFailed, PochadeError) as error:
        pytest.skip(f"the shipped family is not of this world yet: {error}")

    def few(*asked: Any, **more: Any) -> Scope:
        return replace(scope(*asked, **more), calibration=6, swept=3, stored=3, timing_s=0.0)

    monkeypatch.setattr(prompt_scope, "scope", few)
    run_evaluate(tmp_path, "--catalog", "tiny")
    summary = json.loads((tmp_path / "report" / "evaluate.json").read_text())
    main = catalog.pair()
    assert summary["levels"][main.heavy]["quality"] > 0.6  # of eight prompts: about .93 on many
    assert [point["k"] for point in summary["paint_over"]].count(main.refine_from_step) == 1
