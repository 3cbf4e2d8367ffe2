"""The command line's frame: lazy commands, settings, errors."""

import json
import os
import pathlib
import re
import subprocess
import sys
from typing import IO

import click
import pytest
from click.testing import CliRunner

from agents.commands.serve import ROLES
from schemas.errors import PochadeError
from streams import cli
from streams.settings import load

POCHADE = str(pathlib.Path(sys.executable).with_name("pochade"))


class Entry:
    """A stand-in for an entry point."""

    def __init__(self, name: str, command: click.Command | Exception) -> None:
        self.name, self.value, self._command = name, f"somewhere:{name}", command

    def load(self) -> click.Command:
        if isinstance(self._command, Exception):
            raise self._command
        return self._command


@click.command()
@click.pass_obj
def threads(load: cli.LazySettings) -> None:
    click.echo(f"threads {load().worker.threads} in {load().home}")


@click.command()
def fails() -> None:
    raise PochadeError("level must be known: got 'x'")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    missing = ModuleNotFoundError("No module named 'somewhere'")
    entries = [Entry("threads", threads), Entry("fails", fails), Entry("gone", missing)]
    monkeypatch.setattr(cli, "_entry_points", lambda: {entry.name: entry for entry in entries})
    return CliRunner()


def test_help_lists_every_command_even_one_whose_code_is_missing(run: CliRunner) -> None:
    result = run.invoke(cli.main, ["--help"])
    assert result.exit_code == 0
    assert all(name in result.output for name in ("threads", "fails", "gone"))


def test_help_loads_no_command_and_no_heavy_library() -> None:
    code = (
        "import sys; from streams.cli import main; main(['--help'], standalone_mode=False); "
        "print('LOADED', [m for m in sys.modules if m.split('.')[0] in ('pydantic', 'torch', 'confluent_kafka')"
        " or '.commands' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "LOADED []" in done.stdout
    assert all(f"{heading}:" in done.stdout for heading in cli.GROUPS)
    assert all(name in done.stdout for commands in cli.GROUPS.values() for name in commands)


def test_an_error_of_ours_is_one_line_and_exit_code_1(run: CliRunner) -> None:
    result = run.invoke(cli.main, ["fails"])
    assert (result.exit_code, result.stderr, result.stdout) == (1, "error: level must be known: got 'x'\n", "")


def test_a_command_whose_code_is_missing_says_so(run: CliRunner) -> None:
    result = run.invoke(cli.main, ["gone"])
    assert result.exit_code == 1
    assert "command 'gone' cannot be loaded from somewhere:gone: No module named 'somewhere'" in result.stderr


@pytest.mark.parametrize("arguments", [["nonsense"], ["--nonsense"], ["--set", "worker.threads", "threads"]])
def test_a_wrong_call_is_exit_code_2(run: CliRunner, arguments: list[str]) -> None:
    assert run.invoke(cli.main, arguments).exit_code == 2


def test_settings_come_from_set_home_and_config(run: CliRunner, tmp_path: pathlib.Path) -> None:
    config = tmp_path / "x.toml"
    config.write_text('home = "from-file"\n[worker]\nthreads = 5\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POCHADE_CONFIG", "")  # restored at the end: --config sets it for child processes
        of_file = run.invoke(cli.main, ["--config", str(config), "threads"])
        flags = run.invoke(cli.main, ["--config", str(config), "--home", "h", "--set", "worker.threads=2", "threads"])
    assert of_file.output == "threads 5 in from-file\n"
    assert flags.output == "threads 2 in h\n"


def test_an_unknown_setting_names_the_nearest_one(run: CliRunner) -> None:
    result = run.invoke(cli.main, ["--set", "worker.thread=2", "threads"])
    assert result.exit_code == 1
    assert "did you mean 'worker.threads'?" in result.stderr


def test_assignments_nest_as_sections_do_and_keep_the_dots_of_free_keys() -> None:
    free = (
        "kafka.properties.security.protocol=SSL",
        "planner.scale.minimum.heavy=2",
        "planner.scale.max_by_tenant.a.b=1",
        "tenants.acme.rate_rps=1",
        "tenants.acme.com.burst=2",
    )
    flags = cli.nested(("home=x", "worker.threads=2", "kafka.prefix=a=b", "planner.scale.warm=1", *free))
    assert flags == {
        "home": "x",
        "worker": {"threads": "2"},
        "kafka": {"properties": {"security.protocol": "SSL"}, "prefix": "a=b"},
        "planner": {"scale": {"warm": "1", "minimum": {"heavy": "2"}, "max_by_tenant": {"a.b": "1"}}},
        "tenants": {"acme": {"rate_rps": "1"}, "acme.com": {"burst": "2"}},
    }


@pytest.mark.parametrize("wrong", ["worker.threads", "=2"])
def test_an_assignment_without_key_or_value_is_refused(wrong: str) -> None:
    with pytest.raises(click.BadParameter, match="not KEY=VALUE"):
        cli.nested((wrong,))


def test_a_value_and_a_section_of_one_name_are_refused() -> None:
    with pytest.raises(click.BadParameter, match="has a value already"):
        cli.nested(("worker=1", "worker.threads=2"))


COMMANDS = ["up", "down", "status", "submit", "results", "explain", "watch", "cancel", "fetch", "gc", "doctor", "ready"]
COMMANDS += ["again", "put", "fleet", "components publish"]
COMMANDS += [f"dlq {verb}" for verb in ("ls", "show", "redrive")]
COMMANDS += [f"keys {verb}" for verb in ("create", "ls", "revoke")]
COMMANDS += [f"topics {verb}" for verb in ("list", "create", "describe", "diff")]
COMMANDS += [f"config {verb}" for verb in ("show", "validate")]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_has_examples(command: str) -> None:
    done = CliRunner().invoke(cli.main, [*command.split(), "--help"], prog_name="pochade")
    assert f"Examples:\n    pochade {command}" in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["frobnicate"], "unknown command 'frobnicate': known are again"),
        (["sbmit"], "did you mean 'submit'?"),
        (["plan", "pni"], "did you mean 'pin'?"),
        (["config", "sow"], "did you mean 'show'? known are show, validate"),
    ],
)
def test_an_unknown_command_lists_the_known_ones_and_the_nearest(words: list[str], message: str) -> None:
    done = CliRunner().invoke(cli.main, words)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


