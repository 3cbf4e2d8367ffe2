"""The protocol of policies, the proposal they return, and what they ask of the planner that runs them.

Parameters are named numbers with a default and limits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from planner.catalog.model import Catalog
from planner.observation.observation import Observation
from schemas.errors import PochadeError, Unknown
from schemas.messages import Admission, Cascade, Expected, ResidencyPlan, ReusePlan, Route, ScalePlan


@dataclass(frozen=True, kw_only=True)
class PlanProposal:
    """A plan before it has a version: everything a policy decides."""

    routes: tuple[Route, ...]
    allocation: dict[str, str]  # worker_id -> variant
    batch: dict[str, int]  # variant -> most jobs at once
    reason: str = ""  # what the plan does not show by itself, such as its limits; `sentence.py` words the rest
    cascades: tuple[Cascade, ...] = ()
    dispatch: str = "least-work"
    holds: bool = False  # as `Plan.holds`
    expected: Expected | None = None
    memory: dict[str, Any] = field(default_factory=dict)  # JSON values: what the policy needs next time
    strategy: str = "models"
    admission: Admission | None = None  # None: all are let in; no policy's own, `planner.control.shedding` derives it
    reuse: ReusePlan | None = None  # how far images begin from stored latents; None: nothing is looked up or stored
    scale: ScalePlan | None = None  # None: the fleet stays; no policy's own, `planner.scaling.fleet` derives it
    places_components: bool = False  # the plan says which worker holds which component
    residency: ResidencyPlan | None = None  # no policy's own, `planner.control.residency` derives it
    weighs_moves: bool = False  # the policy has held what moves cost against what they gain
    reserved: dict[str, str] = field(
        default_factory=dict
    )  # part of `allocation`: of requests that name it; no policy's
    is_feasible: bool = True  # all of the demand planned for is served within the SLO
    quality_at_least: float = 0.0  # promised of what discriminators keep; no policy's own: `planner.control.promised`


Policy = Callable[[Observation, Catalog, Mapping[str, Any], Mapping[str, float]], PlanProposal]
"""(observation, catalog, memory of the plan before, parameters) -> proposal. Pure; never fails for want of workers."""


BY_POLICY, ALWAYS, NEVER = "policy", "always", "never"  # whether a term holds for every policy


class PolicyTerms(NamedTuple):
    """A policy's requirements on the planner; a deployment's `Rules` may override them."""

    forecast: str = "trend"  # of the demand until the next plan, by its name in `planner.observation.forecast`
    hysteresis: bool = True  # a proposal that moves workers must be worth its cost (`planner.control.renewal.replan`)
    scales: bool = False  # it asks for workers that come and go with the load (`planner.scaling`)
    learns: bool = False  # it looks at confidences and run times of what was served, which simulations then keep
    on_change: bool = False  # it is asked again when demand or fleet has changed, and once a minute (`steady.py`)
    holds: bool = False  # it plans with reserved workers where they are; others plan without them (`sharing.py`)


OURS = PolicyTerms()
AS_PUBLISHED = PolicyTerms(forecast="ewma", hysteresis=False)  # DiffServe 3.3, HADIS 3.4
BY_PERIOD = PolicyTerms(forecast="window", hysteresis=False)  # Proteus, and ARGUS 4.2


@dataclass(frozen=True, slots=True)
class PolicyOnTerms:
    """A policy with terms of its own."""

    plan: Policy
    terms: PolicyTerms

    def __call__(
        self, observation: Observation, catalog: Catalog, memory: Mapping[str, Any], parameters: Mapping[str, float]
    ) -> PlanProposal:
        """Return the policy's proposal."""
        return self.plan(observation, catalog, memory, parameters)


def on_terms(terms: PolicyTerms) -> Callable[[Policy], PolicyOnTerms]:
    """Decorate a policy with the terms on which it plans."""
    return lambda policy: PolicyOnTerms(policy, terms)


def terms_of(policy: Policy) -> PolicyTerms:
    """Return the terms on which a policy plans; one that names none plans on `OURS`."""
    return policy.terms if isinstance(policy, PolicyOnTerms) else OURS


class InvalidParameter(PochadeError):
    """A policy's parameter outside its limits."""


class Parameter(NamedTuple):
    """A default and the limits, both inclusive."""

    default: float
    low: float
    high: float
    is_whole: bool = False


BATCH = Parameter(1, 1, 1024, is_whole=True)  # most jobs a worker generates at once


def validate_parameters(given: Mapping[str, float], allowed: Mapping[str, Parameter]) -> dict[str, float]:
    """Return all parameters of a policy: those given, else the defaults. Raises Unknown, InvalidParameter."""
    for name, value in given.items():
        if name not in allowed:
            raise Unknown("parameter", name, allowed)
        parameter = allowed[name]
        whole = "a whole number " if parameter.is_whole else ""
        if not parameter.low <= value <= parameter.high or (whole and value != int(value)):
            limits = f"{whole}in [{parameter.low:g}, {parameter.high:g}]"
            raise InvalidParameter(f"parameter {name} must be {limits}: got {value:g}; correct it")
    return {name: float(given.get(name, parameter.default)) for name, parameter in allowed.items()}
