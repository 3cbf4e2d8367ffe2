"""The local Milvus Lite: the quick version, one process a home, found again and ended by later commands."""

import importlib.metadata
import os
import pathlib
import signal
import tomllib

import pytest
from click.testing import CliRunner

from schemas.errors import PochadeError
from streams.broker import embedded
from streams.broker.address import Address
from streams.commands.broker import describe, down, up
from streams.operator.doctor import examine
from streams.settings import Settings, load
from streams.vectors import lite, lite_server
from tests.paths import ROOT
from tests.streams.vectors.backends import Backend, opened
from tests.streams.vectors.rows import CALL_S, poll_until

pytestmark = pytest.mark.milvus


@pytest.fixture
def settings(tmp_path: pathlib.Path) -> Settings:
    return load({"home": tmp_path, "vectors": {"url": "lite"}})


def test_the_version_is_the_one_that_is_quick() -> None:
    """From 3.0 on a search of 10,000 rows takes 170 ms in place of 1: whoever raises this measures it first."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert lite_server.VERSION == "2.5.1"
    assert importlib.metadata.version("milvus-lite") == lite_server.VERSION
    assert extras["milvus-lite"][0].startswith(f"milvus-lite=={lite_server.VERSION};")
    assert lite_server.program().is_file()


@pytest.mark.parametrize("installed", ["3.2.2", None])
def test_another_version_or_none_is_refused_with_what_to_install(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, installed: str | None
) -> None:
    def version(name: str) -> str:
        if installed is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed

    monkeypatch.setattr("importlib.metadata.version", version)
    with pytest.raises(PochadeError, match=r"2\.5\.1.*pip install 'pochade\[milvus-lite\]'"):
        lite_server.ensure(settings)
    assert lite.running(settings) is None


def test_a_home_has_one_server_which_later_commands_find_and_end(settings: Settings) -> None:
    url = lite_server.ensure(settings)
    first = lite.running(settings)
    assert first is not None
    assert lite_server.ensure(settings) == url == lite.url(settings)
    assert lite.running(settings) == first
    assert lite_server.stop(settings)
    assert lite.running(settings) is None
    assert not lite_server.stop(settings)
    assert lite_server.ensure(settings) == url, "its port stays"
    assert lite_server.stop(settings)


def test_a_server_that_was_started_and_not_recorded_is_ended_before_another_is_started(settings: Settings) -> None:
    lite_server.ensure(settings)
    home, unrecorded = lite.vectors_home(settings), lite.running(settings)
    assert unrecorded is not None
    assert unrecorded.process is not None
    lite.write(home, lite.LiteRecord(port=unrecorded.port))
    lite_server.ensure(settings)
    assert not unrecorded.process.is_alive()
    assert lite_server.stop(settings)


def test_a_server_that_cannot_start_says_what_its_log_says(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    broken = tmp_path / "milvus"
    broken.write_text("#!/bin/sh\necho no disk >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(lite_server, "program", lambda: broken)
    with pytest.raises(PochadeError, match="no disk"):
        lite_server.ensure(settings)


def test_a_store_that_was_never_started_says_how_to_start_it(settings: Settings) -> None:
    with pytest.raises(PochadeError, match="run `pochade up`"):
        lite.url(settings)
    assert not lite_server.stop(settings)
    assert not (settings.home / "vectors").exists()


def test_a_damaged_record_is_named(settings: Settings) -> None:
    home = lite.vectors_home(settings)
    home.mkdir()
    (home / "lite.json").write_text("{")
    with pytest.raises(PochadeError, match=r"lite\.json is damaged"):
        lite.running(settings)


@pytest.mark.parametrize("url", ["", "lite"])
def test_up_starts_it_beside_the_broker_where_the_settings_name_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    settings = load({"home": tmp_path, "vectors": {"url": url}})
    monkeypatch.setattr(embedded, "ensure", lambda *_: Address("127.0.0.1:9092", None))
    monkeypatch.setattr("streams.commands.broker.topics", lambda _: {})
    monkeypatch.setattr("streams.commands.broker.create_topics", lambda _: [])
    started = CliRunner().invoke(up, obj=lambda: settings, catch_exceptions=False)
    assert (lite.running(settings) is not None) == ("vectors   http://127.0.0.1:" in started.output) == (url == "lite")
    assert lite_server.stop(settings) == (url == "lite")


def test_status_and_doctor_show_it_and_down_ends_it(settings: Settings) -> None:
    checked = {check.name: check for check in examine(settings)}["vectors"]
    assert (checked.verdict, "pochade up" in checked.found) == ("fail", True)
    url = lite_server.ensure(settings)
    assert describe(settings)["vectors_url"] == url
    checked = {check.name: check for check in examine(settings)}["vectors"]
    assert (checked.verdict, checked.found) == ("ok", "lite answers")
    ended = CliRunner().invoke(down, obj=lambda: settings)
    assert "stopped Milvus Lite" in ended.output
    assert describe(settings)["vectors_url"] is None


def test_no_proxy_is_asked_for_a_server_on_this_machine(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "no_grpc_proxy"):
        monkeypatch.delenv(name, raising=False)
    lite_server.ensure(settings)

    class Local(Backend):
        def __init__(self) -> None:
            self.settings = settings

    store = opened(Local())
    store.ensure(8, CALL_S)
    store.close()
    assert lite_server.stop(settings)


def test_a_killed_server_is_started_again_by_the_next_up(settings: Settings) -> None:
    lite_server.ensure(settings)
    killed = lite.running(settings)
    assert killed is not None
    assert killed.process is not None
    os.kill(killed.process.pid, signal.SIGKILL)
    poll_until(lambda: lite.running(settings) is None, "its end is seen")
    lite_server.ensure(settings)
    assert lite.running(settings) is not None
    assert lite_server.stop(settings)
