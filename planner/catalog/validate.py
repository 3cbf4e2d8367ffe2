"""Validates values of catalogs, profiles and observations: an error says what, the value, the limit, what to do."""

import math

from schemas.errors import PochadeError


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
