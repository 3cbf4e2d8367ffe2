"""Components: what a variant generates with beside its own model, and which of them a request names.

A component is one set of weight files of a kind. A base is a whole model of a variant's architecture, an adapter (LoRA)
changes a base's weights, a control (ControlNet) has the image follow another one. Several components that are used as
one have an id, too:

    base:poster   adapter:candy   control:outline   fused:poster+candy@0.8   (a base with adapters fused in)
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from planner.catalog.validate import is_amount, require
from schemas.errors import Unknown
from schemas.messages import GenerateOptions

BASE, ADAPTER, CONTROL, FUSED = "base", "adapter", "control", "fused"
KINDS: Final = (BASE, ADAPTER, CONTROL)
TIERS: Final = ("remote", "volume", "host", "device")  # the farthest first
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")  # neither : nor @ nor +, which ids are made with
_HEX: Final = re.compile(r"|[0-9a-f]{64}")
DEFAULT_STRENGTH: Final = 0.8  # of an image to begin with, as in diffusers' pipelines


@dataclass(frozen=True, kw_only=True)
class Component:
    """One component of a catalog. Refuses impossible values."""

    kind: str  # of KINDS
    name: str  # distinct within its kind
    source: str  # a folder or .safetensors file relative to infra/, a folder or file here, or a Hugging Face id
    bases: tuple[str, ...] = ()  # of an adapter or a control: that it fits; (): every base of a variant that lists it
    sha256: str = ""  # of its weight files (`agents/components/weight_files.py`); "": not known, and not checked
    bytes: int = 0  # of its weight files; 0: not known
    load_ms: dict[str, float] = field(default_factory=dict)  # tier of TIERS that it comes from -> ms to the device
    run_factor: float = 1.0  # time of a request with it, in times of one without; measured

    def __post_init__(self) -> None:
        where = f"{self.kind} {self.name!r}:"
        if self.kind not in KINDS:
            raise Unknown("kind of component", self.kind, KINDS)
        named = NAME.fullmatch(self.name) is not None
        require(named, f"name of a {self.kind}", self.name, "letters, digits and . _ - /", "correct it")
        require(bool(self.source), f"{where} source", self.source, "named", "give a folder, a file or a hub id")
        require(self.kind != BASE or not self.bases, f"{where} bases", self.bases, "left out of a base", "remove it")
        require(_HEX.fullmatch(self.sha256) is not None, f"{where} sha256", self.sha256, "64 hex digits", "correct it")
        require(self.bytes >= 0, f"{where} bytes", self.bytes, ">= 0", "measure again")
        require(is_amount(self.run_factor) and self.run_factor > 0, f"{where} run_factor", self.run_factor, "> 0",
                "measure again")  # fmt: skip
        for tier, ms in self.load_ms.items():
            if tier not in TIERS:
                raise Unknown("tier", tier, TIERS)
            require(is_amount(ms), f"{where} load_ms from {tier}", ms, ">= 0", "measure again")
        times = [self.load_ms[tier] for tier in TIERS if tier in self.load_ms]
        farther = sorted(times, reverse=True)
        require(times == farther, f"{where} load_ms", self.load_ms, "no longer from a nearer tier", "measure again")

    @property
    def id(self) -> str:
        """Its kind and name: "adapter:candy"."""
        return f"{self.kind}:{self.name}"


class Weighted(NamedTuple):
    """A component of a request, and how strongly it is applied."""

    name: str
    weight: float = 1.0

    def __str__(self) -> str:
        return f"{self.name}@{self.weight:g}"


class Selection(NamedTuple):
    """The components with which a request is generated. Equal ones can share a call."""

    base: str = ""  # "": the variant's own model
    adapters: tuple[Weighted, ...] = ()  # by name: their order changes nothing
    controls: tuple[Weighted, ...] = ()  # in the order of their images
    strength: float | None = None  # of the image to begin with; None: from noise
    has_mask: bool = False
    run_factor: float = 1.0  # of the run time, for all of them together

    @property
    def ids(self) -> tuple[str, ...]:
        """Return their names in a result: "base:poster", "adapter:candy@0.8", "control:outline@1"."""
        base = (f"{BASE}:{self.base}",) if self.base else ()
        adapters = (f"{ADAPTER}:{each}" for each in self.adapters)
        return (*base, *adapters, *(f"{CONTROL}:{each}" for each in self.controls))

    @property
    def fused_id(self) -> str:
        """The id of its base with its adapters fused in; that of the base without any."""
        if not self.adapters:
            return f"{BASE}:{self.base}"
        return f"{FUSED}:{'+'.join((self.base, *map(str, self.adapters)))}"


NOTHING: Final = Selection()


@dataclass(frozen=True, eq=False)
class Offer:
    """The components that one variant honours, indexed once for all requests."""

    variant: str
    bases: Sequence[str]
    components: Sequence[Component]
    honours: Sequence[str]

    def of_kind(self, kind: str) -> Mapping[str, Component]:
        """The components of a kind, by name."""
        return self._by_kind.get(kind, {})

    def has_base(self, name: str) -> bool:
        """Whether a model is one of its bases."""
        return name in self._base_names

    def named(self, options: GenerateOptions) -> list[Component]:
        """The adapters and controls that a request names, each once, in the order of the catalog."""
        names = [*((ADAPTER, name) for name in options.adapters), *((CONTROL, name) for name in options.controls)]
        places = sorted({self._places[key] for key in names if key in self._places})
        return [self.components[place] for place in places]

    @cached_property
    def _by_kind(self) -> dict[str, dict[str, Component]]:
        found: dict[str, dict[str, Component]] = {}
        for each in self.components:
            found.setdefault(each.kind, {})[each.name] = each
        return found

    @cached_property
    def _places(self) -> dict[tuple[str, str], int]:
        return {(each.kind, each.name): place for place, each in enumerate(self.components)}

    @cached_property
    def _base_names(self) -> frozenset[str]:
        return frozenset(self.bases)


def needs_components(options: GenerateOptions) -> bool:
    """Whether a request names anything that not every variant can generate with, its model apart."""
    return bool(options.adapters or options.controls or options.image or options.mask)


class Fault(NamedTuple):
    """Why a request is not generated as it states, and which of its fields is at fault."""

    reason: str
    param: str


def unhonoured(options: GenerateOptions, offer: Offer) -> Fault | None:
    """Say why a variant cannot generate with a request's components, and which there are; None if it can."""
    for kind, names in ((ADAPTER, options.adapters), (CONTROL, options.controls)):
        if not names:
            continue
        known = offer.of_kind(kind)
        missing = [name for name in names if name not in known]
        if missing:
            hint = Unknown(kind, missing[0], known).hint
            if missing[0].partition(":")[0] in known:
                hint = f"; a weight goes into {kind}_weights"
            return Fault(f"{offer.variant} has no {kind} {missing[0]!r:.100}: {_listed(kind, known)}{hint}", f"{kind}s")
    for name in ("image", "mask"):
        if getattr(options, name) and name not in offer.honours:
            return Fault(f"{offer.variant} begins with no {name}", name)
    named = offer.named(options)
    if offer.has_base(options.model):
        wrong = next((each for each in named if not _fits(each, options.model)), None)
        if wrong is None:
            return None
        reason = f"{wrong.kind} {wrong.name} is for {_and(wrong.bases)}, not for {options.model}"
        return Fault(reason, f"{wrong.kind}s")
    if offer.bases and not _base_of(options, offer):
        return Fault(f"no base of {offer.variant} fits all of {_and([each.id for each in named])}", f"{named[0].kind}s")
    return None


