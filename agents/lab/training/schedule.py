"""In which order steps can run, which to start first, and how long they take side by side."""

from collections.abc import Iterable

from agents.lab.training.plan import Step, steps_of


def before(steps: Iterable[Step]) -> dict[str, set[str]]:
    """Step -> those of `steps` that must have ended before it may begin."""
    chosen = {step.name: step for step in steps}
    writers = {artefact: name for name, step in chosen.items() for artefact in step.writes}
    return {
        name: {writers[artefact] for artefact in step.needs if artefact in writers} for name, step in chosen.items()
    }


def ahead_minutes(steps: Iterable[Step]) -> dict[str, float]:
    """Step -> minutes of the longest chain that begins with it: which one to start first."""
    chosen = {step.name: step for step in steps}
    after: dict[str, list[str]] = {name: [] for name in chosen}
    for name, earlier in before(chosen.values()).items():
        for other in earlier:
            after[other].append(name)

    def longest(name: str) -> float:
        return chosen[name].minutes + max((longest(other) for other in after[name]), default=0.0)

    return {name: longest(name) for name in chosen}


def wall_minutes(target: str, processes: int) -> float:
    """Return the minutes that a target takes with `processes` at once, longest chain first, once its inputs exist."""
    steps = {step.name: step for step in steps_of(target)}
    waits, urgency = before(steps.values()), ahead_minutes(steps.values())
    running: dict[str, float] = {}  # step -> when it ends
    ended: set[str] = set()
    now = 0.0
    while len(ended) < len(steps):
        ready = [name for name in steps if name not in ended and name not in running and waits[name] <= ended]
        for name in sorted(ready, key=lambda name: -urgency[name])[: processes - len(running)]:
            running[name] = now + steps[name].minutes
        first = min(running, key=lambda name: running[name])
        now = running.pop(first)
        ended.add(first)
    return now
