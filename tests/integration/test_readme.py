"""The commands of the README, run as they stand: a block that no longer works fails here.

Those of the operator's pages are only read here, and run by `make nightly PART=operating` and `PART=restore`.
"""

import pathlib
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator

import click
import pytest

from streams import cli
from tests.integration.pages import MAKE, OPERATORS, RESTORE, STARTED, STOPPED, blocks, run_by_hand
from tests.paths import ROOT


def test_the_two_commands_are_targets_that_set_up_and_run() -> None:
    (block,) = MAKE
    for command in block.split("\n"):
        if command:
            planned = subprocess.run([*command.split(), "-n"], cwd=ROOT, capture_output=True, text=True, check=False)
            assert planned.returncode == 0, planned.stderr
            assert "pochade demo" in planned.stdout or "infra/bin/check" in planned.stdout


def commands_in(line: str) -> Iterator[list[str]]:
    """The words of each `pochade` command in a line of shell, those within $(...) too."""
    while inner := re.search(r"\$\(([^()]*)\)", line):
        yield from commands_in(inner[1])
        line = line.replace(inner[0], "found")
    for command in re.split(r"\|\||&&|[|;]", re.sub(r" &$", "", line)):
        words = shlex.split(command)
        if words and words[0] == "pochade":
            yield words[1:]


def parse(words: list[str]) -> str:
    """Parse a command line as `pochade` does, without running it; return the name of the command that it ends in."""
    command: click.Command = cli.main
    context = command.make_context("pochade", list(words))
    while isinstance(command, click.Group) and (rest := [*context._protected_args, *context.args]):
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)
    return context.command_path


def test_every_command_of_the_operators_pages_is_one_with_the_options_and_arguments_that_it_has(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line for page in (*OPERATORS, RESTORE) for block in blocks(page) for line in block.splitlines()]
    monkeypatch.chdir(tmp_path)
    for made in {word for line in lines for word in re.findall(r"\.pochade/[\w./-]+", line)}:  # by lines before
        place = pathlib.Path(made)
        (place.parent if place.suffix else place).mkdir(parents=True, exist_ok=True)
        if place.suffix:
            place.touch()
    parsed = [parse(words) for line in lines for words in commands_in(line)]
    assert len(parsed) > 30
    assert {"pochade plan rollback", "pochade components publish", "pochade replay what-if"} <= set(parsed)
    for words in (["submit", "a red heart", "--waits"], ["plan", "pins"], ["fetch"]):
        with pytest.raises(click.UsageError):
            parse(words)


@pytest.mark.broker
@pytest.mark.timeout(600)
def test_the_deployment_by_hand_works_block_by_block(new_home: Callable[[], pathlib.Path]) -> None:
    told, _ = run_by_hand(new_home(), [*STARTED, STOPPED])
    assert told.count("COMPLETED") >= 3
    assert '"url":"http://localhost:8760/v1/files/' in told
    assert '"model":"pochade/auto"' in told
    assert {"mine-1 COMPLETED", "mine-2 COMPLETED"} <= {" ".join(line.split()[:2]) for line in told.splitlines()}
