"""Secrets and texts of others: what an error, a table, a log line and a command line may show of them."""

import json
import logging
import pathlib
import stat

import pytest
from click.testing import CliRunner

from replay.local.deployment import child_environment, child_options, settings_shown
from schemas.errors import PochadeError
from streams.broker.record import locked, make_private
from streams.cli import main
from streams.commands.showing import line
from streams.observing import logs
from streams.settings import InvalidSettings, load
from streams.visible import json_text, visible
from tests.replay.runs import a_result

PASSWORD = "hush-hush"
STEERING = "a cat\x1b[2J\x9b31m\u202egnp.exe\r\nCOMPLETED"


@pytest.mark.parametrize(
    "assignment",
    [
        f"kafka.properties=sasl.password={PASSWORD}",
        f"kafka.properties=PASSWORD:{PASSWORD}",
        f"registry.password.deeper={PASSWORD}",
        f"registry.timeout_s=password={PASSWORD}",
        f"kafka.properties.sasl.password:{PASSWORD}",
    ],
)
def test_an_ill_typed_setting_shows_no_password(assignment: str) -> None:
    done = CliRunner().invoke(main, ["--set", assignment, "config", "show"])
    assert done.exit_code != 0
    assert PASSWORD not in done.output


def test_an_ill_typed_setting_that_is_no_secret_is_quoted() -> None:
    with pytest.raises(InvalidSettings, match=r"setting worker\.threads: .*got 'many'"):
        load({"worker": {"threads": "many"}})


def test_settings_print_without_their_secrets() -> None:
    given = {"kafka": {"properties": {"sasl.password": PASSWORD}}, "registry": {"password": PASSWORD, "token": "x"}}
    settings = load(given)
    assert PASSWORD not in repr(settings)
    assert PASSWORD not in str(settings_shown(settings))
    done = CliRunner().invoke(
        main, ["--set", f"registry.password={PASSWORD}", "--set", f"registry.token={PASSWORD}", "config", "show"]
    )
    assert done.exit_code == 0
    assert PASSWORD not in done.output


def test_a_childs_secrets_are_in_its_environment_and_not_on_its_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    properties = {"sasl.password": PASSWORD, "sasl.username": "u", "security.protocol": "SASL_SSL"}
    given = load(
        {"home": tmp_path, "kafka": {"prefix": "mine", "properties": properties}, "registry": {"password": PASSWORD}}
    )
    options = child_options(given, load())
    assert PASSWORD not in " ".join(options)
    assert "kafka.prefix=mine" in options
    for name, value in child_environment(given, load()).items():
        monkeypatch.setenv(name, value)
    inherited = load({"home": tmp_path})
    assert (inherited.kafka.properties, inherited.registry.password) == (properties, PASSWORD)
    assert child_environment(inherited, inherited) == {}


def test_what_steers_a_terminal_is_taken_out_of_tables_lines_and_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert visible(STEERING).split("\N{REPLACEMENT CHARACTER}") == ["a cat", "[2J", "31m", "gnp.exe COMPLETED"]
    shown = line(a_result(prompt=STEERING, request_id="\x1b]0;title\x07"))
    assert not set("\x1b\x07\x9b\u202e\r\n") & set(shown)

    def fail(_flags: object) -> None:
        raise PochadeError(f"no request {STEERING}")

    monkeypatch.setattr("streams.settings.load", fail)
    assert "\x1b" not in CliRunner().invoke(main, ["config", "show"]).output


def test_json_holds_the_same_text_and_no_raw_control_character() -> None:
    text = json_text({"prompt": STEERING, "plain": "größer"})
    assert json.loads(text) == {"prompt": STEERING, "plain": "größer"}
    assert not set("\x1b\x9b\u202e") & set(text)
    assert "größer" in text


def test_a_log_line_stays_one_and_steers_nothing() -> None:
    record = logging.LogRecord("a", logging.ERROR, "f", 1, "cannot serve %s", ("x\x1b[2J",), None)
    assert "\x1b" not in logs.TextFormatter().format(record)


def test_the_embedded_brokers_folder_is_its_owners_alone(tmp_path: pathlib.Path) -> None:
    home = tmp_path / "new"
    with locked(home / "kafka"):
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert stat.S_IMODE((home / "kafka").stat().st_mode) == 0o700
    wide = tmp_path / "wide"
    wide.mkdir(mode=0o755)
    make_private(wide)
    assert stat.S_IMODE(wide.stat().st_mode) == 0o700
    assert stat.S_IMODE(tmp_path.stat().st_mode) & 0o700 == 0o700
