"""Where webhooks may lead: https, to the internet, by the address that was checked, and nowhere else."""

import asyncio
import dataclasses
from typing import Any

import httpcore
import pytest

from agents.gateway.refusals import Refusal
from agents.gateway.webhooks.addresses import WrongAddress, check_address, checked_url, origin_of, target_of
from agents.gateway.webhooks.posting import Connections, NotDelivered, Poster
from streams.settings import InvalidSettings, load

URL = "https://studio.example/told?secret=x"
PUBLIC = "93.184.215.14"


def test_a_public_https_address_is_taken_as_it_stands() -> None:
    target = target_of("https://Studio.example/a/b?secret=x")
    assert (target.host, target.port, target.path) == ("studio.example", 443, "/a/b?secret=x")
    assert target_of("https://studio.example:8443").authority == "studio.example:8443"
    for url in (URL, "https://93.184.215.14/x", "https://[2606:2800:220:1::1]/x", "https://xn--bcher-kva.example/"):
        assert checked_url(url, ()) == url


@pytest.mark.parametrize(
    "url",
    [
        "http://studio.example/", "ftp://studio.example/", "file:///etc/passwd", "//studio.example/", "studio.example",
        "https://", "https:///path", "https://user@studio.example/", "https://user:word@studio.example/",
        "https://studio.example@127.0.0.1/", "https://127.0.0.1#@studio.example/", "https://studio.example/#part",
        "https://studio.example:0/", "https://studio.example:99999/", "https://studio.example:x/", "https://[::1/",
        "https://studio.example\\@127.0.0.1/", "https://studio.example/a b", "https://studio.example/\r\nhost: x",
        "https://studio.example\t/", "https://st\u00fcdio.example/", "https://\uff11\uff12\uff17.0.0.1/",
        "https://a%2eb/", "https://-a.example/", "https://a..example/", "https://" + "a" * 2048, "", 7, ["https://a"],
        "https://localhost/", "https://a.LOCALHOST/", "https://localhost./", "https://metadata.google.internal/",
        "https://printer.local/", "https://router.home.arpa/",
        "https://127.0.0.1/", "https://127.0.0.1./", "https://2130706433/", "https://0x7f000001/", "https://0x7f.1/",
        "https://0177.0.0.1/", "https://127.1/", "https://0/", "https://0x/", "https://1.2.3.4.5/", "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data/", "https://[::1]/", "https://[::]/", "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:7f00:1]/", "https://[64:ff9b::7f00:1]/", "https://[fe80::1%25eth0]/", "https://[fd00:ec2::254]/",
    ],
)  # fmt: skip
def test_any_other_address_is_refused_by_one_code_in_a_text_that_does_not_repeat_it(url: object) -> None:
    with pytest.raises(Refusal, match="webhook must be https://HOST") as refused:
        checked_url(url, ())
    assert (refused.value.code, refused.value.param, refused.value.kind.status) == ("webhook", "webhook", 400)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "100.100.100.200", "192.0.2.1", "198.18.0.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255",
        "192.88.99.1", "168.63.129.16", "::", "::1", "fe80::1", "fe80::1%2", "fc00::1", "fd00:ec2::254", "ff02::1",
        "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::1", "2002:7f00:1::",
        "2001:0:53aa:64c:0:fffe:f5ff:fffe", "2001:db8::1", "100::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_the_internets_own_are_refused(address: str) -> None:
    with pytest.raises(WrongAddress, match="no public address"):
        check_address(address)


@pytest.mark.parametrize("address", [PUBLIC, "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8"])
def test_addresses_of_the_internet_are_allowed(address: str) -> None:
    check_address(address)


def test_an_operator_names_each_origin_of_this_side_that_may_be_told() -> None:
    internal = {origin_of(each) for each in ("http://127.0.0.1:8080", "http://[::1]", "https://build")}
    for url in ("http://127.0.0.1:8080/x", "http://[::1]:80/x", "https://build/x"):
        assert checked_url(url, internal) == url
    for url in ("http://127.0.0.1/x", "http://127.0.0.1:8081/", "https://127.0.0.1:8080/", "http://a@127.0.0.1:8080/"):
        with pytest.raises(Refusal, match="webhook must be"):
            checked_url(url, internal)
    for wrong in ("127.0.0.1:8080", "http://127.0.0.1/path", "http://a@build", "ftp://build", "*"):
        with pytest.raises(InvalidSettings, match="internal must be like http://HOST:PORT"):
            load({"gateway": {"webhooks": {"internal": [wrong]}}})


