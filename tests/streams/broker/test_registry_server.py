"""The schema registry as any Avro client sees it."""

import io
import json
import socket
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest

from schemas.avro import to_avro
from schemas.messages import GenerateRequest
from schemas.registry import latest, registered
from streams.broker import registry_server
from tests.next_release import entries
from tests.patience import PATIENCE_S

SUBJECT = "pochade.GenerateRequest"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = registry_server.server(0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def ask(url: str, method: str = "GET", data: bytes | None = None) -> tuple[int, Any]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, method=method, data=data), timeout=PATIENCE_S) as response:
            assert response.headers["Content-Type"] == registry_server.CONTENT_TYPE
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_client_decodes_a_framed_record_by_the_schema_it_fetches(url: str) -> None:
    entry = latest()[SUBJECT]
    request = GenerateRequest(request_id="r-1", prompt="a red circle", created_ms=5, deadline_ms=9)
    record = io.BytesIO()
    record.write(struct.pack(">bI", 0, entry.id))
    fastavro.schemaless_writer(record, fastavro.parse_schema(entry.schema), to_avro(GenerateRequest)(request))

    record.seek(0)
    magic, schema_id = struct.unpack(">bI", record.read(5))
    status, answer = ask(f"{url}/schemas/ids/{schema_id}")
    schema = fastavro.parse_schema(json.loads(answer["schema"]))
    assert (magic, status, answer["schemaType"]) == (0, 200, "AVRO")
    read: Any = fastavro.schemaless_reader(record, schema, None)
    assert (read["request_id"], read["prompt"], read["deadline_ms"]) == ("r-1", "a red circle", 9)


def test_every_schema_ever_written_is_served_by_its_id_and_by_its_subject(url: str) -> None:
    assert ask(f"{url}/subjects") == (200, sorted(latest()))
    for entry in registered():
        _, by_id = ask(f"{url}/schemas/ids/{entry.id}")
        _, by_version = ask(f"{url}/subjects/{entry.subject}/versions/{entry.version}")
        assert json.loads(by_id["schema"]) == json.loads(by_version["schema"]) == entry.schema
        assert by_version["id"] == entry.id
        expected = [{"subject": entry.subject, "version": entry.version}]
        assert ask(f"{url}/schemas/ids/{entry.id}/versions") == (200, expected)


def test_latest_is_the_newest_version(url: str) -> None:
    _, versions = ask(f"{url}/subjects/{SUBJECT}/versions")
    _, newest = ask(f"{url}/subjects/{SUBJECT}/versions/latest")
    assert newest["version"] == max(versions)
    assert newest["id"] == latest()[SUBJECT].id


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/schemas/types", ["AVRO"]),
        ("/config", {"compatibilityLevel": "BACKWARD"}),
        (f"/config/{SUBJECT}", {"compatibilityLevel": "BACKWARD"}),
        ("/mode", {"mode": "READONLY"}),
        ("/subjects/?deleted=false", sorted(latest())),
    ],
)
def test_clients_find_what_they_ask_for_at_the_start(url: str, path: str, answer: Any) -> None:
    assert ask(url + path) == (200, answer)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/subjects/none/versions", 40401),
        (f"/subjects/{SUBJECT}/versions/999", 40402),
        ("/schemas/ids/999999", 40403),
        ("/associations/resources/x", 404),
    ],
)
def test_what_is_not_there_is_a_json_404_with_the_registrys_code(url: str, path: str, code: int) -> None:
    status, answer = ask(url + path)
    assert (status, answer["error_code"]) == (404, code)
    assert answer["message"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_writing_is_refused_and_says_where_schemas_come_from(url: str, method: str) -> None:
    status, answer = ask(f"{url}/subjects/{SUBJECT}/versions", method, b"{}")
    assert status == 405
    assert "schemas/messages.py" in answer["message"]


@pytest.mark.parametrize("length", ["-1", "many", "99999999999"])
def test_a_request_to_write_is_refused_whatever_length_it_claims(
    url: str, length: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_server.Handler, "timeout", 0.2)
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=PATIENCE_S) as client:
        client.sendall(f"POST /subjects/x/versions HTTP/1.1\r\nContent-Length: {length}\r\n\r\n".encode())
        answered = b"".join(iter(lambda: client.recv(4096), b""))
    assert b" 405 " in answered or length.isdecimal()  # of a body that never comes nothing is owed but the end


def test_a_connection_that_says_nothing_is_ended(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_server.Handler, "timeout", 0.1)
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=PATIENCE_S) as client:
        assert client.recv(1) == b""


def test_a_registry_of_an_older_release_is_distinguished_from_one_of_this(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert registry_server.is_up_to_date(url)
    monkeypatch.setattr(registry_server, "registered", entries)  # of the next release; the server's own is this one's
    assert not registry_server.is_up_to_date(url)
    assert not registry_server.is_up_to_date("http://127.0.0.1:1"), "nobody answers"
