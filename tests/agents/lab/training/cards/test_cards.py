"""Model cards: every folder gets one, every figure comes from a file, what was not measured is left out."""

import json
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from agents.lab.family import CATALOG, VARIANTS, folder_of
from agents.lab.training.cards.cards import collect_notes, write_cards
from agents.lab.training.cards.tables import figures_table, flattened
from agents.lab.world.patterns import MAX_OBJECTS
from agents.world.layout import SIZE
from agents.world.words import COLOURS, SHAPES

FOLDERS = (
    "light", "heavy", "chalk", "loras/mint", "controlnet", "discriminators/look", "classifiers/models",
    "classifiers/rules", "scorer",
)  # fmt: skip
PIPELINES = ("light", "heavy", "chalk")
NOTES: dict[str, Any] = {
    "autoencoder": {"seed": 1, "parameters": 265227, "samples": 140800, "seconds": 660, "round_trip": 0.991},
    "unet_L": {"seed": 3, "parameters": 4287624, "samples": 256000, "seconds": 5400, "device": "cuda", "loss": 0.1512},
    "unet_chalk": {"seed": 7, "base": "unet_XS", "facts": 0.961},
    "unet_XS": {"seed": 3, "parameters": 2271111, "samples": 3, "seconds": 60},
    "unet_light": {"seed": 12, "base": "unet_XS", "parameters": 1500000, "samples": 3, "seconds": 60},
    "lora_mint": {"seed": 8, "bare": 0.93, "restyled": {"0.5": 0.61, "1.0": 0.925}},
    "discriminator_look": {"seed": 6, "parameters": 212495},
    "discriminator_look_refined": {"seed": 6, "samples": 102400},
    "discriminator_look_held_out": {"auc": 0.8123},
    "predictor_models": {"seed": 11, "ms": 1.25},
    "quick_decoder": {"seed": 5, "parameters": 209739, "samples": 64, "seconds": 90},
    "assemble": {"unets": {"light": "unet_light", "heavy": "unet_L", "chalk": "unet_chalk"}, "quick": ["light"]},
}
EVALUATED: dict[str, Any] = {
    "prompts": 1000,
    "seed": 77,
    "levels": {
        "heavy": {
            "quality": 0.98765,
            "quality_ci": [0.97, 0.99],
            "fid": None,
            "quality_by_objects": {"6": {"value": 0.75, "ci": [0.7, 0.8], "prompts": 10}},
        },
        "light": {"quality": 0.5},
    },
    "discriminators": {"look": {"auc": 0.8421, "auc_ci": [0.8, 0.88], "recovery_at_half": 0.611, "ci": [0.5, 0.7]}},
}
PROFILED = {"seed": 5, "prompts": 600, "levels": {"heavy": {"latency_ms": {"1": 142.5, "8": 479.0}}}}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    models = tmp_path / "models"
    for folder in FOLDERS:
        (models / folder).mkdir(parents=True)
    for name in PIPELINES:
        (models / name / "model_index.json").write_text("{}")
    return models


def card(models: Path, folder: str) -> str:
    write_cards(models)
    return (models / folder / "README.md").read_text()


def measured(models: Path) -> Path:
    (models / "training.json").write_text(json.dumps(NOTES))
    (models / "evaluate.json").write_text(json.dumps(EVALUATED))
    profiles = models.parent / "profiles"
    profiles.mkdir()
    (profiles / "tiny.json").write_text(json.dumps(PROFILED))
    return models


def test_every_folder_gets_a_card_even_before_anything_is_measured(models: Path) -> None:
    write_cards(models)
    for folder in FOLDERS:
        text = (models / folder / "README.md").read_text()
        data = ModelCard(text).data
        assert (data["license"], data["tags"]) == ("apache-2.0", ["pochade", "procedural", "tiny"])
        assert "## Measured" not in text
        assert "not measured" not in text
        assert f"infra/models/{folder}" in text or folder == "classifiers/rules"


def test_a_card_says_what_the_world_is_by_the_world_itself(models: Path) -> None:
    text = card(models, "light")
    assert f"{SIZE} x {SIZE} px, 1 to {MAX_OBJECTS} things of {len(SHAPES)} shapes and\n{len(COLOURS)} col" in text


def test_a_base_model_tells_its_parts_and_the_figures_of_its_levels(models: Path) -> None:
    text = card(measured(models), "heavy")
    assert "| unet_L | 3 | 4287624 | 256000 | 90 min on a cuda |" in text
    assert "| autoencoder | 1 | 265227 | 140800 | 11 min on a cpu |" in text
    assert "| loss at the end of training | 0.151 |" in text
    assert "By `pochade evaluate`, seed 77, 1000 fresh prompts:" in text
    assert "| images with every fact right | 0.988 [0.97, 0.99] |" in text
    assert "| quality by objects 6 | 0.75 [0.7, 0.8] |" in text
    assert "By `pochade profile`, seed 5, 600 fresh prompts:" in text
    assert "| ms a call, batch 8 | 479 |" in text
    assert "0.5 |" not in text.partition("## Measured")[2]  # light's


