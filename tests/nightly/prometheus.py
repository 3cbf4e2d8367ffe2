"""Debian's Prometheus and promtool, fetched without root where they are not on the PATH, and a server of our own."""

import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from tests.integration.waiting import ask, poll_until

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "pochade" / "prometheus"
FETCH_LIMIT_S = 300


def binary(name: str) -> str:
    """Return the path of `prometheus` or `promtool`: on the PATH, else of Debian's package (19 MB), fetched once.

    `TEST_PROMTOOL`, `TEST_PROMETHEUS`: a file of its own.
    """
    if found := os.environ.get(f"TEST_{name.upper()}") or shutil.which(name):
        return found
    there = CACHE / "usr" / "bin" / name
    if not there.is_file():
        _fetch()
    return str(there)


def _fetch() -> None:
    part = CACHE.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for command in (["apt-get", "download", "prometheus"], ["sh", "-c", "dpkg -x prometheus_*.deb ."]):
        try:
            done = subprocess.run(command, cwd=part, capture_output=True, text=True, timeout=FETCH_LIMIT_S, check=False)
            why = done.stderr.strip()[-300:] if done.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
        if why:
            pytest.fail(
                f"`{' '.join(command)}` failed ({why}): unpack Debian's package `prometheus` elsewhere, without root, "
                "and put its usr/bin on the PATH"
            )
    shutil.rmtree(CACHE, ignore_errors=True)
    part.rename(CACHE)


class Prometheus:
    """A server's answers."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **fields: str) -> Any:
        """Return the data of a call of its API; fails with its own words."""
        status, text = ask(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(fields)}")
        answer = json.loads(text) if text else {}
        assert answer.get("status") == "success", f"{fields or path}: {status} {answer.get('error', text)}"
        return answer["data"]

    def query(self, query: str) -> list[dict[str, Any]]:
        """Return the series of an instant query; a scalar is one without labels."""
        data = self.get("query", query=query)
        if data["resultType"] == "scalar":
            return [{"metric": {}, "value": data["result"]}]
        found: list[dict[str, Any]] = data["result"]
        return found

    def up(self) -> int:
        """How many targets answered the last scrape."""
        return sum(target["health"] == "up" for target in self.get("targets", state="active")["activeTargets"])


@contextlib.contextmanager
def serving(
    folder: pathlib.Path, targets: Mapping[str, Sequence[str]], labels: Mapping[str, str], rules: pathlib.Path
) -> Iterator[Prometheus]:
    """A server that scrapes once a second, with alert rules; it ends with the block, and its data with `folder`.

    `targets`: value of the label `app_kubernetes_io_component` -> addresses HOST:PORT; `labels`: of all series.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    static = [
        {"targets": list(addresses), "labels": {**labels, "app_kubernetes_io_component": component}}
        for component, addresses in targets.items()
    ]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": "pochade", "static_configs": static}],
    }
    (folder / "prometheus.yaml").write_text(json.dumps(config))
    command = [
        binary("prometheus"), f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}", "--log.level=warn",
    ]  # fmt: skip
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            said = (folder / "prometheus.log").read_text
            poll_until(lambda: ask(f"http://{address}/-/ready")[0] == 200 or process.poll() is not None, said)
            assert process.poll() is None, said()
            yield Prometheus(f"http://{address}")
        finally:
            process.terminate()
            process.wait()
