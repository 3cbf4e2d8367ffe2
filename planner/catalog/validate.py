"""What a catalog, a profile or an observation must not hold is an error: what, the value, the limit, what to do."""

import math

from schemas.errors import PochadeError


class InvalidCatalog(PochadeError):
    """A catalog that cannot be planned with: what, the value, the limit and what to do."""


def require(holds: bool, what: str, value: object, limit: str, advice: str) -> None:
    """Raise InvalidCatalog with the four parts of its message, unless `holds`."""
    if not holds:
        raise InvalidCatalog(f"{what} must be {limit}: got {value!r}; {advice}")


def is_amount(value: float) -> bool:
    """Finite and not negative."""
    return math.isfinite(value) and value >= 0


def is_share(value: float) -> bool:
    """In [0, 1]; NaN is not."""
    return 0 <= value <= 1
