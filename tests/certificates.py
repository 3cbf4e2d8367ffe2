"""Certificates that a test makes for itself: an authority, and what it signs for 127.0.0.1.

They have every extension that Python 3.13 requires, but one that a test names as lacking.
"""

import datetime
import ipaddress
import pathlib
import ssl
from dataclasses import dataclass
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)
AUTHORITY_KEY = "Authority Key Identifier"
SUBJECT_KEY = "Subject Key Identifier"
CONSTRAINTS = "critical Basic Constraints"
USAGE = "Key Usage"


def verify_strictly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make TLS contexts verify as Python 3.13 does, also with an older one."""
    made = ssl.create_default_context

    def strict(*arguments: Any, **named: Any) -> ssl.SSLContext:
        context = made(*arguments, **named)
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)


@dataclass(frozen=True)
class Signed:
    """A certificate with its key, each in a PEM file, and both in one."""

    certificate: pathlib.Path
    key: pathlib.Path
    both: pathlib.Path


class Authority:
    """Signs certificates; `certificate` is what clients trust."""

    def __init__(self, folder: pathlib.Path, name: str = "authority", *, lacks: str = "") -> None:
        """`lacks`: what this certificate, or those that it signs, do without."""
        self._folder, self._name, self._lacks = folder, name, lacks
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(self._subject)
            .issuer_name(self._subject)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 30 * DAY)
            .not_valid_after(now + 30 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=lacks != CONSTRAINTS)
        )
        if lacks != SUBJECT_KEY:
            subject_key = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
            builder = builder.add_extension(subject_key, critical=False)
        if lacks != USAGE:
            builder = builder.add_extension(_usage(is_authority=True), critical=True)
        made = builder.sign(self._key, hashes.SHA256())
        self.certificate = folder / f"{name}.pem"
        self.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def sign(self, name: str, *, valid_days: int = 10) -> Signed:
        """A certificate of this machine's loopback address; negative days: it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        alternatives = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 20 * DAY)
            .not_valid_after(now + valid_days * DAY)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(_usage(is_authority=False), critical=True)
        )
        if self._lacks != AUTHORITY_KEY:
            issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
            builder = builder.add_extension(issuer, critical=False)
        made = builder.sign(self._key, hashes.SHA256())
        certificate = made.public_bytes(serialization.Encoding.PEM)
        unencrypted = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        files = Signed(*(self._folder / f"{self._name}-{name}.{kind}" for kind in ("crt", "key", "pem")))
        for path, content in (
            (files.certificate, certificate),
            (files.key, unencrypted),
            (files.both, unencrypted + certificate + self.certificate.read_bytes()),
        ):
            path.write_bytes(content)
            path.chmod(0o600)
        return files


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority, key_cert_sign=is_authority, crl_sign=is_authority, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