@dataclasses.dataclass
class Network(httpcore.AsyncNetworkBackend):
    """Receivers: what each address answers, and who was connected to."""

    answer: bytes = b"HTTP/1.1 204 No Content\r\n\r\n"
    is_silent: bool = False
    refusing: tuple[str, ...] = ()
    connected: list[tuple[str, int]] = dataclasses.field(default_factory=list)
    received: bytearray = dataclasses.field(default_factory=bytearray)
    names: list[str | None] = dataclasses.field(default_factory=list)

    async def connect_tcp(self, host: str, port: int, *_limits: Any) -> httpcore.AsyncNetworkStream:
        self.connected.append((host, port))
        if host in self.refusing:
            raise httpcore.ConnectError("refused")
        return Stream(self)


class Stream(httpcore.AsyncMockStream):
    def __init__(self, network: Network) -> None:
        super().__init__([network.answer])
        self.network = network

    async def start_tls(
        self, *_limits: Any, server_hostname: str | None = None, **_named: Any
    ) -> httpcore.AsyncNetworkStream:
        self.network.names.append(server_hostname)
        return self

    async def write(self, buffer: bytes, *_limits: Any, **_named: Any) -> None:
        self.network.received += buffer

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self.network.is_silent:
            await asyncio.Event().wait()
        return await super().read(max_bytes, timeout)


class Names:
    """A resolver whose answers change from question to question, as those of an attacker's do."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers, self.asked = list(answers), list[tuple[str, int]]()

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append((host, port))
        return self.answers.pop(0)


def post(
    names: Names, network: Network, url: str = URL, *, internal: tuple[str, ...] = (), timeout_s: float = 9
) -> None:
    poster = Poster(Connections(internal, timeout_s, resolve=names, network=network))
    asyncio.run(poster.post(url, {"webhook-id": "msg_1"}, b"{}"))


def test_it_connects_to_the_address_that_was_checked_and_asks_for_no_other() -> None:
    names, network = Names([PUBLIC], ["127.0.0.1"]), Network()
    post(names, network)
    assert (names.asked, network.connected) == ([("studio.example", 443)], [(PUBLIC, 443)])
    assert network.names == ["studio.example"]  # whose certificate it asks for
    head, _, body = bytes(network.received).partition(b"\r\n\r\n")
    assert head.startswith(b"POST /told?secret=x HTTP/1.1\r\n")
    assert {b"host: studio.example", b"webhook-id: msg_1", b"content-length: 2"} <= set(head.split(b"\r\n"))
    assert body == b"{}"
    with pytest.raises(NotDelivered, match=r"127\.0\.0\.1, which is no public address"):
        post(names, network)
    assert network.connected == [(PUBLIC, 443)]


def test_a_host_of_which_one_address_is_private_is_connected_to_by_none() -> None:
    network = Network()
    with pytest.raises(NotDelivered, match="no public address") as given_up:
        post(Names([PUBLIC, "10.0.0.1"]), network)
    assert (given_up.value.is_final, network.connected) == (True, [])


def test_the_next_address_of_a_host_is_tried_where_one_refuses() -> None:
    network = Network(refusing=(PUBLIC,))
    post(Names([PUBLIC, "8.8.8.8"]), network)
    assert network.connected == [(PUBLIC, 443), ("8.8.8.8", 443)]


@pytest.mark.parametrize(
    ("answer", "why", "is_final"),
    [
        (b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1/\r\n\r\n", "302: redirects are not followed", False),
        (b"HTTP/1.1 500 Oh\r\n\r\n", "answered 500", False), (b"HTTP/1.1 410 Gone\r\n\r\n", "answered 410", True),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "cannot be reached", False), (b"", "cannot be reached", False),
        (b"HTTP/1.1 200 OK\r\nx: " + b"a" * 200_000, "cannot be reached", False),
    ],
)  # fmt: skip
def test_another_answer_than_2xx_is_a_failure_told_without_what_may_be_secret(
    answer: bytes, why: str, is_final: bool
) -> None:
    network = Network(answer)
    with pytest.raises(NotDelivered, match=why) as failed:
        post(Names([PUBLIC]), network)
    assert (failed.value.is_final, len(network.connected)) == (is_final, 1)
    assert "secret" not in str(failed.value)


def test_a_large_answer_is_not_read() -> None:
    post(Names([PUBLIC]), Network(b"HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\nabc"))


def test_who_does_not_answer_in_time_and_who_has_no_address_is_a_failure() -> None:
    with pytest.raises(NotDelivered, match=r"https://studio\.example:443 did not answer within 0\.05 s"):
        post(Names([PUBLIC]), Network(is_silent=True), timeout_s=0.05)
    with pytest.raises(NotDelivered, match="its host has no address"):
        post(Names([]), Network())


def test_a_named_origin_is_connected_to_wherever_it_is_and_nothing_else_beside_it() -> None:
    network = Network()
    post(Names(["127.0.0.1"]), network, "http://build:8080/x", internal=("http://build:8080",))
    assert network.connected == [("127.0.0.1", 8080)]
    with pytest.raises(NotDelivered, match="does not begin with https"):
        post(Names(["127.0.0.1"]), network, "http://build:8081/x", internal=("http://build:8080",))
