"""Why a cluster does not let a client in, from what librdkafka reports, and what to do about it."""

import re
import socket
import ssl
from collections.abc import Iterable, Mapping

from schemas.errors import PochadeError
from streams.security.extensions import lacking
from streams.security.security import Tls, Unmapped, security_of
from streams.security.tls import context_of, own_certificate_fault

HANDSHAKE_S = 2.0  # for one handshake of our own, which shows what librdkafka does not report
AFTER = re.compile(r" \(after \d+ms in state \w+\)")
DOWN = re.compile(r"\d+/\d+ brokers are down")
OPENSSL = re.compile(r"error:[0-9A-F]+:")

PASSWORD = "correct kafka.properties.sasl.username and sasl.password, or the file that it names; the mechanism too"
TOKEN = "correct kafka.properties.sasl.oauthbearer.client.id, client.secret, scope and token.endpoint.url"
LISTENER = "set kafka.properties.security.protocol to what that listener speaks"
AUTHORITY = "set kafka.properties.ssl.ca.location to the authority that signed it"
RENEW_THEIRS = "have the brokers' certificate renewed"
THEIR_NAME = "connect to a name that the certificate holds, or have it signed for this one"
SHOW_OURS = (
    "the brokers want a certificate of this client: set kafka.properties.ssl.certificate.location and ssl.key.location"
)
OF_THEIR_AUTHORITY = "have it signed by an authority that the brokers trust"


def plain(reasons: Iterable[str]) -> list[str]:
    """Return the reported reasons, each once, without durations, and without those that only follow from others."""
    plain_reasons = [OPENSSL.sub("", AFTER.sub("", reason)) for reason in reasons]
    causes = [reason for reason in plain_reasons if not DOWN.fullmatch(reason)]
    return list(dict.fromkeys(causes or plain_reasons))


def remedy(reason: str, config: Mapping[str, str]) -> str:
    """Return what an operator can do about a reason; "" where it may pass by itself and is no refusal."""
    if "OAUTHBEARER token" in reason:
        return TOKEN
    if "SASL authentication error" in reason or "SASL mechanism" in reason:
        return PASSWORD
    if "PLAINTEXT broker listener" in reason or "unsupported protocol" in reason:
        return LISTENER
    if "certificate verify failed" in reason:
        return _their_certificate(config)
    if "alert" in reason and ("certificate" in reason or "unknown ca" in reason):
        return _our_certificate(_tls(config))
    return ""


def refused_by_python(config: Mapping[str, str]) -> str:
    """Return what the brokers' certificates lack for Python, and what to do; "" if nothing is seen to lack.

    librdkafka may accept what Faust's aiokafka, which verifies by Python's library, never connects with.
    """
    return lacking(_answer(config))


def _their_certificate(config: Mapping[str, str]) -> str:
    why = _answer(config)
    if "expired" in why:
        return f"the brokers' {why}: {RENEW_THEIRS}"
    if "mismatch" in why or "not valid for" in why:
        return f"the brokers' certificate: {why}: {THEIR_NAME}"
    if lack := lacking(why):
        return f"the brokers' certificate cannot be verified: {lack}"
    return f"the brokers' certificate is of an authority that is not trusted here{why and f' ({why})'}: {AUTHORITY}"


def _our_certificate(tls: Tls | None) -> str:
    if tls is None or not (tls.certificate_file or tls.certificate_pem):
        return SHOW_OURS
    named = f"this client's certificate {tls.certificate_file or 'in ssl.certificate.pem'}"
    fault = own_certificate_fault(tls)
    if "expired" in fault:
        return f"{named} has expired: have it renewed"
    if fault:
        return f"{named} is of another authority than the brokers' ({fault}): {OF_THEIR_AUTHORITY}"
    return f"the brokers refuse {named}: {OF_THEIR_AUTHORITY}"


def _answer(config: Mapping[str, str]) -> str:
    return _tls_answer(config["bootstrap.servers"].split(",")[0], _tls(config))


def _tls(config: Mapping[str, str]) -> Tls | None:
    try:
        return security_of(config).tls
    except Unmapped:
        return None


def _tls_answer(address: str, tls: Tls | None) -> str:
    """Return what Python's TLS library says of the certificate; librdkafka names neither expiry nor authority."""
    host, _, port = address.rpartition(":")
    try:
        context = context_of(tls or Tls())
        with (
            socket.create_connection((host.strip("[]"), int(port)), HANDSHAKE_S) as connection,
            context.wrap_socket(connection, server_hostname=host.strip("[]")),
        ):
            return ""
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except (PochadeError, OSError, ValueError):
        return ""
