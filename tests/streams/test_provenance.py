"""`config show` and `validate`: where settings come from, what is hidden, and what librdkafka refuses."""

import json
import pathlib
import re

import pytest
from click.testing import CliRunner, Result

from planner.catalog.engines import ENGINES
from schemas.errors import PochadeError
from streams.broker import probe
from streams.cli import main
from streams.provenance import origins
from streams.security.properties import check_properties
from streams.security.secrets import HIDDEN
from streams.settings import load
from tests.paths import CATALOGS


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def pochade(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_every_setting_tells_where_it_comes_from(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pochade.toml").write_text("[worker]\nthreads = 3\nheartbeat_ms = 100\n[planner]\npolicy = 'x'\n")
    monkeypatch.setenv("POCHADE_WORKER__HEARTBEAT_MS", "200")
    monkeypatch.setenv("POCHADE_KAFKA__PREFIX", "mine")
    flags = {"kafka": {"prefix": "flag"}}
    reported = {each.name: each for each in origins(load(flags), flags)}
    assert (reported["kafka.prefix"].value, reported["kafka.prefix"].origin) == ("flag", "flag")
    beat = reported["worker.heartbeat_ms"]
    assert (beat.value, beat.origin, beat.where) == (200, "environment", "POCHADE_WORKER__HEARTBEAT_MS")
    assert (reported["worker.threads"].value, reported["worker.threads"].origin) == (3, "toml")
    assert reported["worker.threads"].where.endswith("pochade.toml")
    assert (reported["catalog"].value, reported["catalog"].origin) == ("tiny", "default")


@pytest.mark.parametrize(
    "name", ["sasl.password", "ssl.key.pem", "sasl.oauthbearer.client.secret", "sasl.jaas.config", "some.Token"]
)
def test_secrets_are_hidden_in_every_output(name: str) -> None:
    for output in ("table", "json", "jsonl"):
        done = pochade("--set", f"kafka.properties.{name}=hush-hush", "config", "show", "-o", output)
        assert done.exit_code == 0
        assert "hush" not in done.output
        assert HIDDEN in done.output


def test_what_is_no_secret_is_shown() -> None:
    done = pochade("--set", "kafka.properties.security.protocol=SSL", "config", "show", "--changed", "-o", "jsonl")
    (row,) = [json.loads(line) for line in done.output.splitlines()]
    assert (row["name"], row["value"], row["origin"]) == ("kafka.properties.security.protocol", "SSL", "flag")


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"no.such.thing": "1"}, r"kafka\.properties\.no\.such\.thing: librdkafka has no such property"),
        ({"security.protocol": "SASL_SLL"}, r"kafka\.properties\.security\.protocol: librdkafka refuses it"),
        ({"socket.timeout.ms": "many"}, r"kafka\.properties\.socket\.timeout\.ms"),
    ],
)
def test_a_property_that_librdkafka_refuses_is_named(properties: dict[str, str], says: str) -> None:
    with pytest.raises(PochadeError, match=says):
        check_properties(load({"kafka": {"properties": properties}}))


def test_good_properties_pass() -> None:
    check_properties(
        load({"kafka": {"properties": {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u",
                                       "sasl.password": "p", "queued.min.messages": "1"}}})
    )  # fmt: skip


def test_a_refusal_never_tells_a_value() -> None:
    with pytest.raises(PochadeError) as refusal:
        check_properties(load({"kafka": {"properties": {"security.protocol": "hush-hush"}}}))
    assert "hush" not in str(refusal.value)


def test_validate_tells_all_that_is_wrong_and_fails() -> None:
    done = pochade("--set", "kafka.properties.nonsense=1", "--set", "catalog=tinny", "config", "validate")
    assert done.exit_code == 1
    assert "kafka.properties.nonsense" in done.output
    assert "did you mean 'tiny'" in done.output
    assert pochade("--set", "worker.thread=1", "config", "validate").exit_code == 1


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "worker.engine=profil",
            f"unknown engine 'profil': did you mean 'profile'? known are {', '.join(ENGINES.names())}",
        ),
        ("planner.policy=foo", "unknown policy 'foo': known are argus"),
        ("worker.variant=foo", "unknown level 'foo': known are "),
        ("kafka.prefix=a b", "setting kafka.prefix: must have 1 to 150 of the characters"),
        ("kafka.prefix=", "setting kafka.prefix: must have 1 to 150 of the characters"),
        ("catalog={catalog}", "variants.heavy.steps must be a whole number: got 'four'"),
    ],
)
def test_validate_refuses_what_cannot_run(setting: str, message: str, tmp_path: pathlib.Path) -> None:
    catalog = tmp_path / "mine.toml"
    text = (CATALOGS / "profile.toml").read_text()
    catalog.write_text(re.sub(r"(\[variants\.heavy\][^[]*?steps = )\d+", r'\1"four"', text))
    done = pochade("--set", setting.format(catalog=catalog), "config", "validate")
    assert done.exit_code == 1
    assert message in done.output


def test_a_config_file_that_is_not_there_is_blamed_on_the_flag() -> None:
    done = pochade("--config", "nothere.toml", "config", "validate")
    assert done.exit_code == 1
    assert "error: --config names nothere.toml, which is not a file: correct the path" in done.output
    assert "POCHADE_CONFIG" not in done.output


def test_status_says_which_setting_names_a_broker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "FOREIGN_LIMIT_S", 0.1)
    done = pochade("--set", "kafka.bootstrap_servers=127.0.0.1:1", "status")
    assert done.exit_code == 1
    assert "no Kafka answers at 127.0.0.1:1" in done.output
    assert "check POCHADE_KAFKA__BOOTSTRAP_SERVERS" in done.output


def test_valid_settings_are_said_to_be_so() -> None:
    done = pochade("config", "validate", "-o", "json")
    assert (done.exit_code, json.loads(done.output)) == (0, {"valid": True, "errors": []})


def test_the_keys_of_a_table_that_a_flag_states_come_from_the_flag() -> None:
    flags = {"gateway": {"models": '{"dall-e-3": "auto"}'}}
    by_name = {each.name: each for each in origins(load(flags), flags)}
    assert (by_name["gateway.models.dall-e-3"].origin, by_name["gateway.port"].origin) == ("flag", "default")
