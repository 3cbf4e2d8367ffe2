"""TLS contexts of Python's own library, from files and texts in PEM."""

import pathlib
import ssl
import tempfile

from schemas.errors import PochadeError
from streams.security.security import Tls


def context_of(tls: Tls) -> ssl.SSLContext:
    """Build the TLS context that a client of aiokafka connects with.

    Raises PochadeError: a certificate or key cannot be used; the message says which and why.
    """
    context = trusting(tls.ca_file, tls.ca_pem, "ssl.ca.location")
    try:
        if tls.revoked_file:
            context.load_verify_locations(cafile=tls.revoked_file)
            context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
        if tls.ciphers:
            context.set_ciphers(tls.ciphers)
    except (OSError, ssl.SSLError) as error:
        raise PochadeError(f"kafka.properties: ssl.crl.location or ssl.cipher.suites cannot be used: {error}") from None
    _show_ourselves(context, tls)
    if not (tls.verifies and tls.checks_names):
        context.check_hostname = False
    if not tls.verifies:
        context.verify_mode = ssl.CERT_NONE
    return context


def trusting(ca_file: str, ca_pem: str, name: str) -> ssl.SSLContext:
    """A context that trusts these authorities, or those of the system where none is given.

    Raises PochadeError: they cannot be read; `name` is the property to correct.
    """
    is_folder = pathlib.Path(ca_file).is_dir() if ca_file else False
    try:
        return ssl.create_default_context(
            cafile=ca_file if ca_file and not is_folder else None,
            capath=ca_file if is_folder else None,
            cadata=ca_pem or None,
        )
    except (OSError, ssl.SSLError) as error:
        raise PochadeError(f"kafka.properties.{name} {ca_file} cannot be read as PEM: {error}") from None


def _show_ourselves(context: ssl.SSLContext, tls: Tls) -> None:
    if not (tls.certificate_file or tls.certificate_pem):
        return
    with tempfile.TemporaryDirectory(prefix="pochade-tls-") as folder:  # mode 0700; the library reads files only
        certificate = tls.certificate_file or _written(folder, "certificate", tls.certificate_pem)
        key = tls.key_file or (_written(folder, "key", tls.key_pem) if tls.key_pem else None)
        try:
            # a password is always given: without one an encrypted key would ask for it on the terminal
            context.load_cert_chain(certificate, key, password=tls.key_password)
        except (OSError, ssl.SSLError) as error:
            names = "ssl.certificate.location, ssl.key.location and ssl.key.password (or their .pem)"
            raise PochadeError(f"kafka.properties: {names} make no certificate with its key: {error}") from None


def _written(folder: str, name: str, text: str) -> str:
    path = pathlib.Path(folder) / name
    path.write_text(text)
    return str(path)


def own_certificate_fault(tls: Tls) -> str:
    """Return what is wrong with our own certificate; "" if nothing is, as far as can be seen from here.

    Asked of the TLS library in a handshake with ourselves: it checks the time, and that an authority which we trust,
    mostly the brokers' own, has signed it.
    """
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    server.verify_mode = ssl.CERT_REQUIRED
    try:
        for context in (server, client):
            _show_ourselves(context, tls)
        if tls.ca_file or tls.ca_pem:
            server.load_verify_locations(cafile=tls.ca_file or None, cadata=tls.ca_pem or None)
        else:
            server.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        _shake_hands(server, client)
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except (PochadeError, OSError) as error:
        return str(error)
    return ""


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Do a TLS handshake with both ends in memory. Raises ssl.SSLError with what either end does not accept."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_side=False),
    ]
    while ends:
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue
