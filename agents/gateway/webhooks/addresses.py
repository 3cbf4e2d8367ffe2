"""The addresses that webhooks may be posted to: https, public hosts only.

A URL is checked when it is stated, and again, with the addresses that its host resolves to, at each connection (OWASP,
Server-Side Request Forgery Prevention Cheat Sheet, case 2).
"""

import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from agents.gateway.refusals import Refusal

MAX_URL: Final = 2048
PARAM: Final = "webhook"
RULE: Final = "webhook must be https://HOST[:PORT]/PATH of a host that is public, without a user, password or fragment"
DEFAULT_PORTS: Final = {"https": 443, "http": 80}
VISIBLE: Final = re.compile(r"[!-~]+")  # ASCII without spaces and controls; names beyond it are written in punycode
HOST: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?")
NUMBER: Final = re.compile(r"\d+|0x[0-9a-f]*")  # of a last label: the host is an IPv4 address in some spelling
OWN_NAMES: Final = re.compile(r"(?:.*\.)?(?:localhost|local|internal|localdomain|home\.arpa)\.?")

# public by their registration, and yet ways to what is not: IPv4 in IPv6 (NAT64, 6to4, Teredo, IPv4-compatible), 6to4's
# relays, what Azure's machines ask for their own secrets, and ranges that Python 3.11 takes for public
WAYS_IN: Final = tuple(map(ipaddress.ip_network, (
    "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96", "192.88.99.0/24", "168.63.129.16/32",
    "192.0.0.0/24", "fec0::/10", "3fff::/20",
)))  # fmt: skip


class WrongAddress(ValueError):
    """An address that webhooks may not be sent to; the message says why, without the URL's secret parts."""


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a URL."""

    scheme: str
    host: str  # in lower case; of an IPv6 address without brackets
    port: int
    path: str  # with the query: may be secret

    @property
    def authority(self) -> str:
        """HOST, with the port where it is not the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS.get(self.scheme) else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """SCHEME://HOST:PORT, which may be logged."""
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def target_of(url: Any, internal: Collection[str] = ()) -> Target:
    """Return the parts of a URL. `internal`: origins that are always allowed, as `origin_of` returns them.

    Raises WrongAddress: webhooks may not be sent there.
    """
    if not isinstance(url, str) or not 0 < len(url) <= MAX_URL or not VISIBLE.fullmatch(url) or "\\" in url:
        raise WrongAddress(f"it must be 1 to {MAX_URL} characters of ASCII, without spaces")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise WrongAddress("it cannot be read as a URL") from error
    host = parts.hostname or ""
    if parts.scheme not in DEFAULT_PORTS or not host:
        raise WrongAddress("it does not begin with https://HOST")
    if "@" in parts.netloc:
        raise WrongAddress("it holds a user or a password")
    if "#" in url:
        raise WrongAddress("it holds a fragment")
    if port == 0:
        raise WrongAddress("port 0 is none")
    target = Target(parts.scheme, host, port or DEFAULT_PORTS[parts.scheme], _path(parts))
    if target.origin in internal:
        return target
    if target.scheme != "https":
        raise WrongAddress("it does not begin with https://HOST")
    _check_host(host)
    return target


def _path(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _check_host(host: str) -> None:
    if ":" in host or NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            raise WrongAddress("its host is an address in no usual spelling") from None
        check_address(str(address))
    elif not HOST.fullmatch(host) or len(host) > 253:
        raise WrongAddress("its host is no name")
    elif OWN_NAMES.fullmatch(host):
        raise WrongAddress("its host is a name of this side")


def check_address(text: str) -> None:
    """Raise WrongAddress unless an IP address is public."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    seen = mapped or address
    is_public = seen.is_global and not (seen.is_multicast or seen.is_reserved or seen.is_unspecified)
    if "%" in text or not is_public or any(seen in way for way in WAYS_IN if way.version == seen.version):
        raise WrongAddress(f"its host is at {address}, which is no public address")


def origin_of(text: str) -> str:
    """Return SCHEME://HOST:PORT of an origin in a setting. Raises ValueError if it is invalid."""
    parts = urlsplit(text)
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or "@" in text or parts.path or parts.query:
        raise ValueError(text)
    return Target(parts.scheme, parts.hostname, parts.port or DEFAULT_PORTS[parts.scheme], "").origin


def checked_url(url: Any, internal: Collection[str]) -> str:
    """Return a URL that a request states. Raises Refusal, without the URL, if webhooks may not be sent there."""
    try:
        target_of(url, internal)
    except WrongAddress as error:
        raise Refusal("webhook", f"{RULE}: {error}", param=PARAM) from None
    return str(url)
