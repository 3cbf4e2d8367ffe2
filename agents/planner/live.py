"""Observes a running pipeline once, as its planner does, for commands that are no planner."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from agents.planner.observe import Sources
from agents.runtime.following import FollowedFleet, FollowedPlans
from planner.catalog.model import Catalog
from planner.observation.observation import DEMAND_MS, Observation
from planner.observation.workers import OUT, ReceivedHeartbeat, is_alive, live_workers
from schemas import topics
from schemas.messages import Heartbeat, Pin, Plan, WorkerDevice
from streams.clock import now_ms
from streams.codec.avro import decode
from streams.kafka.consumers.snapshot import past, readable
from streams.settings import Settings

ROLE = "operator"


class Live(NamedTuple):
    """The observation of this moment, and the plan and order in force."""

    observation: Observation
    plan: Plan | None
    pin: Pin | None
    out: Mapping[str, str] = MappingProxyType({})  # worker -> why it serves nothing: it has failed or is sick
    devices: Mapping[str, WorkerDevice] = MappingProxyType({})  # worker -> its device, of those that report one


def observe_once(settings: Settings, catalog: Catalog) -> Live:
    """Read what the planner reads, once. Raises PochadeError when the broker does not answer."""
    plans, fleet = FollowedPlans(settings, ROLE, catalog), FollowedFleet(settings)
    sources = Sources(settings, catalog, fleet)
    try:
        for view in (plans, fleet):
            view.start()
        sources.open()
        for view in (plans, fleet):
            view.wait_caught_up()
        beats = past(settings, [topics.FLEET], since_ms=now_ms() - DEMAND_MS)
        for record, heartbeat in readable(beats, lambda beat: decode(beat.value, Heartbeat)):
            sources.builder.queues.update_from_heartbeats(
                {heartbeat.worker_id: ReceivedHeartbeat(heartbeat, record.timestamp_ms)}
            )
        allocation = plans.plan.allocation if plans.plan else {}
        now = now_ms()
        workers = live_workers(fleet.heartbeats, now, settings.planner.worker_timeout_ms, allocation)
        out = {
            worker_id: f"{seen.heartbeat.state}: {seen.heartbeat.detail}"
            for worker_id, seen in sorted(fleet.heartbeats.items())
            if seen.heartbeat.state in OUT and is_alive(seen, now, settings.planner.worker_timeout_ms)
        }
        there = {*out, *(worker.worker_id for worker in workers)}
        newest = {name: seen.heartbeat for name, seen in sorted(fleet.heartbeats.items()) if name in there}
        devices = {name: beat.device for name, beat in newest.items() if beat.device is not None}
        return Live(sources.observation(now, workers, plans.plan), plans.plan, plans.pin, out, devices)
    finally:
        sources.close()
        fleet.close()
        plans.close()
