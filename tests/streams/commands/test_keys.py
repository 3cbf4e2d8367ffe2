"""`pochade keys` on a topic that lies in memory."""

import json

import pytest
from click.testing import CliRunner, Result

from schemas.messages import ApiKey
from streams.cli import main
from streams.control import api_keys
from streams.security.api_keys import digest_of


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> dict[str, ApiKey]:
    """What the topic tells, by id."""
    told: dict[str, ApiKey] = {}
    monkeypatch.setattr(api_keys, "store", lambda _settings, key: told.update({key.key_id: key}))
    monkeypatch.setattr(api_keys, "stored", lambda _settings: list(told.values()))
    return told


def keys(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["keys", *arguments])


def states(*arguments: str) -> dict[str, str]:
    rows = [json.loads(line) for line in keys("ls", "-o", "jsonl", *arguments).stdout.splitlines()]
    return {row["id"]: row["state"] for row in rows}


def test_a_key_is_shown_once_and_only_its_digest_is_stored(topic: dict[str, ApiKey]) -> None:
    done = keys("create", "studio", "--name", "laptop", "--expires", "90d")
    key = done.stdout.strip()
    (known,) = topic.values()
    assert (known.digest, known.tenant, known.scopes) == (digest_of(key), "studio", ("generate", "read"))
    assert known.expires_ms == known.created_ms + 90 * 86_400_000
    listed = keys("ls").output
    assert "studio" in listed
    assert key not in listed + done.stderr + str(known)


def test_a_key_is_rotated_by_creating_another_and_revoking_the_first(topic: dict[str, ApiKey]) -> None:
    first = json.loads(keys("create", "studio", "--scope", "read", "-o", "json").stdout)
    second = json.loads(keys("create", "studio", "--scope", "read", "-o", "json").stdout)
    assert states() == {first["id"]: "holds", second["id"]: "holds"}
    assert "is revoked" in keys("revoke", first["id"]).stdout
    assert states() == {second["id"]: "holds"}
    assert states("--all") == {first["id"]: "revoked", second["id"]: "holds"}
    when = topic[first["id"]].revoked_ms
    assert "was revoked before" in keys("revoke", first["id"]).stdout
    assert topic[first["id"]].revoked_ms == when


def test_an_unknown_id_revokes_nothing(topic: dict[str, ApiKey]) -> None:
    known = json.loads(keys("create", "studio", "-o", "json").stdout)["id"]
    done = keys("revoke", known, "0123456789abcdef")
    assert done.exit_code != 0
    assert f"known are {known}" in done.output
    assert topic[known].revoked_ms is None


def test_a_wrong_tenant_or_scope_is_refused_and_nothing_is_stored(topic: dict[str, ApiKey]) -> None:
    for arguments in (["*"], ["studio", "--scope", "admin"], ["studio", "--expires", "soon"], []):
        assert keys("create", *arguments).exit_code != 0
    assert topic == {}