GROUPS = ["plan", "profile", "replay", "report", "config", "topics", "dlq", "keys", "bench", "components"]


@pytest.mark.parametrize("group", GROUPS)
def test_no_line_of_a_groups_help_is_cut_off(group: str) -> None:
    done = CliRunner().invoke(cli.main, [group, "--help"])
    assert done.exit_code == 0
    assert "..." not in done.output.split("Commands:")[1]


PLAN_VERBS = ("pin", "unpin", "rollback", "show", "history", "diff", "shadow", "explain")
WITH_EXAMPLES = ["serve", "simulate", "evaluate", "profile", "profile cascades", "profile classes"]


@pytest.mark.parametrize("command", [*WITH_EXAMPLES, *(f"plan {verb}" for verb in PLAN_VERBS)])
def test_each_example_is_on_a_line_of_its_own(command: str) -> None:
    text = CliRunner().invoke(cli.main, [*command.split(), "--help"], terminal_width=80).output
    examples = text.split("Examples:\n")[1].splitlines()
    assert examples
    assert all(re.match(r"    pochade ", line) for line in examples)


@pytest.mark.parametrize(
    ("command", "known"),
    [
        ("demo", "Known: argus, clipper-heavy"),
        ("demo", "Known: argus-a100, chaos"),
        ("simulate", "Known: argus, clipper-heavy"),
        ("plan solve", "Known: argus, clipper-heavy"),
        ("evaluate", "Known: argus-a100, chaos"),
        ("chaos", "kill"),
        ("bench papers", "Known: "),
    ],
)
def test_help_lists_the_names_that_an_option_knows(command: str, known: str) -> None:
    assert known in " ".join(CliRunner().invoke(cli.main, [*command.split(), "--help"]).output.split())


