"""What a role says of a cluster that lets others in: logged at its start, without a broker."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from streams.broker import probe
from streams.kafka.groups.description import Group
from streams.security import access_check
from streams.security.access_check import check_access
from streams.settings import load

SERVED = {"READ", "WRITE", "DESCRIBE", "DESCRIBE_CONFIGS"}


def warned(caplog: pytest.LogCaptureFixture, bootstrap: str, properties: dict[str, str]) -> str:
    check_access(load({"kafka": {"bootstrap_servers": bootstrap, "properties": properties}}), ["router"], ["light"])
    return caplog.text


@pytest.mark.parametrize("hosts", ["kafka-1.example.com:9092", "127.0.0.1:9092,10.0.0.7:9092", "[2001:db8::1]:9092"])
def test_a_role_warns_at_its_start_of_connections_that_others_can_read(
    caplog: pytest.LogCaptureFixture, hosts: str
) -> None:
    assert "are PLAINTEXT: prompts, and tenants' URIs of images, can be read" in warned(caplog, hosts, {})


@pytest.mark.parametrize("hosts", ["127.0.0.1:9092", "localhost:9092", "[::1]:9092,127.0.0.2:9093"])
def test_nothing_is_said_of_a_broker_that_only_this_machine_reaches(
    caplog: pytest.LogCaptureFixture, hosts: str
) -> None:
    assert warned(caplog, hosts, {}) == ""


@pytest.mark.parametrize(("held", "is_wider"), [(SERVED, False), (SERVED | {"ALTER", "DELETE"}, True)])
def test_a_role_warns_of_a_user_with_rights_that_no_role_needs(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, held: set[str], is_wider: bool
) -> None:
    def described(names: Any, **_more: Any) -> dict[str, Future[Any]]:
        found = {name: Future[Any]() for name in (names if isinstance(names, list) else wanted)}
        for future in found.values():
            rights = [SimpleNamespace(name=right) for right in held | {"ALTER_CONFIGS"}]
            future.set_result(SimpleNamespace(authorized_operations=rights))
        return found

    wanted: list[str] = []
    client = SimpleNamespace(describe_topics=described)
    monkeypatch.setattr(access_check, "described", lambda _config, groups, **_: dict.fromkeys(groups, Group({}, None)))
    monkeypatch.setattr(access_check, "AdminClient", lambda _config: client)
    monkeypatch.setattr(access_check, "TopicCollection", lambda names: wanted.extend(names))
    monkeypatch.setattr(probe, "probe", lambda *_: None)
    monkeypatch.setattr(access_check, "refused_by_python", lambda _config: "")
    said = warned(caplog, "kafka-1.example.com:9093", {"security.protocol": "SASL_SSL"})
    assert ("the router may change and delete" in said) is is_wider
    assert "can be read" not in said
