"""The sides: each serves the same path with so many workers, each of which takes so long for an image.

Ray Serve, LitServe and Celery are set up as their own guides have it for long work: one request at a time in a worker,
none fetched ahead, no limit of what waits. Pochade is one gateway, one of each role and the workers, on its broker.
"""

import contextlib
import pathlib
import shutil
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

import httpx

from replay.bench.environment import plan
from replay.bench.environment.site import Site
from replay.bench.gateway.serving import LAYOUT, address_of
from replay.bench.peers.environment import APPS
from replay.bench.peers.load import BODY, PATH
from replay.bench.peers.processes import descendants_of, end
from schemas.errors import PochadeError
from streams.broker.node import free_ports
from streams.processes.children import Child

START_S, POLL_S = 180.0, 0.3
CATALOG: Final = """
[variants.only]
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
    """What every side is to do."""

    workers: int
    seconds: float  # of an image


class Side(NamedTuple):
    """A side that serves."""

    url: str
    processes: tuple[int, ...]
    folder: pathlib.Path  # who names it in a command is of the side, too


@contextlib.contextmanager
def serving(name: str, site: Site, work: Work, python: pathlib.Path) -> Iterator[Side]:
    """A side, once it has answered a request, until the block ends."""
    started = _pochade(site, work) if name == POCHADE else _peer(name, site, work, python)
    url, children = started
    try:
        _wait(url, site)
        folder = site.settings.home if name == POCHADE else _own(site, name)  # the broker counts as Pochade's alone
        yield Side(url, tuple(child.pid for child in children), folder)
    finally:
        begun = descendants_of(child.pid for child in children)  # which peers leave behind where they end by a signal
        site.stop(*children)
        end(begun)


def is_there(name: str) -> bool:
    """Whether what a side needs besides its Python packages is on this machine."""
    return name != CELERY or shutil.which("redis-server") is not None


def _pochade(site: Site, work: Work) -> tuple[str, list[Child]]:
    file = site.settings.home / f"only-{work.seconds:g}.toml"
    file.write_text(CATALOG.format(ms=1000 * work.seconds))
    settings = site.fresh("peers", ["only"], catalog=str(file))
    crew = {f"{settings.kafka.prefix}-{number}": "only" for number in range(work.workers)}
    plan.publish(settings, {"only": 1.0}, crew)
    names = {roles: f"{settings.kafka.prefix}-{'-'.join(roles)}" for roles in LAYOUT}
    children = [site.serve(settings, name, roles, gateway__port="0") for roles, name in names.items()]
    children += [site.serve(settings, worker, ["worker"], worker__id=worker) for worker in crew]
    return address_of(site, settings, names["gateway",]), children


def _peer(name: str, site: Site, work: Work, python: pathlib.Path) -> tuple[str, list[Child]]:
    ports = free_ports()
    port, redis_port = ports.broker, ports.controller
    told = ["--port", str(port), "--workers", str(work.workers), "--seconds", f"{work.seconds:g}"]
    children = list[Child]()

    def start(part: str, *command: str) -> None:
        children.append(site.program(f"{name}-{work.seconds:g}-{part}", *command))

    if name == CELERY:
        redis = f"redis://127.0.0.1:{redis_port}/0"
        start("redis", "redis-server", "--port", str(redis_port), "--save", "", "--dir", str(site.settings.home))
        environment = ["env", f"PEER_REDIS={redis}", f"PYTHONPATH={APPS}"]
        worker = ["worker", "--concurrency", str(work.workers), "--loglevel", "WARNING", "-O", "fair"]
        start("worker", *environment, str(python), "-m", "celery", "-A", "celery_tasks", *worker)
        start("front", *environment, str(python), str(APPS / "celery_app.py"), *told)
    else:
        app = {RAY: "ray_app.py", LITSERVE: "litserve_app.py", QUEUE: "queue_app.py"}[name]
        more = ["--folder", str(_own(site, name))] if name == RAY else []
        start("app", str(python), str(APPS / app), *told, *more)
    return f"http://127.0.0.1:{port}", children


def _own(site: Site, name: str) -> pathlib.Path:
    """The folder that a peer may use."""
    return site.settings.home / name


def _wait(url: str, site: Site) -> None:
    """Wait until a side answers a request with an image."""
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s:
        site.check()
        with contextlib.suppress(httpx.HTTPError):
            if httpx.post(f"{url}{PATH}", json=BODY, timeout=30, trust_env=False).status_code == 200:
                return
        time.sleep(POLL_S)
    raise PochadeError(f"{url} did not answer within {START_S:g} s: see the logs in {site.settings.home / 'logs'}")
