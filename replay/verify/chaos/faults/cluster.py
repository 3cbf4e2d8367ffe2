"""Faults of one broker of several: the others go on, and what it led moves to them."""

from collections.abc import Generator, Mapping
from time import monotonic

from replay.verify.chaos.brokers import BrokerCluster
from replay.verify.chaos.schedule import Card, Fault
from replay.verify.chaos.world import Do, NotThere, Steps, World

AWAY = (0.0, 6000.0)  # ms: shorter and longer than it takes until others lead what it led (2 s)
FROZEN = (4000.0, 8000.0)  # ms: others lead by then, and it does not know when it goes on
POLL_S = 0.2
IN_SYNC_S = 60.0
LOSABLE_S = 180.0  # brokers that restart on two busy cores took up to 60 s each until they were in sync


def kill(world: World, fault: Fault) -> Steps:
    """kill -9 of one that leads some partition."""
    node, led = yield from _leading(world, fault)
    _cluster(world).kill(node)
    return f"SIGKILL of broker {node}, which led {led}, {(yield from _back(world, fault, node))}"


def restart(world: World, fault: Fault) -> Steps:
    """SIGTERM to one that leads some partition: it hands over what it leads, and leaves."""
    node, led = yield from _leading(world, fault)
    yield from world.beside(lambda: _cluster(world).stop(node))
    return f"SIGTERM to broker {node}, which led {led}, {(yield from _back(world, fault, node))}"


def freeze(world: World, fault: Fault) -> Steps:
    """SIGSTOP of one that leads some partition, SIGCONT when others lead: for a moment it answers from an old log."""
    node, led = yield from _leading(world, fault)
    cluster = _cluster(world)
    cluster.freeze(node)
    try:
        yield fault.lasts_ms / 1000
    finally:
        cluster.thaw(node)
    return f"SIGSTOP of broker {node}, which led {led}, SIGCONT after {fault.lasts_ms / 1000:.1f} s"


def lose(world: World, fault: Fault) -> Steps:
    """kill -9 of a broker that leads some partition, for good, and remove its data.

    Only when all others hold everything: a record whose last copy is on the broker would be lost.
    """
    cluster, begun_s = _cluster(world), monotonic()
    while True:
        node, led = yield from _leading(world, fault)
        if (yield from world.beside(lambda node=node: cluster.can_lose(node))):  # type: ignore[misc]
            break
        if monotonic() - begun_s > LOSABLE_S:
            raise NotThere(f"the other brokers did not hold everything within {LOSABLE_S:g} s")
        yield POLL_S
    yield from world.beside(lambda: cluster.lose(node))
    return f"broker {node}, which led {led}, lost for good with its data"


def controller(world: World, fault: Fault) -> Steps:
    """kill -9 of the one whose controller is the active one."""
    cluster, begun_s = _cluster(world), monotonic()
    node = cluster.controller()
    if node not in cluster.serving:
        raise NotThere(f"broker {node}, the last active controller, was not running")
    cluster.kill(node)
    while cluster.controller() == node and monotonic() - begun_s < IN_SYNC_S:
        yield POLL_S
    took_s = monotonic() - begun_s
    back = yield from _back(world, fault, node)
    return f"SIGKILL of broker {node}, the active controller; the next one elected after {took_s:.1f} s; {back}"


def leaders(world: World, _fault: Fault) -> Steps:
    """Leaders move back to where they should be, all at once and under load."""
    moved = yield from world.beside(_cluster(world).elect_preferred)
    if not moved:
        raise NotThere("every partition was led by the broker that should")
    return f"{moved} leaders moved by an election"


def rolling(world: World, _fault: Fault) -> Steps:
    """Restart each broker in turn, in sync again before the next one, as in an upgrade."""
    cluster, begun_s, done = _cluster(world), monotonic(), list[int]()
    for node in cluster.nodes:
        if node not in cluster.serving:
            continue
        yield from world.beside(lambda node=node: cluster.stop(node))  # type: ignore[misc]
        yield from _started(world, node)
        yield from _in_sync(world, cluster)
        done.append(node)
    return f"brokers {', '.join(map(str, done))} one after the other, in {monotonic() - begun_s:.1f} s"


KINDS: Mapping[str, Do] = {
    "broker": kill,
    "broker-restart": restart,
    "broker-freeze": freeze,
    "broker-lost": lose,
    "controller": controller,
    "leaders": leaders,
    "rolling": rolling,
}
LOST = "broker-lost"  # of these the one that comes once, late, and lasts


def cards() -> list[Card]:
    """Return the faults that may happen to one broker of several."""
    cards = [Card(kind="broker", lasts_ms=AWAY) for _ in range(4)]
    cards += [Card(kind="broker-freeze", lasts_ms=FROZEN) for _ in range(4)]
    cards += [Card(kind="broker-restart", lasts_ms=AWAY) for _ in range(2)]
    cards += [Card(kind="controller", lasts_ms=AWAY) for _ in range(2)]
    return [*cards, Card(kind="leaders"), Card(kind="leaders"), Card(kind="rolling")]


def _cluster(world: World) -> BrokerCluster:
    assert world.cluster is not None, "a fault of several brokers in a run with one"
    return world.cluster


def _leading(world: World, fault: Fault) -> Generator[float, None, tuple[int, str]]:
    """Find, in steps, a broker that leads a partition drawn by the fault, and the partition. Raises NotThere."""
    cluster = _cluster(world)
    leaders = yield from world.beside(cluster.leaders)
    serving = cluster.serving
    led = sorted(where for where, node in leaders.items() if node in serving)
    if not led:
        raise NotThere("no broker led anything")
    topic, partition = fault.draw().choice(led)
    return leaders[topic, partition], f"{topic} {partition}"


def _back(world: World, fault: Fault, node: int) -> Generator[float, None, str]:
    cluster = _cluster(world)
    while cluster.is_alive(node):
        yield POLL_S
    yield fault.lasts_ms / 1000
    begun_s = monotonic()
    yield from _started(world, node)
    return f"started after {fault.lasts_ms / 1000:.1f} s, answered {monotonic() - begun_s:.1f} s later"


def _started(world: World, node: int) -> Generator[float, None, None]:
    """Unless it was lost for good meanwhile."""
    cluster = _cluster(world)
    if node in cluster.nodes:
        yield from world.beside(lambda: cluster.start(node))


def _in_sync(world: World, cluster: BrokerCluster) -> Generator[float, None, None]:
    begun_s = monotonic()
    while not (yield from world.beside(cluster.is_in_sync)) and monotonic() - begun_s < IN_SYNC_S:
        yield POLL_S
