"""Reads a deployment's settings for the simulator: its times, and its tenants' quotas."""

from planner.serving.admission.quotas import Quota
from planner.serving.routing.routing import backlog_limits
from replay.simulation.draws.hop_latencies import NO_LATENCIES, HopLatencies
from replay.simulation.setup import Residency, Timing
from streams.kafka.groups.group_terms import group_beat_ms
from streams.settings import Settings

ONE_MODEL = Residency()


def timing_of(
    settings: Settings,
    *,
    loads: bool = True,
    hops: HopLatencies = NO_LATENCIES,
    residency: Residency = ONE_MODEL,
) -> Timing:
    """Timing of a deployment with these settings; without `loads` a worker changes variant in no time."""
    asked = settings.admission
    limits = backlog_limits(asked.max_backlog_s, asked.interactive_headroom)
    return Timing(
        beat_ms=settings.worker.heartbeat_ms,
        silent_ms=settings.planner.worker_timeout_ms,
        session_ms=settings.kafka.session_timeout_ms,
        group_beat_ms=group_beat_ms(settings.kafka.session_timeout_ms) if loads else 0,
        grace_ms=1000 * settings.ledger.deadline_grace_s,
        most_backlog_ms=limits.others_ms,
        interactive_backlog_ms=limits.interactive_ms,
        max_attempts=settings.worker.max_attempts,
        job_limit_ms=1000 * settings.worker.job_timeout_s,
        loads=loads,
        residency=residency,
        hops=hops,
    )


def quotas_of(settings: Settings) -> dict[str, Quota]:
    """tenant -> what it may have; others share without limits of their own."""
    return {name: Quota(**limits.model_dump()) for name, limits in settings.tenants.items()}
