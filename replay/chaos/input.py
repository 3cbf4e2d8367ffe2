"""Faults of input: requests again, old records again in another order, cancels, prompts that break an engine."""

from replay.chaos.schedule import Fault
from replay.chaos.world import NotThere, Steps, World

REPEATED, OLD = 8, 60  # requests published again; records of other topics written again


def repeat(world: World, fault: Fault) -> Steps:
    """Requests published a second time, ended ones among them, the last ones first."""
    some = _some(fault, list(world.asked), REPEATED)
    for name in reversed(some):
        world.client.submit(world.asked[name])
        yield 0.0
    return f"{len(some)} requests again, {sum(name in world.ended for name in some)} of which had ended"


def replay(world: World, fault: Fault) -> Steps:
    """Records of inner topics written again in a random order, as a lost commit would have them read again."""
    kept = list(world.old)
    some = fault.draw().sample(kept, k=min(OLD, len(kept)))
    if not some:
        raise NotThere("no record was kept by then")
    world.again(some)
    yield 0.0
    topics = sorted({each.topic for each in some})
    return f"{len(some)} old records again, of {', '.join(topics)}"


def cancel(world: World, fault: Fault) -> Steps:
    """Some request that is under way is cancelled."""
    (name,) = _some(fault, [name for name in world.asked if name not in world.ended], 1)
    world.client.cancel(name, "chaos")
    yield 0.0
    return f"cancelled {name}"


def requested(_world: World, fault: Fault) -> Steps:
    """Nothing to do here: a request of the schedule is the fault."""
    yield fault.lasts_ms / 1000
    return "by a request's own prompt or options"


def _some(fault: Fault, names: list[str], most: int) -> list[str]:
    if not names:
        raise NotThere("no such request by then")
    return fault.draw().sample(names, k=min(most, len(names)))
