"""What there is to train, in which order, and what stands in for what was not trained here."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from agents.lab.training.ledger import Ledger, fingerprint
from agents.lab.training.plan import SHIPPED, STEPS, TARGETS, Folders, steps_of, writer_of
from agents.lab.training.recipe import READER, copy_parts, recipe
from agents.lab.training.schedule import before, wall_minutes
from schemas.errors import PochadeError, Unknown

LORA = STEPS["lora"]
DECODER = STEPS["decoder"]


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(work=tmp_path / "work", models=tmp_path / "models")


def put(folders: Folders, *artefacts: str, content: str = "") -> None:
    for artefact in artefacts:
        path = folders.path(artefact)
        path.mkdir(parents=True, exist_ok=True)
        (path / "config.json").write_text(content or artefact)


def ship(shipped: Path, *folders: str) -> None:
    for folder in folders:
        (shipped / folder).mkdir(parents=True, exist_ok=True)
        (shipped / folder / "config.json").write_text(f"shipped {folder}")


def test_every_input_is_written_by_a_step_and_nothing_by_two() -> None:
    written = [artefact for step in STEPS.values() for artefact in step.writes]
    assert len(written) == len(set(written))
    for step in STEPS.values():
        assert all(writer_of(artefact).name != step.name for artefact in step.needs)


def test_all_is_everything_that_any_other_target_trains() -> None:
    others = {name for target, names in TARGETS.items() if target != "all" for name in names}
    assert {step.name for step in steps_of("all")} == others


def test_a_step_waits_for_the_writers_of_its_inputs() -> None:
    waits = before(steps_of("all"))
    assert waits["decoder"] == {"autoencoder"}
    assert waits["quick_decoder"] == {"decoder"}
    assert waits["assemble"] >= {"quick_decoder", "bases"}
    assert waits["unet_L"] == {"autoencoder", "text_encoder"}
    assert waits["discriminator"] >= {"assemble", "scorer"}


def test_two_processes_take_less_time_than_one_and_no_less_than_the_longest_chain() -> None:
    alone = sum(step.minutes for step in steps_of("family"))
    assert wall_minutes("family", 1) == pytest.approx(alone)
    assert wall_minutes("family", 2) < alone
    assert wall_minutes("family", 2) >= STEPS["text_encoder"].minutes + STEPS["unet_L"].minutes


def test_an_unknown_target_is_told_the_known_ones() -> None:
    with pytest.raises(Unknown, match="controlnet"):
        steps_of("control-net")


def test_shipped_parts_stand_in_for_forerunners_that_were_not_trained_here(folders: Folders, tmp_path: Path) -> None:
    shipped = tmp_path / "shipped"
    ship(shipped, *SHIPPED.values())
    needed = recipe("lora", folders, shipped)
    assert [step.name for step in needed.steps] == ["lora"]
    assert set(needed.copies) == set(LORA.needs)
    copy_parts(needed.copies, folders, lambda _: None)
    assert (folders.work / "unet_XS" / "config.json").read_text() == "shipped poster/unet"
    assert not recipe("lora", folders, shipped).copies


@pytest.mark.parametrize("target", ["discriminator", "classifier"])
def test_the_caption_reader_is_taken_out_of_a_shipped_discriminator(
    target: str, folders: Folders, tmp_path: Path
) -> None:
    shipped = tmp_path / "shipped"
    ship(shipped, *SHIPPED.values(), "light", "scorer", "discriminators/look", "discriminators/real")
    for name, keys in (("look", ("judge.x", "reader.queries")), ("real", ("features.x",))):
        save_file({key: torch.ones(2) for key in keys}, shipped / "discriminators" / name / "model.safetensors")
    needed = recipe(target, folders, shipped)
    assert [step.name for step in needed.steps] == [target]
    said: list[str] = []
    copy_parts(needed.copies, folders, said.append)
    assert list(load_file(folders.path(READER))) == ["queries"]
    assert any("discriminators/look" in line for line in said)


def test_what_was_trained_here_goes_before_what_is_shipped(folders: Folders, tmp_path: Path) -> None:
    shipped = tmp_path / "shipped"
    ship(shipped, *SHIPPED.values())
    put(folders, "work/unet_XS")
    assert "work/unet_XS" not in recipe("lora", folders, shipped).copies


@pytest.mark.parametrize(("part", "step"), [("work/vae_quick", "quick_decoder"), ("work/unet_light", "unet_light")])
def test_a_family_from_before_light_had_its_own_parts_trains_them_and_takes_no_others(
    part: str, step: str, folders: Folders, tmp_path: Path
) -> None:
    ship(tmp_path / "shipped", *SHIPPED.values(), "light/vae", "light/unet")
    put(folders, *(needed for needed in STEPS["assemble"].needs if needed != part))
    needed = recipe("assemble", folders, tmp_path / "shipped")
    assert {found.name for found in needed.steps} == {"assemble", step}
    assert not needed.copies


def test_with_nothing_shipped_the_forerunners_are_trained(folders: Folders, tmp_path: Path) -> None:
    names = {step.name for step in recipe("lora", folders, tmp_path / "none").steps}
    assert names == {"lora", "unet_XS", "autoencoder", "decoder", "text_encoder"}


def test_a_target_is_trained_even_where_it_is_shipped(folders: Folders, tmp_path: Path) -> None:
    shipped = tmp_path / "shipped"
    ship(shipped, *SHIPPED.values())
    needed = recipe("family", folders, shipped)
    assert {step.name for step in needed.steps} == set(TARGETS["family"])
    assert not needed.copies


@pytest.fixture
def ledger(folders: Folders) -> Ledger:
    put(folders, *DECODER.needs)
    return Ledger(folders, seed=0, scale=1.0)


def train(ledger: Ledger) -> None:
    """What a process of the step decoder does to the folders."""
    ledger.begin(DECODER)
    put(ledger.folders, *DECODER.writes)
    ledger.end(DECODER, minutes=1.0)


def test_a_step_is_finished_when_its_process_has_ended_well(ledger: Ledger) -> None:
    assert not ledger.is_finished(DECODER)
    ledger.begin(DECODER)
    put(ledger.folders, *DECODER.writes)
    assert not ledger.is_finished(DECODER)
    ledger.end(DECODER, minutes=1.0)
    assert ledger.is_finished(DECODER)


def test_a_step_whose_artefact_is_gone_is_not_finished(ledger: Ledger) -> None:
    train(ledger)
    (ledger.folders.path(DECODER.writes[0]) / "config.json").unlink()
    ledger.folders.path(DECODER.writes[0]).rmdir()
    assert not ledger.is_finished(DECODER)


def test_a_step_run_by_hand_is_believed_by_its_note_and_artefact(ledger: Ledger) -> None:
    put(ledger.folders, *DECODER.writes)
    (ledger.folders.work / "decoder.json").write_text(json.dumps({"seed": DECODER.seed, "steps": 1500}))
    assert ledger.is_finished(DECODER)


def test_a_step_made_from_other_inputs_begins_again(ledger: Ledger) -> None:
    train(ledger)
    put(ledger.folders, *DECODER.needs, content="trained anew")
    assert not ledger.is_finished(DECODER)
    assert not ledger.can_go_on(DECODER)


def test_a_step_that_was_broken_off_goes_on(ledger: Ledger) -> None:
    ledger.begin(DECODER)
    assert ledger.can_go_on(DECODER)


def test_a_quick_look_does_not_pass_for_training(folders: Folders, ledger: Ledger) -> None:
    quick = Ledger(folders, seed=0, scale=0.01)
    train(quick)
    assert quick.is_finished(DECODER)
    assert not ledger.is_finished(DECODER)
    assert not ledger.can_go_on(DECODER)
    train(ledger)
    assert quick.is_finished(DECODER)


def test_another_seed_in_the_same_folder_is_refused_with_both_seeds(folders: Folders, ledger: Ledger) -> None:
    train(ledger)
    with pytest.raises(PochadeError, match=r"seed 4, not 2004.*--work"):
        Ledger(folders, seed=2, scale=1.0).is_finished(DECODER)


def test_forgetting_a_step_leaves_its_artefacts_and_other_steps(ledger: Ledger) -> None:
    work = ledger.folders.work
    saved = Path("00000600", "optimizer.bin")
    kept = [work / "lora.json", work / "unet_XS.checkpoint" / saved, work / "caption_reader.safetensors"]
    gone = [work / "classifier.json", work / "predictor_models.checkpoint" / saved, work / "calibration" / "light.npz"]
    for path in (*kept, *gone):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    put(ledger.folders, *STEPS["classifier"].writes)
    ledger.forget(STEPS["classifier"])
    assert [path for path in (*kept, *gone) if path.exists()] == kept
    assert ledger.has(STEPS["classifier"].writes[0])


def test_a_fingerprint_follows_names_and_contents_but_not_model_cards(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    first = fingerprint(tmp_path)
    (tmp_path / "README.md").write_text("a card")
    assert fingerprint(tmp_path) == first
    (tmp_path / "a").write_text("two")
    changed = fingerprint(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    assert len({first, changed, fingerprint(tmp_path)}) == 3
