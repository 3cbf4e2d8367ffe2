"""Limits how many invalid keys one address may send per minute; beyond it the answer is 429 with `Retry-After`.

A valid key is always served: behind a proxy all clients share one address. A key of 256 bits cannot be guessed, so the
limit protects the log and the processor, not the keys.
"""

import ipaddress
from collections import OrderedDict
from typing import Final

from planner.serving.admission.quotas import Bucket, Quota, take_tokens

MAX_ADDRESSES: Final = 10_000
NETWORK_BITS: Final = 64  # of IPv6: a client with one address there usually has its whole /64


class Failures:
    """Recent failures of each address; used on one event loop."""

    def __init__(self, per_minute: int) -> None:
        self._quota = Quota(rate_rps=per_minute / 60, burst=per_minute)
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def add(self, address: str, now_ms: int) -> int | None:
        """Count a failure; return the ms until the next is allowed, or None if it is allowed now."""
        place = _place(address)
        bucket, wait_ms = take_tokens(self._buckets.pop(place, None), self._quota, 1, now_ms)
        self._buckets[place] = bucket
        if len(self._buckets) > MAX_ADDRESSES:
            self._buckets.popitem(last=False)
        return wait_ms


def _place(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return ""
    if parsed.version == 4 or parsed.ipv4_mapped is not None:
        return str(getattr(parsed, "ipv4_mapped", None) or parsed)
    return str(ipaddress.ip_network((parsed, NETWORK_BITS), strict=False))
