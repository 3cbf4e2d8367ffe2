"""What kill -9 of a worker, of the front and of the broker costs each side, in lost and in doubled requests.

A client asks again under the same `Idempotency-Key`, as OpenAI's does, but for as long as `LIMIT_S`. What is killed is
one process: a worker's, the one that listens for HTTP, or the broker's. A part whose process has ended is started
again 1 s later, as a supervisor does (systemd's Restart=always, RestartSec=1); what a side starts again by itself, it
does by itself, and a side that neither ends nor serves is left so, as a supervisor leaves it.

lost    = requests that have no image within LIMIT_S of when they were to be sent
doubled = requests of which a worker made more than one image: counted on Pochade's topic of images, and by the peers'
          workers in a file
"""

import contextlib
import pathlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import psutil

from replay.bench.environment.site import Site
from replay.bench.peers.load import Answered, at_times, in_turn
from replay.bench.peers.processes import processes_of
from replay.bench.peers.sides import CELERY, POCHADE, Side, Work, serving
from replay.traces import poisson
from schemas.errors import PochadeError
from schemas.messages import ImageGenerated
from schemas.topics import IMAGES
from streams.broker import embedded
from streams.codec.avro import decode
from streams.kafka.consumers import snapshot

WORKER, FRONT, BROKER = "worker", "front", "broker"
WORK_S: Final = 0.2  # of an image
BUSY: Final = 0.6  # of what the workers carry
FIRST_S, GAP_S = 3.0, 5.0  # until the first kill, and to the next
LIMIT_S: Final = 45.0
RESTART_S: Final = 1.0
SETTLE_S: Final = 3.0  # for images whose requests have ended
POLL_S: Final = 0.1
KAFKA: Final = "kafka.Kafka"  # in the broker's command


def parts_of(name: str) -> tuple[str, ...]:
    """Return what can be killed of a side."""
    return (WORKER, FRONT, BROKER) if name in (POCHADE, CELERY) else (WORKER, FRONT)


def killed(name: str, part: str, site: Site, python: pathlib.Path, workers: int, kills: int) -> dict[str, Any]:
    """Start a side, kill one of its parts `kills` times under a steady load (a broker once), and count the outcomes."""
    works = site.settings.home / f"works-{name}-{part}"
    with serving(name, site, Work(workers, WORK_S), python, works) as side:
        in_turn(side.url, 2 * workers)
        rate, times = BUSY * workers / WORK_S, 1 if part == BROKER else kills
        span_s = FIRST_S + times * GAP_S
        arrivals = [at_ms for at_ms in poisson(rate, round(2 * rate * span_s), 5) if at_ms < 1000 * span_s]
        works.write_text("")
        since_ms = round(1000 * time.time())
        with ThreadPoolExecutor(1) as sending:
            load = sending.submit(at_times, side.url, arrivals, LIMIT_S)
            _kill_under(load, side, times, lambda: _victim(name, part, side, works))
            answers = load.result()
        time.sleep(SETTLE_S)
        made = _images_by_pochade(side, since_ms) if name == POCHADE else _images_by_peers(works)
    return figures_of(answers, made, times)


def figures_of(answers: Sequence[Answered], made: Counter[str], kills: int) -> dict[str, Any]:
    """Return the figures of one part. `made`: prompt -> images."""
    ended = [each.took_ms for each in answers if each.has_image]
    return {
        "kills": kills,
        "requests": len(answers),
        "lost": len(answers) - len(ended),
        "doubled": sum(count > 1 for count in made.values()),
        "asked_again": sum(each.tries > 1 for each in answers),
        "slowest_s": round(max(ended, default=0.0) / 1000, 1),
    }


def _kill_under(load: "Future[list[Answered]]", side: Side, kills: int, victim: Callable[[], int]) -> None:
    """Kill while requests are sent, and start again what has ended: in the thread that parts end with."""
    begun, done, ended = time.monotonic(), 0, dict[str, float]()
    broker_since: float | None = None
    while not load.done():
        now = time.monotonic()
        if done < kills and now >= begun + FIRST_S + done * GAP_S:
            done += 1
            with contextlib.suppress(psutil.Error, PochadeError):  # it has not come back since the last time
                pid = victim()
                process = psutil.Process(pid)
                is_kafka = KAFKA in " ".join(process.cmdline())
                process.kill()
                broker_since = now if is_kafka else None
        if broker_since is not None and now >= broker_since + RESTART_S:
            broker_since = None
            embedded.ensure(side.settings)
        for name, child in side.parts.items():
            if child.poll() is not None and now >= ended.setdefault(name, now) + RESTART_S:
                del ended[name]
                side.restart(name)
        time.sleep(POLL_S)


def _victim(name: str, part: str, side: Side, works: pathlib.Path) -> int:
    """Return the process to kill. Raises PochadeError: there is none now."""
    if part == WORKER and name == POCHADE:
        return next(int(child.pid) for key, child in side.parts.items() if key.endswith("-0"))
    if part == WORKER:  # the worker that generated the last image
        lines = works.read_text().splitlines()
        if not lines:
            raise PochadeError("no worker has made an image yet")
        return int(lines[-1].split()[0])
    mine = processes_of(side.folder, side.processes)
    if part == FRONT:
        port = int(side.url.rpartition(":")[2])
        busiest = max(mine, key=lambda each: _connections(each, port))
        found = [busiest.pid] if _connections(busiest, port) else []
    elif name == POCHADE:
        found = [each.pid for each in mine if KAFKA in " ".join(each.cmdline())]
    else:
        found = [side.parts[BROKER].pid]
    if not found:
        raise PochadeError(f"no process of {name} is its {part} now")
    return int(found[0])


def _connections(process: psutil.Process, port: int) -> int:
    """Return how many clients a process serves at a port; one that only holds the listening socket serves none."""
    try:
        found = process.net_connections()
    except psutil.Error:
        return 0
    return sum(each.status == psutil.CONN_ESTABLISHED and each.laddr.port == port for each in found)


def _images_by_peers(works: pathlib.Path) -> Counter[str]:
    return Counter(line.partition(" ")[2] for line in works.read_text().splitlines())


def _images_by_pochade(side: Side, since_ms: int) -> Counter[str]:
    images = snapshot.past(side.settings, [IMAGES], since_ms=since_ms)
    return Counter(decode(each.value, ImageGenerated).job.classified.request.prompt for each in images)
