"""Settings: flags over environment over file, and nothing unknown is accepted."""

import pathlib
from collections.abc import Iterator
from typing import get_origin

import pytest
from pydantic import BaseModel

from planner.catalog.option_limits import check_options
from schemas.errors import PochadeError
from schemas.messages import GenerateOptions
from schemas.vocabulary import DECLARED
from streams.cli import nested
from streams.settings import Settings, Table, load
from tests.builders import a_request


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_flags_win_over_environment_over_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pochade.toml").write_text("[kafka]\nprefix = 'file'\njobs_partitions = 2\nsession_timeout_ms = 7000\n")
    monkeypatch.setenv("POCHADE_KAFKA__PREFIX", "environment")
    monkeypatch.setenv("POCHADE_KAFKA__SESSION_TIMEOUT_MS", "8000")
    kafka = load({"kafka": {"prefix": "flag"}}).kafka
    assert (kafka.prefix, kafka.session_timeout_ms, kafka.jobs_partitions) == ("flag", 8000, 2)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("POCHADE_KAFKA__BOOTSTRAP_SERVER", "x", "did you mean 'kafka.bootstrap_servers'"),
        ("POCHADE_KAFKAA__PREFIX", "x", "did you mean 'POCHADE_KAFKA'"),
        ("POCHADE_WORKER__THREADS", "zero", "worker.threads"),
        ("POCHADE_WORKER__THREADS", "0", "greater than or equal to 1: got '0'"),
    ],
)
def test_a_wrong_variable_is_an_error_that_helps(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(PochadeError, match=message):
        load()


def test_an_unknown_key_in_the_file_is_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "pochade.toml").write_text("[planner]\npolicyy = 'x'\n")
    with pytest.raises(PochadeError, match=r"did you mean 'planner\.policy'"):
        load()


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("traces.mine.time_colum", "traces.mine.time_column"),
        ("tenants.acme.rate_rp", "tenants.acme.rate_rps"),
        ("worker.components.volum", "worker.components.volume"),
    ],
)
def test_an_unknown_key_below_a_name_of_ones_own_is_an_error_that_knows_the_keys_there(key: str, meant: str) -> None:
    with pytest.raises(PochadeError) as raised:
        load(nested((f"{key}=3",)))
    known = f"known are {meant.rpartition('.')[0]}."
    assert f"unknown setting '{key}': did you mean '{meant}'? {known}" in str(raised.value)


def test_a_named_file_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCHADE_CONFIG", "nowhere.toml")
    with pytest.raises(PochadeError, match=r"nowhere\.toml, which is not a file"):
        load()


@pytest.mark.parametrize("text", [b"prefix", b"a = ", b"\xff", b"a = " + b"[" * 5000])
def test_a_file_that_is_no_toml_is_an_error_that_names_it(tmp_path: pathlib.Path, text: bytes) -> None:
    (tmp_path / "pochade.toml").write_bytes(text)
    with pytest.raises(PochadeError, match=r"^pochade\.toml cannot be read as TOML: (?!.*POCHADE)"):
        load()


def test_a_variable_that_should_hold_json_and_does_not_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POCHADE_TENANTS", "{a")
    with pytest.raises(PochadeError, match=r'^a variable POCHADE_\* cannot be read: .*"tenants"(?!.*toml)'):
        load()


STATED = '{"a": "auto", "b.c": "heavy"}'


def test_a_table_is_stated_as_json_or_key_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(nested([f"gateway.models={STATED}"])).gateway.models == {"a": "auto", "b.c": "heavy"}
    assert load(nested(["gateway.models.b.c=heavy"])).gateway.models == {"b.c": "heavy"}
    assert load(nested(['planner.scale.minimum={"light": 2}'])).planner.scale.minimum == {"light": 2}
    assert load(nested(['tenants={"acme": {"rate_rps": 2}}'])).tenants["acme"].rate_rps == 2
    monkeypatch.setenv("POCHADE_GATEWAY__MODELS", STATED)
    assert load().gateway.models == {"a": "auto", "b.c": "heavy"}


def floats_in(section: type[BaseModel], before: str = "") -> Iterator[str]:
    """Yield the names of all settings that are numbers with fractions, and of a key of tables of these."""
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from floats_in(kind, f"{before}{name}.")
        elif kind in (float, dict[str, float]):
            yield f"{before}{name}" if kind is float else f"{before}{name}.any"


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_no_setting_is_infinite_or_no_number(value: str) -> None:
    names = [*floats_in(Settings)]
    assert len(names) > 20
    for name in names:
        with pytest.raises(PochadeError, match=f"setting {name.removesuffix('.any')}.*: got '{value}'"):
            load(nested((f"{name}={value}",)))


def test_every_table_of_free_keys_is_read_as_json() -> None:
    sections = [Settings]
    for section in sections:
        for name, field in section.model_fields.items():
            if get_origin(field.annotation) is dict:
                assert any(each == Table.__metadata__[0] for each in field.metadata), name
            elif isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
                sections.append(field.annotation)


@pytest.mark.parametrize("value", ["dall-e-3", "{a", '["a"]', "7"])
def test_what_is_no_table_is_an_error_that_says_how_one_is_stated(value: str) -> None:
    with pytest.raises(
        PochadeError, match=r'gateway.models: must be a table: \{"NAME": "VALUE"\} in JSON, or one --set'
    ):
        load(nested([f"gateway.models={value}"]))


@pytest.mark.parametrize("seconds", [0, 7 * 86_400])
def test_a_deadline_may_not_be_further_ahead_than_the_ledger_remembers(seconds: float) -> None:
    with pytest.raises(PochadeError, match="max_deadline_s"):
        load({"requests": {"max_deadline_s": seconds}})


def test_a_request_may_have_as_many_images_as_the_option_declares_unless_a_setting_says_else() -> None:
    declared = int(DECLARED["n"].about.high or 0)
    request = a_request(options=GenerateOptions(n=declared + 1))
    with pytest.raises(PochadeError, match=rf"n must be from 1 to {declared}: got {declared + 1}"):
        check_options(request, Settings().requests.max_images)
    check_options(request, load({"requests": {"max_images": declared + 1}}).requests.max_images)
