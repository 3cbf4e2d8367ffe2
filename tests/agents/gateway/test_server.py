"""A gateway on a real socket: who sends or reads too slowly is cut, who hangs up is let go, a stop tells who waits."""

import contextlib
import pathlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator

import httpx
import pytest
from prometheus_client import REGISTRY

from agents.gateway.server import Gateway
from schemas.messages import Outcome, Status
from schemas.topics import OUTCOMES
from streams.codec.avro import decode
from streams.settings import Gateway as Limits
from streams.settings import InvalidSettings, load
from tests.agents.gateway.deployment import Deployment, ended, event, tell
from tests.certificates import Authority
from tests.integration.waiting import poll_until
from tests.patience import PATIENCE_S

HEAD = b"POST /v1/images/generations HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


BODY = b'{"prompt": "a red heart"}'
WHOLE = HEAD + b"content-length: %d\r\n\r\n%b" % (len(BODY), BODY)


class Serving:
    """A gateway that runs in a thread."""

    def __init__(self, deployment: Deployment, gateway: Gateway) -> None:
        self.deployment, self.gateway, self.stopping = deployment, gateway, threading.Event()
        self.port = gateway.listener.port
        self.thread = threading.Thread(target=gateway.run, args=(self.stopping,))
        self.thread.start()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)

    def end(self) -> None:
        self.stopping.set()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()


class Followed:
    """`results`, of which all of the past has been read."""

    def __init__(self) -> None:
        self.is_caught_up = threading.Event()
        self.is_caught_up.set()

    def wait_caught_up(self, _timeout_s: float) -> None:
        assert self.is_caught_up.is_set()

    def close(self) -> None:
        """Nothing is held."""


@contextlib.contextmanager
def serving(limits: Limits) -> Iterator[Serving]:
    deployment = Deployment(limits)
    running = Serving(deployment, Gateway(deployment.app, deployment.jobs, Followed(), limits))
    try:
        yield running
    finally:
        running.end()


def until(condition: Callable[[], bool]) -> None:
    poll_until(condition, "the gateway has done so")


def left(why: str) -> float:
    return REGISTRY.get_sample_value("pochade_gateway_clients_left_total", {"why": why}) or 0.0


