"""`pochade train`: what it is asked, what it hands on, how it stops."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner, Result

from agents.lab.training import session
from agents.lab.training.ledger import Ledger
from agents.lab.training.plan import TARGETS, Folders
from agents.lab.training.runner import Resources
from schemas.errors import PochadeError
from streams import cli
from streams.shipped import MODELS
from tests.patience import PATIENCE_S

Call = dict[str, Any]
POCHADE = str(Path(sys.executable).with_name("pochade"))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    made: list[Call] = []

    def run(target: str, ledger: Ledger, resources: Resources, _reporter: session.Reporter, *, again: bool) -> None:
        made.append({"target": target, "ledger": ledger, "places": resources, "again": again})

    monkeypatch.setattr(session, "run", run)
    return made


def train(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, ["train", *arguments], prog_name="pochade")


def test_help_shows_every_target_with_its_minutes_and_examples() -> None:
    shown = train("--help").output
    for target in TARGETS:
        assert any(line.split()[:1] == [target] and "min" in line for line in shown.splitlines())
    assert "Examples:\n    pochade train all" in shown


def test_a_plain_call_trains_into_the_shipped_models(calls: list[Call], tmp_path: Path) -> None:
    assert train("lora", "--work", str(tmp_path)).exit_code == 0
    (call,) = calls
    assert (call["target"], call["again"], call["ledger"].scale, call["ledger"].seed) == ("lora", False, 1.0, 0)
    assert call["ledger"].folders == Folders(work=tmp_path, models=MODELS)
    assert call["places"].processes in (1, 2)


def test_a_quick_look_leaves_the_shipped_models_alone(calls: list[Call], tmp_path: Path) -> None:
    train("all", "--work", str(tmp_path), "--scale", "0.01")
    assert calls[0]["ledger"].folders.models == tmp_path / "models"


def test_every_option_is_handed_on(calls: list[Call], tmp_path: Path) -> None:
    arguments = ["--seed", "3", "--device", "cpu", "--processes", "1", "--again", "--models", str(tmp_path / "m")]
    assert train("unet_XS", *arguments).exit_code == 0
    (call,) = calls
    assert (call["target"], call["ledger"].seed, call["again"]) == ("unet_XS", 3, True)
    assert (call["places"].processes, call["places"].device) == (1, "cpu")
    assert call["ledger"].folders.models == tmp_path / "m"


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["all", "--scale", "0"], ["all", "--device", "abacus"]])
def test_a_wrong_call_is_exit_code_2(arguments: list[str]) -> None:
    assert train(*arguments).exit_code == 2


class Silent:
    """A reporter that only remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    def skipped(self, step: Any) -> None: ...
    def began(self, step: Any, log: Path) -> None: ...
    def goes_on(self, step: Any, done: int, total: int, line: str) -> None: ...
    def ended(self, step: Any, minutes: float) -> None: ...


ONE = Resources(processes=1, threads=1, device="cpu")


def ledger_in(folder: Path) -> Ledger:
    return Ledger(Folders(work=folder, models=folder / "models"), seed=0, scale=0.001)


def test_cards_alone_train_nothing(tmp_path: Path) -> None:
    (tmp_path / "models" / "scorer").mkdir(parents=True)
    (tmp_path / "scorer.json").write_text('{"seed": 10, "retrieved": 0.875}')
    session.run("cards", ledger_in(tmp_path), ONE, Silent(), again=False)
    assert "| retrieved | 0.875 |" in (tmp_path / "models" / "scorer" / "README.md").read_text()
    assert not (tmp_path / "logs").exists()


def test_two_trainings_do_not_share_a_work_folder(tmp_path: Path) -> None:
    with session._alone(tmp_path), pytest.raises(PochadeError, match=f"another `pochade train` works in {tmp_path}"):
        session.run("decoder", ledger_in(tmp_path), ONE, Silent(), again=False)


def test_a_polite_kill_ends_the_steps_too(tmp_path: Path) -> None:
    arguments = ["train", "autoencoder", "--work", str(tmp_path), "--scale", "0.9", "--device", "cpu"]
    process = subprocess.Popen([POCHADE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("autoencoder: about")
    (child,) = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGTERM)
    rest = process.stdout.read()
    assert process.wait(PATIENCE_S) == 1
    assert "error: stopped; the same command goes on" in rest
    assert not child.is_running()
