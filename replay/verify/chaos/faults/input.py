"""Faults of input: requests again, old records again in another order, cancels, prompts that break an engine."""

import time

from replay.verify.chaos.schedule import EXIT, PROMPTED, Fault
from replay.verify.chaos.world import POLL_S, NotThere, Steps, World
from schemas.messages import GenerateRequest
from schemas.record import Incoming
from schemas.topics import CLASSIFIED, IMAGES, OUTCOMES

REPEATED, OLD = 8, 60  # requests published again; records of other topics written again
MOMENTS = (CLASSIFIED, "jobs.", IMAGES, OUTCOMES)  # how a topic's name begins
AMBUSH_S = 10.0
OVERLOAD_RPS = 80.0  # ten times the rate of a run; 3 workers of the catalog generate 15 a second on heavy
SENDINGS, ENDS_S = 3, 90.0  # of a request that ends its workers; for each to end


def repeat(world: World, fault: Fault) -> Steps:
    """Requests published a second time, ended ones among them, the last ones first."""
    if not world.asked:
        raise NotThere("no request by then")
    some = fault.draw().sample(list(world.asked), k=min(REPEATED, len(world.asked)))
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
    world.rewrite(some)
    yield 0.0
    topics = sorted({each.topic for each in some})
    return f"{len(some)} old records again, of {', '.join(topics)}"


def cancel(world: World, fault: Fault) -> Steps:
    """Cancel a request at the worst moment: as it is routed, about to be generated, generated, or about to end."""
    moment, met = fault.draw().choice(MOMENTS), list[str]()

    def ambush(record: Incoming) -> None:
        if not met and record.topic.startswith(moment) and world.is_open(record):
            met.append((record.key or b"").decode())
            world.client.cancel(met[0], "chaos")

    world.ambushes.append(ambush)
    try:
        for _ in range(round(AMBUSH_S / POLL_S)):
            yield POLL_S
            if met:
                return f"cancelled {met[0]} when it lay on {moment}"
    finally:
        world.ambushes.remove(ambush)
    raise NotThere(f"nothing came on {moment}")


def overload(world: World, fault: Fault) -> Steps:
    """Send OVERLOAD times as many requests a second as the run does, for a while."""
    if not world.asked:
        raise NotThere("no request by then")
    some, sent, dice = [*world.asked.values()], 0, fault.draw()
    begun_s = time.monotonic()
    while (passed_s := time.monotonic() - begun_s) < fault.lasts_ms / 1000:
        while sent < OVERLOAD_RPS * passed_s:
            like = dice.choice(some)
            if not like.prompt.startswith(tuple(PROMPTED.values())):
                name, at_ms = f"overload-{fault.number}-{sent}", round(1000 * time.time())
                world.submit(GenerateRequest(request_id=name, prompt=like.prompt, created_ms=at_ms, tenant=like.tenant))
                sent += 1
        yield POLL_S
    return f"{sent} requests within {fault.lasts_ms / 1000:.1f} s"


def poison_repeat(world: World, fault: Fault) -> Steps:
    """Send a request that ends its workers, and after its end an equal one under a new id, and another."""
    prompt, statuses = f"{EXIT} again {fault.dice}", list[str]()
    for again in range(SENDINGS):
        name = f"poison-{fault.number}-{again}"
        world.submit(GenerateRequest(request_id=name, prompt=prompt, created_ms=round(1000 * time.time())))
        for _ in range(round(ENDS_S / POLL_S)):
            if name in world.ended:
                break
            yield POLL_S
        statuses.append(world.ended.get(name, "open"))
    return f"an equal request, sent {SENDINGS} times, ended {', '.join(statuses)}"


def requested(_world: World, fault: Fault) -> Steps:
    """Do nothing here: a request of the schedule is the fault."""
    yield fault.lasts_ms / 1000
    return "by a request's own prompt or options"