def everything(client: socket.socket) -> bytes:
    """What the server sends until it hangs up."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            received += part
    return received


@pytest.mark.parametrize("sent", [b"", b"POST /v1", HEAD])
def test_a_client_that_does_not_finish_a_head_is_hung_up_on(sent: bytes) -> None:
    before = left("slow-head")
    with serving(Limits(port=0, client_timeout_s=0.05)) as running, running.connect() as client:
        client.sendall(sent)
        assert everything(client) == b""
    assert left("slow-head") == before + 1


def test_a_client_that_does_not_finish_a_body_is_told_so_and_hung_up_on() -> None:
    with serving(Limits(port=0, client_timeout_s=0.05)) as running, running.connect() as client:
        client.sendall(HEAD + b'content-length: 99\r\n\r\n{"prompt"')
        said = everything(client)
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"slow-body"' in said
    assert b"x-should-retry: false" in said.lower()


def test_a_client_whose_body_goes_on_after_its_answer_is_hung_up_on() -> None:
    before = left("slow-body")
    with serving(Limits(port=0, client_timeout_s=0.05)) as running, running.connect() as client:
        client.sendall(HEAD.replace(b"/images/generations", b"/nowhere") + b"content-length: 1000000\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 404 ")
        client.sendall(b"x")  # ends uvicorn's own wait for the next request
        everything(client)
    assert left("slow-body") == before + 1


def test_a_client_that_does_not_read_its_answer_is_cut() -> None:
    before = left("slow-reader")
    with serving(Limits(port=0, client_timeout_s=0.5)) as running:
        running.deployment.ends(b"\0" * 10_000_000)
        with running.connect() as client:
            client.sendall(WHOLE)
            until(lambda: left("slow-reader") > before)


def test_no_part_of_an_answer_waits_until_the_one_before_is_acknowledged() -> None:
    with serving(Limits(port=0)) as running, running.connect():
        until(
            lambda: (
                running.gateway.listener.server is not None
                and bool(running.gateway.listener.server.server_state.connections)
            )
        )
        assert running.gateway.listener.server is not None
        for connection in running.gateway.listener.server.server_state.connections:
            taken = connection.transport.get_extra_info("socket")
            assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


def test_a_client_that_hangs_up_leaves_its_request_to_the_pipeline() -> None:
    before = left("hung-up")
    with serving(Limits(port=0)) as running:
        with running.connect() as client:
            client.sendall(WHOLE)
            until(lambda: bool(running.deployment.jobs._feeds))
        until(lambda: left("hung-up") > before)
        until(lambda: not running.deployment.jobs._feeds)
        assert set(running.deployment.producer.topics) == {"prompts.v1"}


STREAM = b'{"prompt": "a red heart", "stream": true}'
CANCELS = Limits(port=0, on_hang_up="cancel")
STREAMED = HEAD + b"content-length: %d\r\n\r\n%b" % (len(STREAM), STREAM)


def test_a_client_that_hangs_up_amid_its_stream_leaves_nothing_behind() -> None:
    before = left("hung-up")
    with serving(Limits(port=0)) as running:
        jobs = running.deployment.jobs
        with running.connect() as client:
            client.sendall(STREAMED)
            until(lambda: bool(jobs._feeds))
            tell(jobs, event(running.deployment.asked().request_id, "started"))
            assert b"text/event-stream" in client.recv(65536)
        until(lambda: left("hung-up") > before)
        until(lambda: not jobs._feeds)


@pytest.mark.parametrize("sent", [WHOLE, STREAMED], ids=["answer", "stream"])
def test_what_a_client_hangs_up_on_is_cancelled_where_a_setting_says_so(sent: bytes) -> None:
    with serving(CANCELS) as running:
        jobs, deployment = running.deployment.jobs, running.deployment
        with running.connect() as client:
            client.sendall(sent)
            until(lambda: bool(jobs._feeds))
            if sent is STREAMED:
                tell(jobs, event(deployment.asked().request_id, "started"))
                assert b"text/event-stream" in client.recv(65536)
        until(lambda: bool(deployment.written(OUTCOMES)))
        outcome = decode(deployment.written(OUTCOMES)[0].value or b"", Outcome)
    assert (outcome.request_id, outcome.status) == (deployment.asked().request_id, Status.CANCELLED)
    assert outcome.reason == "its client hung up (gateway.on_hang_up)"


def stating(header: bytes) -> bytes:
    return WHOLE.replace(b"\r\n\r\n", b"\r\n%b\r\n\r\n" % header, 1)


def test_what_may_be_asked_for_again_by_its_key_goes_on() -> None:
    before = left("hung-up")
    with serving(CANCELS) as running:
        with running.connect() as client:
            client.sendall(stating(b"idempotency-key: mine"))
            until(lambda: bool(running.deployment.jobs._feeds))
        until(lambda: left("hung-up") > before)
        until(lambda: not running.deployment.jobs._feeds)
        assert running.deployment.written(OUTCOMES) == []


def test_what_a_repetition_waits_for_is_cancelled_once_it_hangs_up_too() -> None:
    before = left("hung-up")
    with serving(CANCELS) as running:
        jobs, deployment = running.deployment.jobs, running.deployment
        with running.connect() as again:
            with running.connect() as client:
                client.sendall(WHOLE)
                until(lambda: bool(jobs._feeds))
                again.sendall(stating(b"x-stainless-retry-count: 1"))
                until(lambda: list(map(len, jobs._feeds.values())) == [2])
            until(lambda: left("hung-up") > before)
            until(lambda: list(map(len, jobs._feeds.values())) == [1])
            assert deployment.written(OUTCOMES) == []
        until(lambda: bool(deployment.written(OUTCOMES)))


def test_a_stream_that_is_read_to_its_end_counts_as_no_hang_up() -> None:
    before, answer = left("hung-up"), b""
    with serving(Limits(port=0)) as running, running.connect() as client:
        jobs, store = running.deployment.jobs, running.deployment.store
        client.sendall(STREAMED)
        until(lambda: bool(jobs._feeds))
        tell(jobs, ended(running.deployment.asked().request_id, image_uris=(store.put("image", b"\0"),)))
        while not answer.endswith(b"0\r\n\r\n"):
            answer += client.recv(65536)
        until(lambda: not jobs._feeds)
    assert (b"image_generation.completed" in answer, left("hung-up")) == (True, before)


def test_a_client_that_does_not_read_its_stream_is_cut_and_no_more_than_one_image_is_held_for_it() -> None:
    before = left("slow-reader")
    with serving(Limits(port=0, client_timeout_s=0.5)) as running, running.connect() as client:
        jobs, store = running.deployment.jobs, running.deployment.store
        client.sendall(STREAMED)
        until(lambda: bool(jobs._feeds))
        uris = [store.put(f"image-{n}", b"\0" * 10_000_000) for n in range(3)]
        read: list[str] = []
        get = store.get

        def counted(uri: str) -> bytes:
            read.append(uri)
            return get(uri)

        store.get = counted  # type: ignore[method-assign]
        tell(jobs, ended(running.deployment.asked().request_id, image_uris=tuple(uris)))
        until(lambda: left("slow-reader") > before)
        until(lambda: not jobs._feeds)
        assert read == uris[:1] or read == uris[:2]  # the first, and one that waits for its place


def test_who_waits_as_it_stops_is_told_where_the_request_goes_on() -> None:
    answers: list[httpx.Response] = []
    with serving(Limits(port=0)) as running:
        until(lambda: running.gateway.not_ready() == "")
        address = f"http://127.0.0.1:{running.port}/v1/images/generations"

        def ask() -> None:
            answers.append(httpx.post(address, json={"prompt": "a red heart"}, timeout=PATIENCE_S, trust_env=False))

        asking = threading.Thread(target=ask)
        asking.start()
        until(lambda: bool(running.deployment.jobs._feeds))
        running.end()
        asking.join(PATIENCE_S)
    (answer,) = answers
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "stopping")
    assert f"/v1/predictions/{running.deployment.asked().request_id}" in answer.json()["error"]["message"]
    assert answer.headers["x-should-retry"] == "false"


def test_a_taken_port_is_refused() -> None:
    with serving(Limits(port=0)) as running, pytest.raises(InvalidSettings, match=r"choose another gateway\.port"):
        Gateway(running.deployment.app, running.deployment.jobs, Followed(), Limits(port=running.port))


@pytest.mark.parametrize(
    ("stated", "fault"),
    [
        *(({"host": host}, "host must be one of") for host in ("0.0.0.0", "192.168.0.1", "::", "example.org")),
        ({"host": "0.0.0.0", "authentication": "bearer"}, "keys must not travel in clear"),
        ({"host": "0.0.0.0", "authentication": "bearer", "public_url": "http://x"}, "keys must not travel in clear"),
        ({"tls_key": "server.pem"}, "must both be files"),
        ({"origins": ["*"]}, "while authentication is bearer"),
        ({"origins": ["https://a.example/path"]}, "without a path"),
        ({"public_url": "*", "authentication": "bearer"}, "without a path"),
    ],
)
def test_settings_that_would_let_anybody_in_or_keys_be_read_on_their_way_are_refused(
    stated: dict[str, object], fault: str
) -> None:
    with pytest.raises(InvalidSettings, match=fault):
        load({"gateway": stated})
    load({"gateway": {"host": "0.0.0.0", "authentication": "bearer", "public_url": "https://x", "origins": ["*"]}})


def test_it_speaks_tls_with_the_certificate_of_its_settings_and_says_what_is_wrong_with_one(
    tmp_path: pathlib.Path,
) -> None:
    authority = Authority(tmp_path)
    signed = authority.sign("gateway")
    limits = Limits(port=0, authentication="bearer", tls_certificate=str(signed.certificate), tls_key=str(signed.key))
    with serving(limits) as running:
        key = running.deployment.key()
        trusted = ssl.create_default_context(cafile=authority.certificate)
        with httpx.Client(verify=trusted, timeout=PATIENCE_S, trust_env=False) as http:
            path = f"https://127.0.0.1:{running.port}/v1/predictions"
            answer = http.get(path, headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.text
    wrong = limits.model_copy(update={"tls_key": str(Authority(tmp_path, "other").sign("gateway").key)})
    with pytest.raises(InvalidSettings, match=r"cannot serve TLS with gateway\.tls_certificate"):
        Gateway(running.deployment.app, running.deployment.jobs, Followed(), wrong)


def test_a_certificate_rotates_without_a_restart_and_files_that_do_not_fit_change_nothing(
    tmp_path: pathlib.Path,
) -> None:
    authorities = [Authority(tmp_path, name) for name in ("first", "second")]
    first, second = (each.sign("gateway") for each in authorities)
    files = [tmp_path / "tls.crt", tmp_path / "tls.key"]

    def write(*contents: pathlib.Path) -> None:
        for file, content in zip(files, contents, strict=False):
            new = file.with_suffix(".new")
            new.write_bytes(content.read_bytes())
            new.replace(file)

    write(first.certificate, first.key)
    limits = Limits(port=0, authentication="bearer", tls_certificate=str(files[0]), tls_key=str(files[1]))
    with serving(limits) as running:

        def trusted() -> list[bool]:
            return [is_let_in(running.port, authority.certificate) for authority in authorities]

        assert trusted() == [True, False]
        write(second.certificate)
        running.gateway.listener.renew()
        assert trusted() == [True, False], "the key is not that of the certificate yet"
        write(second.certificate, second.key)
        running.gateway.listener.renew()
        assert trusted() == [False, True]
        files[1].unlink()
        running.gateway.listener.renew()
        assert trusted() == [False, True]


def is_let_in(port: int, authority: pathlib.Path) -> bool:
    """Whether a client that trusts this authority alone speaks with the gateway."""
    context = ssl.create_default_context(cafile=authority)
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="127.0.0.1"):
                return True
        except ssl.SSLCertVerificationError:
            return False
