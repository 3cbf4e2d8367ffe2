"""librdkafka's properties for a client of another library: what each means there, or who refuses it by name."""

import asyncio
import pathlib
import re
import ssl
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import httpx
import pytest
from faust.auth import OAuthCredentials
from faust.types.auth import SASLMechanism

from schemas.errors import PochadeError
from streams.faust.security import faust_options
from streams.security.oidc import NoToken, TokenProvider
from streams.security.properties import check_properties
from streams.security.security import (
    COUNTERPARTS,
    DECIDED,
    MECHANISMS,
    OF_LIBRDKAFKA_ALONE,
    REFUSED,
    Oidc,
    Unmapped,
    security_of,
)
from streams.settings import load
from tests.certificates import Authority
from tests.paths import ROOT

SASL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "router",
    "sasl.password": "hush-hush",
}
OIDC = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "router",
    "sasl.oauthbearer.client.secret": "hush-hush",
    "sasl.oauthbearer.token.endpoint.url": "https://127.0.0.1:1/token",
    "sasl.oauthbearer.scope": "kafka",
    "sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool-2",
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def test_without_properties_faust_connects_in_the_clear() -> None:
    assert "broker_credentials" not in faust_options(security_of({}))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"])
def test_faust_gets_user_password_and_authority(mechanism: str, authority: Authority) -> None:
    given = {**SASL, "sasl.mechanism": mechanism.lower(), "ssl.ca.location": str(authority.certificate)}
    credentials = faust_options(security_of(given))["broker_credentials"]
    assert (credentials.username, credentials.password) == ("router", "hush-hush")
    assert credentials.mechanism is SASLMechanism(mechanism)
    assert credentials.protocol.value == "SASL_SSL"
    assert credentials.ssl_context.check_hostname
    assert [each["subject"] for each in credentials.ssl_context.get_ca_certs()] == [((("commonName", "authority"),),)]


def test_faust_shows_a_certificate_given_as_files_or_as_texts(authority: Authority) -> None:
    own = authority.sign("router")
    files = {"ssl.certificate.location": str(own.certificate), "ssl.key.location": str(own.key)}
    texts = {"ssl.certificate.pem": own.certificate.read_text(), "ssl.key.pem": own.key.read_text()}
    for given in (files, texts):
        context = faust_options(security_of({"security.protocol": "ssl", **given}))["broker_credentials"].context
        assert context.verify_mode is ssl.CERT_REQUIRED
    broken = {"security.protocol": "SSL", **files, "ssl.key.location": str(authority.sign("other").key)}
    with pytest.raises(PochadeError, match=r"ssl\.certificate\.location, ssl\.key\.location"):
        faust_options(security_of(broken))


def test_checks_are_left_out_only_where_the_properties_say_so() -> None:
    nameless = security_of({**SASL, "ssl.endpoint.identification.algorithm": "none"})
    unverified = security_of({**SASL, "enable.ssl.certificate.verification": "false"})
    context = faust_options(nameless)["broker_credentials"].ssl_context
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)
    assert faust_options(unverified)["broker_credentials"].ssl_context.verify_mode is ssl.CERT_NONE


def test_faust_fetches_tokens_with_the_scope_and_extensions_of_the_properties() -> None:
    security = security_of(OIDC)
    credentials = faust_options(security)["broker_credentials"]
    assert isinstance(credentials, OAuthCredentials)
    assert credentials.oauth_cb.extensions() == {"logicalCluster": "lkc-1", "identityPoolId": "pool-2"}
    assert security.oidc is not None
    assert (security.oidc.client_id, security.oidc.scope) == ("router", "kafka")


def test_no_secret_shows_in_what_is_printed_of_it() -> None:
    for given in (SASL, OIDC, {"security.protocol": "SSL", "ssl.key.password": "hush-hush", "ssl.key.pem": "hush"}):
        assert "hush" not in repr(security_of(given))


@pytest.mark.parametrize(
    ("name", "value", "do"),
    [
        ("sasl.mechanism", "GSSAPI", r"GSSAPI.*use a listener with SCRAM-SHA-512"),
        ("sasl.mechanism", "AWS_MSK_IAM", r"AWS_MSK_IAM.*use a listener with SCRAM-SHA-512"),
        ("sasl.kerberos.service.name", "kafka", "use a listener with"),
        ("ssl.keystore.location", "own.p12", r"in PEM: ssl\.certificate\.location"),
        ("sasl.oauthbearer.config", "principal=x", "method=oidc"),
        ("client.rack", "a", "read from partitions' leaders"),
        ("some.new.property", "1", "leave it out"),
    ],
)
def test_what_faust_cannot_follow_is_refused_by_name_with_what_to_do(name: str, value: str, do: str) -> None:
    with pytest.raises(Unmapped, match=rf"kafka\.properties\.{name}: classifier, discriminator, router .*{do}"):
        security_of({**SASL, name: value})


@pytest.mark.parametrize(
    ("name", "value", "do"),
    [
        ("acks", "1", "the roles set it themselves: leave it out"),
        ("fetch.wait.max.ms", "9", "the roles set it themselves: leave it out"),
        ("group.id", "mine", "the roles set it themselves: leave it out"),
        ("group.protocol", "classic", r"set kafka\.group_protocol"),
        ("session.timeout.ms", "9000", r"set kafka\.session_timeout_ms"),
        ("queue.buffering.max.ms", "20", r"set linger\.ms, which is the same"),
    ],
)
def test_what_the_roles_decide_is_refused_for_each_role(name: str, value: str, do: str) -> None:
    for role in ("worker", "router"):
        with pytest.raises(Unmapped, match=rf"^kafka\.properties\.{name}: {do}$"):
            check_properties(load({"kafka": {"properties": {name: value}}}), [role])


