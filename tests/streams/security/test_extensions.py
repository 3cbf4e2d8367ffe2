"""A private authority whose certificates lack what Python 3.13 requires: what a person reads, and what mends it."""

import contextlib
import pathlib
import re
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from streams.broker import probe
from streams.security import access_check
from streams.security.access_check import check_access
from streams.security.refusals import refused_by_python
from streams.settings import load
from tests.certificates import AUTHORITY_KEY, CONSTRAINTS, SUBJECT_KEY, USAGE, Authority, verify_strictly
from tests.paths import ROOT


@contextlib.contextmanager
def serving(certificate: pathlib.Path, key: pathlib.Path, ca: pathlib.Path) -> Iterator[dict[str, str]]:
    """Speak TLS; yields a client's configuration, which trusts `ca`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that trust it not
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        address = f"127.0.0.1:{server.server_port}"
        try:
            yield {"bootstrap.servers": address, "security.protocol": "SSL", "ssl.ca.location": str(ca)}
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def signed(folder: pathlib.Path, lacks: str = "") -> Iterator[dict[str, str]]:
    authority = Authority(folder, lacks=lacks)
    one = authority.sign("broker")
    with serving(one.certificate, one.key, authority.certificate) as config:
        yield config


@pytest.mark.parametrize(
    ("lacks", "reported"),
    [
        (
            AUTHORITY_KEY,
            r"server's certificate lacks the Authority Key.* again with authorityKeyIdentifier=keyid",
        ),
        (SUBJECT_KEY, r"authority's certificate lacks the Subject Key.* again.* with subjectKeyIdentifier=hash"),
        (CONSTRAINTS, r"Basic Constraints of its authority's.* again.* with basicConstraints=critical,CA:TRUE"),
        (USAGE, r"authority's certificate lacks the Key Usage.* again.* with keyUsage=critical,keyCertSign"),
    ],
)
def test_what_lacks_is_named_with_what_to_do(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, lacks: str, reported: str
) -> None:
    verify_strictly(monkeypatch)
    with signed(tmp_path, lacks) as config:
        assert re.search(reported, refused_by_python(config)), refused_by_python(config)


def test_nothing_is_said_of_a_certificate_that_has_all_or_of_another_authority(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify_strictly(monkeypatch)
    with signed(tmp_path) as config:
        assert refused_by_python(config) == ""
        foreign = Authority(tmp_path, "foreign", lacks=AUTHORITY_KEY)
        assert refused_by_python({**config, "ssl.ca.location": str(foreign.certificate)}) == ""


def test_a_role_that_reads_by_faust_does_not_start_where_librdkafka_alone_accepts_the_certificate(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify_strictly(monkeypatch)
    monkeypatch.setattr(probe, "probe", lambda *_: None)  # librdkafka is let in
    monkeypatch.setattr(access_check, "_missing", lambda *_: [])
    with signed(tmp_path, AUTHORITY_KEY) as config:
        address = config.pop("bootstrap.servers")
        settings = load({"kafka": {"bootstrap_servers": address, "properties": config}})
        check_access(settings, ["ledger"], ["light"])
        with pytest.raises(probe.NotLetIn, match=rf"Faust cannot connect to .*{address}: .*{AUTHORITY_KEY}"):
            check_access(settings, ["router"], ["light"])


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not here")
def test_the_commands_of_the_readme_make_what_python_3_13_accepts(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = re.findall(r"```bash\n(openssl.*?)```", (ROOT / "streams/security/README.md").read_text(), re.DOTALL)
    script = block.replace("IP:10.0.0.1", "IP:127.0.0.1").replace("rsa:3072", "rsa:2048")  # sooner made
    subprocess.run(["bash", "-ec", script], cwd=tmp_path, check=True, capture_output=True)
    verify_strictly(monkeypatch)
    with serving(tmp_path / "server.pem", tmp_path / "server.key", tmp_path / "ca.pem") as config:
        url = f"https://{config['bootstrap.servers']}"
        context = ssl.create_default_context(cafile=config["ssl.ca.location"])
        assert httpx.get(url, verify=context, trust_env=False).status_code == 501  # by a server without methods
