"""Settings: flags over environment over file, and nothing unknown is accepted."""

import pathlib

import pytest

from schemas.errors import PochadeError
from streams.settings import load


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


@pytest.mark.parametrize("seconds", [0, 7 * 86_400])
def test_a_deadline_may_not_be_further_ahead_than_the_ledger_remembers(seconds: float) -> None:
    with pytest.raises(PochadeError, match="max_deadline_s"):
        load({"requests": {"max_deadline_s": seconds}})
