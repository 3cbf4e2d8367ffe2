"""Settings under the names of release 0.1."""

import logging
import pathlib

import pytest

from streams.provenance import origins
from streams.renamed_settings import NEW_NAMES
from streams.settings import InvalidSettings, Settings, load


def nested(name: str, value: object) -> dict[str, object]:
    section, _, key = name.rpartition(".")
    return {section: {key: value}} if section else {key: value}


def value_of(settings: Settings, name: str) -> object:
    found: object = settings
    for part in name.split("."):
        found = getattr(found, part)
    return found


def other_than(value: object) -> object:
    return (not value) if isinstance(value, bool) else 0.5 if value == 0 else 2 * value  # type: ignore[operator]


@pytest.mark.parametrize("old", NEW_NAMES)
def test_a_setting_under_its_old_name_is_obeyed_with_a_warning_that_names_the_new_one(
    old: str, caplog: pytest.LogCaptureFixture
) -> None:
    new = NEW_NAMES[old]
    wanted = other_than(value_of(Settings(), new))
    with caplog.at_level(logging.WARNING):
        settings = load(nested(old, wanted))
    assert value_of(settings, new) == wanted
    assert f"setting {old} (flag) is called {new}" in caplog.text


def test_a_variable_with_an_old_name_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCHADE_DRAIN_S", "7")
    monkeypatch.setenv("POCHADE_PLANNER__WORKER_SILENT_MS", "4321")
    settings = load()
    assert (settings.shutdown_timeout_s, settings.planner.worker_timeout_ms) == (7, 4321)
    found = {each.name: each.origin for each in origins(settings, {})}
    assert found["shutdown_timeout_s"] == found["planner.worker_timeout_ms"] == "environment"


def test_a_file_with_an_old_name_is_obeyed(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "old.toml"
    file.write_text("drain_s = 9\n[worker]\njob_limit_s = 77\n")
    monkeypatch.setenv("POCHADE_CONFIG", str(file))
    settings = load()
    assert (settings.shutdown_timeout_s, settings.worker.job_timeout_s) == (9, 77)


def test_a_setting_under_both_of_its_names_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="drain_s and shutdown_timeout_s are both given: remove drain_s"):
        load({"drain_s": 3, "shutdown_timeout_s": 4})
