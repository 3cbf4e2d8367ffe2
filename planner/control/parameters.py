"""Parameters of a policy: named numbers with a default and limits."""

from collections.abc import Mapping
from typing import NamedTuple

from schemas.errors import PochadeError, Unknown


class InvalidParameter(PochadeError):
    """A policy's parameter outside its limits."""


class Parameter(NamedTuple):
    """A default and the limits, both inclusive."""

    default: float
    low: float
    high: float
    is_whole: bool = False


BATCH = Parameter(1, 1, 1024, is_whole=True)  # most jobs a worker paints at once


def settle(given: Mapping[str, float], allowed: Mapping[str, Parameter]) -> dict[str, float]:
    """All parameters of a policy: what is given, else the defaults. Raises Unknown, InvalidParameter."""
    for name, value in given.items():
        if name not in allowed:
            raise Unknown("parameter", name, allowed)
        parameter = allowed[name]
        whole = "a whole number " if parameter.is_whole else ""
        if not parameter.low <= value <= parameter.high or (whole and value != int(value)):
            limits = f"{whole}in [{parameter.low:g}, {parameter.high:g}]"
            raise InvalidParameter(f"parameter {name} must be {limits}: got {value:g}; correct it")
    return {name: float(given.get(name, parameter.default)) for name, parameter in allowed.items()}
