"""The sides: each serves the same path, with the same number of workers and the same time for an image.

Ray Serve, LitServe and Celery are set up as their own guides have it for long work: one request at a time in a worker,
none fetched ahead, no limit of what waits. Pochade is one gateway, one of each role and the workers, on its broker.
"""

import contextlib
import pathlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import httpx

from replay.bench.environment import plan
from replay.bench.environment.site import Site
from replay.bench.gateway.serving import LAYOUT
from replay.bench.peers.environment import APPS
from replay.bench.peers.load import PATH, body_of
from replay.bench.peers.processes import descendants_of, end
from schemas.errors import PochadeError
from streams.broker.node import free_ports
from streams.processes.children import Child
from streams.settings import Settings

START_S, POLL_S = 180.0, 0.3
ONLY: Final = "only"  # Pochade's one level
CATALOG: Final = """
[variants.{name}]
engine = "profile"
model = ""
scheduler = ""
steps = 10
guidance = 1.0
width = 192
height = 128
latency_ms = {{ 1 = {ms:g} }}
load_ms = 50
quality = 1.0
"""
POCHADE, RAY, LITSERVE, CELERY, QUEUE = "pochade", "ray-serve", "litserve", "celery", "fastapi-queue"
SIDES: Final = (POCHADE, RAY, LITSERVE, CELERY, QUEUE)


class Work(NamedTuple):
    """Workers and time of an image, equal for every side."""

    workers: int
    seconds: float  # of an image
    timeout_s: float = 0  # that Ray Serve lets a request wait; 0: for ever


Begin = Callable[[], Child]


class Side:
    """A side that serves: its parts, each a process that can be started again."""

    def __init__(self, site: Site, url: str, folder: pathlib.Path, begin: Mapping[str, Begin]) -> None:
        """`folder`: processes with it in their command belong to the side. `begin`: starts each part, in this order."""
        self.url, self.folder, self.settings = url, folder, site.settings
        self._site, self._begin = site, begin
        self.parts = {name: start() for name, start in begin.items()}

    @property
    def processes(self) -> tuple[int, ...]:
        """The parts' process ids."""
        return tuple(child.pid for child in self.parts.values())

    def restart(self, name: str) -> None:
        """Start a part that has ended."""
        self._site.stop(self.parts[name])
        self.parts[name] = self._begin[name]()

    def stop(self) -> None:
        """End all parts, and what they have begun: peers leave processes behind where they end by a signal."""
        begun = descendants_of(self.processes)
        self._site.stop(*self.parts.values())
        end(begun)


@contextlib.contextmanager
def serving(
    name: str, site: Site, work: Work, python: pathlib.Path, works: pathlib.Path | None = None
) -> Iterator[Side]:
    """A side, once it has answered a request, until the block ends. `works`: where peers note each image they made."""
    side = _pochade(site, work) if name == POCHADE else _peer(name, site, work, python, works)
    with started(side, site):
        yield side


@contextlib.contextmanager
def started(side: Side, site: Site) -> Iterator[Side]:
    """A side whose parts were begun, once it has answered a request, until the block ends."""
    try:
        _wait(side.url, site)
        yield side
    finally:
        side.stop()


def is_there(name: str) -> bool:
    """Whether what a side needs besides its Python packages is on this machine."""
    return name != CELERY or shutil.which("redis-server") is not None


def _pochade(site: Site, work: Work) -> Side:
    file = site.settings.home / f"only-{work.seconds:g}.toml"
    file.write_text(CATALOG.format(name=ONLY, ms=1000 * work.seconds))
    settings = site.fresh("peers", [ONLY], catalog=str(file))
    crew = {f"{settings.kafka.prefix}-{number}": ONLY for number in range(work.workers)}
    plan.publish(settings, {ONLY: 1.0}, crew)
    return pochade_side(site, settings, crew, LAYOUT)


def pochade_side(site: Site, settings: Settings, crew: Iterable[str], layout: Iterable[Sequence[str]]) -> Side:
    """Pochade with these workers beside the other roles; the broker counts as its own alone."""
    port = free_ports().broker
    begin: dict[str, Begin] = {}
    for roles in layout:
        own = {"gateway__port": str(port)} if "gateway" in roles else {}
        begin["-".join(roles)] = partial(
            site.serve, settings, f"{settings.kafka.prefix}-{'-'.join(roles)}", roles, **own
        )
    for worker in crew:
        begin[worker] = partial(site.serve, settings, worker, ["worker"], worker__id=worker)
    side = Side(site, f"http://127.0.0.1:{port}", site.settings.home, begin)
    side.settings = settings
    return side


def _peer(name: str, site: Site, work: Work, python: pathlib.Path, works: pathlib.Path | None) -> Side:
    ports = free_ports()
    port, redis_port = ports.broker, ports.controller
    options = ["--port", str(port), "--workers", str(work.workers), "--seconds", f"{work.seconds:g}"]
    noted = [] if works is None else [f"PEER_WORKS={works}"]
    begin: dict[str, Begin] = {}

    def part(part: str, *command: str) -> None:
        begin[part] = partial(site.program, f"{name}-{work.seconds:g}-{port}-{part}", *command)

    own = site.settings.home / name  # the folder that a peer may use
    own.mkdir(exist_ok=True)
    if name == CELERY:
        redis = f"redis://127.0.0.1:{redis_port}/0"
        kept = ["--save", "", "--appendonly", "yes", "--dir", str(own)]
        part("broker", "redis-server", "--port", str(redis_port), *kept)
        environment = ["env", f"PEER_REDIS={redis}", f"PYTHONPATH={APPS}", *noted]
        worker = ["worker", "--concurrency", str(work.workers), "--loglevel", "WARNING", "-O", "fair"]
        part("worker", *environment, str(python), "-m", "celery", "-A", "celery_tasks", *worker)
        part("front", *environment, str(python), str(APPS / "celery_app.py"), *options)
    else:
        app = {RAY: "ray_app.py", LITSERVE: "litserve_app.py", QUEUE: "queue_app.py"}[name]
        more = ["--folder", str(own), "--timeout", f"{work.timeout_s:g}"] if name == RAY else []
        part("front", "env", *noted, str(python), str(APPS / app), *options, *more)
    return Side(site, f"http://127.0.0.1:{port}", own, begin)


def _wait(url: str, site: Site) -> None:
    """Wait until a side answers a request with an image. Raises PochadeError: it does not, or a part has ended."""
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s:
        site.check()
        with contextlib.suppress(httpx.HTTPError):
            if httpx.post(f"{url}{PATH}", json=body_of(0), timeout=30, trust_env=False).status_code == 200:
                return
        time.sleep(POLL_S)
    raise PochadeError(f"{url} did not answer within {START_S:g} s: see the logs in {site.settings.home / 'logs'}")
