"""An S3 server in this process (moto), and servers that only refuse."""

import contextlib
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import boto3
import pytest
from moto.moto_server.threaded_moto_server import ThreadedMotoServer

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
NOBODY_ELSES = {
    "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull, "AWS_EC2_METADATA_DISABLED": "true",
    "NO_PROXY": "*", "no_proxy": "*",
}  # fmt: skip


@contextlib.contextmanager
def s3_server(*buckets: str, port: int = 0) -> Iterator[str]:
    """The URL of a server with these new buckets; it ends with the block. Objects stay as long as this process."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        with pytest.MonkeyPatch.context() as patch:
            set_up_credentials(patch)
            for bucket in buckets:
                boto3.client("s3", endpoint_url=url, region_name="us-east-1").create_bucket(Bucket=bucket)
        yield url
    finally:
        server.stop()


def set_up_credentials(patch: pytest.MonkeyPatch) -> None:
    """What boto3's chain finds: test credentials, and nothing of whoever runs the tests."""
    for variable in [name for name in os.environ if name.startswith("AWS_")]:
        patch.delenv(variable)
    for name, value in {**NOBODY_ELSES, **CREDENTIALS}.items():
        patch.setenv(name, value)


@contextlib.contextmanager
def answering(status: int, code: str, *, head: int | None = None) -> Iterator[str]:
    """The URL of a server that answers every request with this status, HEAD with its own."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = f"<Error><Code>{code}</Code><Message>as the test wants</Message></Error>".encode()
            is_head = self.command == "HEAD"
            self.send_response(head if is_head and head else status)
            self.send_header("Content-Length", "0" if is_head else str(len(body)))
            self.end_headers()
            self.wfile.write(b"" if is_head else body)

        do_GET = do_PUT = do_HEAD = do_DELETE = answer  # noqa: N815  the base class finds methods by these names

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
