"""What librdkafka reports, as a person should read it."""

import pathlib

import pytest

from streams.security.refusals import plain, remedy
from streams.security.security import Tls
from streams.security.tls import own_certificate_fault
from tests.certificates import Authority, Signed

CONFIG = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL"}
BAD_CERTIFICATE = "ssl://h:1/bootstrap: Receive failed: error:0A000412:SSL routines::ssl/tls alert bad certificate"


def test_what_is_reported_again_and_again_is_shown_once_without_its_consequence() -> None:
    reported = plain(
        [
            "h:1: SASL authentication error: invalid (after 3ms in state AUTH_REQ)",
            "h:1: SASL authentication error: invalid (after 31ms in state AUTH_REQ)",
            "1/1 brokers are down",
        ]
    )
    assert reported == ["h:1: SASL authentication error: invalid"]
    assert plain(["1/1 brokers are down"]) == ["1/1 brokers are down"]


@pytest.mark.parametrize(
    ("reason", "do"),
    [
        ("SASL authentication error: Authentication failed: Invalid username or password", "sasl.password"),
        ("Failed to acquire SASL OAUTHBEARER token: HTTP 401", "sasl.oauthbearer.client.id"),
        ("SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker listener?", "security.protocol"),
        (BAD_CERTIFICATE, "the brokers want a certificate of this client"),
    ],
)
def test_a_refusal_comes_with_what_to_do(reason: str, do: str) -> None:
    assert do in remedy(reason, CONFIG)


@pytest.mark.parametrize("reason", ["Connect to ipv4#127.0.0.1:1 failed: Connection refused", "Timed out"])
def test_what_may_pass_by_itself_is_no_refusal(reason: str) -> None:
    assert remedy(reason, CONFIG) == ""


def test_a_certificate_of_ours_is_seen_to_have_expired_or_to_be_of_another_authority(tmp_path: pathlib.Path) -> None:
    ours, others = Authority(tmp_path, "ours"), Authority(tmp_path, "others")

    def fault(signed: Signed) -> str:
        ca_file = str(ours.certificate)
        return own_certificate_fault(
            Tls(ca_file=ca_file, certificate_file=str(signed.certificate), key_file=str(signed.key))
        )

    assert fault(ours.sign("good")) == ""
    assert "expired" in fault(ours.sign("old", valid_days=-1))
    assert "issuer" in fault(others.sign("foreign"))
