"""A component: one file set of a kind, with its id, its size, and its load time from each tier of memory.

base:poster                 the weights of a base model
adapter:candy               a LoRA adapter, which fits each base of its architecture
control:outline             a ControlNet
fused:poster+candy@0.8      a base with adapters fused in, with their weights, in order of their names
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

from schemas.errors import PochadeError

_NAME: Final = re.compile(r"[^\s:+@]+")


class InvalidComponent(PochadeError):
    """A component that cannot be held: what, the value, the limit and what to do."""


class Kind(StrEnum):
    """Kinds of components."""

    BASE = "base"
    ADAPTER = "adapter"
    CONTROL = "control"
    FUSED = "fused"


_KINDS: Final = {str(each): each for each in Kind}


class Tier(IntEnum):
    """A place of a component's bytes; a higher tier is nearer to the computation."""

    REMOTE = 0  # object store or shipped folder: holds everything but what was fused on a worker
    VOLUME = 1  # local disk
    HOST = 2  # memory
    DEVICE = 3

    @property
    def label(self) -> str:
        """The name in messages and reports."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A component with its measured costs.

    Raises:
        InvalidComponent: the id is none, the size is not positive, or a load time is negative or NaN, or falls with
            the distance of its tier.
    """

    id: str
    bytes: int
    load_ms: Mapping[Tier, float]  # from the tier to the device, everything included; no entry: not loadable from it
    digest: str = ""  # sha-256 of its weight files; "": not known

    def __post_init__(self) -> None:
        kind_of(self.id)
        _require(self.bytes > 0, self.id, "bytes", self.bytes, "above 0")
        nearer = 0.0
        for tier in sorted(self.load_ms, reverse=True):
            ms = self.load_ms[tier]
            _require(
                ms >= nearer, self.id, f"load_ms from {tier.label}", ms, f"at least {nearer}, that of nearer tiers"
            )
            nearer = ms

    @property
    def kind(self) -> Kind:
        """The kind that its id names."""
        return kind_of(self.id)

    def load_from(self, tier: Tier) -> float:
        """Return the time in ms to bring it from a tier to the device: 0 from the device itself.

        A tier without a measurement costs what the next farther one does. Raises InvalidComponent where there is none.
        """
        if tier == Tier.DEVICE:
            return 0.0
        for farther in range(tier, -1, -1):
            if (ms := self.load_ms.get(Tier(farther))) is not None:
                return ms
        raise InvalidComponent(f"component {self.id} has no load time from {tier.label} or farther: profile it")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentRequest:
    """The components of one request, by id."""

    base: str
    adapters: Mapping[str, float] = field(default_factory=dict)  # with their weights
    controls: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """All components, the base first, as it defines what the others attach to (MLoRA 6.3.1)."""
        return (self.base, *self.adapters, *self.controls)


def component_id(kind: Kind, name: str) -> str:
    """Return the id of a base, an adapter or a control. Raises InvalidComponent."""
    if kind is Kind.FUSED or not _NAME.fullmatch(name):
        raise InvalidComponent(f"component name must have no space, ':', '+' or '@': got {name!r}; rename its file set")
    return f"{kind}:{name}"


def fused_id(base: str, weights: Mapping[str, float]) -> str:
    """Return the id of a base (its id) with adapters (their ids) fused in by weight; their order does not matter.

    Raises InvalidComponent.
    """
    if kind_of(base) is not Kind.BASE or not weights or any(kind_of(each) is not Kind.ADAPTER for each in weights):
        raise InvalidComponent(f"a fused component is a base with adapters: got {base!r} and {list(weights)}")
    return f"{Kind.FUSED}:{name_of(base)}" + "".join(f"+{name_of(a)}@{weights[a]:g}" for a in sorted(weights))


def kind_of(id_: str) -> Kind:
    """Return the kind that an id names. Raises InvalidComponent."""
    label, _, name = id_.partition(":")
    kind = _KINDS.get(label)
    if kind is None or not name:
        known = ", ".join(sorted(_KINDS))
        raise InvalidComponent(f"component id must be KIND:NAME with a kind of {known}: got {id_!r}")
    return kind


def name_of(id_: str) -> str:
    """Return the name in an id."""
    return id_.partition(":")[2]


def base_of(id_: str) -> str | None:
    """Return the id of a fused component's base; None if the component is not fused."""
    if not id_.startswith(f"{Kind.FUSED}:"):
        return None
    return f"{Kind.BASE}:{name_of(id_).split('+')[0]}"


def weights_of(id_: str) -> dict[str, float]:
    """Return the weights of a fused component by the ids of its adapters; empty for any other."""
    if base_of(id_) is None:
        return {}
    pairs = (part.rpartition("@") for part in name_of(id_).split("+")[1:])
    return {f"{Kind.ADAPTER}:{name}": float(weight) for name, _, weight in pairs}


def total_bytes(ids: Iterable[str], components: Mapping[str, Component]) -> int:
    """Return the size in bytes of components by id. Raises KeyError for one that is not known."""
    return sum(components[each].bytes for each in ids)


def _require(holds: bool, id_: str, what: str, value: object, limit: str) -> None:
    if not holds:
        raise InvalidComponent(f"{what} of component {id_} must be {limit}: got {value!r}; profile it again")