def test_the_list_of_commands_names_every_role_that_is_served() -> None:
    named = cli.GROUPS["Operate"]["serve"].removeprefix("Run roles: ").removesuffix(".").split(", ")
    assert tuple(named) == ROLES


@pytest.mark.parametrize(
    "words",
    [
        ["--set", "worker.threads=2", "--home", "h", "threads"],
        ["threads", "--set", "worker.threads=2", "--home", "h"],
        ["threads", "--home=h", "--set=worker.threads=2"],
    ],
)
def test_global_options_count_before_and_after_the_command(run: CliRunner, words: list[str]) -> None:
    assert run.invoke(cli.main, words).output == "threads 2 in h\n"


def test_a_global_option_behind_two_dashes_or_without_a_value_is_left_to_the_command(run: CliRunner) -> None:
    assert "unexpected extra argument" in run.invoke(cli.main, ["threads", "--", "--home"]).output
    assert "No such option: --set" in run.invoke(cli.main, ["threads", "--set"]).output


def test_a_home_is_expanded_as_a_shell_expands_it(run: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/me")
    assert run.invoke(cli.main, ["--home", "~/x", "threads"]).output == "threads 1 in /srv/me/x\n"
    assert load({"store": {"folder": "~/images"}}).store.folder == "/srv/me/images"


@pytest.mark.parametrize("value", ["https://a,https://b", '["https://a", "https://b"]'])
def test_a_list_is_taken_with_commas_and_as_config_show_prints_it(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = CliRunner().invoke(cli.main, ["config", "show", "--changed", "--set", f"gateway.origins={value}"])
    assert 'gateway.origins\t["https://a", "https://b"]\tflag' in shown.output
    monkeypatch.setenv("POCHADE_GATEWAY__ORIGINS", value)
    assert load().gateway.origins == ("https://a", "https://b")


def test_a_list_that_is_neither_form_is_refused_with_both() -> None:
    with pytest.raises(PochadeError, match=r'setting gateway.origins: must be a list, as A,B or as \["A", "B"\]: got'):
        load({"gateway": {"origins": '["https://a'}})


def shown(words: list[str], output: IO[bytes] | int, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [POCHADE, *words], stdout=output, stderr=subprocess.PIPE, env={**os.environ, **environment}, check=False
    )


SHOW_A_HEART = ["config", "show", "--changed", "--set", "catalog=\N{HEAVY BLACK HEART}"]


@pytest.mark.parametrize(
    ("encoding", "text"), [("latin-1", b"catalog\t?\tflag"), ("utf-8", b"catalog\t\xe2\x9d\xa4\tflag")]
)
def test_a_character_that_the_output_cannot_encode_is_replaced(encoding: str, text: bytes) -> None:
    done = shown(SHOW_A_HEART, subprocess.PIPE, PYTHONIOENCODING=encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert text in done.stdout
    escaped = shown([*SHOW_A_HEART, "-o", "json"], subprocess.PIPE, PYTHONIOENCODING=encoding).stdout
    assert json.loads(escaped.decode(encoding))[0]["value"] == "\N{HEAVY BLACK HEART}"


@pytest.mark.parametrize("words", [["--help"], ["config", "show"], ["config", "show", "-o", "json"]])
def test_a_full_disk_is_one_sentence(words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = shown(words, full)
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert b"error: No space left on device: free space" in done.stderr


@pytest.mark.skipif(not os.path.isdir("/sys/kernel"), reason="there is no folder in which nobody can write")
def test_a_home_that_cannot_be_written_is_one_sentence() -> None:
    done = shown(["--home", "/sys/kernel/home", "--set", "catalog=profile", "demo"], subprocess.PIPE)
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert re.fullmatch(rb"error: [\w -]+: let this user use /sys/\S+, or name another --home\n", done.stderr)


def test_a_reader_that_has_left_ends_a_command_without_a_word() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = shown(["config", "show"], writing)
    os.close(writing)
    assert done.stderr == b""
