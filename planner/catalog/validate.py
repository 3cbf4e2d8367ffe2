"""Validates values of catalogs, profiles and observations: an error says what, the value, the limit, what to do."""

import math
import re

from schemas.errors import PochadeError

DEVICE = re.compile(r"|cpu|mps|cuda(:\d+)?")


class InvalidCatalog(PochadeError):
    """A catalog that cannot be planned with: what, the value, the limit and what to do."""


def require(holds: bool, what: str, value: object, limit: str, advice: str) -> None:
    """Raise InvalidCatalog with the four parts of its message, unless `holds`."""
    if not holds:
        raise InvalidCatalog(f"{what} must be {limit}: got {value!r}; {advice}")


def is_amount(value: float) -> bool:
    """Whether a value is finite and not negative."""
    return math.isfinite(value) and value >= 0


def is_share(value: float) -> bool:
    """Whether a value lies in [0, 1]; NaN does not."""
    return 0 <= value <= 1


def check_device(device: str) -> None:
    """Raise InvalidCatalog for what is no name of a device; "" leaves the choice."""
    is_device = DEVICE.fullmatch(device) is not None
    require(is_device, "device", device, "cpu, mps, cuda or cuda:N", "correct it, or omit it")
