"""How long workers wait for lookups among 10,000 rows: in a real Milvus server, Milvus Lite and `exact`.

`pochade bench reuse` on each store, beside a process that keeps torch busy and on an idle machine. The times are the
machine's as well: they are printed, and what is asserted is that stores answer.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from streams.settings import load
from streams.vectors.open import open_vectors
from tests.patience import PATIENCE_S
from tests.streams.vectors.conftest import is_ensured
from tests.streams.vectors.milvus_server import TOKEN, MilvusServer, why_not
from tests.streams.vectors.rows import poll_until

ROWS = int(os.environ.get("TEST_RETRIEVAL_ROWS", "10000"))
LOOKUPS = int(os.environ.get("TEST_RETRIEVAL_LOOKUPS", "400"))
START = "from streams.cli import main; main(prog_name='pochade')"
UNANSWERED = 0.25  # share of the lookups from which on a planner leaves reuse


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[str]]:
    """The settings of a real server, with TLS and a password."""
    if why := why_not():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("milvus")
    running = MilvusServer(folder)
    running.start()
    token = folder / "token"
    token.write_text(TOKEN)
    try:
        vectors = {"url": running.url, "token": f"file:{token}", "ca": str(running.ca)}
        store = open_vectors(load({"vectors": vectors}), "retrieval")
        assert store is not None
        poll_until(lambda: is_ensured(store), "the server answers")
        store.close()
        yield [f"vectors.{name}={value}" for name, value in vectors.items()]
    finally:
        running.close()


def bench(settings: Sequence[str], busy: int) -> dict[str, Any]:
    """The report of `pochade bench reuse`, with as little of the rest as can be."""
    asked = [part for each in settings for part in ("--set", each)]
    effort = ["--requests", "4", "--images", "4", "--rows", str(ROWS), "--lookups", str(LOOKUPS), "--busy", str(busy)]
    command = [sys.executable, "-c", START, *asked, "bench", "reuse", *effort, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20 * PATIENCE_S)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("busy", [1, 0], ids=["busy", "idle"])
@pytest.mark.parametrize("store", ["server", "lite", "exact"])
def test_lookups_among_many_rows_are_answered_in_time(store: str, busy: int, request: pytest.FixtureRequest) -> None:
    settings = request.getfixturevalue("server") if store == "server" else [f"vectors.url={store}"]
    report = bench(settings, busy)
    found = report["retrieval_ms"]
    print(json.dumps({"store": store, "load": os.getloadavg(), "target": report["targets"]["retrieval_ms"], **found}))
    assert found["rows"] == ROWS
    assert found["hits"] > 0
    assert found["unanswered"] < UNANSWERED * found["lookups"]
