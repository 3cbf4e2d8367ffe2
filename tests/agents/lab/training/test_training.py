"""Training: the loop goes on where it was, and a newcomer can train every step from nothing."""

import importlib
import json
import os
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result

from agents.lab.training import loop
from agents.lab.training import step as step_process
from agents.lab.training.cards.cards import collect_notes, write_cards
from agents.lab.training.generators import decoder, lora
from agents.lab.training.ledger import Ledger
from agents.lab.training.loop import Loop, descend, rate, scaled
from agents.lab.training.plan import STEPS, TARGETS, Folders
from agents.lab.training.schedule import before
from agents.lab.world.styles import ADAPTERS

TESTED_ELSEWHERE = {"scorer", "discriminator", "safety", "classifier"}  # they measure on many pictures
FEW = 0.0005


@pytest.fixture
def few_steps() -> Iterator[None]:
    loop.set_scale(FEW)
    yield
    loop.set_scale(1.0)


@pytest.mark.parametrize(("capability", "said"), [("AVX512", torch.bfloat16), ("AVX2", torch.float32)])
def test_a_cpu_computes_in_bf16_only_where_it_has_instructions_for_it(
    capability: str, said: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "device", lambda: torch.device("cpu"))
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    with loop.mixed_precision():
        assert torch.nn.Linear(2, 2)(torch.zeros(1, 2)).dtype is said


def fit(folder: Path, steps: int, *, stop_at: int | None = None) -> torch.nn.Parameter:
    """Train one parameter towards the step's number; stop_at breaks off there, after a checkpoint."""
    parameter = torch.nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.AdamW([parameter], lr=0.1)
    module = torch.nn.ParameterList([parameter])
    running = Loop(name="it", folder=folder, steps=steps, batch=1, parts={"module": module, "optimizer": optimizer})

    def step(index: int) -> torch.Tensor:
        if index == stop_at:
            running.seconds = 60.0
            running._save()
            raise KeyboardInterrupt
        return descend((parameter - index) ** 2, optimizer)

    running.run(step)
    return parameter


def test_a_run_that_was_broken_off_ends_as_an_unbroken_one(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "broken", 20, stop_at=11)
    resumed, unbroken = fit(tmp_path / "broken", 20), fit(tmp_path / "whole", 20)
    assert resumed.item() == pytest.approx(unbroken.item(), abs=1e-6)
    assert json.loads((tmp_path / "broken" / "it.json").read_text())["seconds"] >= 60


def test_a_finished_run_is_not_trained_any_further(tmp_path: Path) -> None:
    first = fit(tmp_path, 5)
    checkpoint = os.stat(tmp_path / "it.checkpoint")
    assert fit(tmp_path, 5, stop_at=0).item() == first.item()
    assert os.stat(tmp_path / "it.checkpoint").st_mtime_ns == checkpoint.st_mtime_ns


def test_a_note_keeps_what_was_noted_before(tmp_path: Path) -> None:
    fit(tmp_path, 3)
    Loop(name="it", folder=tmp_path, steps=3, batch=1, parts={}).note(seed=7)
    note = json.loads((tmp_path / "it.json").read_text())
    assert (note["steps"], note["samples"], note["seed"]) == (3, 3, 7)


def test_the_rate_warms_up_stays_and_falls_to_its_last() -> None:
    assert rate(0, 1000) == pytest.approx(0.01)
    assert rate(100, 1000) == rate(399, 1000) == 1.0
    assert rate(700, 1000) == pytest.approx(0.51)
    assert rate(1000, 1000) == pytest.approx(0.02)


@pytest.mark.usefixtures("few_steps")
def test_a_quick_look_trains_a_few_steps_with_the_whole_course_of_the_rate(tmp_path: Path) -> None:
    assert scaled(10_000) == 5
    assert scaled(100) == 2
    assert scaled(100, least=30) == 30
    assert scaled(1) == 1
    fit(tmp_path, 10_000)
    assert json.loads((tmp_path / "it.json").read_text())["steps"] == 5
    assert rate(5, 10_000) == pytest.approx(0.02)


@pytest.mark.parametrize("scale", [0, -1, 1.5])
def test_a_scale_that_is_no_share_is_refused(scale: float) -> None:
    with pytest.raises(ValueError, match=str(scale)):
        loop.set_scale(scale)


def one_step(folders: Folders, *arguments: str) -> Result:
    where = ["--work", str(folders.work), "--models", str(folders.models)]
    return CliRunner().invoke(step_process.main, ["decoder", *where, *arguments])


@pytest.mark.usefixtures("few_steps")
def test_the_process_of_a_step_hands_on_seed_and_scale_and_notes_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = Folders(work=tmp_path / "work", models=tmp_path / "models")
    ledger = Ledger(folders, seed=2, scale=0.01)

    def train(work: Path, models: Path, seed: int) -> None:
        assert (seed, scaled(1000)) == (2004, 10)
        assert models.is_dir()
        assert not ledger.is_finished(STEPS["decoder"])
        (work / "vae_sharp").mkdir()

    monkeypatch.setattr(decoder, "train", train)
    assert one_step(folders, "--seed", "2", "--scale", "0.01").exit_code == 0
    assert ledger.is_finished(STEPS["decoder"])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    failed = one_step(Folders(work=tmp_path, models=tmp_path / "models"), "--device", "cuda")
    assert "finds no CUDA device" in str(failed.exception)


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("few_steps")
def test_every_step_of_the_models_can_be_trained_from_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lora, "ADAPTERS", {"mint": ADAPTERS["mint"]})  # one of six is enough
    folders = Folders(work=tmp_path / "work", models=tmp_path / "models")
    folders.models.mkdir()
    ledger = Ledger(folders, seed=0, scale=FEW)
    steps = [STEPS[name] for name in TARGETS["all"] if name not in TESTED_ELSEWHERE]
    for name in TopologicalSorter(before(steps)).static_order():
        step = STEPS[name]
        ledger.begin(step)
        module = importlib.import_module(f"agents.lab.training.{step.module}")
        module.train(folders.work, folders.models, ledger.seed_of(step), **step.arguments)
        ledger.end(step, minutes=0)
        assert ledger.is_finished(step), name
    assert all(ledger.is_finished(step) for step in steps)  # and no later one has spoilt an earlier one's artefacts
    collect_notes(folders.work, folders.models)
    write_cards(folders.models)
    assert "| unet_XL | 3 |" in (folders.models / "heavy" / "README.md").read_text()
    assert (folders.models / "loras" / "mint" / "README.md").exists()
