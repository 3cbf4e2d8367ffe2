"""Roles of an installed environment, served by one process on a broker of their own."""

import contextlib
import pathlib
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.environments import Environment, clean
from tests.integration.waiting import ask, poll_until
from tests.left_over import left_over
from tests.patience import PATIENCE_S


class Served(NamedTuple):
    """What is served, and how its commands are called."""

    gateway: str  # its URL
    options: list[str]  # of every command


@contextlib.contextmanager
def served(
    environment: Environment, home: pathlib.Path, roles: Sequence[str], values: Mapping[str, str]
) -> Iterator[Served]:
    """Serve roles, the gateway among them, with these settings; they live until the end, and leave nothing behind."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    settings = {**values, "worker.id": "w-1", "gateway.port": port}
    options = ["--home", str(home), *(part for each in settings.items() for part in ("--set", "=".join(each)))]
    assert environment.run(environment.pochade, *options, "up").returncode == 0
    log = home / "all.log"
    with log.open("w") as output:
        serving = subprocess.Popen(
            [environment.pochade, *options, "serve", *roles], env=clean(), cwd=home, stdout=output, stderr=output
        )
    try:
        poll_until(lambda: ask(f"http://127.0.0.1:{port}/v1/models")[0] == 200, log.read_text)
        yield Served(f"http://127.0.0.1:{port}", options)
        assert serving.poll() is None, log.read_text()
    finally:
        serving.terminate()
        serving.wait(PATIENCE_S)
        assert environment.run(environment.pochade, *options, "down").returncode == 0
    assert left_over(home) == []
