"""Signs images and decisions, and checks what was signed: C2PA manifests in files, and detached signatures.

Needs the extra `receipts`. What is signed and what that proves: `agents/features/RECEIPTS.md`. Source: C2PA 2.4.
"""

import base64
import hashlib
import io
import json
import logging
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

import c2pa
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from schemas.errors import PochadeError
from streams.settings import InvalidSettings, Receipts

log = logging.getLogger(__name__)

DEMO: Final = "demo"  # in place of a certificate's file
MADE: Final = "org.pochade.made"  # the assertion of a manifest that is ours
PNG: Final = "image/png"
MEDIA_TYPES: Final = {b"\x89P": PNG, b"\xff\xd8": "image/jpeg", b"RI": "image/webp"}  # by a file's first bytes
ES256: Final = ec.ECDSA(SHA256())
SOURCE: Final = "http://cv.iptc.org/newscodes/digitalsourcetype/"
NO_THUMBNAIL: Final = {"builder": {"thumbnail": {"enabled": False}}, "verify": {"verify_after_sign": False}}  # 40 ms
FAULTS: Final = {
    "assertion.dataHash.mismatch": "its bytes are not those that were signed",
    "assertion.hashedURI.mismatch": "what it states is not what was signed",
    "claimSignature.mismatch": "its signature is not that of its certificate",
    "signingCredential.expired": "its certificate has expired",
}  # of C2PA's codes; others are named as they are


class Forged(PochadeError):
    """A file or a decision is not what was signed: why, in a sentence."""


class Receipt(NamedTuple):
    """What was signed, with a signature that holds."""

    states: dict[str, Any]  # of an image the assertion MADE; of a decision the record
    signer: str  # the name in the certificate
    is_trusted: bool  # whether an authority that was named has issued it
    ingredients: tuple[dict[str, Any], ...] = ()  # what an image begins with: title, instance_id


