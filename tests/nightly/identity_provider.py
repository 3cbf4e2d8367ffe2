"""An identity provider of a test: signed tokens for who knows the secret, short-lived, over https."""

import base64
import json
import pathlib
import ssl
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.certificates import Signed

AUDIENCE = "kafka"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class IdentityProvider:
    """Serves `/token`; `write_keys` is what brokers check signatures with."""

    def __init__(self, certificate: Signed, client: tuple[str, str], life_s: int) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._client, self._life_s = client, life_s
        self.given = 0  # tokens
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate.both)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"https://127.0.0.1:{self._server.server_port}/token"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def write_keys(self, path: pathlib.Path) -> None:
        """The public key as a JSON Web Key Set."""
        public = self._key.public_key().public_numbers()
        numbers = {"n": _encoded(public.n.to_bytes(256, "big")), "e": _encoded(public.e.to_bytes(3, "big"))}
        path.write_text(json.dumps({"keys": [{"kty": "RSA", "kid": "test", "alg": "RS256", "use": "sig", **numbers}]}))

    def _token(self) -> str:
        now = int(time.time())
        claims = {"sub": self._client[0], "aud": AUDIENCE, "iss": "test", "iat": now, "exp": now + self._life_s,
                  "jti": uuid.uuid4().hex}  # fmt: skip
        parts = [_encoded(json.dumps(each).encode()) for each in ({"alg": "RS256", "kid": "test"}, claims)]
        signature = self._key.sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
        return ".".join([*parts, _encoded(signature)])

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self
        allowed = "Basic " + base64.b64encode(":".join(self._client).encode()).decode()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                is_known = self.headers["Authorization"] == allowed
                provider.given += is_known
                token = {"access_token": provider._token(), "token_type": "Bearer", "expires_in": provider._life_s}
                content = json.dumps(token if is_known else {"error": "invalid_client"}).encode()
                self.send_response(200 if is_known else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        return Handler
