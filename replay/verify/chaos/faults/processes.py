"""Faults of processes: killed, terminated, stopped and continued, the last of a variant, one more, a wrong clock."""

import os
import signal

from replay.verify.chaos.schedule import Fault
from replay.verify.chaos.world import NotThere, Steps, World, awaited


def kill(world: World, fault: Fault) -> Steps:
    """kill -9; the role's supervisor starts it again."""
    what = _busy(world, fault.target)
    world.child(fault.target).kill()
    yield 0.0
    return f"SIGKILL{what}"


def kill_all(world: World, _fault: Fault) -> Steps:
    """kill -9 of every role and worker at once, as when a machine loses its power."""
    running = [child for name in world.processes if (child := world.hosted.roles.child(name)) is not None]
    for child in running:
        child.kill()
    yield 0.0
    return f"SIGKILL of all {len(running)} processes at once"


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
    """Kill every worker of one variant, and restart them after a while."""
    serving = {name: variant for name, variant in world.serving().items() if world.hosted.roles.child(name)}
    variants = sorted(set(serving.values()))
    if not variants:
        raise NotThere("no worker was generating")
    variant = fault.draw().choice(variants)
    mine = [name for name, served in sorted(serving.items()) if served == variant]
    for name in mine:
        yield from world.leave(name, signal.SIGKILL)
    yield fault.lasts_ms / 1000
    for name in mine:
        world.back(world.processes[name])
    return f"SIGKILL of all that generate {variant} ({', '.join(mine)}), back after {fault.lasts_ms / 1000:.1f} s"


def join(world: World, fault: Fault) -> Steps:
    """A worker joins while jobs run, and leaves again."""
    name = f"guest-{fault.number}"
    world.processes[name] = world.join(name, ["worker"])
    yield fault.lasts_ms / 1000
    how = fault.draw().choice([signal.SIGTERM, signal.SIGKILL])
    yield from world.leave(name, how)
    return f"{name} joined and left by {how.name} after {fault.lasts_ms / 1000:.1f} s"


def second(world: World, fault: Fault) -> Steps:
    """Start a second process of a role."""
    name = f"second-{fault.target}-{fault.number}"
    world.join(name, [fault.target])
    yield fault.lasts_ms / 1000
    how = fault.draw().choice([signal.SIGTERM, signal.SIGKILL])
    yield from world.leave(name, how)
    return f"a second {fault.target} for {fault.lasts_ms / 1000:.1f} s, ended by {how.name}"


def _busy(world: World, name: str) -> str:
    variant = world.serving().get(name)
    return f", which generated {variant}" if variant else ""
