"""A schema registry over https that wants a password: what it answers, and what a person reads when it does not."""

import base64
import os
import pathlib
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer

import psutil
import pytest

from schemas.errors import PochadeError
from schemas.registry import latest
from streams.broker import record as broker_record
from streams.broker import registry_server
from streams.broker.node import Ports
from streams.broker.process import Process
from streams.broker.record import Record
from streams.codec.registry_client import NoSuchSchema, RegistryClient, RegistryFailed, RegistryRefused, open_registry
from streams.settings import Registry, load
from tests.certificates import AUTHORITY_KEY, Authority, verify_strictly

PASSWORD = "hush-hush"
ENTRY = latest()["pochade.GenerateRequest"]


class Guarded(registry_server.Handler):
    """The project's own registry behind a password; counts what it is asked."""

    allowed = "Basic " + base64.b64encode(f"reader:{PASSWORD}".encode()).decode()
    asked: list[str] = []  # noqa: RUF012  of the class on purpose: a handler lives for one connection

    def do_GET(self) -> None:  # noqa: N802  the base class finds methods by these names
        self.asked.append(self.path)
        if self.headers.get("Authorization") not in (self.allowed, "Bearer a-token"):
            self.send_error(401)
        elif self.path == "/schemas/ids/500":
            self.send_error(500)
        elif self.path == "/schemas/ids/77":
            self._send(200, "no object")
        elif self.path == "/schemas/ids/78":
            self._send(200, {"schemaType": "PROTOBUF", "schema": "{}"})
        elif self.path == "/schemas/ids/79":
            self._send(200, {"schema": "x" * (2 << 20)})
        else:
            super().do_GET()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


Serve = Callable[[pathlib.Path], str]


@pytest.fixture(scope="module")
def serve() -> Iterator[Serve]:
    """Starts a registry with a certificate and key in a file; its address."""
    running: list[tuple[ThreadingHTTPServer, threading.Thread]] = []

    def start(certificate: pathlib.Path) -> str:
        server = ThreadingHTTPServer(("127.0.0.1", 0), Guarded)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.append((server, thread))
        return f"https://127.0.0.1:{server.server_port}"

    yield start
    for server, thread in running:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def url(serve: Serve, authority: Authority) -> str:
    return serve(authority.sign("registry").both)


@pytest.fixture
def settings(url: str, authority: Authority) -> Registry:
    return Registry(url=url, username="reader", password=PASSWORD, ca=str(authority.certificate))


@pytest.fixture
def client(settings: Registry) -> Iterator[RegistryClient]:
    client = RegistryClient(settings)
    yield client
    client.close()


def test_a_schema_is_read_over_https_with_a_password_and_asked_for_once(client: RegistryClient) -> None:
    Guarded.asked.clear()
    client.check()
    assert client.schema(ENTRY.id) == ENTRY.schema == client.schema(ENTRY.id)
    assert Guarded.asked == ["/subjects", f"/schemas/ids/{ENTRY.id}"]


def test_a_token_lets_in_where_a_password_would(settings: Registry) -> None:
    own = settings.model_copy(update={"username": "", "password": "", "token": "a-token"})
    assert RegistryClient(own).schema(ENTRY.id) == ENTRY.schema


def test_an_id_that_nobody_registered_is_distinguished_and_not_asked_for_with_every_record(
    client: RegistryClient,
) -> None:
    Guarded.asked.clear()
    for _ in range(3):
        with pytest.raises(NoSuchSchema, match="no schemas/ids/4711"):
            client.schema(4711)
    assert len(Guarded.asked) == 1


def test_the_password_is_read_from_a_file_that_the_setting_names(settings: Registry, tmp_path: pathlib.Path) -> None:
    (tmp_path / "password").write_text(PASSWORD + "\n")
    own = settings.model_copy(update={"password": f"file:{tmp_path / 'password'}"})
    assert RegistryClient(own).schema(ENTRY.id) == ENTRY.schema


@pytest.mark.parametrize(
    ("changed", "reported"),
    [
        ({"password": "wrong-one"}, r"does not let us in \(HTTP 401\): check registry.username and registry.password"),
        ({"ca": ""}, r"certificate .*is not valid.*set registry.ca"),
    ],
)
def test_who_is_not_let_in_reads_why_and_never_the_password(
    settings: Registry, changed: dict[str, str], reported: str
) -> None:
    own = settings.model_copy(update=changed)
    with pytest.raises(RegistryRefused, match=reported) as refusal:
        RegistryClient(own).check()
    assert own.password not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_an_expired_certificate_is_refused(serve: Serve, authority: Authority, settings: Registry) -> None:
    old = serve(authority.sign("old", valid_days=-1).both)
    with pytest.raises(RegistryRefused, match=r"expired.*have it renewed"):
        RegistryClient(settings.model_copy(update={"url": old})).check()


def test_a_certificate_without_what_python_3_13_requires_is_refused_with_what_to_do(
    serve: Serve, settings: Registry, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify_strictly(monkeypatch)
    lacking = Authority(tmp_path, lacks=AUTHORITY_KEY)
    changed = {"url": serve(lacking.sign("registry").both), "ca": str(lacking.certificate)}
    with pytest.raises(RegistryRefused, match=rf"lacks the {AUTHORITY_KEY}.*sign the server's certificate again"):
        RegistryClient(settings.model_copy(update=changed)).check()


@pytest.mark.parametrize("schema_id", [77, 78, 79, 500])
def test_an_answer_that_is_no_schema_is_an_error_of_ours(client: RegistryClient, schema_id: int) -> None:
    with pytest.raises(RegistryFailed, match=r"https://127\.0\.0\.1"):
        client.schema(schema_id)


def test_a_registry_that_is_away_is_an_error_that_may_pass(settings: Registry) -> None:
    with pytest.raises(RegistryFailed, match="does not answer"):
        RegistryClient(settings.model_copy(update={"url": "https://127.0.0.1:1"})).schema(1)


@pytest.mark.parametrize(
    ("changed", "reported"),
    [
        ({"url": "ftp://host"}, "must be http"),
        ({"url": "https://reader:hush-hush@host"}, "set registry.username and registry.password"),
        ({"url": "http://host"}, "in the clear"),
        ({"token": "a-token"}, "one of them"),
        ({"ca": "/no/such/file"}, "registry.ca /no/such/file cannot be read"),
        ({"password": "file:/no/such/file"}, "registry.password names the file /no/such/file, which cannot be read"),
    ],
)
def test_settings_that_cannot_work_are_refused_without_the_password(
    settings: Registry, changed: dict[str, str], reported: str
) -> None:
    with pytest.raises(PochadeError, match=reported) as refusal:
        RegistryClient(settings.model_copy(update=changed))
    assert PASSWORD not in str(refusal.value)


def test_no_registry_is_asked_where_none_is_configured() -> None:
    assert open_registry(load({"kafka": {"bootstrap_servers": "kafka:9092"}})) is None


def test_the_registry_beside_the_embedded_broker_is_asked_without_a_proxy(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    settings = load({"home": tmp_path})
    assert open_registry(settings) is None, "no broker runs there"
    me = Process(os.getpid(), psutil.Process().create_time())
    with registry_server.server(0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ports = Ports(broker=1, controller=2, registry=server.server_port)
        broker_record.make_private(tmp_path / "kafka")
        broker_record.write(tmp_path / "kafka", Record(cluster_id="c", ports=ports, broker=me, registry=me))
        client = open_registry(settings)
        assert client is not None
        assert client.schema(ENTRY.id) == ENTRY.schema
        client.close()
        server.shutdown()