def select(options: GenerateOptions, offer: Offer) -> Selection:
    """Return the components of a request that `unhonoured` has nothing against."""
    weights = options.adapter_weights or (1.0,) * len(options.adapters)
    strengths = options.control_weights or (1.0,) * len(options.controls)
    factor = 1.0
    for each in offer.named(options):
        factor *= each.run_factor
    begins = options.strength or DEFAULT_STRENGTH
    return Selection(
        base=_base_of(options, offer),
        adapters=tuple(sorted(Weighted(*each) for each in zip(options.adapters, weights, strict=False))),
        controls=tuple(Weighted(*each) for each in zip(options.controls, strengths, strict=False)),
        strength=begins if options.image else None,
        has_mask=bool(options.mask),
        run_factor=factor,
    )


def _base_of(options: GenerateOptions, offer: Offer) -> str:
    """The base that is named, else the first that everything named fits; "": there is none."""
    if offer.has_base(options.model):
        return options.model
    named = [each for each in offer.named(options) if each.bases]
    return next((base for base in offer.bases if all(_fits(each, base) for each in named)), "")


def _fits(component: Component, base: str) -> bool:
    return not component.bases or base in component.bases


def _listed(kind: str, known: Iterable[str]) -> str:
    return f"its {kind}s are {', '.join(known)}" if known else f"it has no {kind}s"


def _and(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)
