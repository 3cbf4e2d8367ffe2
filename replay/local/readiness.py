"""Observes the roles of a run: when they can serve (a plan is in force, each worker is ready), and images generated."""

import threading
from collections.abc import Collection

from planner.observation.workers import SERVING
from replay.verify.audit.generations import Generations
from schemas.messages import Heartbeat, ImageGenerated, Plan
from schemas.record import Incoming
from schemas.topics import FLEET, PLAN
from streams.codec.avro import decode
from streams.control.records import plan_in


class Readiness:
    """Reads `plan` and `fleet` from their beginning, and says what is still missing to serve."""

    def __init__(self, workers: Collection[str]) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._plans: dict[int, Plan] = {}
        self._beats: dict[str, Heartbeat] = {}

    def on_record(self, record: Incoming) -> None:
        """Take a record of either topic; a pin is not a plan, and a worker that is not ours does not count."""
        with self._lock:
            if record.topic == PLAN:
                if (plan := plan_in(record)) is not None:
                    self._plans[plan.version] = plan
            elif record.topic == FLEET and record.value:
                beat = decode(record.value, Heartbeat)
                self._beats[beat.worker_id] = beat

    def plans(self) -> list[Plan]:
        """Return all plans seen, by version."""
        with self._lock:
            return [self._plans[version] for version in sorted(self._plans)]

    def reused(self) -> int:
        """Return how many jobs began from stored latents, as heartbeats say."""
        with self._lock:
            return sum(beat.reuse.hits for beat in self._beats.values() if beat.reuse is not None)

    def serving(self) -> dict[str, str]:
        """Worker -> what it generates, of all whose last word was that they can; the dead among them."""
        with self._lock:
            return {name: beat.variant for name, beat in self._beats.items() if beat.state in SERVING}

    def states(self) -> dict[str, str]:
        """Worker -> the state of its last heartbeat; the dead among them."""
        with self._lock:
            return {name: beat.state for name, beat in self._beats.items()}

    def missing(self) -> list[str]:
        """Return what is still missing, in words; empty once requests can be served."""
        with self._lock:
            waits = [] if self._plans else ["a plan"]
            states = {worker: self._beats.get(worker) for worker in self._workers}
        for worker, beat in states.items():
            if beat is None:
                waits.append(f"{worker} starting")
            elif beat.state not in SERVING:
                waits.append(f"{worker} {beat.state}{': ' + beat.detail if beat.detail else ''}")
        return waits


class GeneratedCounter:
    """Counts images from the topic `images`; repeated records of a job count once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # a follower adds while a run's progress counts
        self._generations = Generations()

    def on_record(self, record: Incoming) -> None:
        """Take a record of `images`."""
        image = decode(record.value, ImageGenerated)
        with self._lock:
            self._generations.add(image)

    def counts(self) -> tuple[int, int]:
        """Images generated, and those of them generated again on a better level."""
        with self._lock:
            return self._generations.counts()
