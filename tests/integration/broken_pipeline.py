"""A pipeline some of whose workers have broken devices (engine `chaos`), and that is healed as an orchestrator does."""

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from replay.local.processes import RoleProcess
from schemas.messages import GenerateRequest, Result, Status
from schemas.record import Outgoing
from schemas.topics import PROMPTS
from streams.clock import now_ms
from streams.codec.avro import encode
from tests.integration.pipeline import Pipeline

WORKERS = ("worker-1", "worker-2", "worker-3")
ROLES = {role: [role] for role in ("classifier", "router", "discriminator", "ledger", "planner")}
HEAL_S = 0.5


class Served(NamedTuple):
    """How requests ended."""

    statuses: Counter[str]
    p50_ms: float
    p95_ms: float
    restarts: int  # of workers
    by: Counter[str]  # worker that generated the image

    def __str__(self) -> str:
        ends = ", ".join(f"{count} {status}" for status, count in sorted(self.statuses.items()))
        by = ", ".join(f"{worker} {count}" for worker, count in sorted(self.by.items()))
        return f"{ends}; p50 {self.p50_ms:.0f} ms, p95 {self.p95_ms:.0f} ms; {self.restarts} restarts; images by {by}"


class BrokenPipeline(Pipeline):
    """Workers, of which those of `broken` have a device as `agents.engines.chaos.BROKEN` says."""

    def __init__(
        self, *of: Any, broken: Mapping[str, str] = MappingProxyType({}), workers: Sequence[str] = WORKERS, **more: Any
    ) -> None:
        roles = ROLES | {worker: ["worker"] for worker in workers}
        super().__init__(*of, roles=roles, extra=["worker.engine=chaos"], **more)
        self._broken, self.restarts = broken, 0

    def process(self, name: str) -> RoleProcess:
        """What to run for one role."""
        process = super().process(name)
        if name not in self._broken:
            return process
        python, option, start, *rest = process.command
        begun = f"import os; os.environ['CHAOS_ENGINE'] = {self._broken[name]!r}; {start}"
        return RoleProcess(name=name, command=(python, option, begun, *rest))

    def heal(self) -> None:
        """Start again whatever is dead, and count it."""
        self.restarts += sum(process is None for process in self.process_ids().values())
        super().heal()

    def serve(self, prompts: Sequence[str], rate: float) -> tuple[Served, list[Result]]:
        """Submit prompts at a rate, healing meanwhile; how they ended, and the results in their order."""
        ids, begun, healed_s = list[str](), time.monotonic(), 0.0
        for number, prompt in enumerate(prompts):
            while (left_s := begun + number / rate - time.monotonic()) > 0:
                threading.Event().wait(min(left_s, 0.05))
            if time.monotonic() - healed_s > HEAL_S:
                healed_s = time.monotonic()
                self.heal()
            ids.append(f"served-{number}")
            request = GenerateRequest(request_id=ids[-1], prompt=prompt, created_ms=now_ms())
            self.producer.send(Outgoing(topic=PROMPTS, key=ids[-1].encode(), value=encode(request)))

        def is_over() -> bool:
            self.heal()
            return self.ended(ids) == len(ids)

        self.until(is_over, lambda: f"{self.ended(ids)} of {len(ids)} ended")
        results = self.wait_all(ids)
        times = sorted(float(each.latency_ms or 0) for each in results if each.status is Status.COMPLETED)
        by = Counter(each.worker_id or "-" for each in results if each.status is Status.COMPLETED)
        served = Served(
            Counter(each.status for each in results), times[len(times) // 2], times[len(times) * 95 // 100],
            self.restarts, by,
        )  # fmt: skip
        return served, results
