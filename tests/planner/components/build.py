"""Components for tests: sizes in bytes and load times in ms that are easy to add up."""

from planner.components.component import Component, Tier
from planner.components.eviction import ReuseEstimate, Score, utility
from planner.components.tiers import Budgets, WorkerTiers


def a_component(id_: str, size: int = 10, remote: float = 100.0, volume: float = 30.0, host: float = 5.0) -> Component:
    return Component(id=id_, bytes=size, load_ms={Tier.REMOTE: remote, Tier.VOLUME: volume, Tier.HOST: host})


def some(*ids: str, **costs: float) -> dict[str, Component]:
    return {each: a_component(each, **costs) for each in ids}  # type: ignore[arg-type]


def a_worker(
    components: dict[str, Component],
    device: int = 10_000,
    host: int = 10_000,
    volume: int = 10_000,
    score: Score = utility,
    half_life_ms: float = 1000.0,
) -> WorkerTiers:
    budgets = Budgets(volume=volume, host=host, device=device)
    return WorkerTiers(components, budgets, ReuseEstimate(half_life_ms, half_life_ms), score)
