"""How much of a server's own throughput does a worker keep, with as many requests in flight?

The server sleeps instead of generating, in as many slots as there are requests in flight (`image_server.py`). Threads
that send the same requests again and again are the baseline. The worker's side is `agents/lab/in_flight_bench.py`, as
`replay` imports no role; once more with windows that no job joins. Each is a process of its own; all take turns.
"""

import contextlib
import itertools
import json
import subprocess
import sys
import threading
import time
from typing import Any, Final

import httpx

from replay.bench.environment.figures import spread

SERVER: Final = "replay.bench.image_server"
CHILD: Final = "agents.lab.in_flight_bench"
PX: Final = 64


def run(*, calls: int, service_s: float, jitter: float, images: int, turns: int) -> dict[str, Any]:
    """Measure all sides in turns: images a second, and the worker's share of the baseline's."""
    bare, ours, apart = list[float](), list[float](), list[float]()
    with _process(SERVER, str(calls), str(service_s), str(jitter)) as server:
        url = _line(server)
        with _process(CHILD, url, str(calls), str(1000 * service_s)) as worker:
            for turn in range(turns + 1):
                count = images if turn else 2 * calls  # the first one warms up
                found = _direct(url, calls, count), _asked(worker, count, True), _asked(worker, count, False)
                if turn:
                    for side, rate in zip((bare, ours, apart), found, strict=True):
                        side.append(rate)
    ratios, without = ([mine / theirs for mine, theirs in zip(side, bare, strict=True)] for side in (ours, apart))
    return {
        "in_flight": calls, "service_s": service_s, "jitter": jitter, "images": images,
        "baseline_per_s": spread(bare), "worker_per_s": spread(ours), "ratio": spread(ratios),
        "ratio_of_windows_apart": spread(without),
    }  # fmt: skip


@contextlib.contextmanager
def _process(module: str, *words: str) -> Any:
    """Run a module that ends with its input."""
    asked = [sys.executable, "-m", module, *words]
    with subprocess.Popen(asked, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.communicate()


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _asked(worker: "subprocess.Popen[str]", images: int, joins: bool) -> float:
    assert worker.stdin is not None
    worker.stdin.write(json.dumps([images, joins]) + "\n")
    worker.stdin.flush()
    return float(_line(worker))


def _direct(url: str, calls: int, images: int) -> float:
    """Images a second of threads that ask and read answers, each with a client that was opened before."""
    numbers = itertools.count()

    def ask(http: httpx.Client) -> None:
        while (seed := next(numbers)) < images:
            body = {"prompt": "a red heart", "n": 1, "size": f"{PX}x{PX}", "seed": seed}
            http.post("/images/generations", json=body).raise_for_status()

    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(httpx.Client(base_url=url, trust_env=False, timeout=60)) for _ in range(calls)]
        threads = [threading.Thread(target=ask, args=(http,)) for http in clients]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return images / (time.monotonic() - began)
