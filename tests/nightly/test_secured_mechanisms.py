"""All six roles in one process by each mechanism that is promised: PLAIN, OIDC tokens that expire, mutual TLS."""

import pathlib
import time
from collections.abc import Callable, Iterator

import pytest

from schemas.access import ROLES, WHO
from streams.processes.children import end_all
from streams.security import acls
from streams.security.acls import create_acls, principals
from tests.integration.conftest import PROJECT_KAFKA
from tests.integration.secure_broker import ADMIN, ADMIN_PASSWORD, SecureBroker
from tests.integration.secured_deployment import PREFIX, Deployment
from tests.integration.waiting import poll_until
from tests.nightly.identity_provider import AUDIENCE, IdentityProvider

TOKEN_S = 20
OF_OAUTH = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("secured")


@pytest.fixture(scope="module")
def provider(folder: pathlib.Path) -> Iterator[IdentityProvider]:
    from tests.certificates import Authority

    (folder / "issuer").mkdir()
    authority = Authority(folder / "issuer", "issuers")
    made = IdentityProvider(authority.sign("issuer"), ("token-user", "of-token-user"), TOKEN_S)
    made.write_keys(folder / "keys.json")
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def deployment(
    new_home: Callable[[], pathlib.Path], folder: pathlib.Path, provider: IdentityProvider
) -> Iterator[Deployment]:
    """Three users, each with every role's rights."""
    assert provider.url
    assert new_home()
    keys = (folder / "keys.json").as_uri()
    (folder / "broker").mkdir()
    oauth = {
        "sasl.jaas.config": f"{OF_OAUTH}.OAuthBearerLoginModule required;",
        "sasl.server.callback.handler.class": f"{OF_OAUTH}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "connections.max.reauth.ms": str(TOKEN_S * 1000),
    }
    broker = SecureBroker(
        folder / "broker",
        PROJECT_KAFKA,
        plain_users={"plain-user": "of-plain-user"},
        mechanisms=("SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"),
        extra={f"listener.name.sasl.oauthbearer.{name}": value for name, value in oauth.items()}
        | {f"listener.name.expired.oauthbearer.{name}": value for name, value in oauth.items()},
        jvm=(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}",),
    )
    made = Deployment(broker, folder)
    try:
        broker.start()
        admin = made.settings(broker.scram(ADMIN, ADMIN_PASSWORD))
        for user in ("plain-user", "token-user", "certified"):
            named = [f"{who}=User:{user}" for who in WHO]
            create_acls(admin, acls.acls(PREFIX, principals(named, PREFIX)))
        yield made
    finally:
        made.close()
        broker.stop()


def paints(deployment: Deployment, who: str) -> None:
    """Six roles in one process, and requests before and after tokens have expired."""
    variants = ("--variant", "light", "--variant", "heavy")
    poll_until(lambda: deployment.pochade(who, "topics", "create", *variants).exit_code == 0, "topics")
    deployment.serve(who, ROLES)
    try:
        poll_until(lambda: deployment.is_ready(who), f"all roles of {who}")
        assert deployment.ended(deployment.submitted(3, who), who) == ["COMPLETED"] * 3
        until = time.monotonic() + (2 * TOKEN_S if who == "token-user" else 0)
        poll_until(lambda: time.monotonic() > until, "tokens have expired")
        assert deployment.ended(deployment.submitted(3, who), who) == ["COMPLETED"] * 3
        assert deployment.pochade(who, "doctor").exit_code == 0
    finally:
        end_all([deployment.processes.pop(who)], 60)


def test_all_roles_generate_with_plain_passwords(deployment: Deployment) -> None:
    plain = {**deployment.broker.scram("plain-user", "of-plain-user"), "sasl.mechanism": "PLAIN"}
    deployment.configure("plain-user", plain)
    paints(deployment, "plain-user")


def test_all_roles_generate_with_certificates_of_their_own(deployment: Deployment) -> None:
    own = deployment.broker.authority.sign("certified")
    files = {"ssl.certificate.location": str(own.certificate), "ssl.key.location": str(own.key)}
    deployment.configure("certified", {**deployment.broker.tls(), **files}, "MUTUAL")
    paints(deployment, "certified")


def test_all_roles_generate_with_tokens_of_an_identity_provider_after_they_expired(
    deployment: Deployment, provider: IdentityProvider, folder: pathlib.Path
) -> None:
    (folder / "secret").write_text("of-token-user")
    properties = {
        **deployment.broker.tls(),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "token-user",
        "sasl.oauthbearer.client.secret": f"file:{folder / 'secret'}",
        "sasl.oauthbearer.token.endpoint.url": provider.url,
        "https.ca.location": str(folder / "issuer" / "issuers.pem"),
    }
    deployment.configure("token-user", properties)
    paints(deployment, "token-user")
    assert provider.given > 10