class Signer:
    """Signs with one private key, in the name of its certificate. For use by one thread."""

    def __init__(self, certificates: bytes, key: bytes) -> None:
        """Take PEM: the signer's certificate, then its issuers'; and its private key. Raises InvalidSettings."""
        try:
            first, private = x509.load_pem_x509_certificates(certificates)[0], forms.load_pem_private_key(key, None)
        except (ValueError, TypeError) as error:
            raise InvalidSettings(f"receipts.certificate and receipts.key must be PEM: {error}") from None
        if first.public_key() != private.public_key():
            raise InvalidSettings("receipts.key is not that of the first certificate in receipts.certificate")
        if not isinstance(private, ec.EllipticCurvePrivateKey) or private.curve.name != "secp256r1":
            raise InvalidSettings("receipts.key must be of P-256")
        if not _is_valid_now(first):
            raise InvalidSettings(f"receipts.certificate is not valid now: it ends on {first.not_valid_after_utc:%F}")
        self.expires = first.not_valid_after_utc
        self._private, self._certificates = private, certificates
        self._signer = c2pa.Signer.from_info(c2pa.C2paSignerInfo(b"es256", certificates, key, None))
        self._context = c2pa.Context(c2pa.Settings.from_dict(NO_THUMBNAIL))
        self._name = {"name": "pochade", "version": version("pochade")}

    def image(self, data: bytes, states: Mapping[str, Any], begins_with: Sequence[Mapping[str, Any]] = ()) -> bytes:
        """Return a PNG, JPEG or WebP file with a signed manifest; all else in it stays as it is.

        `states`: of the assertion MADE. `begins_with`: ingredients, each with `title` and perhaps `instance_id`.
        Raises PochadeError: C2PA does not take the certificate, or it has expired.
        """
        media_type = MEDIA_TYPES[data[:2]]
        is_over_an_image = any(each["title"] == "image" for each in begins_with)
        kind = "compositeWithTrainedAlgorithmicMedia" if is_over_an_image else "trainedAlgorithmicMedia"
        created = {"action": "c2pa.created", "digitalSourceType": SOURCE + kind, "softwareAgent": self._name}
        actions = {"label": "c2pa.actions.v2", "data": {"actions": [created]}}
        manifest = {
            "claim_generator_info": [self._name], "format": media_type,
            "assertions": [actions, {"label": MADE, "data": states}],
            "ingredients": [{"format": PNG, "relationship": "inputTo", **each} for each in begins_with],
        }  # fmt: skip
        out = io.BytesIO()
        try:
            with c2pa.Builder(json.dumps(manifest), self._context) as builder:
                builder.sign(self._signer, media_type, io.BytesIO(data), out)
        except c2pa.C2paError as error:
            raise PochadeError(f"an image cannot be signed with receipts.certificate: {error!s:.200}") from error
        return out.getvalue()

    def encoding(self, stored: bytes, data: bytes) -> bytes:
        """Return another form of a stored file with a manifest: what that one's states, and its sha-256.

        Raises Forged: the stored file has none. Raises PochadeError as `image`.
        """
        read = read_image(stored)
        begins_with = [{k: v for k, v in each.items() if k in ("title", "instance_id")} for each in read.ingredients]
        return self.image(data, read.states | {"stored_sha256": hashlib.sha256(stored).hexdigest()}, begins_with)

    def record(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a record, the certificates that verify it, and the signature of both, in their canonical bytes."""
        signed = {"record": dict(record), "certificates": self._certificates.decode()}
        return {**signed, "signature": base64.b64encode(self._private.sign(canonical(signed), ES256)).decode()}


class KeyFiles:
    """The signer that the settings name; files that have changed are read again, so that keys rotate in flight."""

    def __init__(self, settings: Receipts) -> None:
        """Open it. Raises InvalidSettings: there is none."""
        self._files = [] if settings.certificate == DEMO else [Path(settings.certificate), Path(settings.key)]
        self._signer: Signer | None = None
        self._stamps: list[tuple[int, int]] = []
        self.signer()

    def signer(self) -> Signer:
        """Return the signer of the files as they are; of files that do not fit (yet) that of the pair before."""
        try:
            stamps = [(found.st_mtime_ns, found.st_ino) for found in (file.stat() for file in self._files)]
            if self._signer is None or stamps != self._stamps:
                self._signer = Signer(*([file.read_bytes() for file in self._files] or demo_pair()))
                self._stamps = stamps
        except (OSError, InvalidSettings) as error:
            if self._signer is None:
                raise InvalidSettings(f"receipts cannot be signed: {error}") from None
            log.warning("receipts are signed with the key before: %s", error)
        return self._signer


def demo_pair() -> tuple[bytes, bytes]:
    """Return a certificate to try receipts with, and its key, which is public: nothing that it signs is trusted."""
    issuer, key = (ec.derive_private_key(number, ec.SECP256R1()) for number in (1, 2))
    name = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Pochade")]
    own = [*name, x509.NameAttribute(NameOID.COMMON_NAME, "Pochade demo, whose key is public")]
    since, until = datetime(2026, 1, 1, tzinfo=UTC), datetime(2099, 1, 1, tzinfo=UTC)
    extensions = (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.KeyUsage(True, *[False] * 8), True),  # digital_signature
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key()), False),
    )
    builder = x509.CertificateBuilder(x509.Name(name), x509.Name(own), key.public_key(), 1, since, until)
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, is_critical)
    private = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    return builder.sign(issuer, SHA256()).public_bytes(forms.Encoding.PEM), private


def canonical(record: Mapping[str, Any]) -> bytes:
    """Return the bytes of a record that are signed: JSON with sorted names and without spaces, in UTF-8."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def read_image(data: bytes, trusted: bytes = b"") -> Receipt:
    """Return what the manifest of a PNG, JPEG or WebP file says. `trusted`: PEM; its authorities vouch for signers.

    Raises Forged: it has none, it is not ours, or the file is not what was signed.
    """
    if (media_type := MEDIA_TYPES.get(data[:2])) is None:
        raise Forged("the file is no PNG, JPEG or WebP: no other has a receipt")
    if media_type == PNG:
        _check_chunks(data)
    told = {"trust": {"user_anchors": trusted.decode()}, "verify": {"verify_trust": True}} if trusted else {}
    try:
        with c2pa.Reader(media_type, io.BytesIO(data), context=c2pa.Context(c2pa.Settings.from_dict(told))) as reader:
            found = json.loads(reader.json())
    except c2pa.C2paError.ManifestNotFound:
        raise Forged("the file has no receipt: it was made without, or a program wrote it again") from None
    except (c2pa.C2paError, ValueError) as error:
        raise Forged(f"the file's receipt is damaged: {error!s:.200}") from None
    if found["validation_state"] not in ("Valid", "Trusted"):
        codes = [each["code"] for each in found.get("validation_status", ())]
        code = next((each for each in codes if each != "signingCredential.untrusted"), "it is not valid")
        raise Forged(f"the file is not as it was signed: {FAULTS.get(code, code)}")
    manifest = found["manifests"][found["active_manifest"]]
    signed = manifest["signature_info"]
    signer = str(signed.get("common_name") or signed.get("issuer"))
    stated = [each["data"] for each in manifest["assertions"] if each["label"] == MADE]
    if not stated:
        raise Forged(f"the file's receipt is not Pochade's: {signer} signed it, and it lacks {MADE}")
    is_trusted = found["validation_state"] == "Trusted"
    return Receipt(stated[0], signer, is_trusted, tuple(manifest.get("ingredients", ())))


def _check_chunks(data: bytes) -> None:
    """Raise Forged for a chunk whose checksum is another: C2PA's hash leaves out the manifest's padding."""
    at = 8  # behind PNG's signature; a chunk: length (4 bytes), name (4), content, checksum of the last two (4)
    while at < len(data):
        end = at + 8 + int.from_bytes(data[at : at + 4], "big")
        if zlib.crc32(data[at + 4 : end]).to_bytes(4, "big") != data[end : end + 4]:
            raise Forged(f"the file is not as it was signed: its chunk {data[at + 4 : at + 8]!r} is damaged")
        at = end + 4


def read_record(text: bytes, trusted: bytes = b"") -> Receipt:
    """Return a signed record, from its JSON or from an answer of the gateway.

    `trusted`: as above, where an authority has issued the signer's own certificate. Raises Forged.
    """
    try:
        found = json.loads(text)
        signed = found.get("decision", found)
        record, signature = signed["record"], base64.b64decode(signed["signature"], validate=True)
        stated = {"record": record, "certificates": signed["certificates"]}
        own = x509.load_pem_x509_certificates(signed["certificates"].encode())[0]
        key: Any = own.public_key()  # another one than of P-256 takes other arguments: a TypeError
        key.verify(signature, canonical(stated), ES256)
    except InvalidSignature:
        raise Forged(
            "the decision is not as it was signed: a score, its plan, its certificate or something else was changed"
        ) from None
    except (KeyError, TypeError, AttributeError, ValueError, x509.InvalidVersion, UnsupportedAlgorithm) as error:
        raise Forged(
            f"the decision is no signed record, with `record`, `signature` and `certificates`: {error!s:.200}"
        ) from None
    anchors = x509.load_pem_x509_certificates(trusted) if trusted else []
    is_trusted = _is_valid_now(own) and any(_is_valid_now(each) and _has_issued(each, own) for each in anchors)
    names = own.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return Receipt(record, str(names[0].value if names else own.subject.rfc4514_string()), is_trusted)


def _is_valid_now(certificate: x509.Certificate) -> bool:
    return certificate.not_valid_before_utc <= datetime.now(UTC) <= certificate.not_valid_after_utc


def _has_issued(issuer: x509.Certificate, issued: x509.Certificate) -> bool:
    try:
        issued.verify_directly_issued_by(issuer)
        return issuer.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