@pytest.mark.parametrize("missing", ["sasl.username", "sasl.password"])
def test_a_mechanism_without_its_password_is_refused(missing: str) -> None:
    with pytest.raises(Unmapped, match=f"needs {missing}"):
        security_of({name: value for name, value in SASL.items() if name != missing})


@pytest.mark.parametrize(
    "changed",
    [
        {"sasl.oauthbearer.method": "default"},
        {"sasl.oauthbearer.client.secret": ""},
        {"sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer"},
        {"sasl.oauthbearer.metadata.authentication.type": "aws_iam"},
    ],
)
def test_tokens_that_faust_cannot_fetch_are_refused(changed: dict[str, str]) -> None:
    with pytest.raises(Unmapped, match="oauthbearer"):
        security_of({**OIDC, **changed})


def test_each_property_stands_in_one_table_only() -> None:
    assert not COUNTERPARTS & OF_LIBRDKAFKA_ALONE
    for name in COUNTERPARTS | OF_LIBRDKAFKA_ALONE:
        assert not [start for start in (*DECIDED, *REFUSED) if name.startswith(start)]
    security_of(dict.fromkeys(OF_LIBRDKAFKA_ALONE, "1"))
    assert len(MECHANISMS) == 4


def test_config_validate_says_what_the_roles_with_faust_refuse() -> None:
    for name, value in (("client.rack", "a"), ("sasl.mechanism", "GSSAPI")):
        with pytest.raises(Unmapped, match=rf"kafka\.properties\.{name}: classifier"):
            check_properties(load({"kafka": {"properties": {**SASL, name: value}}}))


def test_a_password_is_read_from_the_file_that_the_property_names(tmp_path: pathlib.Path) -> None:
    (tmp_path / "password").write_text("hush-hush\n")
    properties = {**SASL, "sasl.password": f"file:{tmp_path / 'password'}"}
    check_properties(load({"kafka": {"properties": properties}}))
    (tmp_path / "password").unlink()
    with pytest.raises(PochadeError, match=r"kafka\.properties\.sasl\.password names the file .*cannot be read"):
        check_properties(load({"kafka": {"properties": properties}}))


class Issuer(BaseHTTPRequestHandler):
    """An identity provider: gives numbered tokens to who knows the secret."""

    asked: list[dict[str, Any]] = []  # noqa: RUF012  of the class on purpose: a handler lives for one connection
    life_s = 3600.0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append({"authorization": self.headers["Authorization"], **parse_qs(body)})
        is_known = self.headers["Authorization"] == "Basic cm91dGVyOmh1c2gtaHVzaA=="
        content = f'{{"access_token": "token-{len(self.asked)}", "expires_in": {self.life_s}}}'.encode()
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def issuer(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[Oidc]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    Issuer.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Issuer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.sign("issuer").both)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield Oidc(
        token_url=f"https://127.0.0.1:{server.server_port}/token",
        client_id="router",
        client_secret="hush-hush",
        scope="kafka",
        ca_file=str(authority.certificate),
    )
    server.shutdown()
    server.server_close()
    thread.join()


async def tokens(provider: TokenProvider, count: int) -> list[str]:
    return list(await asyncio.gather(*(provider.token() for _ in range(count))))


def test_one_token_serves_all_connections_until_it_is_about_to_expire(
    issuer: Oidc, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asyncio.run(tokens(TokenProvider(issuer), 3)) == ["token-1"] * 3
    assert Issuer.asked[0]["scope"] == ["kafka"]
    assert Issuer.asked[0]["grant_type"] == ["client_credentials"]
    monkeypatch.setattr(Issuer, "life_s", 0)  # expired at once
    assert asyncio.run(tokens(TokenProvider(issuer), 2)) == ["token-2", "token-3"]


def test_no_token_says_why_and_never_the_secret(issuer: Oidc) -> None:
    import dataclasses

    for changed, reported in (
        ({"client_secret": "wrong-one"}, r"HTTP 401: check sasl\.oauthbearer\.client\.id"),
        ({"ca_file": ""}, "does not answer.*CERTIFICATE_VERIFY_FAILED"),
    ):
        with pytest.raises(NoToken, match=reported) as refusal:
            asyncio.run(tokens(TokenProvider(dataclasses.replace(issuer, **changed)), 1))
        assert "wrong-one" not in str(refusal.value)


def test_no_token_says_what_the_providers_certificate_lacks_for_python_3_13(
    issuer: Oidc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(httpx.AsyncClient, "post", refused)
    with pytest.raises(NoToken, match="does not answer: its authority's certificate lacks the Key Usage"):
        asyncio.run(tokens(TokenProvider(issuer), 1))


async def refused(*_: Any, **__: Any) -> httpx.Response:
    raise httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] CA cert does not include key usage extension (_ssl.c:1)")


def test_the_example_file_is_valid_once_its_secrets_are_there(tmp_path: pathlib.Path) -> None:
    text = (ROOT / "infra" / "kafka" / "secured.example.toml").read_text()
    (tmp_path / "pochade").mkdir()
    for name in ("password", "client-secret", "key-password"):
        (tmp_path / "pochade" / name).write_text("hush-hush")
    authority = Authority(tmp_path).certificate
    text = text.replace("/run/secrets", str(tmp_path)).replace("/etc/ssl/certs/ca-certificates.crt", str(authority))
    parts = text.split("# Tokens of an identity provider")
    check_properties(load(tomllib.loads(text)))
    properties = tomllib.loads(text)["kafka"]["properties"]
    commented = re.findall(r'^# ("sasl\..*)$', parts[1], re.MULTILINE)
    tokens = {**properties, **tomllib.loads("\n".join(commented))}
    check_properties(load({"kafka": {"properties": tokens}}))