def test_the_quick_decoder_is_told_where_it_is_used_and_nowhere_else(models: Path) -> None:
    measured(models)
    assert "| quick_decoder | 5 | 209739 | 64 | 1.5 min on a cpu |" in card(models, "light")
    assert all("quick_decoder" not in card(models, name) for name in ("heavy", "chalk"))


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        (
            [0.002, 0.07],
            "Better than chance on 1000 fresh prompts: with half of them on heavy it recovers\n0.04 [0.0",
        ),
        ([-0.01, 0.09], "Not shown to be better than chance on 1000 fresh prompts"),
    ],
)
def test_a_judge_s_card_says_with_n_and_interval_whether_it_beats_chance(
    models: Path, interval: list[float], verdict: str
) -> None:
    judges = {"look": {"recovery_at_half": 0.04, "ci": interval}, "best": {"recovery_at_half": 0.5, "ci": [0.4, 0.6]}}
    classes = {"accuracy": 0.275, "prompts": 320, "majority": 0.4125}
    measured(models)
    (models / "evaluate.json").write_text(json.dumps({**EVALUATED, "discriminators": judges}))
    (models / "training.json").write_text(json.dumps({**NOTES, "predictor_models": {"classes": classes}}))
    text = card(models, "discriminators/look")
    assert verdict in text
    assert "; `best` recovers 0.5." in text
    text = card(models, "classifiers/models")
    assert (
        "right on 0.275 [0.229, 0.326] of 320 held-out prompts,\nfewer than the commonest class alone: 0.412." in text
    )
    assert "chance" not in card(models, "heavy") + card(models, "scorer")


@pytest.mark.parametrize("folder", ["light", "heavy"])
def test_the_example_paints_as_the_catalog_says(models: Path, folder: str) -> None:
    variant = next(variant for variant in VARIANTS.values() if folder_of(variant).name == folder)
    assert f"num_inference_steps={variant.steps}, guidance_scale={variant.guidance}" in card(models, folder)


def test_what_is_no_level_is_shown_in_the_steps_that_it_is_served_in(models: Path) -> None:
    steps = CATALOG.on_request["styles"].steps
    assert steps != CATALOG.best().steps
    assert all(f"num_inference_steps={steps}" in card(models, each) for each in ("chalk", "loras/mint", "controlnet"))


def test_only_the_level_of_one_step_tells_that_it_knows_no_other(models: Path) -> None:
    assert [name for name in PIPELINES if "in one step only" in card(models, name)] == ["light"]


def test_a_base_in_another_style_tells_what_it_was_trained_from(models: Path) -> None:
    text = card(measured(models), "chalk")
    assert text.index("| unet_XS | 3 |") < text.index("| unet_chalk | 7 |")
    assert "| share of stated facts that hold | 0.961 |" in text


def test_parts_tell_their_own_figures(models: Path) -> None:
    measured(models)
    assert "| facts right in the adapter's style, at weight 1.0 | 0.925 |" in card(models, "loras/mint")
    look = card(models, "discriminators/look")
    assert "| AUC | 0.812 |" in look
    assert "| discriminator_look_refined | 6 |  | 102400 |" in look
    assert "| AUC | 0.842 [0.8, 0.88] |" in look
    assert "| recovery at half the heavy work (0 random, 1 oracle) | 0.611 [0.5, 0.7] |" in look
    assert "| ms a prompt, one core | 1.25 |" in card(models, "classifiers/models")


def test_no_figure_of_one_part_stands_on_the_card_of_another(models: Path) -> None:
    measured(models)
    assert "## Measured" not in card(models, "scorer")
    assert "0.842" not in card(models, "light")


def test_every_level_of_the_catalog_is_painted_by_a_folder_that_can_have_a_card() -> None:
    assert all(variant.model.startswith("models/") for variant in VARIANTS.values())


def test_figures_of_several_levels_stand_side_by_side() -> None:
    shown = figures_table({"heavy-4": {"quality": 0.9}, "heavy-8": {"quality": 0.95, "fid": 3.25}})
    assert "| figure | heavy-4 | heavy-8 |" in shown
    assert "| images with every fact right | 0.9 | 0.95 |" in shown
    assert "| FID on the scorer's features |  | 3.25 |" in shown


def test_curves_matrices_and_texts_are_left_to_the_json() -> None:
    figures = {"confusion": [[1, 2]], "why": "because", "met": True, "curve": [{"threshold": 0.1}], "auc": None}
    assert flattened(figures) == {}


def test_quarters_are_numbered_with_their_intervals() -> None:
    quarters = [{"value": 0.9, "ci": [0.8, 1.0]}, {"value": None, "ci": [None, None]}]
    assert flattened({"quality_by_quarter": quarters}) == {
        "quality by quarter 1": "0.9 [0.8, 1]",
        "quality by quarter 2": "not measured",
    }


def test_notes_are_merged_and_those_of_other_parts_stay(tmp_path: Path) -> None:
    work, models = tmp_path / "work", tmp_path / "models"
    work.mkdir()
    (work / "lora_mint.json").write_text(json.dumps({"seed": 8, "is_finished": True, "made_from": {"work/vae": "ab"}}))
    (work / "list.json").write_text("[1]")
    models.mkdir()
    (models / "training.json").write_text(json.dumps({"unet_L": {"seed": 3}, "lora_mint": {"seed": 1}}))
    collect_notes(work, models, variants={"light": "unet_XS"})
    assert json.loads((models / "training.json").read_text()) == {
        "unet_L": {"seed": 3},
        "lora_mint": {"seed": 8},
        "variants": {"light": "unet_XS"},
    }
