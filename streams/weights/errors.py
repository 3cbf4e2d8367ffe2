"""Errors of weights, by the caller's reaction."""

from schemas.errors import PochadeError


class DamagedWeights(PochadeError):
    """Bytes that are not those whose sha-256 the component's list of files states; they were not kept."""


class WeightsGone(PochadeError):
    """A remote or a volume that does not have what was asked for."""


class VolumeFull(PochadeError):
    """A volume without room for a component, by its budget or by its disk; other components have to go first."""

    def __init__(self, text: str, missing_bytes: int) -> None:
        self.missing_bytes = missing_bytes  # how many must go at least
        super().__init__(text)


class ComponentInUse(PochadeError):
    """A component that cannot be removed now, as a process reads it or fetches it."""
