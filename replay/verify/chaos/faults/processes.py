"""Faults of processes: killed, told to end, stopped and continued, the last of a variant, one more, a wrong clock."""

import os
import signal

from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import NotThere, Steps, World, awaited


def kill(world: World, fault: Fault) -> Steps:
    """kill -9; whoever looks after the role starts it again."""
    what = _busy(world, fault.target)
    world.child(fault.target).kill()
    yield 0.0
    return f"SIGKILL{what}"


def restart(world: World, fault: Fault) -> Steps:
    """SIGTERM; started again when it has ended."""
    child, what = world.child(fault.target), _busy(world, fault.target)
    child.terminate()
    yield from awaited(child)
    return f"SIGTERM{what}, ended with {child.poll()}"


def freeze(world: World, fault: Fault) -> Steps:
    """SIGSTOP for longer than its session, then SIGCONT: a zombie that goes on where it was."""
    child, what = world.child(fault.target), _busy(world, fault.target)
    os.kill(child.pid, signal.SIGSTOP)
    try:
        yield fault.lasts_ms / 1000
    finally:
        if child.poll() is None:
            os.kill(child.pid, signal.SIGCONT)
    return f"SIGSTOP{what}, SIGCONT after {fault.lasts_ms / 1000:.1f} s"


def last_worker(world: World, fault: Fault) -> Steps:
    """Every worker of one variant killed, and none of them back for a while."""
    painting = {name: variant for name, variant in world.painting().items() if world.hosted.roles.child(name)}
    variants = sorted(set(painting.values()))
    if not variants:
        raise NotThere("no worker was painting")
    variant = fault.draw().choice(variants)
    mine = [name for name, paints in sorted(painting.items()) if paints == variant]
    for name in mine:
        yield from world.leave(name, signal.SIGKILL)
    yield fault.lasts_ms / 1000
    for name in mine:
        world.back(world.processes[name])
    return f"SIGKILL of all that paint {variant} ({', '.join(mine)}), back after {fault.lasts_ms / 1000:.1f} s"


def join(world: World, fault: Fault) -> Steps:
    """A worker joins, jobs being in hand, and leaves again."""
    name = f"guest-{fault.number}"
    world.processes[name] = world.join(name, ["worker"])
    yield fault.lasts_ms / 1000
    how = fault.draw().choice([signal.SIGTERM, signal.SIGKILL])
    yield from world.leave(name, how)
    return f"{name} joined and left by {how.name} after {fault.lasts_ms / 1000:.1f} s"


def second(world: World, fault: Fault) -> Steps:
    """Another process of a role of which there is one already."""
    name = f"second-{fault.target}-{fault.number}"
    world.join(name, [fault.target])
    yield fault.lasts_ms / 1000
    how = fault.draw().choice([signal.SIGTERM, signal.SIGKILL])
    yield from world.leave(name, how)
    return f"a second {fault.target} for {fault.lasts_ms / 1000:.1f} s, ended by {how.name}"


def _busy(world: World, name: str) -> str:
    variant = world.painting().get(name)
    return f", which painted {variant}" if variant else ""
