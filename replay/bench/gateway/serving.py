"""A gateway as clients reach it: where it listens, once it serves."""

import contextlib
import re
import time
from collections.abc import Iterator
from typing import Final

import httpx

from replay.bench.environment.site import Site
from schemas.errors import PochadeError
from streams.settings import Settings

LAYOUT: Final = (("ledger",), ("classifier", "router"), ("discriminator",), ("gateway",))  # processes beside workers
START_S, STUCK_S = 90.0, 30.0
AT: Final = re.compile(r"images API on (\S+)/v1")


def address_of(site: Site, settings: Settings, name: str = "gateway") -> str:
    """Return the address of a gateway's process once it serves. Raises PochadeError: it does not in time."""
    log, end_s = site.log_of(name), time.monotonic() + START_S
    while (found := AT.search(log.read_text() if log.exists() else "")) is None:
        site.check()
        if time.monotonic() > end_s:
            raise PochadeError(f"the gateway of {settings.kafka.prefix} does not serve after {START_S:g} s: see {log}")
        time.sleep(0.1)
    return found[1]


@contextlib.contextmanager
def client_of(address: str, connections: int) -> Iterator[httpx.Client]:
    """A client of a gateway with at most `connections` connections, which it keeps open."""
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    with httpx.Client(base_url=address, timeout=STUCK_S, limits=limits, trust_env=False) as http:
        yield http
