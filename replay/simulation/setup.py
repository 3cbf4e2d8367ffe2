"""The setup of a simulation: the fleet, the service level, and the times that a deployment has by its settings."""

from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from planner.catalog.model import Catalog
from planner.catalog.prompt_table import PromptTable
from planner.control.proposal import BY_POLICY, NEVER, terms_of
from planner.policies import named
from planner.scaling.fleet import ScaleRules
from planner.serving.admission.quotas import Quota
from planner.serving.routing.routing import ANY_BACKLOG_MS, NO_LIMITS
from replay.simulation.component_setup import ComponentSetup
from replay.simulation.draws.hop_latencies import NO_LATENCIES, HopLatencies
from replay.simulation.draws.run_times import NO_VARIATION, Variation
from schemas.errors import PochadeError

VECTOR_STORE: Final = "vector-store"
OBJECT_STORE: Final = "object-store"
STORES: Final = (VECTOR_STORE, OBJECT_STORE)  # that can be away, by name
FIXED = ScaleRules(when=NEVER)  # the fleet stays as it is, whatever a policy asks


@dataclass(frozen=True, slots=True, kw_only=True)
class Residency:
    """The models that a worker holds beside the one it serves; live workers hold one, and loading blocks them."""

    models: int = 1  # that fit; what was served longest ago makes room
    preloaded: tuple[str, ...] = ()  # variants that every worker's process holds when it starts
    beside_factor: float = 0.0  # by which calls take longer while a model loads beside serving; 0: loading blocks

    def __post_init__(self) -> None:
        room = max(len(self.preloaded), 2 if self.beside_factor else 1)
        if self.models < room:
            raise PochadeError(f"a worker must hold {room} models for what is preloaded or loads beside: {self.models}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Periods and timeouts of a deployment, in ms. Defaults are those of `streams/settings.py`, but for the backlog.

    As in the papers' systems, every request is admitted, and dropped once it has waited beyond its deadline.
    """

    beat_ms: float = 500  # between heartbeats
    silent_ms: float = 3000  # a worker unheard of for longer is dead to router and planner
    session_ms: float = 6000  # silence until its partitions are others'
    rebalance_ms: float = (
        170  # to leave one consumer group and be assigned in another (measured, agents/worker/jobs.py)
    )
    group_beat_ms: float = 0  # between heartbeats of a consumer group, by which partitions change hands; 0: at once
    grace_ms: float = 2000  # after a deadline, until the ledger ends the request
    most_backlog_ms: float = ANY_BACKLOG_MS  # that the tiers `standard` and `batch` are admitted up to; live 48 s
    interactive_backlog_ms: float = ANY_BACKLOG_MS  # that `interactive` is; live 60 s
    job_limit_ms: float = 600_000  # a window of work that takes longer ends its process; a simulated one never does
    loads: bool = True  # False: a worker changes variant in no time
    residency: Residency = Residency()
    hops: HopLatencies = NO_LATENCIES  # what it takes beside generation
    look_ms: float = 1000  # how often the planner looks whether a plan is due; live 205, which costs more than it shows
    warm_up_ms: float = 1000  # before 0, for the first plan and heartbeats: a run begins with workers that are ready


def without_backlog_limits(timing: Timing) -> Timing:
    """Return these times where a request is admitted however much waits."""
    return replace(timing, most_backlog_ms=NO_LIMITS.others_ms, interactive_backlog_ms=NO_LIMITS.interactive_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A worker that dies (as by kill -9), or comes back as a new process; or a store that goes away and comes back."""

    at_ms: float
    worker_id: str  # or the store's name: one of `STORES`
    is_up: bool


class PlanningTime(NamedTuple):
    """The planner makes a plan, if anything calls for another one."""

    at_ms: float
    takes_ms: float | None = None  # until its plan is written; None: drawn of `Hops.plan`


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The setup of one simulated deployment under one policy."""

    catalog: Catalog  # that policies, routers and workers decide with
    truth: Catalog | None = None  # that outcomes are drawn, timed and judged by (truth.py); None: the catalog
    policy: str
    workers: int
    slo_ms: float
    seed: int = 0
    parameters: dict[str, float] = field(default_factory=dict)  # of the policy
    period_ms: float = 5000  # between plans
    forecast: str = BY_POLICY  # of the demand until the next plan, by its name in planner/observation/forecast.py
    hysteresis: str = BY_POLICY  # whether a plan that moves workers must be worth its cost (planner/control/propose.py)
    quality_at_least: float = 0.0  # that plans promise of what discriminators keep (planner/control/promised.py)
    learns: bool = False  # it plans with the confidences seen; else with the catalog's curve, of which they are drawn
    dispatch: str = ""  # instead of the plan's; "": as it says
    drops: bool = True  # requests have the SLO as deadline, and what cannot meet it is not begun
    sheds: bool = (
        False  # plans turn away what their workers cannot generate; the papers' systems drop it at the deadline
    )
    prompts: PromptTable | None = None  # requests are prompts of this table; None: drawn from the catalog's curves
    is_cold: bool = False  # it begins at rest, as a live run does, not in the midst of traffic
    redraws: bool = False  # each seed has arrivals of its own at the trace's rates; False: the recorded ones
    outages: tuple[Outage, ...] = ()
    looks: tuple[PlanningTime, ...] = ()  # at which the planner's periods end, where that is known; (): as they come
    before_ms: tuple[int, ...] = ()  # arrivals of other requests that it saw before 0, of a run that begins at rest
    quotas: dict[str, Quota] = field(default_factory=dict)  # of tenants, by name
    features: tuple[str, ...] = ()  # named beside those that ship: its router asks their checks
    timing: Timing = Timing()
    scale: ScaleRules = FIXED  # of a fleet that grows and shrinks; its pool comes on top of `workers` at the start
    variation: Variation = NO_VARIATION  # of run and load times, and between workers
    price_per_hour: float = 0.0  # of a worker, in a currency of the operator's own; 0: not stated
    components: ComponentSetup | None = None  # tiers of the workers; None: what jobs need is always on the device

    @property
    def true_catalog(self) -> Catalog:
        """The catalog that outcomes are drawn, timed and judged by."""
        return self.catalog if self.truth is None else self.truth

    @property
    def is_scaled(self) -> bool:
        """Whether the fleet grows and shrinks with the load."""
        return self.scale.hold_for(lambda: terms_of(named(self.policy)))

    def worker_ids(self) -> list[str]:
        """Return the ids of the fleet's workers at the start, in order; where it is scaled its pool is among them."""
        count = self.workers + (self.scale.warm if self.is_scaled else 0)
        width = len(str(count - 1))
        return [f"w-{number:0{width}}" for number in range(count)]
